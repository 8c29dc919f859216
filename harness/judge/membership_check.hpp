// Memberships and labels of fuzzy c-means, point by point.
#pragma once

#include "harness/judge/declaration.hpp"
#include "harness/judge/point_findings.hpp"
#include "harness/problem/problem.hpp"

#include <cstdint>
#include <span>

namespace clusterbench {

/// Each membership follows from `centroids` by the formula, element by element.
template <typename T>
PointFindings check_memberships(const Declaration& declared, const Problem<T>& problem,
                                std::span<const T> centroids, std::span<const T> memberships,
                                const PointSelection& points);

/// Each label is the largest returned membership of its row, ties to the lowest index; another one
/// only if rounding may make it the largest. Without `centroids` (empty) a few ulp are allowed.
template <typename T>
PointFindings check_fuzzy_labels(const Declaration& declared, const Problem<T>& problem,
                                 std::span<const T> centroids, std::span<const T> memberships,
                                 std::span<const std::int32_t> labels,
                                 const PointSelection& points);

/// Each row of memberships lies in [0, 1] and sums to 1, within rounding or `more`.
template <typename T>
PointFindings check_row_sums(const Problem<T>& problem, std::span<const T> memberships,
                             double more = 0.0);

} // namespace clusterbench
