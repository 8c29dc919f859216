// Rows of which only the first of two float16 parts is read (split_columns.cuh): what rounding took from each, and
// which centroids may be nearest to them. The bounds: rounded_bound.hpp. Needs sm_90a.
#pragma once

#include "impls/cuda/support/buffer.hpp"
#include "impls/cuda/support/grid.hpp"
#include "impls/cuda/support/rounded_bound.hpp"
#include "impls/cuda/support/split_rows.cuh"
#include "impls/cuda/support/split_teams.cuh"

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cmath>
#include <cstddef>
#include <cstdint>

namespace clusterbench::cuda {

/// A thread a row. rows: [n, width] as they came.
static __global__ void measure_rounded_rows(const float* rows, std::size_t n, unsigned width,
                                            float scale, RoundedRow* rounded) {
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n;
       i += std::size_t{gridDim.x} * blockDim.x) {
    float squared = 0.0f, lost = 0.0f;
    for (unsigned f = 0; f < width; ++f) {
      const float x = rows[i * width + f] * scale;
      const float y = __half2float(SplitPair::of(x).high);
      squared += y * y;
      lost += (x - y) * (x - y);
    }
    rounded[i] = RoundedRow::of(squared, sqrtf(lost));
  }
}

/// For the rows of all tiles, zero behind n. Throws std::runtime_error.
inline DeviceBuffer<RoundedRow> measure_rounded_rows(const SplitRun& run, cudaStream_t stream) {
  DeviceBuffer<RoundedRow> rounded(run.tiles_count * std::size_t{SplitTile<1>::kRows});
  rounded.zero(stream);
  measure_rounded_rows<<<blocks_at_most(run.exact.n, 256, 65536), 256, 0, stream>>>(
      run.exact.rows, run.exact.n, run.exact.width, run.scale, rounded.data());
  check_launch("measure_rounded_rows");
  return rounded;
}

/// Starts the scores but for the half squares, -y.c, of 64 rounded rows with all centroids, which are in two
/// parts; see multiply_tile(). Their errors are within those of rows in two parts: SplitRange::longest() allows for
/// a row that is rounded up.
template <typename S>
__device__ void multiply_rounded(unsigned tile, unsigned parts, float (&score)[S::K / 8][4]) {
  open_products();
#pragma unroll
  for (unsigned e = 0; e < 2 * S::kSteps; ++e) { // low parts first
    const unsigned step = e % S::kSteps, part = e < S::kSteps ? parts + S::kPart / 8 : parts;
    multiply_rows<S::K>(score, S::Tile::rows(tile, step), operand(part + step * 2 * S::K, S::K, 8),
                        e > 0);
  }
  close_products();
}

/// Of 16 rows, from a warp's products -y.c, see label_rows(): the centroids that may be nearest, known to the
/// four lanes of a row. slack(h, least): by how much the score of row g + 8 h for its nearest centroid may
/// exceed its least one.
template <unsigned T, typename Slack>
__device__ void find_near(const float* s_half_squares, Slack slack, float (&score)[T][4],
                          std::uint32_t (&near)[2]) {
  const unsigned t = threadIdx.x % 4;
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
#pragma unroll
  for (unsigned h = 0; h < 2; ++h) {
    float limit = fminf(least[2 * h], least[2 * h + 1]);
    limit = fminf(limit, __shfl_xor_sync(kAllLanes, limit, 1));
    limit = fminf(limit, __shfl_xor_sync(kAllLanes, limit, 2));
    limit += slack(h, limit);
    std::uint32_t ones[2] = {};
#pragma unroll
    for (unsigned e = 0; e < 2 * T; ++e) {
      if (score[e / 2][2 * h + e % 2] <= limit) {
        ones[e % 2] += NearOnes::one(e / 2 * 8 + e % 2);
      }
    }
    near[h] = NearOnes::shifted(ones[0] + ones[1], t);
    near[h] += __shfl_xor_sync(kAllLanes, near[h], 1);
    near[h] += __shfl_xor_sync(kAllLanes, near[h], 2);
  }
}

} // namespace clusterbench::cuda
