// Sums that every lane of every warp keeps in shared memory, [warp, value, lane]: no two lanes meet in
// one place or in one bank.
#pragma once

#include "impls/cuda/support/warp_sums.cuh"

#include <cuda_runtime.h>

namespace clusterbench::cuda {

/// Sends the block's sums and clears them: a warp adds up a value over the lanes of all warps, and
/// four values before it sends them.
template <unsigned kThreads, typename Sums>
__device__ void send_sums(float* s_sums, unsigned values, const Sums& sums) {
  constexpr unsigned kWarps = kThreads / 32, kSteps = kWarps / 4, kAtOnce = 4;
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  for (unsigned first = warp; first < values; first += kAtOnce * kWarps) {
    float own = 0.0f; // of value first + lane * kWarps
#pragma unroll
    for (unsigned e = 0; e < kAtOnce; ++e) {
      const unsigned v = first + e * kWarps;
      if (v < values) {
        // Eight lanes read the 32 sums of one warp, 16 bytes each.
        float4* from = reinterpret_cast<float4*>(s_sums) + (lane / 8 * values + v) * 8 + lane % 8;
        float4 part[kSteps];
#pragma unroll
        for (unsigned s = 0; s < kSteps; ++s) {
          part[s] = from[s * 4 * values * 8];
        }
        float total = 0.0f;
#pragma unroll
        for (unsigned s = 0; s < kSteps; ++s) {
          from[s * 4 * values * 8] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
          total += part[s].x + part[s].y + (part[s].z + part[s].w);
        }
        total = over_lanes<32>(total);
        own = lane == e ? total : own;
      }
    }
    if (lane < kAtOnce && first + lane * kWarps < values) {
      sums.send(first + lane * kWarps, static_cast<double>(own));
    }
  }
}

} // namespace clusterbench::cuda
