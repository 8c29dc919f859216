// The ranking for a terminal of 100 columns: what decides, and the rest by --wide.
#pragma once

#include "harness/report/table_part.hpp"
#include "harness/report/table_report.hpp"
#include "harness/report/text_table.hpp"

namespace clusterbench {

/// A heading and a table for each problem and precision; below it why a cell has no rank.
TablePart narrow_table(const TableReport& report, TextStyle style);

} // namespace clusterbench
