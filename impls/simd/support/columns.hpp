// Points as the kernels with a lane a point want them: in blocks of `lanes` points, feature by
// feature. What lies beyond the last point repeats it, up to a multiple of kRoundUp.
#pragma once

#include "impls/simd/support/kernels.hpp"

#include <algorithm>
#include <span>
#include <vector>

namespace clusterbench::simd {

inline std::size_t rounded_up(std::size_t n) {
  return (n + kRoundUp - 1) / kRoundUp * kRoundUp;
}

/// points [n, d] row-major, less the origin [d] if there is one, as blocks of [d, lanes].
template <typename T>
std::vector<T> as_columns(std::span<const T> points, std::size_t n, std::size_t d,
                          std::size_t lanes, const T* origin = nullptr) {
  std::vector<T> columns(rounded_up(n) * d);
  for (std::size_t i = 0; i < rounded_up(n); ++i) {
    const T* x = &points[std::min(i, n - 1) * d];
    T* block = &columns[i / lanes * lanes * d + i % lanes];
    for (std::size_t f = 0; f < d; ++f) {
      block[f * lanes] = origin == nullptr ? x[f] : x[f] - origin[f];
    }
  }
  return columns;
}

} // namespace clusterbench::simd
