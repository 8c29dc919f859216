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
