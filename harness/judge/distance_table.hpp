// Distances and memberships of single points in float64, with the range that rounding in a
// variant's precision leaves to each.
#pragma once

#include "harness/judge/declaration.hpp"
#include "harness/judge/rounding.hpp"
#include "harness/problem/problem.hpp"

#include <cstddef>
#include <span>
#include <vector>

namespace clusterbench {

/// Squared distances from points to one set of centroids, and how far a variant's may be off.
template <typename T>
class DistanceTable {
public:
  DistanceTable(const Declaration& declared, const Problem<T>& problem,
                std::span<const T> centroids);

  /// squared, error: [k] of one point. Any number of threads at once.
  void measure(std::size_t row, std::span<double> squared, std::span<double> error) const;

private:
  Problem<T> problem_;
  std::vector<double> centroids_;
  std::vector<double> origin_;   ///< [d], only if the rounding depends on norms
  std::vector<double> norms_;    ///< [k] from the origin, only then
  std::vector<double> lengths_;  ///< [k] from zero, only then
  double origin_in_doubt_ = 0.0; ///< how far the variant's own may be away
  DistanceRounding rounding_;
};

/// The memberships of one point, and the range that rounding leaves to each.
struct MembershipRanges {
  explicit MembershipRanges(std::size_t k)
      : value(k), low(k), high(k), near_power(k), far_power(k) {}
  /// From squared distances and their errors, [k] each. u: unit roundoff of the variant.
  void compute(std::span<const double> squared, std::span<const double> error, double fuzzifier,
               double u);

  std::vector<double> value;      ///< [k], float64
  std::vector<double> low;        ///< [k]
  std::vector<double> high;       ///< [k]
  std::vector<double> near_power; ///< [k] scratch: D^-p of the shortest possible distances
  std::vector<double> far_power;  ///< [k] scratch: D^-p of the longest
};

} // namespace clusterbench
