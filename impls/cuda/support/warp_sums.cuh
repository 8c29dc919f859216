// Sums over the lanes of a warp, of one value or of many at once, always in the same order.
#pragma once

#include <cuda_runtime.h>

namespace clusterbench::cuda {

inline constexpr unsigned kAllLanes = 0xffffffffu;

/// Adds up over lanes that differ in the bits below `width`; all of them get the same bits.
template <unsigned width, typename T>
__device__ T over_lanes(T value) {
#pragma unroll
  for (unsigned offset = width / 2; offset > 0; offset /= 2) {
    value += __shfl_xor_sync(kAllLanes, value, static_cast<int>(offset));
  }
  return value;
}

/// Adds up values that other blocks left in memory, always in the same order. Whole warps; all lanes get it.
__device__ inline double sum_of_blocks(const double* values, unsigned blocks) {
  double sum = 0.0;
  for (unsigned block = threadIdx.x % 32; block < blocks; block += 32) {
    sum += __ldcg(values + block); // L1 could hold old ones
  }
  return over_lanes<32>(sum);
}

/// Combines each of N values (a power of two, at most 32) over groups of N lanes; lane l gets what becomes of
/// value l % N of its group. Each step halves the values that a lane carries, so that 32 values take 31 shuffles
/// instead of 160.
template <unsigned N, typename T, typename Combine>
__device__ T transposing_fold(const T (&value)[N], unsigned lane, Combine combine) {
  if constexpr (N == 1) {
    return value[0];
  } else {
    T half[N / 2];
    const bool upper = (lane & (N / 2)) != 0;
#pragma unroll
    for (unsigned v = 0; v < N / 2; ++v) {
      const T given = upper ? value[v] : value[v + N / 2];
      const T kept = upper ? value[v + N / 2] : value[v];
      half[v] = combine(kept, __shfl_xor_sync(kAllLanes, given, static_cast<int>(N / 2)));
    }
    return transposing_fold(half, lane, combine);
  }
}
template <unsigned N>
__device__ float transposing_sum(const float (&value)[N], unsigned lane) {
  return transposing_fold(value, lane, [](float a, float b) { return a + b; });
}

/// Adds up any number of values over the warp, 32 at a time, into totals[0 ... V).
template <unsigned V, unsigned first = 0>
__device__ void sum_over_warp(const float (&values)[V], unsigned lane, float* totals) {
  if constexpr (first < V) {
    constexpr unsigned kCount = V - first < 32 ? V - first : 32;
    constexpr unsigned kWidth = kCount > 16 ? 32 : kCount > 8 ? 16 : kCount > 4 ? 8 : 4;
    float part[kWidth];
#pragma unroll
    for (unsigned v = 0; v < kWidth; ++v) {
      part[v] = v < kCount ? values[first + v] : 0.0f;
    }
    float total = transposing_sum(part, lane);
#pragma unroll
    for (unsigned offset = kWidth; offset < 32; offset *= 2) { // over the groups
      total += __shfl_xor_sync(kAllLanes, total, static_cast<int>(offset));
    }
    if (lane < kCount) {
      totals[first + lane] = total;
    }
    sum_over_warp<V, first + kCount>(values, lane, totals);
  }
}

} // namespace clusterbench::cuda
