#include "harness/judge/distance_table.hpp"

#include "harness/judge/float64_math.hpp"
#include "harness/judge/origin.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

namespace clusterbench {
namespace {

template <typename T>
std::optional<double> largest_coordinate_if_integers(const Problem<T>& problem,
                                                     std::span<const T> centroids) {
  const auto of_centroids = largest_if_integers(centroids);
  const auto of_points = of_centroids ? largest_if_integers(problem.points) : std::nullopt;
  return of_points ? std::optional(std::max(*of_points, *of_centroids)) : std::nullopt;
}

} // namespace

template <typename T>
DistanceTable<T>::DistanceTable(const Declaration& declared, const Problem<T>& problem,
                                std::span<const T> centroids)
    : problem_(problem), centroids_(to_float64(centroids)),
      rounding_(declared, unit_roundoff<T>, problem.d,
                largest_coordinate_if_integers(problem, centroids)) {
  if (rounding_.uses_norms()) {
    Origin origin = origin_of(declared, problem);
    const std::vector<double> zero(problem_.d);
    origin_in_doubt_ = std::sqrt(squared_distance(origin.in_doubt.data(), zero.data(), problem_.d));
    origin_ = std::move(origin.at);
    for (std::size_t j = 0; j < problem_.k; ++j) {
      const double* const c = centroids_.data() + j * problem_.d;
      norms_.push_back(std::sqrt(squared_distance(c, origin_.data(), problem_.d)) +
                       origin_in_doubt_);
      lengths_.push_back(std::sqrt(squared_distance(c, zero.data(), problem_.d)));
    }
  }
}

template <typename T>
void DistanceTable<T>::measure(std::size_t row, std::span<double> squared,
                               std::span<double> error) const {
  const T* const x = problem_.points.data() + row * problem_.d;
  const bool norms = rounding_.uses_norms();
  const double x_norm =
      norms ? std::sqrt(squared_distance(x, origin_.data(), problem_.d)) + origin_in_doubt_ : 0.0;
  for (std::size_t j = 0; j < problem_.k; ++j) {
    squared[j] = squared_distance(x, centroids_.data() + j * problem_.d, problem_.d);
    error[j] = norms ? rounding_.of(squared[j], x_norm, norms_[j], lengths_[j])
                     : rounding_.of(squared[j], 0.0, 0.0, 0.0);
  }
}

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

template class DistanceTable<float>;
template class DistanceTable<double>;

} // namespace clusterbench
