// The nearest of up to 64 centroids to rows of some features: float32 products made of float16 parts on
// tensor cores, 16 rows a warp, and labels that rounding cannot change.
//
// A value is two parts of 11 bits; of the four products of parts, the least is left out. Where one score
// |c|^2 / 2 - x c alone is least beyond all errors (docs/certified.md), it has the label; other rows
// are compared by squared differences, by all lanes of the warp together.
#pragma once

#include "impls/cuda/support/exact_rows.cuh"
#include "impls/cuda/support/warp_sums.cuh"

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cmath>
#include <cstddef>
#include <cstdint>

namespace clusterbench::cuda {

inline constexpr unsigned kRows = 16; ///< of a tile

/// Two values as float16, and what is left of them.
__device__ inline unsigned split(float& a, float& b) {
  const __half2 both = __floats2half2_rn(a, b);
  const float2 back = __half22float2(both);
  a -= back.x;
  b -= back.y;
  return *reinterpret_cast<const unsigned*>(&both);
}

/// The same float16 values; volatile, so that the compiler does not keep those it made before.
__device__ inline unsigned rounded_again(float a, float b) {
  unsigned both = 0;
  asm volatile("cvt.rn.f16x2.f32 %0, %2, %1;" : "=r"(both) : "f"(a), "f"(b));
  return both;
}

__device__ inline float4 scaled(const float4& v, float by) {
  return make_float4(v.x * by, v.y * by, v.z * by, v.w * by);
}

/// sums (16 x 8) += a (16 x 16) b (16 x 8). Not volatile: products may change places.
__device__ inline void multiply(float (&sums)[4], const unsigned (&a)[4], unsigned b0,
                                unsigned b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/// Lane (g, t) = (lane / 4, lane % 4) of a warp has rows g and g + 8 of a tile, and of every 16 features
/// four: 4 t ... 4 t + 3. The order of features in a product does not matter, so these are what
/// mma.sync calls 2 t, 2 t + 1, 2 t + 8, 2 t + 9.
template <unsigned kChunks>
using Tile = float4[2][kChunks];

/// Rows up to the next tile, and of the centroids in shared memory, [8 T], parts and half squares.
struct ProductRows : ExactRows {
  float scale, certain; ///< of the parts, a power of two; of two scores, 2 * their error

  uint4* s_parts; ///< [T, kChunks, 32]: high and low parts of -c, as a product's lanes want them
  float* s_half_squares; ///< [8 T]
};

template <unsigned kChunks>
__device__ void fetch_tile(const ProductRows& task, unsigned tile, Tile<kChunks>& x) {
  const unsigned lane = threadIdx.x % 32, f = lane % 4 * 4;
  const float* row = task.rows + (std::size_t{tile} * kRows + lane / 4) * task.width + f;
#pragma unroll
  for (unsigned e = 0; e < 2 * kChunks; ++e) {
    const unsigned h = e / kChunks, c = e % kChunks;
    x[h][c] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (c + 1 < kChunks || c * 16 + f < task.width) {
      x[h][c] = __ldg(reinterpret_cast<const float4*>(row + h * 8 * task.width + c * 16));
    }
  }
}

/// Centroids as their parts and half squares: the threads of a block share the work.
template <unsigned kChunks, unsigned T, unsigned kThreads>
__device__ void split_centroids(const ProductRows& task) {
  const unsigned stride = task.stride();
  for (unsigned e = threadIdx.x; e < T * kChunks * 32; e += kThreads) {
    const unsigned lane = e % 32, j = e / 32 / kChunks * 8 + lane / 4;
    const unsigned f = e / 32 % kChunks * 16 + lane % 4 * 4;
    float4 c = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (f < task.width) {
      c = *reinterpret_cast<const float4*>(task.s_centroids + j * stride + f);
    }
    c = make_float4(-c.x * task.scale, -c.y * task.scale, -c.z * task.scale, -c.w * task.scale);
    uint4 part;
    part.x = split(c.x, c.y);
    part.y = split(c.z, c.w);
    part.z = split(c.x, c.y);
    part.w = split(c.z, c.w);
    task.s_parts[e] = part;
  }
  for (unsigned e = threadIdx.x; e < T * 32; e += kThreads) { // four lanes a centroid
    double squares = 0.0;
    for (unsigned f = e % 4; f < task.width; f += 4) {
      const double c = static_cast<double>(task.s_centroids[e / 4 * stride + f] * task.scale);
      squares += c * c;
    }
    squares = over_lanes<4>(squares);
    if (e % 4 == 0) {
      task.s_half_squares[e / 4] = e / 4 < task.k ? static_cast<float>(0.5 * squares) : kNever;
    }
  }
}

/// Labels of the tile's rows g and g + 8, known to their four lanes.
template <unsigned kChunks, unsigned T>
__device__ void find_labels(const ProductRows& task, unsigned tile, const Tile<kChunks>& x,
                            unsigned (&label)[2]) {
  const unsigned lane = threadIdx.x % 32;
  // Of rows g, g, g + 8, g + 8 and clusters 8 e + 2 t, ... + 1, ... , ... + 1. What is small is added up
  // first, so that the tensor cores cut less of it.
  float score[T][4] = {};
#pragma unroll
  for (unsigned c = 0; c < kChunks; ++c) {
    unsigned high[4], low[4];
#pragma unroll
    for (unsigned h = 0; h < 2; ++h) {
      float4 v = scaled(x[h][c], task.scale);
      high[h] = split(v.x, v.y);
      high[h + 2] = split(v.z, v.w);
      low[h] = split(v.x, v.y);
      low[h + 2] = split(v.z, v.w);
    }
    const auto parts = reinterpret_cast<const uint2*>(task.s_parts + c * 32 + lane);
#pragma unroll
    for (unsigned e = 0; e < T; ++e) { // neighbouring products do not wait for each other
      const uint2 of_high = parts[e * kChunks * 64];
      multiply(score[e], low, of_high.x, of_high.y);
    }
#pragma unroll
    for (unsigned e = 0; e < T; ++e) {
      const uint2 of_low = parts[e * kChunks * 64 + 1];
      multiply(score[e], high, of_low.x, of_low.y);
    }
  }
  __syncwarp(); // holds the compiler back from loading all parts at once, for want of registers
#pragma unroll
  for (unsigned c = 0; c < kChunks; ++c) {
    unsigned high[4]; // made once more: kept, they would be too many registers
#pragma unroll
    for (unsigned h = 0; h < 2; ++h) {
      const float4 v = scaled(x[h][c], task.scale);
      high[h] = rounded_again(v.x, v.y);
      high[h + 2] = rounded_again(v.z, v.w);
    }
#pragma unroll
    for (unsigned e = 0; e < T; ++e) {
      const uint4* part = task.s_parts + (e * kChunks + c) * 32 + lane;
      const uint2 of_high = *reinterpret_cast<const uint2*>(part);
      multiply(score[e], high, of_high.x, of_high.y);
    }
  }
  label_rows(task, task.s_half_squares, task.certain, score, label,
             [&](unsigned row, const auto& among) {
               return among(two_of_row(task, tile * kRows + row)).label;
             });
}

/// Squared distances of a row to its centroid, known to its four lanes.
template <unsigned kChunks>
__device__ float distance_to(const ProductRows& task, const float4 (&x)[kChunks], unsigned label) {
  float squared = 0.0f;
#pragma unroll
  for (unsigned c = 0; c < kChunks; ++c) {
    const unsigned f = c * 16 + threadIdx.x % 4 * 4;
    if (f < task.width) {
      const float4 m =
          *reinterpret_cast<const float4*>(task.s_centroids + label * task.stride() + f);
      squared += (x[c].x - m.x) * (x[c].x - m.x) + (x[c].y - m.y) * (x[c].y - m.y) +
                 (x[c].z - m.z) * (x[c].z - m.z) + (x[c].w - m.w) * (x[c].w - m.w);
    }
  }
  return over_lanes<4>(squared);
}

} // namespace clusterbench::cuda
