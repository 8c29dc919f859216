// The same cells over many campaigns in time, with the campaigns at which a time changed.
#pragma once

#include "harness/report/compare/comparison.hpp"

#include <string>
#include <vector>

namespace clusterbench {

/// What one campaign says of a cell.
struct Moment {
  std::string source; ///< the file
  std::string time;   ///< when it began, ISO 8601; empty: not known
  /// Of compare, against the stretch's first campaign; `first` for that itself.
  std::string verdict;
  double ms = 0.0;              ///< median of runs; 0 where there is none
  int digits = 3;               ///< that it is worth
  std::optional<Change> change; ///< since the stretch's first campaign
  /// Slower or faster are the campaigns from here on together, not this one alone.
  bool with_later = false;
  /// What differs in another environment, why it is compared with none before, or what compare
  /// says.
  std::string message = {};
};

/// A stretch ends where the cell is slower or faster than in the stretch's first campaign: so a
/// slow drift is seen, too, once it is larger than noise. Every environment has a stretch of its
/// own, which goes on where others came between, and so does one that a failure interrupts. A step
/// too small for one campaign ends a stretch, too, where all campaigns since then tell it.
///
/// A campaign of few rounds, or of a busy machine, can carry no verdict. It begins a stretch only
/// where none of its environment goes on, and gives way to the first one that can. One whose
/// machine was not as quiet as for any stretch of its environment begins one beside these.
struct CellHistory {
  CellName cell;               ///< as far as any campaign tells it
  std::string shown;           ///< its name, with what tells it from other cells of that name
  std::vector<Moment> moments; ///< in the order of the campaigns that have the cell
};

/// campaigns: in the order that is followed. The level is divided by the number of comparisons of
/// all cells. The steps that only several campaigns tell, of one stretch, have another third of it,
/// divided by the number of cells.
std::vector<CellHistory> history_of(const std::vector<Timings>& campaigns, CompareOptions options);

/// Of each campaign's ledger that is not as it was written, a sentence.
std::vector<std::string> edited_of(const std::vector<Timings>& campaigns);

/// A sentence if a campaign was measured before the one that it follows; empty if none was.
std::string order_of(const std::vector<Timings>& campaigns);

} // namespace clusterbench
