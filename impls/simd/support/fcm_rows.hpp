// The two halves of fuzzy c-means on rows as they lie in memory, a lane a feature: all distances of
// a chunk of samples, and the chunk's weighted sums. What lies between, the memberships, is a few
// values per sample and left to the variant.
//
// A chunk's sums come from the second-level cache, where its distances have put it; meanwhile memory is
// asked for the next chunk.
//
// Distances and weights are [k, stride], sample by sample, so that memberships are computed in loops
// over samples, which vectorise without reordering any sum.
#pragma once

#include "impls/simd/support/pass_by_rows.hpp"

namespace clusterbench::simd {

template <class V>
void distances_of_rows(const Chunk<typename V::Scalar>& chunk, const typename V::Scalar* centres,
                       std::size_t k, typename V::Scalar* distances, std::size_t stride) {
  using T = typename V::Scalar;
  constexpr std::size_t kCentres = V::lanes < 4 ? V::lanes : 4;
  constexpr std::size_t kRows = V::lanes / kCentres;
  const std::size_t d = chunk.d;
  for (std::size_t i = 0; i < chunk.count; i += kRows) {
    const T* row[kRows];
#pragma GCC unroll 16
    for (std::size_t r = 0; r < kRows; ++r) { // beyond the last row: that row again
      row[r] = chunk.points + (i + r < chunk.count ? i + r : chunk.count - 1) * d;
    }
    for (std::size_t j = 0; j < k; j += kCentres) {
      const T* c[kCentres];
#pragma GCC unroll 16
      for (std::size_t t = 0; t < kCentres; ++t) { // beyond the last centre: that one again
        c[t] = centres + (j + t < k ? j + t : k - 1) * d;
      }
      T tile[V::lanes]; // [kCentres, kRows]
      V::store(tile, distances_of_tile<V, kRows, kCentres>(row, c, d));
      for (std::size_t t = 0; t < kCentres && j + t < k; ++t) {
        __builtin_memcpy(distances + (j + t) * stride + i, tile + t * kRows, kRows * sizeof(T));
      }
    }
  }
}

/// Adds the samples of a chunk to the sums of `Centres` centres, features f up to two registers on.
/// The sums stay in registers over the whole chunk and are written once.
template <class V, std::size_t Centres>
[[gnu::always_inline]] inline void weighted_sums(const Chunk<typename V::Scalar>& chunk,
                                                 const typename V::Scalar* weights,
                                                 std::size_t stride, std::size_t f, double* sums) {
  using T = typename V::Scalar;
  const std::size_t d = chunk.d;
  const std::size_t wide = d - f < 2 * V::lanes ? d - f : 2 * V::lanes; // features at hand
  const std::size_t first = wide < V::lanes ? wide : V::lanes;
  typename V::Reg sum[Centres][2] = {};
  const auto add = [&](std::size_t i, typename V::Reg x0, typename V::Reg x1)
      __attribute__((always_inline)) {
#pragma GCC unroll 8
    for (std::size_t j = 0; j < Centres; ++j) {
      const typename V::Reg weight = V::broadcast(weights[j * stride + i]);
      sum[j][0] = V::fma(weight, x0, sum[j][0]);
      sum[j][1] = V::fma(weight, x1, sum[j][1]);
    }
  };
  const T* x = chunk.points + f;
  const std::size_t next_chunk = chunk.count * d;
  if (wide == 2 * V::lanes) {
    for (std::size_t i = 0; i < chunk.count; ++i, x += d) {
      __builtin_prefetch(x + next_chunk, 0, 2);
      __builtin_prefetch(x + next_chunk + V::lanes, 0, 2);
      add(i, V::load(x), V::load(x + V::lanes));
    }
  } else {
    for (std::size_t i = 0; i < chunk.count; ++i, x += d) {
      add(i, V::load_first(x, first), V::load_first(x + first, wide - first));
    }
  }
  for (std::size_t j = 0; j < Centres; ++j) {
    for (std::size_t l = 0; l < wide; ++l) {
      sums[j * d + f + l] += double{sum[j][l / V::lanes][l % V::lanes]};
    }
  }
}

/// Adds the samples of a chunk, times their weights [k, stride], to sums [k, d].
template <class V>
void weighted_sums_of_rows(const Chunk<typename V::Scalar>& chunk,
                           const typename V::Scalar* weights, std::size_t k, std::size_t stride,
                           double* sums) {
  constexpr std::size_t kCentres = V::registers == 32 ? 8 : 4;
  for (std::size_t f = 0; f < chunk.d; f += 2 * V::lanes) {
    std::size_t j = 0;
    for (; j + kCentres <= k; j += kCentres) {
      weighted_sums<V, kCentres>(chunk, weights + j * stride, stride, f, sums + j * chunk.d);
    }
    for (; j < k; ++j) {
      weighted_sums<V, 1>(chunk, weights + j * stride, stride, f, sums + j * chunk.d);
    }
  }
}

} // namespace clusterbench::simd
