// Whether an answer is better than an earlier state of its run: what is left to ask where nobody
// can repeat the passes between.
#pragma once

#include "harness/judge/declaration.hpp"
#include "harness/judge/point_selection.hpp"
#include "harness/judge/verifier.hpp"
#include "harness/problem/problem.hpp"

#include <optional>
#include <span>
#include <string>

namespace clusterbench {

/// Whether the answer's objective on these points, with the labels or memberships as returned, is
/// higher than that of `before`, the centroids of an earlier state, with the nearest or with the
/// memberships that follow. No pass raises the sum over all points; of a sample, eight standard
/// errors of the difference are allowed, and the share `within` of an approximate variant.
template <typename T>
std::optional<std::string> check_descent(const Declaration& declared, const Problem<T>& problem,
                                         std::span<const T> before, const JudgedAnswer<T>& answer,
                                         const PointSelection& points, double within = 0.0);

} // namespace clusterbench
