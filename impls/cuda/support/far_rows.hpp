// Whether rows lie so far from the origin that rounded scores, whose errors grow with the square of
// the longest row, decide little. Plain C++ without CUDA: device_magnitudes.cuh measures rows in
// device memory.
#pragma once

#include "impls/cuda/support/certified_bound.hpp"

#include <cstddef>
#include <string>

namespace clusterbench::cuda {

/// How far the values of one feature spread: sums of their differences from the first one, so that
/// far away the spread does not drown.
struct FeatureSpread {
  double sum, squares;

  CLUSTERBENCH_HOST_DEVICE void add(float value, float first) {
    const double from_first = static_cast<double>(value) - static_cast<double>(first);
    sum += from_first;
    squares += from_first * from_first;
  }
  /// The mean squared distance of `count` values from their mean.
  CLUSTERBENCH_HOST_DEVICE double of(double count) const {
    return squares / count - sum / count * (sum / count);
  }
};

/// Why rows are left to variants with exact products; empty if they are not. longest: length of a
/// row; spread: mean squared distance of a row from the mean of all. The more centroids there are,
/// the more rows lie between two of them. Where that begins to be slower was measured on mixtures
/// (docs/ladder/any_shape.md).
inline std::string refuse_far_rows(double longest, double spread, std::size_t k) {
  constexpr double kFar = 4e5;
  const double squared = longest * longest * static_cast<double>(k * k);
  return !(spread > 0.0) || squared <= kFar * spread
             ? ""
             : "rows so far from the origin that rounded scores of " + std::to_string(k) +
                   " centroids decide little: exact products, or rows moved to their mean, are "
                   "faster";
}

} // namespace clusterbench::cuda
