#include "harness/judge/distance_table.hpp"

#include "harness/judge/float64_math.hpp"
#include "harness/judge/origin.hpp"

#include <algorithm>
#include <array>
#include <cmath>
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
    : points_(problem.points), d_(problem.d), kernel_(to_float64(centroids), problem.k, problem.d),
      rounding_(declared, unit_roundoff<T>, smallest_normal<T>, problem.d,
                largest_coordinate_if_integers(problem, centroids)) {
  if (rounding_.uses_norms()) {
    Origin origin = origin_of(declared, problem);
    const std::vector<double> zero(d_);
    origin_in_doubt_ = std::sqrt(squared_distance(origin.in_doubt.data(), zero.data(), d_));
    origin_ = std::move(origin.at);
    for (std::size_t j = 0; j < problem.k; ++j) {
      const T* const c = centroids.data() + j * d_;
      norms_.push_back(std::sqrt(squared_distance(c, origin_.data(), d_)) + origin_in_doubt_);
      lengths_.push_back(std::sqrt(squared_distance(c, zero.data(), d_)));
    }
  }
}

template <typename T>
std::span<const double> DistanceTable<T>::measure(std::size_t row, Scratch& scratch) const {
  const std::array<const T*, 1> rows = {point(row)};
  kernel_.measure(std::span<const T* const>(rows), scratch);
  return scratch.of(0);
}

template <typename T>
void DistanceTable<T>::errors(std::size_t row, std::span<const double> squared,
                              std::span<double> error) const {
  if (rounding_.uses_norms()) {
    const double x_norm = norm(row);
    for (std::size_t j = 0; j < squared.size(); ++j) {
      error[j] = error_of(x_norm, j, squared[j]);
    }
    return;
  }
  const DistanceRounding rounding = rounding_; // which what is written below cannot change
  for (std::size_t j = 0; j < squared.size(); ++j) {
    error[j] = rounding.of(squared[j], 0.0, 0.0, 0.0);
  }
}

template <typename T>
double DistanceTable<T>::error(std::size_t row, std::size_t j, double squared) const {
  return error_of(norm(row), j, squared);
}

template <typename T>
double DistanceTable<T>::norm(std::size_t row) const {
  return rounding_.uses_norms()
             ? std::sqrt(squared_distance(point(row), origin_.data(), d_)) + origin_in_doubt_
             : 0.0;
}

template <typename T>
double DistanceTable<T>::error_of(double x_norm, std::size_t j, double squared) const {
  return rounding_.uses_norms() ? rounding_.of(squared, x_norm, norms_[j], lengths_[j])
                                : rounding_.of(squared, 0.0, 0.0, 0.0);
}

template class DistanceTable<float>;
template class DistanceTable<double>;

} // namespace clusterbench
