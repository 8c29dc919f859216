// States from which a single pass is checked.
#pragma once

#include "harness/judge/oracle.hpp"
#include "harness/problem/problem.hpp"

#include <string>
#include <vector>

namespace clusterbench {

/// Exactly one of the two is filled.
template <typename T>
struct OneStepState {
  std::string name;
  std::vector<T> centroids;   ///< [k, d]
  std::vector<T> memberships; ///< [n, k], for FCM problems that start from memberships
};

/// Rounded to T: the first, a middle and the last but one of the oracle's states; for FCM also one
/// that is not collapsed (spread-out distinct data rows).
template <typename T>
std::vector<OneStepState<T>> one_step_states(Family family, const Problem<T>& problem,
                                             const OracleRun& oracle);

/// The problem of one pass from `state`; the spans point into `state` and into `problem`'s data.
template <typename T>
Problem<T> one_pass_problem(const Problem<T>& problem, const OneStepState<T>& state);

} // namespace clusterbench
