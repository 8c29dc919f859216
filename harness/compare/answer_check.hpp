// The gate's judge: every answer with new bits is verified, once, its last pass included.
#pragma once

#include "harness/compare/pair_of_builds.hpp"
#include "harness/judge/oracle.hpp"
#include "harness/judge/verifier.hpp"

#include <map>
#include <string>

namespace clusterbench {

/// Judges the answers of one cell, whichever build they come from.
template <typename T>
class AnswerCheck {
public:
  AnswerCheck(const Meta& meta, const Workload& work, int threads,
              std::map<std::string, OracleRun>& oracles, PairOfBuilds& builds)
      : meta_(meta), work_(work), threads_(threads), oracles_(oracles), builds_(builds) {}

  /// Empty, or what is wrong with the answer that the side's last process handed over. A variant that
  /// says it is deterministic must also give the same bits in every process of one build. A cell that
  /// is beyond the oracle's means is checked for that alone. New bits cost processes of their own,
  /// beside the pairs. Throws SideFailure.
  std::string complaint(Side side, const PacedAnswer& answer);

  /// The cell is within the oracle's means.
  bool judges_values() const;

private:
  std::string wrong_run(const PacedAnswer& answer, const Result<T>& result);
  std::string wrong_pass(Side side, const PacedAnswer& answer, const Result<T>& result);

  const Meta& meta_;
  const Workload& work_;
  int threads_;
  std::map<std::string, OracleRun>& oracles_;
  PairOfBuilds& builds_;
  std::map<std::string, std::string> known_; ///< digest -> complaint
  std::array<std::string, 2> first_;         ///< the first digest of each side
};

} // namespace clusterbench
