// Chooses cells of the tables by name.
#pragma once

#include "harness/problem/table.hpp"

#include <string>
#include <vector>

namespace clusterbench {

/// The cells that any of `words` names and that two builds can be compared by: their variants are
/// registered here and run in a process of the build. A word is a table, which stands for its cells
/// on the CPU, or a shell glob of cell names. A glob that fits no row of a table means every
/// registered variant of the family on the tables' problems. Without words, the articles' tables.
/// `quick` takes the tables' smaller sizes. Throws datasets::InputError for a word that names
/// nothing, or nothing that can be compared.
std::vector<CellSpec> choose_cells(const std::vector<std::string>& words, bool quick);

/// Adds to the tables the variants that --variant names and that none of their rows holds: each on
/// every problem of its family, in the precisions that are wanted and that it has (wanted is empty:
/// float32, or what it has). A glob that fits a row of one of the tables adds none. Throws
/// datasets::InputError for a glob that fits no variant at all.
void take_in_variants(std::vector<Table>& tables, const std::vector<std::string>& globs,
                      const std::vector<Precision>& wanted);

/// Why no cell of these tables fits --variant and --precision, in words.
std::string why_no_cell_fits(const std::vector<Table>& tables,
                             const std::vector<std::string>& globs,
                             const std::vector<Precision>& wanted);

} // namespace clusterbench
