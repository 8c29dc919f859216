// The float64 oracle: plain Lloyd and plain fuzzy c-means that every variant is judged against.
//
// Sums over points are compensated, and they run over fixed chunks of rows that are combined in
// order, so that the answer does not depend on the number of threads.
#pragma once

#include "harness/problem/problem.hpp"

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace clusterbench {

/// What the float64 run of a problem looked like.
struct OracleRun {
  std::size_t iterations = 0; ///< executed passes

  /// Entry 0 is the initial state, entry p + 1 is what pass p (counted from 0) produced; each is
  /// [k, d]. FCM from memberships has no initial centres: there entry 0 repeats entry 1.
  std::vector<std::vector<double>> centroids;

  std::vector<double> loss;    ///< one per executed pass, as PassFacts::loss defines it
  std::vector<double> inertia; ///< k-means: sum of squared distances to the entering centroids

  /// Objective of the returned centroids: for k-means the sum of squared distances to the nearest,
  /// for FCM sum(u^m * distance^2) with the memberships that follow from them.
  double final_objective = 0.0;

  bool still_moving = true;       ///< the last pass changed a label (k-means) or a centre (FCM)
  std::size_t stood_still_at = 0; ///< the first pass, counted from 1, that moved nothing; 0: none
  std::size_t empty_at = 0; ///< the first pass, counted from 1, with an empty cluster; 0: none
};

/// Runs the family's algorithm on `problem` until its stop rule is met, in float64.
/// Throws std::invalid_argument if the shapes do not fit together.
template <typename T>
OracleRun run_oracle(Family family, const Problem<T>& problem);

/// Loss and objective per executed pass; `inertia` stays empty for FCM.
struct Trace {
  std::vector<double> loss;
  std::vector<double> inertia;
};

/// Evaluates in float64 what a recording run wrote down.
/// recorded: [passes, k, d], the centroids that each pass produced; passes >= 1.
/// Throws std::invalid_argument if the shapes do not fit together.
template <typename T>
Trace evaluate_trace(Family family, const Problem<T>& problem, std::span<const T> recorded);

/// A state from which a single pass is checked; exactly one of the two is filled.
template <typename T>
struct OneStepState {
  std::string name;
  std::vector<T> centroids;   ///< [k, d]
  std::vector<T> memberships; ///< [n, k], for FCM problems that start from memberships
};

/// States for one-step checks, rounded to T: the first, the middle and the last but one of the
/// oracle's iterates; for FCM also a state that is not collapsed (spread-out distinct data rows).
template <typename T>
std::vector<OneStepState<T>> one_step_states(Family family, const Problem<T>& problem,
                                             const OracleRun& oracle);

/// The problem of one pass from `state`; the spans point into `state` and into `problem`'s data.
template <typename T>
Problem<T> one_pass_problem(const Problem<T>& problem, const OneStepState<T>& state);

} // namespace clusterbench
