// Labels of points with many features and few centroids: a lane is a feature, rows are read as they
// lie in memory, and each value once. The limit is the memory that the points stream from.
//
// A tile of a few rows by up to four centroids is kept in registers, as many partial distances as a
// register has lanes; they are added up together by transposed_totals().
#pragma once

#include "impls/simd/support/kernels.hpp"
#include "impls/simd/support/vector.hpp"

namespace clusterbench::simd {

/// Squared distances of Rows rows to Centroids centroids, [Rows, Centroids]; Rows * Centroids is
/// the number of lanes.
template <class V, std::size_t Rows, std::size_t Centroids>
[[gnu::always_inline]] inline typename V::Reg
distances_of_tile(const typename V::Scalar* const (&row)[Rows],
                  const typename V::Scalar* const (&c)[Centroids], std::size_t d) {
  typename V::Reg sum[V::lanes] = {};
  const auto add = [&](auto load) __attribute__((always_inline)) {
    typename V::Reg x[Rows];
#pragma GCC unroll 16
    for (std::size_t r = 0; r < Rows; ++r) {
      x[r] = load(row[r]);
    }
#pragma GCC unroll 16
    for (std::size_t t = 0; t < Centroids; ++t) {
      const typename V::Reg value = load(c[t]);
#pragma GCC unroll 16
      for (std::size_t r = 0; r < Rows; ++r) {
        const typename V::Reg away = x[r] - value;
        sum[r * Centroids + t] = V::fma(away, away, sum[r * Centroids + t]);
      }
    }
  };
  std::size_t f = 0;
  for (; f + V::lanes <= d; f += V::lanes) {
    add([f](const typename V::Scalar* p) __attribute__((always_inline)) { return V::load(p + f); });
  }
  if (f < d) {
    add([ f, d ](const typename V::Scalar* p)
            __attribute__((always_inline)) { return V::load_first(p + f, d - f); });
  }
  return transposed_totals<V>(sum);
}

template <class V>
void assign_rows(const Chunk<typename V::Scalar>& chunk, const typename V::Scalar* centroids,
                 std::size_t k, std::int32_t* labels, typename V::Scalar* distances) {
  using T = typename V::Scalar;
  constexpr std::size_t kCentroids = V::lanes < 4 ? V::lanes : 4;
  constexpr std::size_t kRows = V::lanes / kCentroids;
  const std::size_t d = chunk.d;
  for (std::size_t i = 0; i < chunk.count; i += kRows) {
    const T* row[kRows];
#pragma GCC unroll 16
    for (std::size_t r = 0; r < kRows; ++r) { // beyond the last row: that row again
      row[r] = chunk.points + (i + r < chunk.count ? i + r : chunk.count - 1) * d;
    }
    T nearest[kRows];
    std::int32_t label[kRows];
    for (std::size_t r = 0; r < kRows; ++r) {
      nearest[r] = static_cast<T>(__builtin_huge_val());
      label[r] = 0;
    }
    for (std::size_t j = 0; j < k; j += kCentroids) {
      const T* c[kCentroids];
#pragma GCC unroll 16
      for (std::size_t t = 0; t < kCentroids; ++t) { // beyond the last: it cannot win a second time
        c[t] = centroids + (j + t < k ? j + t : k - 1) * d;
      }
      T distance[V::lanes];
      V::store(distance, distances_of_tile<V, kRows, kCentroids>(row, c, d));
#pragma GCC unroll 16
      for (std::size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
        for (std::size_t t = 0; t < kCentroids; ++t) {
          const bool nearer = distance[r * kCentroids + t] < nearest[r];
          nearest[r] = nearer ? distance[r * kCentroids + t] : nearest[r];
          label[r] = nearer ? static_cast<std::int32_t>(j + t) : label[r];
        }
      }
    }
    for (std::size_t r = 0; r < kRows; ++r) {
      labels[i + r] = label[r];
      if (distances != nullptr) {
        distances[i + r] = nearest[r];
      }
    }
  }
}

} // namespace clusterbench::simd
