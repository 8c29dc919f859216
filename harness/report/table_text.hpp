// A table's report for people: on a terminal, or as Markdown.
#pragma once

#include "harness/report/table_report.hpp"
#include "harness/report/text_table.hpp"

#include <string>

namespace clusterbench {

/// `full` shows everything: the article's table beside ours with our further rows after it, and all
/// cells ranked by equal work. `compact` fits a README: the article's rows only, and one line for
/// each variant with its time per iteration on every problem. `narrow` fits a terminal of 100
/// columns: the article's rows, and all cells ranked with the figures that decide.
enum class TableForm { full, compact, narrow };

/// `command` is what makes this text; it is shown unless it is empty.
std::string table_text(const TableReport& report, TableForm form, TextStyle style,
                       const std::string& command = "");

} // namespace clusterbench
