// A table's report in a form for programs: what results/table.schema.json describes.
#pragma once

#include "harness/report/table_report.hpp"

#include <nlohmann/json.hpp>

namespace clusterbench {

/// Version of the form.
inline constexpr int kTableReportSchema = 1;

/// Times are milliseconds; what is not known is left out.
nlohmann::json to_json(const TableReport& report);

} // namespace clusterbench
