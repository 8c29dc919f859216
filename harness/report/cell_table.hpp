// Cells of many problems in tables that fit a terminal: one for each problem, the reasons below it.
#pragma once

#include "harness/report/text_table.hpp"

#include <string>
#include <vector>

namespace clusterbench {

/// What is said of one cell.
struct CellLine {
  /// TABLE/PROBLEM/VARIANT/PRECISION, or whatever a file calls it.
  std::string name;
  std::vector<std::string> figures; ///< one for each column but the name's
  std::string reason;               ///< a sentence that no column has room for; may be empty
  Paint paint = Paint::plain;
};

/// The columns are those of the figures. Names of cells are taken apart: the problem and the
/// precision are the heading of a table, the variant stands in its first column, shortened if it
/// must be.
std::string cell_tables(const std::vector<TextColumn>& columns, const std::vector<CellLine>& lines,
                        TextStyle style);

/// The colour of a verdict of `compare` or `gate`.
Paint paint_of_verdict(const std::string& verdict);

/// "12 cells: 1 slower, 2 faster, 9 same", what is worst first, in the verdicts' colours.
std::string count_of_verdicts(const std::vector<std::string>& verdicts, TextStyle style);

} // namespace clusterbench
