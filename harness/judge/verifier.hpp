// The verifier: recomputes in float64 everything that a variant claims, and says what is wrong
// where. A variant's own word about its result is never used.
#pragma once

#include "harness/judge/declaration.hpp"
#include "harness/judge/interruption.hpp"
#include "harness/judge/oracle.hpp"
#include "harness/problem/problem.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

namespace clusterbench {

/// What a variant handed over, in host memory.
template <typename T>
struct JudgedAnswer {
  std::span<const std::int32_t> labels; ///< [n]
  std::span<const T> centroids;         ///< [k, d]
  /// [k, d], the centroids that entered the last pass; empty if the program cannot give them. Not
  /// looked at after a single pass from memberships, which no centroids entered.
  std::span<const T> entering;
  std::span<const T> memberships; ///< [n, k]; empty for k-means
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

/// Loss and objective per executed pass; `inertia` stays empty for FCM.
struct Trace {
  std::vector<double> loss;
  std::vector<double> inertia;
};

/// What the verifier thinks of an answer.
struct Verdict {
  std::vector<std::string> checks; ///< the names of the checks that were made
  std::vector<Finding> findings;   ///< at most one per check; empty if the answer is right
  double objective = std::numeric_limits<double>::quiet_NaN();        ///< of the returned centroids
  double oracle_objective = std::numeric_limits<double>::quiet_NaN(); ///< at the same pass count
  double relative_difference = std::numeric_limits<double>::quiet_NaN(); ///< of the two, signed
  /// Labels that differ from the float64 ones; all within rounding, or of an approximate variant.
  std::size_t labels_off = 0;
  std::size_t labels_judged = 0; ///< of so many, those of all points unless `sampled`
  bool sampled = false;          ///< something was checked on a subset of the points or passes
  bool early_stop = false;       ///< sits at a fixed point before max_iterations passes
  Trace trace; ///< float64, one entry per executed pass; empty if not all passes were evaluated

  bool right() const { return !checks.empty() && findings.empty(); }
  /// The findings as lines "check: where"; empty if right.
  std::string message() const;
  /// The share of the judged labels that differ; 0 if none was judged.
  double share_of_labels_off() const {
    return labels_judged == 0
               ? 0.0
               : static_cast<double>(labels_off) / static_cast<double>(labels_judged);
  }
};

/// How much work a verification may be. An operation is a multiply or an add.
struct VerifyOptions {
  double budget = 2e11; ///< operations for looks at whole sets of centroids besides the exact step
  std::size_t sampled_points = 20000; ///< points of a check that exceeds its budget, at most
  double sample_budget = 2e10;        ///< operations after which such a check takes fewer, but 1000
  std::uint64_t seed = 20000;         ///< of the subset; to be kept from variants
  /// Refuse answers of arithmetic that is too coarse for the data. The qualification does not: it
  /// tests the program, and its data far from the origin are not the user's.
  bool judges_precision = true;
  /// The one exact step is made for all points if it takes at most so many operations, 3 n k d;
  /// beyond, for as many random points as these pay for. Some 7 s on two cores.
  double step_budget = 5e11;
  InterruptTest interrupted = {}; ///< ends the verification with Interrupted, within a second
};

/// Judges the answer of a whole run against the definition of the algorithm and the oracle's run,
/// or by itself if the oracle's was cut short before. Throws std::invalid_argument if the problem
/// and the oracle do not fit together, and Interrupted; whatever is wrong with the answer is a
/// finding.
///
/// With `entering`, labels and memberships of all points are judged as one exact step from there,
/// and centroids as the means of those.
///
/// All functions judge a variant that declares itself approximate for form and finiteness; for
/// centroids whose distance from the means of the labels or memberships raises the objective by no
/// more than the declared share; and, where the oracle's is known, for an objective that exceeds it
/// by no more than that share. The verdict says how many labels differ from the exact step.
template <typename T>
Verdict verify_answer(const Declaration& declared, const Problem<T>& problem,
                      const JudgedAnswer<T>& answer, const OracleRun& oracle,
                      const VerifyOptions& options = {});

/// Judges the answer of a run that is too large for the oracle by itself: its form; the exact step
/// as above; of a recorded run, as many passes as the budget allows, the last one first; that it
/// ended where the stop rule says; and that a sample's objective is not above the initial state's.
/// Without a recording nobody knows the passes before the last.
template <typename T>
Verdict verify_consistency(const Declaration& declared, const Problem<T>& problem,
                           const JudgedAnswer<T>& answer, const VerifyOptions& options = {});

/// Judges one pass from a given state; `one_pass.stop` is one iteration. Labels may differ from
/// the float64 ones only where the rounding of the declared arithmetic allows it.
template <typename T>
Verdict verify_one_step(const Declaration& declared, const Problem<T>& one_pass,
                        const JudgedAnswer<T>& answer, const VerifyOptions& options = {});

/// Judges at the price of some looks at the data, n (d + k): the form; that centroids are the means
/// of the labels or memberships of all points; and the exact step for `sampled_points` random
/// points. What it passes may still be wrong; what it finds is wrong.
template <typename T>
Verdict verify_cheaply(const Declaration& declared, const Problem<T>& problem,
                       const JudgedAnswer<T>& answer, const VerifyOptions& options = {});

/// Compares a timed answer with the recorded one from the same start, where the run is too large
/// for the oracle: a deterministic variant gives equal bits; another's objective, with the labels
/// or memberships as returned, is that of the recorded one within rounding after as many passes.
template <typename T>
Verdict verify_same(const Declaration& declared, const Problem<T>& problem,
                    const JudgedAnswer<T>& recorded, const JudgedAnswer<T>& timed,
                    const VerifyOptions& options = {});

} // namespace clusterbench
