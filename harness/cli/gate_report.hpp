// Prints what a gate found, for a terminal, as Markdown for a pull request, and as JSON.
#pragma once

#include "harness/report/text_table.hpp"
#include "harness/compare/gate.hpp"

#include <nlohmann/json_fwd.hpp>

namespace clusterbench {

std::string render_gate(const std::vector<GatedCell>& cells, const GateOptions& options,
                        TextStyle style);

nlohmann::json to_json(const std::vector<GatedCell>& cells, const GateOptions& options);

/// The gravest of the cells'.
ExitCode exit_code_of(const std::vector<GatedCell>& cells);

} // namespace clusterbench
