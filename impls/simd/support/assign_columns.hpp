// Labels of points with any number of features: a tile of distances in registers, two registers of
// points by a few centroids, grows feature by feature.
//
// A value of a point is loaded once for kCentroids distances and a value of a centroid once for two
// registers of points, so that arithmetic and not the cache is the limit.
#pragma once

#include "impls/simd/support/kernels.hpp"
#include "impls/simd/support/vector.hpp"

namespace clusterbench::simd {

/// Squared distances of 2 * lanes points to Centroids centroids in a row, compared with the nearest
/// so far.
template <class V, std::size_t Centroids>
[[gnu::always_inline]] inline void
nearer_of_tile(const typename V::Scalar* x, const typename V::Scalar* c, std::size_t d,
               std::size_t j, typename V::Reg (&nearest)[2], typename V::Ints (&label)[2]) {
  typename V::Reg distance[Centroids][2] = {};
  const std::size_t block = d * V::lanes;
  for (std::size_t f = 0; f < d; ++f) {
    const typename V::Reg x0 = V::load(x + f * V::lanes);
    const typename V::Reg x1 = V::load(x + block + f * V::lanes);
#pragma GCC unroll 8
    for (std::size_t t = 0; t < Centroids; ++t) {
      const typename V::Reg value = V::broadcast(c[t * d + f]);
      const typename V::Reg away0 = x0 - value;
      const typename V::Reg away1 = x1 - value;
      distance[t][0] = V::fma(away0, away0, distance[t][0]);
      distance[t][1] = V::fma(away1, away1, distance[t][1]);
    }
  }
#pragma GCC unroll 8
  for (std::size_t t = 0; t < Centroids; ++t) {
    const typename V::Ints this_one = V::broadcast_label(j + t);
#pragma GCC unroll 2
    for (std::size_t b = 0; b < 2; ++b) {
      label[b] = V::select(V::less(distance[t][b], nearest[b]), this_one, label[b]);
      nearest[b] = V::min(distance[t][b], nearest[b]);
    }
  }
}

template <class V>
void assign_columns(const Chunk<typename V::Scalar>& chunk, const typename V::Scalar* centroids,
                    std::size_t k, std::int32_t* labels, typename V::Scalar* distances) {
  using T = typename V::Scalar;
  constexpr std::size_t kCentroids = V::registers == 32 ? 8 : 4;
  const std::size_t d = chunk.d;
  for (std::size_t i = 0; i < chunk.count; i += 2 * V::lanes) {
    const T* x = chunk.columns + i * d;
    const typename V::Reg infinite = V::broadcast(static_cast<T>(__builtin_huge_val()));
    typename V::Reg nearest[2] = {infinite, infinite};
    typename V::Ints label[2] = {V::broadcast_label(0), V::broadcast_label(0)};
    std::size_t j = 0;
    for (; j + kCentroids <= k; j += kCentroids) {
      nearer_of_tile<V, kCentroids>(x, centroids + j * d, d, j, nearest, label);
    }
    for (; j < k; ++j) {
      nearer_of_tile<V, 1>(x, centroids + j * d, d, j, nearest, label);
    }
#pragma GCC unroll 2
    for (std::size_t b = 0; b < 2; ++b) {
      V::store_labels(labels + i + b * V::lanes, label[b]);
      if (distances != nullptr) {
        V::store(distances + i + b * V::lanes, nearest[b]);
      }
    }
  }
}

} // namespace clusterbench::simd
