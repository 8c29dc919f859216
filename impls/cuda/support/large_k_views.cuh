// What the kernels for many clusters pass to one another: points and centroids in float and as
// rounded tiles, and the rows that no first level could decide.
#pragma once

#include "impls/cuda/support/certified_bound.hpp"
#include "impls/cuda/support/half_tiles.cuh"

#include <cstdint>

namespace clusterbench::cuda {

inline constexpr float kFarAway = 1e38f;    ///< score of a centroid that does not exist
inline constexpr float kUpwards = 1.00001f; ///< more than the roundings of a few operations

/// x' = (x - mean) * scale is what is rounded; scores are |c'|^2 / 2 - x'.c'.
struct Frame {
  const float* mean;  ///< [d]
  const double scale; ///< a power of two
};

struct PointsView {
  std::size_t n;
  unsigned d;
  HalfTiles shape;
  const float* exact;    ///< [n, d]
  const __half* rounded; ///< tiles; rows behind n are zero
  const float* residual; ///< [n] |x' - rounded|, or a little more
  const float* norm;     ///< [n] |rounded|, or a little more
};

struct CentroidsView {
  unsigned k;
  unsigned tiles;            ///< of kHalfTileRows centroids; those behind k are zero and far away
  const float* exact;        ///< [k, d]
  const __half* rounded;     ///< tiles
  const float* half_squares; ///< [tiles * kHalfTileRows] |c'|^2 / 2
  const float4* terms;       ///< the ScoreError, and |c'|^2 / 2
};

/// Largest terms of all centroids, as the bits of floats (which are not negative, so their order is
/// that of integers), and what happened to the rows of a pass.
struct PassCounters {
  unsigned of_residual, of_norm, fixed;
  unsigned flagged;         ///< rows whose gap is inside the bound of the first level
  unsigned long long pairs; ///< candidates of such rows: up to n k
  unsigned alone;           ///< flagged rows of which the second level left one candidate
  unsigned overflowed;      ///< flagged rows whose candidates found no room: compared with all
  unsigned moved;           ///< rows whose label changed

  __device__ ScoreError largest() const {
    return {__uint_as_float(of_residual), __uint_as_float(of_norm), __uint_as_float(fixed)};
  }
};

/// A flagged row's number is its slot.
struct FlaggedView {
  unsigned* rows;              ///< [n]
  float* thresholds;           ///< [n] no less than the exact score of the nearest centroid
  unsigned* candidates;        ///< [n] how many
  unsigned long long* nearest; ///< [n] bits of the least squared distance, and which centroid
  bool* overflowed;            ///< [n]
  uint2* pairs;                ///< [capacity] slot and centroid
  unsigned capacity;
};

struct SweepTask {
  PointsView points;
  CentroidsView centroids;
  FlaggedView flagged;
  PassCounters* counters;
  std::int32_t* labels; ///< [n]
  Frame frame;
};

/// Appends `count` consecutive places of a counter per lane that asks; returns this lane's place.
/// All lanes of the warp must call it.
__device__ inline unsigned take_place(bool asks, unsigned* counter) {
  const unsigned askers = __ballot_sync(0xffffffffu, asks);
  const unsigned lane = threadIdx.x % 32;
  unsigned first = 0;
  if (askers != 0 && lane == 0) {
    first = atomicAdd(counter, static_cast<unsigned>(__popc(askers)));
  }
  first = __shfl_sync(0xffffffffu, first, 0);
  return first + static_cast<unsigned>(__popc(askers & ((1u << lane) - 1)));
}

/// The first level's decision on a row: `best` and `second` are its two least scores, `nearest` the
/// centroid of the best. `error`: how far the best score may be from the exact one; `largest`: how
/// far any score may. All lanes of the warp must call it; those without a row say so.
__device__ inline void decide(const SweepTask& task, bool has_row, std::size_t row, float best,
                              unsigned nearest, float second, float error, float largest) {
  const bool certain = second - best > (error + largest) * kUpwards; // false for NaN, too
  if (has_row) {
    task.labels[row] = static_cast<std::int32_t>(nearest);
  }
  const unsigned slot = take_place(has_row && !certain, &task.counters->flagged);
  if (has_row && !certain) {
    task.flagged.rows[slot] = static_cast<unsigned>(row);
    task.flagged.thresholds[slot] = __fadd_ru(best, __fmul_ru(error, kUpwards));
    task.flagged.candidates[slot] = 0;
    task.flagged.nearest[slot] = ~0ull;
    task.flagged.overflowed[slot] = false;
  }
}

/// The same for scores of one float16 product, whose errors are those of docs/certified.md.
__device__ inline void decide_half(const SweepTask& task, bool has_row, std::size_t row, float best,
                                   unsigned nearest, float second) {
  float error = 0.0f, largest = 0.0f;
  if (has_row) {
    const float4 terms = task.centroids.terms[nearest];
    const float residual = task.points.residual[row], norm = task.points.norm[row];
    error = ScoreError{terms.x, terms.y, terms.z}.of(residual, norm);
    largest = task.counters->largest().of(residual, norm);
  }
  decide(task, has_row, row, best, nearest, second, error, largest);
}

} // namespace clusterbench::cuda
