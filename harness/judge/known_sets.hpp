// The sets of centroids that a problem and an answer tell of.
#pragma once

#include "harness/judge/verifier.hpp"
#include "harness/problem/problem.hpp"

#include <cstddef>
#include <span>

namespace clusterbench {

/// The centroids after so many passes, 0 being the initial state; empty if they are unknown, or if
/// the initial state is memberships.
template <typename T>
std::span<const T> known_set(const Problem<T>& problem, const JudgedAnswer<T>& answer,
                             std::size_t passes) {
  const std::size_t size = problem.k * problem.d;
  if (passes == answer.iterations) {
    return answer.centroids;
  }
  if (passes == 0) {
    return problem.centroids;
  }
  if (passes + 1 == answer.iterations && !answer.entering.empty()) {
    return answer.entering;
  }
  return answer.recorded.empty() ? std::span<const T>{}
                                 : answer.recorded.subspan((passes - 1) * size, size);
}

/// The centroids that entered the last pass, as far as they are known.
template <typename T>
std::span<const T> known_entering(const Problem<T>& problem, const JudgedAnswer<T>& answer) {
  return known_set(problem, answer, answer.iterations - 1);
}

} // namespace clusterbench
