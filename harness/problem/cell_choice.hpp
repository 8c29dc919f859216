// Chooses cells of the tables by name.
#pragma once

#include "harness/problem/table.hpp"

#include <string>
#include <vector>

namespace clusterbench {

/// table/problem/variant/precision, the name of a cell in ledgers and reports.
std::string cell_name(const CellSpec& cell);

/// The cells that any of `words` names: a table, a shell glob of cell names, or the name of a cell
/// whose variant stands in no row of that table (another variant on the table's problem). Without
/// words, those cells of the articles' tables whose variants run on the CPU in one process. `quick`
/// takes the tables' smaller sizes. Throws datasets::InputError for a word that names nothing.
std::vector<CellSpec> choose_cells(const std::vector<std::string>& words, bool quick);

} // namespace clusterbench
