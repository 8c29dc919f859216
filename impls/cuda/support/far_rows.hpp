// Whether rows lie so far from the origin that rounded scores, whose errors grow with the square of the longest row,
// decide little. Plain C++ without CUDA.
#pragma once

#include "impls/cuda/support/magnitudes.hpp"

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace clusterbench::cuda {

/// Of [n, d] rows: the squared length of the longest one, in mean squared distances of a row from the mean of all. 0 if
/// all rows are the same.
inline double squared_length_to_spread(std::span<const float> rows, std::size_t d) {
  const std::size_t n = rows.size() / d;
  if (n == 0) {
    return 0.0;
  }
  // Of differences from the first row, so that far away the spread does not drown.
  std::vector<double> sums(d, 0.0), squares(d, 0.0);
  double longest = 0.0;
  for (std::size_t i = 0; i < n; ++i) {
    const auto row = rows.subspan(i * d, d);
    for (std::size_t f = 0; f < d; ++f) {
      const double from_first = static_cast<double>(row[f]) - static_cast<double>(rows[f]);
      sums[f] += from_first;
      squares[f] += from_first * from_first;
    }
    longest = std::max(longest, squared_length(row));
  }
  const double count = static_cast<double>(n);
  double spread = 0.0;
  for (std::size_t f = 0; f < d; ++f) {
    spread += squares[f] / count - sums[f] / count * (sums[f] / count);
  }
  return spread > 0.0 ? longest / spread : 0.0;
}

/// Whether variants that decide by rounded scores are slower than exact products: the more centroids there are, the
/// more rows lie between two of them. Where that begins was measured on mixtures (docs/ladder/any_shape.md).
inline bool are_far_from_origin(std::span<const float> rows, std::size_t d, std::size_t k) {
  constexpr double kFar = 4e5;
  return static_cast<double>(k * k) * squared_length_to_spread(rows, d) > kFar;
}

} // namespace clusterbench::cuda
