// A report on time to quality in a form for programs: what results/quality.schema.json describes.
#pragma once

#include "harness/report/quality/quality_report.hpp"

#include <nlohmann/json.hpp>

namespace clusterbench {

/// Version of the form.
inline constexpr int kQualitySchema = 2;

/// Times are milliseconds; null means never, or not known.
nlohmann::json to_json(const QualityReport& report);

} // namespace clusterbench
