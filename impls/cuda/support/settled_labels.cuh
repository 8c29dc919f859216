// Labels from rough products: those that rounding may have decided are settled by squared
// differences.
#pragma once

#include "impls/cuda/support/row_tiles.cuh"
#include "impls/cuda/support/warp_sums.cuh"

#include <cuda_runtime.h>

#include <cmath>

namespace clusterbench::cuda {

/// What is known of the centroids during a sweep.
struct Lengths {
  float largest, largest_rest; // of all centroids, and of what tf32 rounds off
};

/// The centroids' squared lengths, and the largest; all threads of the block.
template <unsigned kThreads, unsigned K>
__device__ Lengths measure(const float* s_centroids, unsigned k, unsigned width, float* s_squared,
                           float* s_rests) {
  for (unsigned j = threadIdx.x / 32; j < K; j += kThreads / 32) {
    float squared = 0.0f, rest = 0.0f;
    for (unsigned f = threadIdx.x % 32; f < width && j < k; f += 32) {
      const float c = s_centroids[j * width + f], r = c - rounded_part(c);
      squared += c * c;
      rest += r * r;
    }
    squared = over_lanes<32>(squared);
    rest = over_lanes<32>(rest);
    if (threadIdx.x % 32 == 0) {
      s_squared[j] = j < k ? squared : INFINITY; // clusters behind k are infinitely far
      s_rests[j] = rest;
    }
  }
  __syncthreads(); // the lengths are there
  Lengths lengths{0.0f, 0.0f};
  for (unsigned j = 0; j < k; ++j) {
    lengths.largest = fmaxf(lengths.largest, s_squared[j]);
    lengths.largest_rest = fmaxf(lengths.largest_rest, s_rests[j]);
  }
  return {sqrtf(lengths.largest), sqrtf(lengths.largest_rest)};
}

/// Squared distance of a row to a centroid as a sum of squared differences, by four lanes.
__device__ inline float squared_distance(const float* tile, RowLayout layout, unsigned row,
                                         const float* s_centroid) {
  float squared = 0.0f;
  for (unsigned column = threadIdx.x % 4; column < layout.columns; column += 4) {
    float x[4], c[4];
    read_four(tile + layout.at(row, 4 * column), x);
    read_four(s_centroid + 4 * column, c);
#pragma unroll
    for (unsigned e = 0; e < 4; ++e) {
      squared += (x[e] - c[e]) * (x[e] - c[e]);
    }
  }
  return over_lanes<4>(squared);
}

/// The label of a row whose products four lanes hold, two of every eight each: the nearest by rough
/// products, if these decide; else, or if the distance is wanted, by squared differences.
template <unsigned T>
__device__ unsigned label_of(const float (&products)[T][4], unsigned half,
                             const float (&squared_lengths)[T][2], const float* tile,
                             RowLayout layout, unsigned row, const Lengths& lengths,
                             const float* s_centroids, bool wants_distance, float& nearest) {
  const unsigned t = threadIdx.x % 4;
  float score[T][2], best = INFINITY; // |c|^2 - 2 x.c
  unsigned label = 0;
#pragma unroll
  for (unsigned e = 0; e < 2 * T; ++e) {
    const float now = squared_lengths[e / 2][e % 2] - 2.0f * products[e / 2][2 * half + e % 2];
    score[e / 2][e % 2] = now;
    label = now < best ? e / 2 * 8 + 2 * t + e % 2 : label;
    best = fminf(best, now);
  }
#pragma unroll
  for (int offset = 1; offset < 4; offset *= 2) {
    const float other = __shfl_xor_sync(kAllLanes, best, offset);
    const unsigned other_label = __shfl_xor_sync(kAllLanes, label, offset);
    label = other < best || (other == best && other_label < label) ? other_label : label;
    best = fminf(best, other);
  }
  const float length = tile[kTileRows * layout.stride() + row];
  const float rest = tile[kTileRows * (layout.stride() + 1) + row];
  // Twice the error of a score, and what float32 sums may add: d <= 512 terms, cut off and not
  // rounded by the tensor cores, stay below 2^-16 of the product of the lengths.
  const float margin = 4.0f * (rest * lengths.largest + length * lengths.largest_rest) +
                       0x1p-15f * lengths.largest * (length + lengths.largest);
  unsigned candidates = 0;
#pragma unroll
  for (unsigned e = 0; e < 2 * T; ++e) {
    candidates |= score[e / 2][e % 2] <= best + margin ? 1u << (e / 2 * 8 + 2 * t + e % 2) : 0u;
  }
  candidates |= __shfl_xor_sync(kAllLanes, candidates, 1);
  candidates |= __shfl_xor_sync(kAllLanes, candidates, 2);
  unsigned left = wants_distance || (candidates & (candidates - 1)) != 0 ? candidates : 0;
  nearest = INFINITY;
  while (__any_sync(kAllLanes, left != 0)) { // rows that are settled wait for the others
    const unsigned j = left != 0 ? static_cast<unsigned>(__ffs(static_cast<int>(left))) - 1 : 0;
    const float squared = squared_distance(tile, layout, row, s_centroids + j * layout.stride());
    if (left != 0 && squared < nearest) { // strictly, so that ties go to the lowest index
      nearest = squared;
      label = j;
    }
    left &= left - 1;
  }
  return label;
}

} // namespace clusterbench::cuda
