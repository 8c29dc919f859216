// The checks that go point by point: labels and memberships against the centroids that they
// belong to. Each says how many points are wrong and shows the first one.
#pragma once

#include "harness/judge/declaration.hpp"
#include "harness/problem/problem.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace clusterbench {

/// All points, or a seeded random subset of them in ascending order.
class PointSelection {
public:
  static PointSelection all(std::size_t n);
  /// `count` points, one at random from each of `count` equal stretches; all if count >= n.
  static PointSelection sample(std::size_t n, std::size_t count, std::uint64_t seed);

  std::size_t size() const { return size_; }
  std::size_t operator[](std::size_t i) const { return sampled_.empty() ? i : sampled_[i]; }
  bool is_sample() const { return !sampled_.empty(); }

private:
  std::size_t size_ = 0;
  std::vector<std::size_t> sampled_; ///< empty: all
};

/// What a check over points found.
struct PointFindings {
  std::optional<std::string> offence; ///< the first wrong point and the number of them
  std::size_t off = 0;                ///< points that differ from float64, but within rounding
};

/// k-means: each label is the nearest of `centroids`, ties to the lowest index; another one only
/// where the difference of the two distances is within rounding.
template <typename T>
PointFindings check_labels(const Declaration& meta, const Problem<T>& problem,
                           std::span<const T> centroids, std::span<const std::int32_t> labels,
                           const PointSelection& points);

/// FCM: each membership follows from `centroids` by the formula, element by element.
template <typename T>
PointFindings check_memberships(const Declaration& meta, const Problem<T>& problem,
                                std::span<const T> centroids, std::span<const T> memberships,
                                const PointSelection& points);

/// FCM: each label is the largest returned membership of its row, ties to the lowest index; another
/// one only if rounding may make it the largest. Without `centroids` (empty) a few ulp are allowed.
template <typename T>
PointFindings check_fuzzy_labels(const Declaration& meta, const Problem<T>& problem,
                                 std::span<const T> centroids, std::span<const T> memberships,
                                 std::span<const std::int32_t> labels,
                                 const PointSelection& points);

/// Whether the answer's objective on these points, with the labels or memberships as returned, is
/// higher than that of `before`, the centroids of an earlier state, with the nearest or with the
/// memberships that follow. No pass raises the sum over all points; of a sample, eight standard
/// errors of the difference are allowed.
template <typename T>
std::optional<std::string>
check_descent(const Declaration& meta, const Problem<T>& problem, std::span<const T> before,
              std::span<const T> centroids, std::span<const T> memberships,
              std::span<const std::int32_t> labels, const PointSelection& points);

/// FCM: each row of memberships lies in [0, 1] and sums to 1.
template <typename T>
PointFindings check_row_sums(const Problem<T>& problem, std::span<const T> memberships);

} // namespace clusterbench
