// One pass of k-means whose products are of numbers with fewer digits, as tensor cores make them.
#pragma once

#include "tests/verify/run_variant.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace clusterbench {

/// Digits of a significand, the leading one included.
constexpr int kTf32Digits = 11; // and float16's
constexpr int kBf16Digits = 8;
constexpr int kFloatDigits = 24;

inline double with_digits(double value, int digits) {
  int exponent = 0;
  const double significand = std::frexp(value, &exponent);
  return std::ldexp(std::nearbyint(std::ldexp(significand, digits)), exponent - digits);
}

/// The means of labels, in float64, rounded to T; an empty cluster keeps its centroid.
template <typename T>
std::vector<T> means_of(const Problem<T>& problem, const std::vector<std::int32_t>& labels) {
  const std::size_t d = problem.d;
  std::vector<double> sums(problem.k * d), counts(problem.k);
  for (std::size_t i = 0; i < problem.n; ++i) {
    const auto j = static_cast<std::size_t>(labels[i]);
    counts[j] += 1.0;
    for (std::size_t f = 0; f < d; ++f) {
      sums[j * d + f] += static_cast<double>(problem.points[i * d + f]);
    }
  }
  std::vector<T> means(problem.centroids.begin(), problem.centroids.end());
  for (std::size_t i = 0; i < means.size(); ++i) {
    if (counts[i / d] > 0.0) {
      means[i] = static_cast<T>(sums[i] / counts[i / d]);
    }
  }
  return means;
}

/// From the problem's start: |c|^2 - 2 x.c with x and c rounded to so many digits and all else in
/// float64. narrow_norms: |c|^2 is that of the rounded c.
template <typename T>
OwnedAnswer<T> narrow_pass(const Problem<T>& problem, int digits, bool narrow_norms) {
  const std::size_t d = problem.d;
  std::vector<double> centroids, norms;
  for (std::size_t j = 0; j < problem.k; ++j) {
    double norm = 0.0;
    for (std::size_t f = 0; f < d; ++f) {
      const double c = static_cast<double>(problem.centroids[j * d + f]);
      centroids.push_back(with_digits(c, digits));
      norm += narrow_norms ? centroids.back() * centroids.back() : c * c;
    }
    norms.push_back(norm);
  }
  OwnedAnswer<T> answer;
  std::vector<double> x(d), scores(problem.k);
  for (std::size_t i = 0; i < problem.n; ++i) {
    for (std::size_t f = 0; f < d; ++f) {
      x[f] = with_digits(static_cast<double>(problem.points[i * d + f]), digits);
    }
    for (std::size_t j = 0; j < problem.k; ++j) {
      double product = 0.0;
      for (std::size_t f = 0; f < d; ++f) {
        product += x[f] * centroids[j * d + f];
      }
      scores[j] = norms[j] - 2.0 * product;
    }
    answer.labels.push_back(
        static_cast<std::int32_t>(std::ranges::min_element(scores) - scores.begin()));
  }
  answer.centroids = means_of(problem, answer.labels);
  answer.entering.assign(problem.centroids.begin(), problem.centroids.end());
  answer.iterations = 1;
  return answer;
}

} // namespace clusterbench
