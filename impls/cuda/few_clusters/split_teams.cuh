// What a warpgroup ("team") does with tiles of rows in two float16 parts: their scores, and their sums by
// label, both by wgmma. What the parts lose: split_rows.cuh. Needs sm_90a.
#pragma once

#include "impls/cuda/common/certified_bound.hpp"
#include "impls/cuda/common/copies.cuh"
#include "impls/cuda/few_clusters/exact_rows.cuh"
#include "impls/cuda/few_clusters/grid_sums.cuh"
#include "impls/cuda/few_clusters/narrow_products.cuh"
#include "impls/cuda/few_clusters/split_rows.cuh"

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace clusterbench::cuda {

/// The rows, in parts and as they came, and how the parts were made.
struct SplitRun {
  ExactRows exact;
  const float* tiles; ///< see split_rows.cuh
  unsigned d, tiles_count;
  float scale;   ///< of the parts, a power of two
  float longest; ///< row, times the scale
  float lost;    ///< by the parts of a row, at most, times the scale
  PlainError of_scores;
};

/// Of D features, with the padding, and up to K clusters: warpgroups ("teams") with a ring of kStages tiles
/// each.
template <unsigned D_, unsigned K_, unsigned kTeams_, unsigned kStages_>
struct SplitShape {
  static constexpr unsigned D = D_, K = K_, kTeams = kTeams_, kStages = kStages_;
  static constexpr unsigned kThreads = kTeams * 128;
  static constexpr unsigned kSteps = (D + 15) / 16; // of 16 features
  using Tile = SplitTile<D / 8>;
  static constexpr unsigned kRings = kTeams * kStages * Tile::kBytes / 4; ///< floats
  /// Halves of a part of the centroids: [2 kSteps columns, K, 8].
  static constexpr unsigned kPart = kSteps * 16 * K;
  /// Bytes of both parts, and of what takes their place at the end of a pass: sums [K, D], and then means, or what
  /// GridMeans needs.
  static constexpr unsigned kPartBytes = std::max(kPart * 4, GridMeans<kThreads>::kScratchBytes);
  static_assert(K * D * sizeof(float) <= kPartBytes);
};

/// The distances of rows `row` and row + 8 to their centroids, if they are real, by their four lanes; one
/// of them gets the sum.
__device__ inline double two_distances(const ExactRows& exact, unsigned row,
                                       const unsigned (&label)[2]) {
  double sum = 0.0;
  for (unsigned h = 0; h < 2; ++h) {
    const float distance = row_distance(exact, row + 8 * h, label[h]);
    sum += row + 8 * h < exact.n ? static_cast<double>(distance) : 0.0;
  }
  return threadIdx.x % 4 == 0 ? sum : 0.0;
}

/// A value that all lanes of a warp have: so the compiler knows it, too, and needs no register of each.
__device__ inline unsigned warp_uniform(unsigned value) {
  return __shfl_sync(kAllLanes, value, 0);
}

/// A barrier of a team.
__device__ inline void sync_team(unsigned team) {
  asm volatile("bar.sync %0, 128;" ::"r"(team + 1) : "memory");
}

/// The centroids' parts, with the sign changed and times `factor`, and half squares; all threads. s_parts: [2, kPart].
/// also(j, half square): what else a half square is needed for, by one thread each.
template <typename S, typename Also>
__device__ void split_centroids(const SplitRun& run, const float* s_centroids, __half* s_parts,
                                float* s_half_squares, float factor, Also also) {
  const unsigned stride = run.exact.stride();
  constexpr unsigned kColumns = 2 * S::kSteps, kLanes = 8; // of a centroid, of eight features each
  static_assert(kColumns <= kLanes && S::K * kLanes % 32 == 0);
  for (unsigned lane = threadIdx.x; lane < S::K * kLanes; lane += S::kThreads) {
    const unsigned j = lane / kLanes, column = lane % kLanes;
    double squares = 0.0;
    if (column < kColumns) {
      unsigned high[4], low[4];
#pragma unroll
      for (unsigned e = 0; e < 4; ++e) {
        const unsigned f = column * 8 + 2 * e; // the width is even
        const float2 c = f < run.exact.width
                             ? *reinterpret_cast<const float2*>(s_centroids + j * stride + f)
                             : float2{};
        const float x = c.x * run.scale, y = c.y * run.scale;
        const auto first = SplitPair::of(-x * factor), second = SplitPair::of(-y * factor);
        high[e] = packed(first.high, second.high);
        low[e] = packed(first.low, second.low);
        squares += static_cast<double>(x) * static_cast<double>(x) +
                   static_cast<double>(y) * static_cast<double>(y);
      }
      uint4* to = reinterpret_cast<uint4*>(s_parts) + column * S::K + j;
      to[0] = make_uint4(high[0], high[1], high[2], high[3]);
      to[S::kPart / 8] = make_uint4(low[0], low[1], low[2], low[3]);
    }
    squares = over_lanes<kLanes>(squares);
    if (column == 0) {
      s_half_squares[j] = j < run.exact.k ? static_cast<float>(0.5 * squares) : kNever;
      also(j, s_half_squares[j]);
    }
  }
  fence_proxy_async();
}
template <typename S>
__device__ void split_centroids(const SplitRun& run, const float* s_centroids, __half* s_parts,
                                float* s_half_squares) {
  split_centroids<S>(run, s_centroids, s_parts, s_half_squares, 1.0f, [](unsigned, float) {});
}

/// The length of the longest centroid, times the scale, or a little more.
template <typename S>
__device__ float longest_of(const SplitRun& run, const float* s_half_squares) {
  float largest = 0.0f;
  for (unsigned j = threadIdx.x % 32; j < run.exact.k; j += 32) {
    largest = fmaxf(largest, s_half_squares[j]);
  }
  largest = __uint_as_float(__reduce_max_sync(kAllLanes, __float_as_uint(largest))); // not negative
  return 1.001f * sqrtf(2.0f * largest);
}

/// Starts the scores but for the half squares, -x.c, of 64 rows with all centroids. What is small is added up
/// first, so that the tensor cores cut less of it. tile, parts: places in units of 16 bytes.
template <typename S>
__device__ void multiply_tile(unsigned tile, unsigned parts, float (&score)[S::K / 8][4]) {
  const unsigned low = tile + S::Tile::kLow, low_parts = parts + S::kPart / 8;
  const auto of = [](unsigned part, unsigned step) {
    return operand(part + step * 2 * S::K, S::K, 8);
  };
  wgmma_fence();
#pragma unroll
  for (unsigned step = 0; step < S::kSteps; ++step) {
    multiply_rows<S::K>(score, S::Tile::rows(low, step), of(parts, step), step > 0);
    multiply_rows<S::K>(score, S::Tile::rows(tile, step), of(low_parts, step), true);
  }
#pragma unroll
  for (unsigned step = 0; step < S::kSteps; ++step) {
    multiply_rows<S::K>(score, S::Tile::rows(tile, step), of(parts, step), true);
  }
  wgmma_commit_group();
}

/// Starts a tile's sums by label, of kSteps times 16 of its rows. s_labels: of 64 rows.
template <typename S, unsigned kFirst = 0, unsigned kSteps = 4>
__device__ void start_sums(unsigned tile, const __half* s_labels, float (&sums)[S::D / 8][4]) {
  const unsigned lane = threadIdx.x % 32, t = lane % 4;
  const unsigned cluster = threadIdx.x % 128 / 32 * 16 + lane / 4;
  const __half2 own[2] = {__float2half2_rn(static_cast<float>(cluster)),
                          __float2half2_rn(static_cast<float>(cluster + 8))};
  unsigned weights[kSteps][4]; // 1 or 0, of 16 rows each
#pragma unroll
  for (unsigned e = 0; e < 4 * kSteps; ++e) {
    const unsigned row = (kFirst + e / 4) * 16 + e % 4 / 2 * 8 + 2 * t;
    const __half2 equal = __heq2(*reinterpret_cast<const __half2*>(s_labels + row), own[e % 2]);
    weights[e / 4][e % 4] = *reinterpret_cast<const unsigned*>(&equal);
    asm volatile("" : "+r"(weights[e / 4][e % 4])); // made before products are opened
  }
  wgmma_fence();
#pragma unroll
  for (unsigned e = 0; e < kSteps; ++e) {
    const unsigned step = kFirst + e;
    const std::uint64_t low = S::Tile::sixteen_rows(tile + S::Tile::kLow, step);
    add_rows<S::D>(sums, weights[e], low, step > 0);
    add_rows<S::D>(sums, weights[e], S::Tile::sixteen_rows(tile, step), true);
  }
  wgmma_commit_group();
}

/// Waits for all products, and adds a tile's sums to those of the pass: to nearest, as tensor cores do not,
/// in float.
template <typename S>
__device__ void finish_sums(float (&sums)[S::D / 8][4], float (&all_sums)[S::D / 8][4]) {
  wgmma_wait_group<0>();
  take_products(sums);
#pragma unroll
  for (unsigned e = 0; e < S::D / 2; ++e) {
    all_sums[e / 4][e % 4] += sums[e / 4][e % 4];
  }
}

/// Puts a team's sums into s_sums [K, D], or adds them to what is there.
template <typename S>
__device__ void add_sums(float (&sums)[S::D / 8][4], bool add, float* s_sums) {
  const unsigned lane = threadIdx.x % 32, j = threadIdx.x % 128 / 32 * 16 + lane / 4;
  const auto at = [&](unsigned e) { // two neighbours: of row j, of row j + 8
    return reinterpret_cast<float2*>(s_sums + (j + e % 2 * 8) * S::D + e / 2 * 8 + lane % 4 * 2);
  };
#pragma unroll
  for (unsigned e = 0; add && e < S::D / 4; ++e) { // all loads before the stores
    if (j + e % 2 * 8 < S::K) {
      const float2 there = *at(e);
      sums[e / 2][e % 2 * 2] += there.x;
      sums[e / 2][e % 2 * 2 + 1] += there.y;
    }
  }
#pragma unroll
  for (unsigned e = 0; e < S::D / 4; ++e) {
    if (j + e % 2 * 8 < S::K) {
      *at(e) = make_float2(sums[e / 2][e % 2 * 2], sums[e / 2][e % 2 * 2 + 1]);
    }
  }
}

/// Features 2 lane and 2 lane + 1 of a row of a tile, times the scale; zero behind D.
template <typename S>
__device__ float2 two_of_parts(unsigned tile, unsigned row) {
  const unsigned f = threadIdx.x % 32 * 2;
  const unsigned place = tile + f / 8 * S::Tile::kRows + row;
  const auto part = [&](unsigned from) {
    const auto* halves = static_cast<const __half2*>(__cvta_shared_to_generic(from * 16));
    return __half22float2(halves[f % 8 / 2]);
  };
  if (f >= S::D) {
    return {};
  }
  const float2 high = part(place), low = part(place + S::Tile::kLow);
  return {high.x + low.x, high.y + low.y};
}

/// The label of a row that scores leave open: by its parts, unless what they lose could matter.
template <typename S, typename Among>
__device__ unsigned settle(const SplitRun& run, unsigned tile, unsigned row_of_tile, unsigned row,
                           const Among& among) {
  const float inverse = 1.0f / run.scale;
  const float2 x = two_of_parts<S>(tile, row_of_tile);
  const NearestTwo found = among(float2{x.x * inverse, x.y * inverse});
  // By Cauchy and Schwarz, for two centroids no further away than the second; for one that is further
  // away the difference grows by more than what may be lost.
  return found.second - found.nearest > 4.1f * sqrtf(found.second) * run.lost * inverse
             ? found.label
             : among(two_of_row(run.exact, row)).label;
}

} // namespace clusterbench::cuda
