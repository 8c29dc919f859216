// The last pass of an answer as one exact step: labels or memberships from the centroids that they
// belong to, centroids as the means of those.
#pragma once

#include "harness/judge/point_selection.hpp"
#include "harness/judge/report.hpp"
#include "harness/problem/problem.hpp"

#include <optional>
#include <string>

namespace clusterbench {

/// Where the entering centroids differ from the start of a single pass, or from what the recording
/// says that the pass before produced. Nothing if they cannot be compared.
template <typename T>
std::optional<std::string> wrong_entering(const Declaration& declared, const Problem<T>& problem,
                                          const JudgedAnswer<T>& answer);

/// Whether wrong_entering() has something to compare.
template <typename T>
bool can_compare_entering(const JudgedAnswer<T>& answer) {
  return !answer.entering.empty() && (answer.iterations == 1 || !answer.recorded.empty());
}

/// Judges labels or memberships of `points`, and the means: those of labels over all points, those
/// of memberships over all points too, but projected onto one random direction if `points` is a
/// sample. Means that follow from no labels or memberships of the answer are left out of a sample.
template <typename T>
void judge_exact_step(const Declaration& declared, const Problem<T>& problem,
                      const JudgedAnswer<T>& answer, const PointSelection& points,
                      std::uint64_t seed, Report& report);

} // namespace clusterbench
