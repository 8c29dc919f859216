// Cells of several ranks or GPUs beside one: a line for each efficiency, or why there is none.
#pragma once

#include "harness/report/table_part.hpp"
#include "harness/report/table_report.hpp"
#include "harness/report/table_text.hpp"
#include "harness/report/text_table.hpp"

namespace clusterbench {

/// Problem by problem in the narrow form, with the reasons below; in the others one table. Empty
/// where no ranked cell has several.
TablePart efficiency_table(const TableReport& report, TableForm form, TextStyle style);

} // namespace clusterbench
