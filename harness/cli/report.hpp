// Prints the rows of a ledger as tables, for a terminal and as Markdown.
#pragma once

#include "harness/problem/table.hpp"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace clusterbench {

enum class ReportStyle { terminal, markdown };

/// The cells of `table` in its own order, each with what the rows say about it: median time, time
/// per iteration, percent of the limit, verification. Rounds of one cell are pooled: the median of
/// the rounds' medians. A cell without a row shows that it was not run.
std::string render_table(const Table& table, const std::vector<nlohmann::json>& rows,
                         ReportStyle style);

/// Rows of the table "adhoc", which has no definition: in order of name.
std::string render_rows(const std::vector<nlohmann::json>& rows, ReportStyle style);

/// Replaces what stands between `<!-- NAME begin -->` and `<!-- NAME end -->` in a file.
/// Throws datasets::InputError if the markers are not there.
void splice(const std::filesystem::path& file, const std::string& name, const std::string& text);

} // namespace clusterbench
