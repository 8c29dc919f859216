// The article's table and ours side by side, in the article's order.
#pragma once

#include "harness/report/table_part.hpp"
#include "harness/report/table_report.hpp"
#include "harness/report/table_text.hpp"
#include "harness/report/text_table.hpp"

namespace clusterbench {

/// The report must have a published part. In the full form the rows that the article does not have
/// follow those of its column, marked as such.
TablePart beside_table(const TableReport& report, TableForm form, TextStyle style);

} // namespace clusterbench
