// What a campaign comes to, in a few lines: what is right, what is not, and the fastest of each
// problem.
#pragma once

#include "harness/report/table_report.hpp"
#include "harness/report/text_table.hpp"

#include <string>
#include <vector>

namespace clusterbench {

/// At most 11 lines of 100 columns, so that a command can add where its files are and what to try
/// next.
std::string closing_text(const std::vector<TableReport>& reports, TextStyle style);

/// Why variants cannot run on this machine or in this build, each reason once. Tables, which may be
/// of several machines, do not say it.
std::string unavailable_text(const std::vector<Row>& rows, TextStyle style);

} // namespace clusterbench
