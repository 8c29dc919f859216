// A report on time to quality as a reader sees it.
#pragma once

#include "harness/report/quality/quality_report.hpp"
#include "harness/report/text_table.hpp"

namespace clusterbench {

/// A table for each problem, then the performance profiles, then what was left out.
std::string quality_text(const QualityReport& report, TextStyle style);

} // namespace clusterbench
