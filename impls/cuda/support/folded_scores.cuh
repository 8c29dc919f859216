// Scores that the tensor cores make whole: |c'|^2 / 2 and a constant of the row are further features of
// the product, so that nothing is left to add and no score is negative but by rounding.
#pragma once

#include "impls/cuda/support/wgmma_sweep.cuh"

namespace clusterbench::cuda {

/// Features beside those of the data. Of a point: 2^15, 2^4, 1 for the three parts of |c'|^2 / 2,
/// the row's constant in units of 2^15, and 2^15 twelve times. Of a centroid: those parts, 2^15, and
/// twelve times nothing; of one that does not exist, the largest number twelve times.
inline constexpr unsigned kFoldedFeatures = 16;

/// Eight halves of a row at a place that the 32-byte swizzle gives them. tiles: [rows][16]
__device__ inline void store_folded(__half* tiles, std::size_t row, unsigned group,
                                    const __half (&values)[8]) {
  const unsigned to = HalfTiles::swizzled(kFoldedFeatures, static_cast<unsigned>(row % 8), group);
  for (unsigned e = 0; e < 8; ++e) {
    tiles[row * kFoldedFeatures + to * 8 + e] = values[e];
  }
}

/// The constant is |x'|^2 / 2 or a little more: any other would do, as it moves all scores of a row.
static __global__ void fold_points(const float* norms, std::size_t n, __half* tiles) {
  const __half unit = __float2half(0x1p15f), four = __float2half(0x1p4f), one = __float2half(1.0f);
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n;
       i += std::size_t{gridDim.x} * blockDim.x) {
    const __half constant = __float2half_ru(0.5f * norms[i] * norms[i] * 0x1p-15f);
    store_folded(tiles, i, 0, {unit, four, one, constant, unit, unit, unit, unit});
    store_folded(tiles, i, 1, {unit, unit, unit, unit, unit, unit, unit, unit});
  }
}

__device__ inline float folded_constant(const __half* tiles, std::size_t row) {
  const unsigned group = HalfTiles::swizzled(kFoldedFeatures, static_cast<unsigned>(row % 8), 0);
  return __half2float(tiles[row * kFoldedFeatures + group * 8 + 3]) * 0x1p15f;
}

/// half_squares: [k], at most 2^30; three halves hold them to 2^-33 of themselves and 2^-25.
static __global__ void fold_centroids(const float* half_squares, unsigned k, unsigned padded_k,
                                      __half* tiles) {
  const unsigned j = blockIdx.x * blockDim.x + threadIdx.x;
  if (j >= padded_k) {
    return;
  }
  const __half zero = __float2half(0.0f), most = __float2half(65504.0f);
  const __half fill = j < k ? zero : most;
  const float whole = j < k ? half_squares[j] : 0.0f;
  const __half first = __float2half(whole * 0x1p-15f);
  const float rest = whole - __half2float(first) * 0x1p15f; // exact, as all of these are
  const __half second = __float2half(rest * 0x1p-4f);
  const __half third = __float2half(rest - __half2float(second) * 0x1p4f);
  const __half unit = j < k ? __float2half(0x1p15f) : zero;
  store_folded(tiles, j, 0, {first, second, third, unit, fill, fill, fill, fill});
  store_folded(tiles, j, 1, {fill, fill, fill, fill, fill, fill, fill, fill});
}

/// Groups of 16 scores compete, as integers: numbers that are not negative have the order of their
/// bits, and where a best score is negative no gap is claimed. Half an operation a score.
struct FoldedGroups {
  using Value = int;
  static constexpr unsigned kMoreFeatures = kFoldedFeatures;
  static constexpr int kSign = -1;

  __device__ static int far_away() { return __float_as_int(kFarAway); }
  __device__ static int least(int a, int b) { return min(a, b); }
  __device__ static int most(int a, int b) { return max(a, b); }
  __device__ static unsigned bits(int value) { return static_cast<unsigned>(value); }

  __device__ static void compete(const float (&sums)[64], const unsigned char*, unsigned keep,
                                 int (&best)[2], int (&second)[2]) {
#pragma unroll
    for (unsigned group = 0; group < 2; ++group) {
#pragma unroll
      for (unsigned p = 0; p < 2; ++p) {
        const auto score = [&](unsigned e) { // the e-th of the row's 16 of this group
          return __float_as_int(sums[(group * 8 + e / 2) * 4 + p * 2 + e % 2]);
        };
        int all[5];
#pragma unroll
        for (unsigned e = 0; e < 5; ++e) {
          all[e] = __vimin3_s32(score(e * 3), score(e * 3 + 1), score(e * 3 + 2));
        }
        const int some = __vimin3_s32(all[0], all[1], score(15));
        const int group_least = min(__vimin3_s32(all[2], all[3], all[4]), some);
        const int value =
            static_cast<int>((static_cast<unsigned>(group_least) & keep) | group * 16);
        second[p] = min(second[p], max(best[p], value));
        best[p] = min(best[p], value);
      }
    }
  }

  __device__ static void decide(const SweepTask& task, const Beside& beside, bool has_row,
                                std::size_t row, int best, unsigned nearest, int second) {
    float largest = 0.0f, constant = 0.0f; // whose score is the least of its group is not known
    if (has_row) {
      constant = folded_constant(beside.points, row);
      largest = folded_error(task.counters->largest(), task.points.residual[row],
                             task.points.norm[row], constant);
    }
    cuda::decide(task, has_row, row, __fadd_ru(__int_as_float(best), -constant), nearest,
                 __fadd_rd(__int_as_float(second), -constant), largest, largest);
  }
};

} // namespace clusterbench::cuda
