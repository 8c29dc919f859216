// Groups of 16 centroids, of which the first level has only looked at the least score: which of the
// best group is nearest, by the difference form.
#pragma once

#include "impls/cuda/support/second_level.cuh"

namespace clusterbench::cuda {

/// Labels are the first centroids of groups: compares all 16 of the group, 8 lanes a row of up to 32
/// features. kFour: d is a multiple of 4, so that 16 bytes may be read at once.
template <bool kFour>
static __global__ void resolve_groups(const SweepTask task) {
  const unsigned lane = threadIdx.x % 8, d = task.points.d;
  const std::size_t stride = std::size_t{gridDim.x} * blockDim.x / 8;
  const auto load = [&](const float* from, float(&to)[4]) {
    if (kFour) {
      const float4 four = lane * 4 < d ? *reinterpret_cast<const float4*>(from + lane * 4)
                                       : float4{0.0f, 0.0f, 0.0f, 0.0f};
      to[0] = four.x, to[1] = four.y, to[2] = four.z, to[3] = four.w;
    } else {
#pragma unroll
      for (unsigned e = 0; e < 4; ++e) {
        to[e] = lane * 4 + e < d ? from[lane * 4 + e] : 0.0f;
      }
    }
  };
  for (std::size_t first = (std::size_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32 * 4;
       first < task.points.n; first += stride) {
    const std::size_t i = first + threadIdx.x % 32 / 8;
    const std::size_t row = min(i, task.points.n - 1); // all lanes are needed for the sums
    const unsigned base = static_cast<unsigned>(task.labels[row]);
    float x[4], squared[16];
    load(task.points.exact + row * d, x);
#pragma unroll
    for (unsigned g = 0; g < 16; ++g) {
      float c[4]; // the last tile may not be full
      load(task.centroids.exact +
               std::size_t{min(base + g / 2 * 8 + g % 2, task.centroids.k - 1)} * d,
           c);
      squared[g] = 0.0f;
#pragma unroll
      for (unsigned e = 0; e < 4; ++e) {
        squared[g] += (x[e] - c[e]) * (x[e] - c[e]);
      }
    }
#pragma unroll
    for (unsigned left = 8; left >= 2; left /= 2) { // each step halves the sums that a lane has
      const unsigned offset = left / 2;
#pragma unroll
      for (unsigned g = 0; g < left; ++g) {
        const float given = (lane & offset) != 0 ? squared[g] : squared[g + left];
        const float kept = (lane & offset) != 0 ? squared[g + left] : squared[g];
        squared[g] = kept + __shfl_xor_sync(0xffffffffu, given, static_cast<int>(offset));
      }
    }
    unsigned long long nearest = ~0ull; // of the two that this lane has now, and then of all
#pragma unroll
    for (unsigned e = 0; e < 2; ++e) {
      const unsigned g = lane * 2 + e, j = base + g / 2 * 8 + g % 2;
      nearest = j < task.centroids.k ? min(nearest, ranked(squared[e], j)) : nearest;
    }
    for (int offset = 4; offset > 0; offset /= 2) {
      nearest = min(nearest, __shfl_xor_sync(0xffffffffu, nearest, offset));
    }
    if (lane == 0 && i < task.points.n) {
      task.labels[i] = static_cast<std::int32_t>(static_cast<unsigned>(nearest));
    }
  }
}

} // namespace clusterbench::cuda
