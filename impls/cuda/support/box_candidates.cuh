// Which centroids the points of a box can belong to at all, and the nearest of those.
#pragma once

#include "impls/cuda/support/column_points.cuh"

#include <cuda_runtime.h>

#include <cfloat>
#include <cmath>

namespace clusterbench::cuda {

inline constexpr unsigned kBoxPoints = 32; ///< one a lane

/// Centroids that are the nearest of some point in a box, perhaps: a bit each.
struct Candidates {
  unsigned words[2];

  __device__ bool one() const { return __popc(words[0]) + __popc(words[1]) == 1; }
  __device__ unsigned lowest() const {
    const unsigned in_word =
        static_cast<unsigned>(__ffs(static_cast<int>(words[0] != 0 ? words[0] : words[1])) - 1);
    return words[0] != 0 ? in_word : 32 + in_word;
  }
};

/// The nearest of all k centroids.
template <unsigned D>
__device__ unsigned nearest_centroid(const float* s_point, const float* s_centroids, unsigned k) {
  float x[1][D], squared[1];
  unsigned label[1];
#pragma unroll
  for (unsigned f = 0; f < D; ++f) {
    x[0][f] = s_point[f];
  }
  compare<D, 1>(x, s_centroids, k, squared, label);
  return label[0];
}

template <unsigned D>
__device__ float squared_distance(const float (&x)[D], const float (&c)[D]) {
  float squared = 0.0f;
#pragma unroll
  for (unsigned f = 0; f < D; ++f) {
    squared = fmaf(x[f] - c[f], x[f] - c[f], squared);
  }
  return squared;
}

/// Compares a box with all centroids. One is out if the rival is nearer in the corner that is best for it: the
/// difference of the squared distances is linear.
template <unsigned D>
__device__ Candidates candidates_of(const float* s_extents, const float* s_centroids, unsigned k,
                                    unsigned rival) {
  // Of sums of 2 D products, each of them rounded a few times.
  constexpr float kSlack = static_cast<float>(4 * D + 16) * 0x1p-24f;
  float middle[D], half[D], its[D];
#pragma unroll
  for (unsigned f = 0; f < D; ++f) {
    middle[f] = s_extents[f];
    half[f] = s_extents[D + f];
  }
  read_centroid<D>(s_centroids + rival * kStride<D>, its);
  const float to_rival = squared_distance(middle, its);
  Candidates found{};
#pragma unroll
  for (unsigned word = 0; word < 2; ++word) {
    const unsigned first = word * 32, end = min(k, first + 32);
#pragma unroll 4
    for (unsigned j = first; j < end; ++j) {
      float c[D];
      read_centroid<D>(s_centroids + j * kStride<D>, c);
      const float to_this = squared_distance(middle, c);
      float reach = 0.0f;
#pragma unroll
      for (unsigned f = 0; f < D; ++f) {
        reach += fabsf(half[f] * (c[f] - its[f]));
      }
      const float sum = to_this + to_rival + 2.0f * reach;
      const bool out = to_this - to_rival - 2.0f * reach > fmaf(kSlack, sum, FLT_MIN);
      found.words[word] |= out ? 0u : 1u << (j - first);
    }
  }
  return found;
}

/// The nearest of the candidates; ties go to the lowest index.
template <unsigned D>
__device__ unsigned nearest_of(const float (&x)[D], const float* s_centroids, Candidates candidates,
                               float& squared) {
  unsigned label = candidates.lowest(); // even if its distance is beyond all floats
  squared = INFINITY;
#pragma unroll
  for (unsigned word = 0; word < 2; ++word) {
    for (unsigned bits = candidates.words[word]; bits != 0; bits &= bits - 1) {
      const unsigned j = word * 32 + static_cast<unsigned>(__ffs(static_cast<int>(bits))) - 1;
      float c[D];
      read_centroid<D>(s_centroids + j * kStride<D>, c);
      const float its = squared_distance(x, c);
      label = its < squared ? j : label;
      squared = fminf(squared, its);
    }
  }
  return label;
}

} // namespace clusterbench::cuda
