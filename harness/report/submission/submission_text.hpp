// The report on variants from outside, for a terminal and for programs.
#pragma once

#include "harness/report/submission/submission_report.hpp"

#include <nlohmann/json.hpp>
#include <string>

namespace clusterbench {

std::string submission_text(const SubmissionReport& report);

/// Version of the form.
inline constexpr int kSubmissionSchema = 1;

/// Times are milliseconds; what is not known is left out.
nlohmann::json to_json(const SubmissionReport& report);

} // namespace clusterbench
