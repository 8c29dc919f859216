// Prints a comparison of two campaigns, for a terminal, as Markdown and as JSON.
#pragma once

#include "harness/report/compare/comparison.hpp"
#include "harness/report/text_table.hpp"

namespace clusterbench {

/// On a terminal in 100 columns, unless it is to be `wide`: one table for each problem, without q.
std::string render_comparison(const Comparison& comparison, TextStyle style, bool wide = false);

nlohmann::json to_json(const Comparison& comparison);

} // namespace clusterbench
