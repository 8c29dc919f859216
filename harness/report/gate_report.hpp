// Prints what a gate found, in times or in instructions, for a terminal, as Markdown for a pull
// request, and as JSON.
#pragma once

#include "harness/gate/gate.hpp"
#include "harness/gate/instructions.hpp"
#include "harness/report/text_table.hpp"

#include <nlohmann/json_fwd.hpp>

namespace clusterbench {

/// On a terminal in 100 columns, unless it is to be `wide`: one table for each problem, with the
/// columns that decide.
std::string render_gate(const std::vector<GatedCell>& cells, const GateOptions& options,
                        TextStyle style, bool wide = false);

nlohmann::json to_json(const std::vector<GatedCell>& cells, const GateOptions& options);

std::string render_gate(const std::vector<CountedCell>& cells, const GateOptions& options,
                        TextStyle style, bool wide = false);

nlohmann::json to_json(const std::vector<CountedCell>& cells, const GateOptions& options);

/// The verdicts of gated or of counted cells.
template <typename Cell>
std::vector<std::string> verdicts_of(const std::vector<Cell>& cells) {
  std::vector<std::string> verdicts;
  for (const Cell& cell : cells) {
    verdicts.push_back(cell.verdict);
  }
  return verdicts;
}

} // namespace clusterbench
