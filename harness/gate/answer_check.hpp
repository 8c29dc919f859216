// The gate's judge of one cell, whichever build the answers come from.
#pragma once

#include "harness/campaign/oracles.hpp"
#include "harness/gate/pair_of_builds.hpp"

#include <string>

namespace clusterbench {

/// Judges answers from judged starts in full, others cheaply. A start of a deterministic variant
/// gives equal bits in every process of one build.
template <typename T>
class AnswerCheck {
public:
  /// Both must outlive this.
  AnswerCheck(const CellTask<T>& cell, Oracles& oracles) : cell_(cell), oracles_(oracles) {}

  /// Empty, or what is wrong with the answers of the side in a pair.
  std::string complaint(const PairSamples<T>& pair, Side side);
  std::string complaint(const std::vector<TakenAnswer<T>>& judged, Side side);

  /// The cell is within the oracle's means.
  bool judges_values() const;

private:
  std::string wrong(const TakenAnswer<T>& answer, bool in_full);

  const CellTask<T>& cell_;
  Oracles& oracles_;
  /// The first answers of each side, already judged: the same bits need no second look.
  std::array<std::vector<TakenAnswer<T>>, 2> known_;
};

} // namespace clusterbench
