// A table's report in a form for programs: what results/table.schema.json describes.
#pragma once

#include "harness/report/table_report.hpp"

#include <nlohmann/json.hpp>

namespace clusterbench {

/// Version of the form.
inline constexpr int kTableReportSchema = 2;

/// Times are milliseconds; what is not known is left out.
nlohmann::json to_json(const TableReport& report);

/// All cells of some ledgers in the same terms, with their traces and the machines' limits: what
/// `clusterbench ledger --json` prints and plots/ reads.
nlohmann::json to_json(const Measurements& measurements);

} // namespace clusterbench
