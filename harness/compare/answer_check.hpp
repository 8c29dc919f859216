// The gate's judge: every answer with new bits is verified, once.
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
              std::map<std::string, OracleRun>& oracles)
      : meta_(meta), work_(work), threads_(threads), oracles_(oracles) {}

  /// Empty, or what is wrong with the answer. A variant that says it is deterministic must also give
  /// the same bits in every process of one build. A cell that is beyond the oracle's means is
  /// checked for that alone.
  std::string complaint(Side side, const PacedAnswer& answer, const Result<T>& result);

  /// The cell is within the oracle's means.
  bool judges_values() const;

private:
  const Meta& meta_;
  const Workload& work_;
  int threads_;
  std::map<std::string, OracleRun>& oracles_;
  std::map<std::string, std::string> known_; ///< digest -> complaint
  std::array<std::string, 2> first_;         ///< the first digest of each side
};

} // namespace clusterbench
