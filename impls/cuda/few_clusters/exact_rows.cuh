// Distances of single rows in full precision, for rows that narrow products leave open.
#pragma once

#include "impls/cuda/common/warp_sums.cuh"
#include "impls/cuda/few_clusters/split_rows.cuh"

#include <cmath>
#include <cstddef>
#include <cuda_runtime.h>

namespace clusterbench::cuda {

// ---- a row a warp
//
// The rows as they came, and the labels that scores do not decide: those are compared by squared differences.

inline constexpr float kNever = 1e38f; ///< the score of a cluster behind k

/// Rows of whole columns of four features, and the centroids in shared memory.
struct ExactRows {
  const float* rows; ///< [n, width], zero behind d
  unsigned n, width, k;
  float* s_centroids; ///< [k to the next 8, stride()], zero behind k and d

  __host__ __device__ unsigned stride() const { return width + 4; }
};

/// What a comparison finds: the nearest centroid, its squared distance, and the next one's.
struct NearestTwo {
  unsigned label = 0;
  float nearest = INFINITY, second = INFINITY;
};

/// Compares a row with centroids by sums of squared differences, by all lanes of a warp together, each
/// of which has features 2 lane and 2 lane + 1; ties to the lowest. Of the centroids, lane 4 g + t knows
/// some: bit e of `close` is centroid 8 (e / 2) + 2 t + e % 2.
__device__ inline NearestTwo compare(const ExactRows& exact, float2 x, unsigned g, unsigned close) {
  const unsigned f = threadIdx.x % 32 * 2;
  NearestTwo found;
  for (unsigned t = 0; t < 4; ++t) {
    unsigned left = __shfl_sync(kAllLanes, close, static_cast<int>(4 * g + t));
#pragma unroll 1
    for (; left != 0; left &= left - 1) {
      const unsigned e = __ffs(static_cast<int>(left)) - 1, j = e / 2 * 8 + 2 * t + e % 2;
      if (j >= exact.k) {
        continue; // behind k: close only where the bound is infinite
      }
      float squared = 0.0f;
      if (f < exact.width) { // which is even
        const float2 m =
            *reinterpret_cast<const float2*>(exact.s_centroids + j * exact.stride() + f);
        squared = (x.x - m.x) * (x.x - m.x) + (x.y - m.y) * (x.y - m.y);
      }
      squared = over_lanes<32>(squared);
      const bool better = squared < found.nearest || (squared == found.nearest && j < found.label);
      found.label = better ? j : found.label;
      found.second = fminf(found.second, fmaxf(found.nearest, squared));
      found.nearest = fminf(found.nearest, squared);
    }
  }
  return found;
}

/// This lane's two features of a row as it came.
__device__ inline float2 two_of_row(const ExactRows& exact, unsigned row) {
  const unsigned f = threadIdx.x % 32 * 2;
  const float* values = exact.rows + std::size_t{min(row, exact.n - 1)} * exact.width;
  return f < exact.width ? __ldg(reinterpret_cast<const float2*>(values + f)) : float2{};
}

/// Labels of 16 rows from a warp's products -x.c as an m16n8k16 product has them: score[e] of rows
/// g, g, g + 8, g + 8 and clusters 8 e + 2 t, ... + 1, ... , ... + 1 for lane 4 g + t. The labels of rows g
/// and g + 8 are known to their four lanes. `certain`: twice the error of a score. Where scores do not
/// decide, settle(row, among) does, called by all lanes, where among(x) compares the centroids in question
/// with a row of which the lane has two features.
template <unsigned T, typename Settle>
__device__ void label_rows(const ExactRows& exact, const float* s_half_squares, float certain,
                           float (&score)[T][4], unsigned (&label)[2], Settle settle) {
  const unsigned lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  float least[4]; // of rows and columns apart, so that comparisons do not wait for one another
#pragma unroll
  for (unsigned e = 0; e < T; ++e) {
    const float2 half = *reinterpret_cast<const float2*>(s_half_squares + 8 * e + 2 * t);
#pragma unroll
    for (unsigned v = 0; v < 4; ++v) {
      score[e][v] += v % 2 == 0 ? half.x : half.y;
      least[v] = e == 0 ? score[e][v] : fminf(least[v], score[e][v]);
    }
  }
  float limit[2];
  unsigned counts[2]; // of scores as close as rounding allows, times 256, and their numbers
#pragma unroll
  for (unsigned h = 0; h < 2; ++h) {
    limit[h] = fminf(least[2 * h], least[2 * h + 1]);
    limit[h] = fminf(limit[h], __shfl_xor_sync(kAllLanes, limit[h], 1));
    limit[h] = fminf(limit[h], __shfl_xor_sync(kAllLanes, limit[h], 2)) + certain;
    unsigned count[2] = {};
#pragma unroll
    for (unsigned e = 0; e < 2 * T; ++e) {
      if (score[e / 2][2 * h + e % 2] <= limit[h]) {
        count[e % 2] += 256 + e / 2 * 8 + e % 2;
      }
    }
    counts[h] = count[0] + count[1];
  }
#pragma unroll
  for (unsigned h = 0; h < 2; ++h) {
    counts[h] += counts[h] / 256 * 2 * t;
    counts[h] += __shfl_xor_sync(kAllLanes, counts[h], 1);
    counts[h] += __shfl_xor_sync(kAllLanes, counts[h], 2);
    label[h] = counts[h] % 256;
  }
  const unsigned mine = t == 0 ? counts[0] : counts[1]; // one lane a row
  unsigned open = __ballot_sync(kAllLanes, static_cast<int>(t < 2) & (mine / 256 != 1));
  if (open != 0) {
    unsigned close[2] = {};
#pragma unroll
    for (unsigned e = 0; e < 4 * T; ++e) {
      const unsigned h = e / (2 * T), bit = e % (2 * T);
      // Not the comparison above: the compiler would keep all of its results, for all rows.
      close[h] |= score[bit / 2][2 * h + bit % 2] - limit[h] <= 0.0f ? 1u << bit : 0u;
    }
#pragma unroll 1
    for (; open != 0; open &= open - 1) { // the other rows wait
      const unsigned bit = __ffs(static_cast<int>(open)) - 1, of = bit / 4, h = bit % 4;
      const unsigned found = settle(of + 8 * h, [&](float2 x) {
        return compare(exact, x, of, h == 0 ? close[0] : close[1]);
      });
      label[0] = g == of && h == 0 ? found : label[0];
      label[1] = g == of && h == 1 ? found : label[1];
    }
  }
}

/// The distance of a row to its centroid, by the row's four lanes.
__device__ inline float row_distance(const ExactRows& exact, unsigned row, unsigned label) {
  const float* values = exact.rows + std::size_t{min(row, exact.n - 1)} * exact.width;
  float squared = 0.0f;
  for (unsigned f = threadIdx.x % 4 * 4; f < exact.width; f += 16) {
    const float4 x = __ldg(reinterpret_cast<const float4*>(values + f));
    const float4 c =
        *reinterpret_cast<const float4*>(exact.s_centroids + label * exact.stride() + f);
    squared += (x.x - c.x) * (x.x - c.x) + (x.y - c.y) * (x.y - c.y) + (x.z - c.z) * (x.z - c.z) +
               (x.w - c.w) * (x.w - c.w);
  }
  return sqrtf(over_lanes<4>(squared));
}

// ---- a row a quarter of a warp
//
// A row as it came, read by four lanes: so a warp looks at eight rows at once.

/// Four features of every 16 of a row as it came, and of a centroid: lane t of four has 4 t, ... 4 t + 3.
template <unsigned D>
class QuarterRow {
public:
  __device__ QuarterRow(const ExactRows& exact, unsigned row, unsigned t)
      : width_(exact.width), t_(t) {
    const float* values = exact.rows + std::size_t{row} * exact.width;
#pragma unroll
    for (unsigned i = 0; i < kParts; ++i) { // loads do not wait for one another
      x_[i] = here(i) ? __ldg(reinterpret_cast<const float4*>(values + f(i))) : float4{};
    }
  }
  /// Four lanes: its squared distance to a centroid.
  __device__ float squared(const ExactRows& exact, unsigned j) const {
    float sum = 0.0f;
#pragma unroll
    for (unsigned i = 0; i < kParts; ++i) {
      if (here(i)) {
        const float4 c =
            *reinterpret_cast<const float4*>(exact.s_centroids + j * exact.stride() + f(i));
        sum += (x_[i].x - c.x) * (x_[i].x - c.x) + (x_[i].y - c.y) * (x_[i].y - c.y) +
               (x_[i].z - c.z) * (x_[i].z - c.z) + (x_[i].w - c.w) * (x_[i].w - c.w);
      }
    }
    return over_lanes<4>(sum);
  }
  /// What both float16 parts keep of each value, times `scale`: use(feature, value).
  template <typename Use>
  __device__ void in_parts(float scale, Use use) const {
#pragma unroll
    for (unsigned i = 0; i < kParts; ++i) {
      if (here(i)) {
        const float values[4] = {x_[i].x, x_[i].y, x_[i].z, x_[i].w};
#pragma unroll
        for (unsigned v = 0; v < 4; ++v) {
          use(f(i) + v, SplitPair::of(values[v] * scale).sum());
        }
      }
    }
  }

private:
  static constexpr unsigned kParts = (D + 15) / 16;
  __device__ unsigned f(unsigned i) const {
    return i * 16 + t_ * 4;
  }
  __device__ bool here(unsigned i) const {
    return f(i) < width_;
  }

  unsigned width_, t_;
  float4 x_[kParts];
};

} // namespace clusterbench::cuda
