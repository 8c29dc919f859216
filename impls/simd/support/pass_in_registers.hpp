// Labels and sums at once, for so few clusters and features that the distances of a register of
// points and all sums are registers: nothing is written while points stream by.
//
// The mask of a cluster's points is the comparison of its distance with the smallest; it is used at
// once for the masked additions, so labels need not be made unless somebody asks for them. A tie
// goes to the lowest index, because a lane that has been taken is compared no more; what is left at
// the end belongs to the last cluster without a comparison.
#pragma once

#include "impls/simd/support/kernels.hpp"
#include "impls/simd/support/vector.hpp"

namespace clusterbench::simd {

/// The sums of K clusters in D features, and the labels of one register of points on the way.
template <class V, std::size_t D, std::size_t K>
struct PassRegisters {
  using T = typename V::Scalar;
  typename V::Reg sum[K][D] = {};
  typename V::Counter count[K] = {};

  /// valid: the lanes that hold points. Labels are stored if WithLabels; distances if not null.
  template <bool WithLabels>
  [[gnu::always_inline]] void step(const T* columns, const T* centroids, typename V::Mask valid,
                                   std::int32_t* labels, T* distances) {
    typename V::Reg x[D];
#pragma GCC unroll 16
    for (std::size_t f = 0; f < D; ++f) {
      x[f] = V::load(columns + f * V::lanes);
    }
    typename V::Reg distance[K];
#pragma GCC unroll 16
    for (std::size_t j = 0; j < K; ++j) {
      typename V::Reg away = x[0] - V::broadcast(centroids[j * D]);
      distance[j] = away * away;
#pragma GCC unroll 16
      for (std::size_t f = 1; f < D; ++f) {
        away = x[f] - V::broadcast(centroids[j * D + f]);
        distance[j] = V::fma(away, away, distance[j]);
      }
    }
    typename V::Reg nearest = distance[0];
#pragma GCC unroll 16
    for (std::size_t j = 1; j < K; ++j) {
      nearest = V::min(nearest, distance[j]);
    }
    typename V::Ints label = V::broadcast_label(K - 1);
#pragma GCC unroll 16
    for (std::size_t j = 0; j < K; ++j) {
      const typename V::Mask here =
          j + 1 < K ? V::less_or_equal_where(valid, distance[j], nearest) : valid;
      valid = V::without(valid, here);
      V::count(count[j], here);
#pragma GCC unroll 16
      for (std::size_t f = 0; f < D; ++f) {
        sum[j][f] = V::add_where((f + j) % 2 == 1, here, sum[j][f], x[f]);
      }
      if constexpr (WithLabels) {
        label = V::select(here, V::broadcast_label(j), label);
      }
    }
    if constexpr (WithLabels) {
      V::store_labels(labels, label);
      if (distances != nullptr) {
        V::store(distances, nearest);
      }
    }
  }
};

template <class V, std::size_t D, std::size_t K, bool WithLabels>
[[gnu::always_inline]] inline void
pass_in_registers(const Chunk<typename V::Scalar>& chunk, const typename V::Scalar* centroids,
                  std::int32_t* labels, typename V::Scalar* distances, double* sums,
                  double* counts) {
  PassRegisters<V, D, K> registers;
  const std::size_t whole = chunk.count / V::lanes * V::lanes;
  const auto step = [&](std::size_t i, typename V::Mask valid) __attribute__((always_inline)) {
    registers.template step<WithLabels>(chunk.columns + i * D, centroids, valid, labels + i,
                                        distances == nullptr ? nullptr : distances + i);
  };
  for (std::size_t i = 0; i < whole; i += V::lanes) {
    step(i, V::first(V::lanes));
  }
  if (whole < chunk.count) {
    step(whole, V::first(chunk.count - whole));
  }
  for (std::size_t j = 0; j < K; ++j) {
    counts[j] += V::total(registers.count[j]);
    for (std::size_t f = 0; f < D; ++f) {
      sums[j * D + f] += total<V>(registers.sum[j][f]);
    }
  }
}

/// D features, K clusters. labels may be null, and then distances are, too.
template <class V, std::size_t D, std::size_t K>
void pass_in_registers(const Chunk<typename V::Scalar>& chunk, const typename V::Scalar* centroids,
                       std::size_t /*k*/, std::int32_t* labels, typename V::Scalar* distances,
                       typename V::Scalar* /*scratch*/, double* sums, double* counts) {
  if (labels == nullptr) {
    pass_in_registers<V, D, K, false>(chunk, centroids, labels, distances, sums, counts);
  } else {
    pass_in_registers<V, D, K, true>(chunk, centroids, labels, distances, sums, counts);
  }
}

} // namespace clusterbench::simd
