// The objective that an answer claims: of its returned centroids with its own labels or
// memberships.
#pragma once

#include "harness/judge/verifier.hpp"
#include "harness/problem/problem.hpp"

namespace clusterbench {

/// k-means: sum of squared distances to the centroid that the label names, each times the point's
/// weight, n d operations. FCM: sum(u^m * distance^2), n k d. The answer must have the right form.
template <typename T>
double answer_objective(Family family, const Problem<T>& problem, const JudgedAnswer<T>& answer);

} // namespace clusterbench
