// One line for each variant and precision: its time per iteration and its whole answer on every
// problem. Many problems stand below one another instead, and the variants side by side.
#pragma once

#include "harness/report/table_part.hpp"
#include "harness/report/table_report.hpp"
#include "harness/report/text_table.hpp"

namespace clusterbench {

/// In the table's order. Of several machines the first that has a right result is shown, of those
/// with its processors and GPUs the newest result. The first of each rank and times of other work
/// are marked, and the reasons are in the notes.
TablePart variants_table(const TableReport& report, TextStyle style);

} // namespace clusterbench
