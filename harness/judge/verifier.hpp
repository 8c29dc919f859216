// The verifier: recomputes in float64 everything that a variant claims, and says what is wrong
// where. A variant's own word about its result is never used.
#pragma once

#include "harness/judge/declaration.hpp"
#include "harness/judge/oracle.hpp"
#include "harness/problem/problem.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

namespace clusterbench {

/// What a variant handed over.
template <typename T>
struct Answer {
  std::span<const std::int32_t> labels; ///< [n]
  std::span<const T> centroids;         ///< [k, d]
  std::span<const T> memberships;       ///< [n, k]; empty for k-means
  std::size_t iterations = 0;

  /// [iterations, k, d], the centroids that every pass produced, or empty if unknown. It must
  /// belong to the run that gave labels and centroids, or to a bit-identical one: the answer of a
  /// variant that is not deterministic needs the recording of that very run, or none.
  std::span<const T> recorded;
};

/// One thing that is wrong, and where: point, cluster, iteration, the values got and expected.
struct Finding {
  std::string check;
  std::string where;
};

/// What the verifier thinks of an answer.
struct Verdict {
  std::vector<std::string> checks; ///< the names of the checks that were made
  std::vector<Finding> findings;   ///< at most one per check; empty if the answer is right
  double objective = std::numeric_limits<double>::quiet_NaN();        ///< of the returned centroids
  double oracle_objective = std::numeric_limits<double>::quiet_NaN(); ///< at the same pass count
  double relative_difference = std::numeric_limits<double>::quiet_NaN(); ///< of the two, signed
  std::size_t labels_off = 0; ///< labels that differ from the float64 ones, all within rounding
  bool sampled = false;       ///< something was checked on a subset of the points or passes
  bool early_stop = false;    ///< sits at a fixed point before max_iterations passes
  Trace trace; ///< float64, one entry per executed pass; empty if not all passes were evaluated

  bool right() const { return !checks.empty() && findings.empty(); }
  /// The findings as lines "check: where"; empty if right.
  std::string message() const;
};

/// How much work a verification may be.
struct VerifyOptions {
  double budget = 2e11;               ///< operations, one being a multiply or an add
  std::size_t sampled_points = 20000; ///< points of a label check that exceeds the budget
  std::uint64_t seed = 20000;         ///< of the subset
  /// Refuse answers of arithmetic that is too coarse for the data. The qualification does not: it
  /// tests the program, and its data far from the origin are not the user's.
  bool judges_precision = true;
};

/// Judges the answer of a whole run against the definition of the algorithm and the oracle's run.
/// Throws std::invalid_argument if the problem and the oracle do not fit together; whatever is
/// wrong with the answer is a finding.
template <typename T>
Verdict verify_answer(const Declaration& meta, const Problem<T>& problem, const Answer<T>& answer,
                      const OracleRun& oracle, const VerifyOptions& options = {});

/// Judges the answer of a run that is too large for the oracle by itself: its form; that its
/// centroids are the means of its labels or memberships; that rows of memberships sum to 1; of a
/// recorded run, as many passes as the budget allows, the last one first, and a sample of its labels
/// or memberships against the centroids that they came from; that it ended where the stop rule says;
/// and that a sample's objective is not above the initial state's. Without a recording nobody knows
/// the passes between. Costs the budget, 2 k d operations for each sampled point in three checks,
/// and n d (fuzzy c-means: n k d) for the means.
template <typename T>
Verdict verify_consistency(const Declaration& meta, const Problem<T>& problem,
                           const Answer<T>& answer, const VerifyOptions& options = {});

/// Judges one pass from a given state; `one_pass.stop` is one iteration. Labels may differ from
/// the float64 ones only where the rounding of the declared arithmetic allows it.
template <typename T>
Verdict verify_one_step(const Declaration& meta, const Problem<T>& one_pass,
                        const Answer<T>& answer, const VerifyOptions& options = {});

} // namespace clusterbench
