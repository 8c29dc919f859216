// A clustering task as the harness sees it, all of it at once. A variant sees it in parts: the
// shape, then the points, then the start.
#pragma once

#include "impls/contract.hpp"

#include <cstddef>
#include <numeric>
#include <span>

namespace clusterbench {

/// One clustering task, in the precision of its cell, in host memory that somebody else owns.
template <typename T>
struct Problem {
  std::size_t n = 0;              ///< points
  std::size_t d = 0;              ///< features
  std::size_t k = 0;              ///< clusters
  std::span<const T> points;      ///< [n, d] row-major
  std::span<const T> weights;     ///< [n] of the points (k-means); empty: all are 1
  std::span<const T> centroids;   ///< [k, d] initial state; empty if FCM starts from memberships
  std::span<const T> memberships; ///< [n, k] initial state of FCM; empty if it starts from centres
  StopRule stop;
  double fuzzifier = 2.0; ///< m of FCM, > 1
  int threads = 1;        ///< CPU threads that a variant may use

  Shape shape() const {
    return {.n = n,
            .d = d,
            .k = k,
            .stop = stop,
            .fuzzifier = fuzzifier,
            .starts_from_memberships = centroids.empty(),
            .weighted = !weights.empty(),
            .threads = threads};
  }
  Start<T> start() const { return {centroids, memberships}; }

  double weight(std::size_t row) const {
    return weights.empty() ? 1.0 : static_cast<double>(weights[row]);
  }
  /// Of all points: n where they have no weights. Costs a look at the weights.
  double total_weight() const {
    return weights.empty() ? static_cast<double>(n)
                           : std::accumulate(weights.begin(), weights.end(), 0.0);
  }
};

} // namespace clusterbench
