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

/// All threads: what a block's first warp reads, for all its threads. Where all warps of a launch read the same few
/// words, these come from a few places of the L2 cache, one after another.
template <typename Read>
__device__ double by_one_warp(Read read) {
  __shared__ double s_value;
  if (threadIdx.x < 32) {
    const double value = read();
    if (threadIdx.x == 0) {
      s_value = value;
    }
  }
  __syncthreads(); // the value is there
  return s_value;
}

/// Adds up values that other blocks left in memory, always in the same order. Whole warps; all lanes get it.
__device__ inline double sum_of_blocks(const double* values, unsigned blocks) {
  double sum = 0.0;
  for (unsigned block = threadIdx.x % 32; block < blocks; block += 32) {
    sum += __ldcg(values + block); // L1 could hold old ones
  }
  return over_lanes<32>(sum);
}

/// Adds up each of N values (a power of two, at most 32) over groups of N lanes; lane l gets the sum of value l % N of
/// its group. Each step halves the values that a lane carries, so that 32 values take 31 shuffles instead of 160.
template <unsigned N>
__device__ float transposing_sum(const float (&value)[N], unsigned lane) {
  if constexpr (N == 1) {
    return value[0];
  } else {
    float half[N / 2];
    const bool upper = (lane & (N / 2)) != 0;
#pragma unroll
    for (unsigned v = 0; v < N / 2; ++v) {
      const float given = upper ? value[v] : value[v + N / 2];
      const float kept = upper ? value[v + N / 2] : value[v];
      half[v] = kept + __shfl_xor_sync(kAllLanes, given, static_cast<int>(N / 2));
    }
    return transposing_sum(half, lane);
  }
}

} // namespace clusterbench::cuda
