// Whether rows lie so far from the origin that rounded scores, whose errors grow with the square of the longest row,
// decide little. Plain C++ without CUDA.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace clusterbench::cuda {

/// Of [n, d] rows: the squared length of the longest one, in mean squared distances of a row from the mean of all. 0 if
/// all rows are the same.
inline double squared_length_to_spread(std::span<const float> rows, std::size_t d) {
  const std::size_t n = rows.size() / d;
  std::vector<double> sums(d, 0.0);
  double squares = 0.0, longest = 0.0;
  for (std::size_t i = 0; i < n; ++i) {
    double squared = 0.0;
    for (std::size_t f = 0; f < d; ++f) {
      const double x = rows[i * d + f], from_first = x - static_cast<double>(rows[f]);
      squared += x * x;
      sums[f] += from_first; // so that far away the spread does not drown
      squares += from_first * from_first;
    }
    longest = std::max(longest, squared);
  }
  const double count = static_cast<double>(n);
  double spread = n > 0 ? squares / count : 0.0;
  for (const double sum : sums) {
    spread -= n > 0 ? sum / count * (sum / count) : 0.0;
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
