// The formulas that the oracle and the verifier share, in float64: squared Euclidean distance, the
// nearest centroid, the memberships of fuzzy c-means.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

namespace clusterbench {

/// sum((x - c)^2) over d features.
/// Eight running sums, because a single one would forbid the compiler to vectorise the loop.
template <typename T>
double squared_distance(const T* x, const double* c, std::size_t d) {
  constexpr std::size_t kLanes = 8;
  double lanes[kLanes] = {};
  std::size_t f = 0;
  for (; f + kLanes <= d; f += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const double difference = static_cast<double>(x[f + lane]) - c[f + lane];
      lanes[lane] += difference * difference;
    }
  }
  double rest = 0.0;
  for (; f < d; ++f) {
    const double difference = static_cast<double>(x[f]) - c[f];
    rest += difference * difference;
  }
  return ((lanes[0] + lanes[4]) + (lanes[1] + lanes[5])) +
         ((lanes[2] + lanes[6]) + (lanes[3] + lanes[7])) + rest;
}

/// base^exponent; fuzzifier 2 makes squares and reciprocals of it, which need no std::pow.
inline double power(double base, double exponent) {
  if (exponent == 1.0) {
    return base;
  }
  if (exponent == 2.0) {
    return base * base;
  }
  return std::pow(base, exponent);
}

/// Index of the smallest value; ties go to the lowest index.
/// Eight running minima, which the compiler keeps in one register, and then the first that is it.
inline std::size_t nearest(std::span<const double> squared_distances) {
  constexpr std::size_t kLanes = 8;
  const std::size_t k = squared_distances.size();
  double lanes[kLanes];
  std::fill(lanes, lanes + kLanes, squared_distances[0]);
  std::size_t j = 0;
  for (; j + kLanes <= k; j += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const double value = squared_distances[j + lane];
      lanes[lane] = value < lanes[lane] ? value : lanes[lane];
    }
  }
  double smallest = lanes[0];
  for (const double value : lanes) {
    smallest = std::min(smallest, value);
  }
  for (; j < k; ++j) {
    smallest = std::min(smallest, squared_distances[j]);
  }
  std::size_t best = 0;
  while (best + 1 < k && squared_distances[best] > smallest) {
    ++best;
  }
  return best;
}

/// u_j = 1 / sum_i (D_j / D_i)^(1 / (m - 1)) of one point, from its squared distances D.
/// Written with ratios to the smallest D, which cannot overflow. A point that coincides with
/// centres belongs to them in equal parts.
inline void fuzzy_memberships(std::span<const double> squared_distances, double fuzzifier,
                              std::span<double> memberships) {
  const double exponent = 1.0 / (fuzzifier - 1.0);
  const double smallest = squared_distances[nearest(squared_distances)];
  double sum = 0.0;
  for (std::size_t j = 0; j < memberships.size(); ++j) {
    const double distance = squared_distances[j];
    memberships[j] = distance == smallest ? 1.0 : power(smallest / distance, exponent);
    sum += memberships[j];
  }
  for (double& membership : memberships) {
    membership /= sum;
  }
}

/// The values of a matrix in float64.
template <typename T>
std::vector<double> to_float64(std::span<const T> values) {
  return {values.begin(), values.end()};
}

} // namespace clusterbench
