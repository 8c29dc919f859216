// How well several ranks or GPUs use their hardware, beside one of them.
#pragma once

#include "harness/report/table_report.hpp"

namespace clusterbench {

/// Gives every measured cell of several ranks or GPUs its efficiencies. The cells must have their
/// ranks: what is not ranked is no base, and has no efficiency.
void add_efficiencies(TableReport& report);

/// 2 of two ranks as of two GPUs; 1 of anything else.
int parts_of(const Measured& cell);
/// "2 ranks", "1 rank", "2 GPUs", "1 GPU"; empty for one process of a CPU, or where a ledger does
/// not say it.
std::string parts_text(const Measured& cell);
/// Whether any cell has several.
bool has_several_parts(const TableReport& report);

} // namespace clusterbench
