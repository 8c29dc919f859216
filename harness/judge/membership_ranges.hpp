// The memberships of one point, and the range that rounding leaves to each.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace clusterbench {

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
