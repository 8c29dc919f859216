// Sums of few values per cluster: a lane is a point, and each cluster's sums are registers to which
// a point is added where the lane's label says so. No memory is written while points stream by.
//
// A sweep over the chunk serves as many sums as fit the registers; k d beyond that takes more
// sweeps, so the cost is k d additions for every register of points.
#pragma once

#include "impls/simd/support/kernels.hpp"
#include "impls/simd/support/vector.hpp"

namespace clusterbench::simd {

template <typename T>
struct SumSweep {
  std::size_t feature, cluster; ///< the first of each
  const Chunk<T>& chunk;
  const std::int32_t* labels;
  double* sums;
  double* counts;
};

/// One sweep for Features features of Clusters clusters.
template <class V, std::size_t Features, std::size_t Clusters>
void sweep_sums(const SumSweep<typename V::Scalar>& sweep) {
  const std::size_t d = sweep.chunk.d;
  typename V::Reg sum[Clusters][Features] = {};
  typename V::Counter count[Clusters] = {};
  typename V::Ints cluster[Clusters];
  for (std::size_t j = 0; j < Clusters; ++j) {
    cluster[j] = V::broadcast_label(sweep.cluster + j);
  }
  for (std::size_t i = 0; i < sweep.chunk.count; i += V::lanes) {
    const typename V::Ints label = V::load_labels(sweep.labels + i);
    typename V::Reg x[Features];
#pragma GCC unroll 16
    for (std::size_t f = 0; f < Features; ++f) {
      x[f] = V::load(sweep.chunk.columns + i * d + (sweep.feature + f) * V::lanes);
    }
#pragma GCC unroll 16
    for (std::size_t j = 0; j < Clusters; ++j) {
      const typename V::Mask here = V::equal(label, cluster[j]);
      V::count(count[j], here);
#pragma GCC unroll 16
      for (std::size_t f = 0; f < Features; ++f) {
        sum[j][f] = V::add_where((f + j) % 2 == 1, here, sum[j][f], x[f]);
      }
    }
  }
  for (std::size_t j = 0; j < Clusters; ++j) {
    for (std::size_t f = 0; f < Features; ++f) {
      sweep.sums[(sweep.cluster + j) * d + sweep.feature + f] += total<V>(sum[j][f]);
    }
    if (sweep.feature == 0) { // every group of features counts, one is believed
      sweep.counts[sweep.cluster + j] += V::total(count[j]);
    }
  }
}

template <class V, std::size_t Features>
using Sweep = void (*)(const SumSweep<typename V::Scalar>&);

/// All clusters, for Features features; Sums registers may hold sums.
template <class V, std::size_t Features>
void sweep_clusters(SumSweep<typename V::Scalar> sweep, std::size_t k) {
  constexpr std::size_t kSums = V::registers == 32 ? 20 : 8;
  constexpr std::size_t kMost = kSums / Features < 8 ? kSums / Features : 8;
  for (; sweep.cluster + kMost <= k; sweep.cluster += kMost) {
    sweep_sums<V, Features, kMost>(sweep);
  }
  const std::size_t rest = k - sweep.cluster;
  if constexpr (kMost > 4) {
    if (rest > 4) {
      switch (rest) {
      case 5:
        return sweep_sums<V, Features, 5>(sweep);
      case 6:
        return sweep_sums<V, Features, 6>(sweep);
      default:
        return sweep_sums<V, Features, 7>(sweep);
      }
    }
  }
  switch (rest) {
  case 0:
    return;
  case 1:
    return sweep_sums<V, Features, 1>(sweep);
  case 2:
    return sweep_sums<V, Features, 2>(sweep);
  case 3:
    return sweep_sums<V, Features, 3>(sweep);
  default:
    return sweep_sums<V, Features, 4>(sweep);
  }
}

template <class V>
void sum_by_mask(const Chunk<typename V::Scalar>& chunk, const std::int32_t* labels, std::size_t k,
                 typename V::Scalar* /*scratch*/, double* sums, double* counts) {
  for (std::size_t f = 0; f < chunk.d;) {
    const SumSweep<typename V::Scalar> sweep{f, 0, chunk, labels, sums, counts};
    // 5 = 3 + 2, 9 = 3 + 3 + 3: groups of three leave registers for four clusters and more.
    switch (chunk.d - f) {
    case 1:
      sweep_clusters<V, 1>(sweep, k);
      f += 1;
      break;
    case 2:
    case 4:
      sweep_clusters<V, 2>(sweep, k);
      f += 2;
      break;
    default:
      sweep_clusters<V, 3>(sweep, k);
      f += 3;
      break;
    }
  }
}

} // namespace clusterbench::simd
