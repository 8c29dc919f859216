// What `clusterbench history` prints of cells over many campaigns.
#pragma once

#include "harness/report/compare/history.hpp"
#include "harness/report/text_table.hpp"

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <vector>

namespace clusterbench {

/// In 100 columns: a table for each cell that several campaigns have, the changes in colour, and at
/// the end what changed where and when.
std::string render_history(const std::vector<CellHistory>& cells,
                           const std::vector<std::string>& edited, const std::string& order,
                           TextStyle style);
nlohmann::json to_json(const std::vector<CellHistory>& cells,
                       const std::vector<std::string>& edited, const std::string& order);

} // namespace clusterbench
