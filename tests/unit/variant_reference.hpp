// A reference in double for one pass of k-means or fuzzy c-means, for the tests of variants: plain
// loops, with a note of every label that rounding may decide.
#pragma once

#include "tests/unit/variant_cases.hpp"

#include <limits>
#include <utility>

namespace clusterbench::variant_tests {

template <typename T>
double squared_distance(const T* x, const T* c, std::size_t d) {
  double sum = 0.0;
  for (std::size_t f = 0; f < d; ++f) {
    sum += (double{x[f]} - double{c[f]}) * (double{x[f]} - double{c[f]});
  }
  return sum;
}

/// One pass of the reference.
struct Step {
  std::vector<std::int32_t> labels;
  std::vector<bool> unsure; ///< [n] rounding may decide the label
  Doubles centroids, memberships;
  double loss = 0.0;
};

template <typename T>
Doubles weighted_means(const Case<T>& test, const Doubles& weights, const std::vector<T>& old) {
  Doubles means(old.begin(), old.end());
  for (std::size_t j = 0; j < test.k; ++j) {
    long double total = 0.0;
    for (std::size_t i = 0; i < test.n; ++i) {
      total += weights[i * test.k + j];
    }
    for (std::size_t f = 0; f < test.d && total > 0.0; ++f) {
      long double sum = 0.0;
      for (std::size_t i = 0; i < test.n; ++i) {
        sum += weights[i * test.k + j] * static_cast<long double>(test.points[i * test.d + f]);
      }
      means[j * test.d + f] = static_cast<double>(sum / total);
    }
  }
  return means;
}

template <typename T>
Step kmeans_step(const Case<T>& test, const std::vector<T>& entering) {
  const double rounding = 8.0 * std::sqrt(double(test.d) + 8.0) * std::numeric_limits<T>::epsilon();
  const std::vector<T> origin(test.d);
  Step step;
  Doubles weights(test.n * test.k);
  for (std::size_t i = 0; i < test.n; ++i) {
    const T* x = &test.points[i * test.d];
    Doubles distances;
    for (std::size_t j = 0; j < test.k; ++j) {
      distances.push_back(squared_distance(x, &entering[j * test.d], test.d));
    }
    const auto best = std::ranges::min_element(distances) - distances.begin();
    const double smallest = distances[static_cast<std::size_t>(best)];
    bool unsure = false;
    for (std::size_t j = 0; j < test.k; ++j) {
      const double size = squared_distance(x, origin.data(), test.d) +
                          squared_distance(&entering[j * test.d], origin.data(), test.d);
      unsure |= std::cmp_not_equal(j, best) && distances[j] - smallest <= rounding * size;
    }
    step.labels.push_back(static_cast<std::int32_t>(best));
    step.unsure.push_back(unsure);
    const double weight = test.weights.empty() ? 1.0 : double{test.weights[i]};
    step.loss += weight * std::sqrt(smallest);
    weights[i * test.k + static_cast<std::size_t>(best)] = weight;
  }
  step.centroids = weighted_means(test, weights, entering);
  return step;
}

inline Doubles powers(const Doubles& values, double exponent) {
  Doubles result;
  std::ranges::transform(values, std::back_inserter(result),
                         [&](double value) { return std::pow(value, exponent); });
  return result;
}

/// Memberships by the textbook's double sum, in the centres that enter.
template <typename T>
Step fcm_memberships(const Case<T>& test, const std::vector<T>& centres) {
  Step step;
  for (std::size_t i = 0; i < test.n; ++i) {
    Doubles distances;
    for (std::size_t j = 0; j < test.k; ++j) {
      distances.push_back(squared_distance(&test.points[i * test.d], &centres[j * test.d], test.d));
    }
    const auto zeros = static_cast<double>(std::ranges::count(distances, 0.0));
    for (const double distance : distances) {
      double sum = 0.0;
      for (const double other : distances) {
        sum += std::pow(distance / other, 1.0 / (test.fuzzifier - 1.0));
      }
      const double u = zeros > 0.0 ? (distance == 0.0 ? 1.0 / zeros : 0.0) : 1.0 / sum;
      step.memberships.push_back(u);
      step.loss += std::pow(u, test.fuzzifier) * distance;
    }
  }
  return step;
}

} // namespace clusterbench::variant_tests
