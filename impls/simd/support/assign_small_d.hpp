// Labels of points with few features: a lane is a point, its features stay in registers while all
// centroids pass by, each value of a centroid broadcast from the cache.
//
// For k centroids and `lanes` points: k d subtractions and k d multiply-adds, and a comparison, a
// minimum and a selection for each centroid. Nothing is shuffled and nothing is stored but labels.
#pragma once

#include "impls/simd/support/kernels.hpp"
#include "impls/simd/support/vector.hpp"

namespace clusterbench::simd {

/// D features, Blocks registers of points at a time, so that one chain of dependent additions
/// hides the latency of another.
template <class V, std::size_t D, std::size_t Blocks>
void assign_small_d(const Chunk<typename V::Scalar>& chunk, const typename V::Scalar* centroids,
                    std::size_t k, std::int32_t* labels, typename V::Scalar* distances) {
  using T = typename V::Scalar;
  constexpr std::size_t kStep = Blocks * V::lanes;
  for (std::size_t i = 0; i < chunk.count; i += kStep) {
    typename V::Reg x[Blocks][D];
    typename V::Reg nearest[Blocks];
    typename V::Ints label[Blocks];
#pragma GCC unroll 16
    for (std::size_t b = 0; b < Blocks; ++b) {
#pragma GCC unroll 16
      for (std::size_t f = 0; f < D; ++f) {
        x[b][f] = V::load(chunk.columns + (i + b * V::lanes) * D + f * V::lanes);
      }
      nearest[b] = V::broadcast(static_cast<T>(__builtin_huge_val()));
      label[b] = V::broadcast_label(0);
    }
    const T* c = centroids;
    typename V::Ints this_one = V::broadcast_label(0);
    for (std::size_t j = 0; j < k; ++j, c += D) {
#pragma GCC unroll 16
      for (std::size_t b = 0; b < Blocks; ++b) {
        typename V::Reg away = x[b][0] - V::broadcast(c[0]);
        typename V::Reg distance = away * away;
#pragma GCC unroll 16
        for (std::size_t f = 1; f < D; ++f) {
          away = x[b][f] - V::broadcast(c[f]);
          distance = V::fma(away, away, distance);
        }
        label[b] = V::select(V::less(distance, nearest[b]), this_one, label[b]);
        nearest[b] = V::min(distance, nearest[b]);
      }
      this_one += 1;
    }
#pragma GCC unroll 16
    for (std::size_t b = 0; b < Blocks; ++b) {
      V::store_labels(labels + i + b * V::lanes, label[b]);
      if (distances != nullptr) {
        V::store(distances + i + b * V::lanes, nearest[b]);
      }
    }
  }
}

/// As many points at a time as leave half of the registers free.
template <class V, std::size_t D>
constexpr AssignKernel<typename V::Scalar> assign_small_d_kernel() {
  constexpr std::size_t kFit = V::registers / 2 / (D + 2);
  return assign_small_d<V, D, (kFit >= 4 ? 4 : kFit >= 2 ? 2 : 1)>;
}

} // namespace clusterbench::simd
