// Sums that every lane of every warp keeps in shared memory, [warp, value, lane]: no two lanes meet in
// one place or in one bank.
#pragma once

#include "impls/cuda/support/warp_sums.cuh"

#include <cuda_runtime.h>

namespace clusterbench::cuda {

/// Makes the block's sums, s_totals [values], and clears those of its lanes: a warp adds up four values at a time over
/// the lanes of all warps. A barrier must come before, and another one follow.
template <unsigned kThreads>
__device__ void add_up_lanes(float* s_sums, unsigned values, double* s_totals) {
  constexpr unsigned kWarps = kThreads / 32, kSteps = kWarps / 4, kAtOnce = 4;
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  for (unsigned first = warp; first < values; first += kAtOnce * kWarps) {
    // Eight lanes read the 32 sums of one warp, 16 bytes each; all loads before the first store.
    float4* from = reinterpret_cast<float4*>(s_sums) + lane / 8 * values * 8 + lane % 8;
    float4 part[kAtOnce][kSteps];
#pragma unroll
    for (unsigned e = 0; e < kAtOnce * kSteps; ++e) {
      const unsigned own = first + e / kSteps * kWarps, v = own < values ? own : first;
      part[e / kSteps][e % kSteps] = from[(e % kSteps * 4 * values + v) * 8];
    }
    float total[kAtOnce] = {};
#pragma unroll
    for (unsigned e = 0; e < kAtOnce * kSteps; ++e) {
      const float4& four = part[e / kSteps][e % kSteps];
      total[e / kSteps] += four.x + four.y + (four.z + four.w);
    }
    float own = transposing_sum(total, lane); // of value first + lane % kAtOnce * kWarps
#pragma unroll
    for (unsigned offset = kAtOnce; offset < 32; offset *= 2) {
      own += __shfl_xor_sync(kAllLanes, own, static_cast<int>(offset));
    }
#pragma unroll
    for (unsigned e = 0; e < kAtOnce * kSteps; ++e) {
      if (const unsigned v = first + e / kSteps * kWarps; v < values) {
        from[(e % kSteps * 4 * values + v) * 8] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
      }
    }
    if (lane < kAtOnce && first + lane * kWarps < values) {
      s_totals[first + lane * kWarps] = static_cast<double>(own);
    }
  }
}

} // namespace clusterbench::cuda
