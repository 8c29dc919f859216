// Labels of k-means, point by point, against the centroids that they belong to.
#pragma once

#include "harness/judge/declaration.hpp"
#include "harness/judge/point_findings.hpp"
#include "harness/problem/problem.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

namespace clusterbench {

/// Each label is the nearest of `centroids`, ties to the lowest index; another one only where the
/// difference of the two distances is within rounding.
template <typename T>
PointFindings check_labels(const Declaration& declared, const Problem<T>& problem,
                           std::span<const T> centroids, std::span<const std::int32_t> labels,
                           const PointSelection& points);

/// How many labels are not the nearest of `centroids`, whatever rounding allows.
template <typename T>
std::size_t count_other_labels(const Problem<T>& problem, std::span<const T> centroids,
                               std::span<const std::int32_t> labels, const PointSelection& points);

} // namespace clusterbench
