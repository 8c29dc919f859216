#include "harness/judge/membership_ranges.hpp"

#include "harness/judge/float64_math.hpp"
#include "harness/judge/rounding.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace clusterbench {

void MembershipRanges::compute(std::span<const double> squared, std::span<const double> error,
                               double fuzzifier, double u) {
  const std::size_t k = squared.size();
  const double p = 1.0 / (fuzzifier - 1.0);
  fuzzy_memberships(squared, fuzzifier, value);
  double longest_of_nearest = std::numeric_limits<double>::infinity();
  double smallest = longest_of_nearest;
  double largest = 0.0;
  for (std::size_t j = 0; j < k; ++j) {
    longest_of_nearest = std::min(longest_of_nearest, squared[j] + error[j]);
    largest = std::max(largest, squared[j]);
    if (squared[j] > 0.0) {
      smallest = std::min(smallest, squared[j]);
    }
  }
  const double magnitude =
      largest > 0.0 ? std::max(std::abs(std::log2(smallest)), std::abs(std::log2(largest))) : 0.0;
  const double formula = membership_rounding(k, p, magnitude, u);
  if (longest_of_nearest == 0.0) { // surely on a centre: no distance is in doubt
    for (std::size_t j = 0; j < k; ++j) {
      low[j] = value[j] * (1.0 - formula);
      high[j] = value[j] * (1.0 + formula);
    }
    return;
  }
  // A membership is largest when its own distance is the shortest possible and all others are the
  // longest possible, and the other way round.
  double far_sum = 0.0;
  double near_sum = 0.0;
  std::size_t possibly_on_centre = 0;
  for (std::size_t j = 0; j < k; ++j) {
    far_power[j] = power(longest_of_nearest / (squared[j] + error[j]), p);
    far_sum += far_power[j];
    const double shortest = squared[j] - error[j];
    near_power[j] = shortest > 0.0 ? power(longest_of_nearest / shortest, p)
                                   : std::numeric_limits<double>::infinity();
    if (std::isinf(near_power[j])) {
      ++possibly_on_centre;
    } else {
      near_sum += near_power[j];
    }
  }
  for (std::size_t j = 0; j < k; ++j) {
    const bool may_be_on_centre = std::isinf(near_power[j]);
    const double far_others = std::max(far_sum - far_power[j], 0.0);
    const double near_others = std::max(near_sum - (may_be_on_centre ? 0.0 : near_power[j]), 0.0);
    const bool other_on_centre = possibly_on_centre > (may_be_on_centre ? 1U : 0U);
    high[j] = may_be_on_centre ? 1.0 : near_power[j] / (near_power[j] + far_others);
    low[j] = other_on_centre ? 0.0 : far_power[j] / (far_power[j] + near_others);
    high[j] = std::max(high[j], value[j]) * (1.0 + formula);
    low[j] = std::min(low[j], value[j]) * (1.0 - formula);
  }
}

} // namespace clusterbench
