// Every cell of a table, ranked where its work is equal; what is not stands below, with the reason.
#pragma once

#include "harness/report/table_part.hpp"
#include "harness/report/table_report.hpp"
#include "harness/report/text_table.hpp"

namespace clusterbench {

/// Sorted by problem, precision and rank by time per iteration; the rank by whole answer stands
/// beside it. Columns for the distances avoided and for the warm-up are there if any cell has some,
/// machine and threads if they are not the same everywhere.
TablePart ranking_table(const TableReport& report, TextStyle style);

} // namespace clusterbench
