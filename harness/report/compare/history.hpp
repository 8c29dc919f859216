// The same cells over many campaigns in time, with the campaigns at which a time changed.
#pragma once

#include "harness/report/compare/comparison.hpp"
#include "harness/report/text_table.hpp"

#include <string>
#include <vector>

namespace clusterbench {

/// What one campaign says of a cell.
struct Moment {
  std::string source; ///< the file
  /// Of compare, against the stretch's first campaign; `first` for that itself.
  std::string verdict;
  double ms = 0.0;              ///< median of runs; 0 where there is none
  std::optional<Change> change; ///< since the stretch's first campaign
};

/// A stretch ends where the cell is slower or faster than in the stretch's first campaign, where
/// the environment differs, or after a failure: so a slow drift is seen, too, once it is larger
/// than noise.
struct CellHistory {
  CellName cell;               ///< as far as any campaign tells it
  std::string shown;           ///< its name, with what tells it from other cells of that name
  std::vector<Moment> moments; ///< in the order of the campaigns that have the cell
};

/// campaigns: in the order of time. The level is divided by the number of comparisons of all cells.
std::vector<CellHistory> history_of(const std::vector<Timings>& campaigns, CompareOptions options);

/// Of each campaign's ledger that is not as it was written, a sentence.
std::vector<std::string> edited_of(const std::vector<Timings>& campaigns);

/// In 100 columns: a table for each cell, the changes in colour, and at the end what changed where.
std::string render_history(const std::vector<CellHistory>& cells,
                           const std::vector<std::string>& edited, TextStyle style);
nlohmann::json to_json(const std::vector<CellHistory>& cells,
                       const std::vector<std::string>& edited);

} // namespace clusterbench
