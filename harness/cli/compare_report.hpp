// Prints a comparison of two campaigns, for a terminal, as Markdown and as JSON.
#pragma once

#include "harness/report/text_table.hpp"
#include "harness/compare/comparison.hpp"

namespace clusterbench {

std::string render_comparison(const Comparison& comparison, TextStyle style);

nlohmann::json to_json(const Comparison& comparison);

} // namespace clusterbench
