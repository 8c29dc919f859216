// Whether an answer is the oracle's after as many passes as it says, and not another one of the
// same run or of the same clusters.
#pragma once

#include "harness/judge/oracle.hpp"
#include "harness/judge/verifier.hpp"
#include "harness/problem/problem.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace clusterbench {

/// Whether the centroids are those of an earlier pass of the oracle's. Rounding may lead an answer
/// away from the oracle's path, but not far back on it while its own last pass still moves. A run
/// may be behind by one of 32 passes.
template <typename T>
std::optional<std::string> earlier_pass(const Declaration& declared, const Problem<T>& problem,
                                        const JudgedAnswer<T>& answer, const OracleRun& oracle);

/// Whether a fifth of the clusters (of 256 random ones, where there are more) are the oracle's
/// under another number: the answer from another start, that ended in the same place.
template <typename T>
std::optional<std::string> other_numbers(const Problem<T>& problem, const JudgedAnswer<T>& answer,
                                         const OracleRun& oracle, std::uint64_t seed);

} // namespace clusterbench
