// Every cell of a table, ranked where its work is equal; what is not stands below, with the reason.
#pragma once

#include "harness/report/table_part.hpp"
#include "harness/report/table_report.hpp"
#include "harness/report/text_table.hpp"

#include <string>
#include <vector>

namespace clusterbench {

/// Sorted by problem, precision and rank by time per iteration; the rank by whole answer stands
/// beside it. Columns for the distances avoided and for the warm-up are there if any cell has some,
/// machine and threads if they are not the same everywhere.
TablePart ranking_table(const TableReport& report, TextStyle style);

/// The measured cells of a problem in a precision: by rank, the approximate below the exact; then
/// by time, and last what has none.
std::vector<const ReportCell*> ranked_cells(const TableReport& report, const std::string& problem,
                                            Precision precision);
/// "2", "2=" where others have it as well, "≈2" of an approximate cell, "–" without a rank.
std::string rank_text(const ReportCell& cell, const Place& place);
/// The first of its problem, one whose answer is wrong or lost, one that took no part.
Paint paint_of(const ReportCell& cell);
/// Empty for a cell that has both ranks.
std::string why_unranked(const ReportCell& cell);
/// What must be said below a ranking.
std::vector<std::string> ranking_notes(const TableReport& report);

} // namespace clusterbench
