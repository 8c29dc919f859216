// Rows of which only the first of two float16 parts is read (split_columns.cuh): what rounding took from each, and
// which centroids may be nearest to them. The bounds: rounded_bound.hpp. Needs sm_90a.
#pragma once

#include "impls/cuda/support/buffer.hpp"
#include "impls/cuda/support/grid.hpp"
#include "impls/cuda/support/rounded_bound.hpp"
#include "impls/cuda/support/split_rows.cuh"
#include "impls/cuda/support/split_teams.cuh"
#include "impls/cuda/support/warp_sums.cuh"

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

/// Of all rows. Throws std::runtime_error.
inline DeviceBuffer<RoundedRow> measure_rounded_rows(const SplitRun& run, cudaStream_t stream) {
  DeviceBuffer<RoundedRow> rounded(run.exact.n);
  measure_rounded_rows<<<blocks_at_most(run.exact.n, 256, 65536), 256, 0, stream>>>(
      run.exact.rows, run.exact.n, run.exact.width, run.scale, rounded.data());
  check_launch("measure_rounded_rows");
  return rounded;
}

/// Starts the scores but for the half squares, -y.c, of 64 rounded rows of each of two tiles with all centroids,
/// which are in two parts; see multiply_tile(). tiles: places of the first parts. Errors are within those of rows in
/// two parts: SplitRange::longest() allows for a row that is rounded up.
template <typename S>
__device__ void multiply_rounded(const unsigned (&tiles)[2], unsigned parts,
                                 float (&score)[2][S::K / 8][4]) {
  open_products();
#pragma unroll
  for (unsigned of = 0; of < 2; ++of) {
#pragma unroll
    for (unsigned e = 0; e < 2 * S::kSteps; ++e) { // low parts first
      const unsigned step = e % S::kSteps, part = e < S::kSteps ? parts + S::kPart / 8 : parts;
      multiply_rows<S::K>(score[of], S::Tile::rows(tiles[of], step),
                          operand(part + step * 2 * S::K, S::K, 8), e > 0);
    }
  }
  close_products();
}

/// Gives each of four lanes what all of them know of one row. near: of rows 0 and 1, and of rows 2 and 3, in
/// halves; lane t gets that of row t.
__device__ inline NearOnes to_owners(const std::uint32_t (&near)[2]) {
  const bool upper = threadIdx.x % 4 / 2 == 1, odd = threadIdx.x % 2 == 1;
  const std::uint32_t kept = upper ? near[1] : near[0];
  const std::uint32_t received = __shfl_xor_sync(kAllLanes, upper ? near[0] : near[1], 2);
  const std::uint32_t low = upper ? received : kept, high = upper ? kept : received;
  const std::uint32_t rows[2] = {__byte_perm(low, high, 0x5410), __byte_perm(low, high, 0x7632)};
  const std::uint32_t own = odd ? rows[1] : rows[0];
  const std::uint32_t others = __shfl_xor_sync(kAllLanes, odd ? rows[0] : rows[1], 1);
  return {odd ? others : own, odd ? own : others};
}

/// Of 16 rows of each of two tiles, from a warp's products -y.c, for which it waits, see label_rows(): the
/// centroids that may be nearest. Each lane answers for one row, lane 4 g + t for row g + 8 (t % 2) of tile t / 2,
/// and gets those of that one. slack(least): by how much a score of the lane's row may exceed its least one. There
/// is always one, and none behind k: scores are finite and far less than kNever, or SplitRange::refuse() has a
/// reason.
template <unsigned T, typename Slack>
__device__ NearOnes find_near(const float* s_half_squares, Slack slack, float (&score)[2][T][4]) {
  const unsigned t = threadIdx.x % 4;
  float least[8]; // of rows and columns apart, so that comparisons do not wait for one another
  wait_for_products<0>();
  take_products(score[0]);
  take_products(score[1]);
#pragma unroll
  for (unsigned e = 0; e < T; ++e) {
    const float2 half = *reinterpret_cast<const float2*>(s_half_squares + 8 * e + 2 * t);
#pragma unroll
    for (unsigned v = 0; v < 8; ++v) {
      float& of = score[v / 4][e][v % 4];
      of += v % 2 == 0 ? half.x : half.y;
      least[v] = e == 0 ? of : fminf(least[v], of);
    }
  }
  float of_rows[4]; // in the order of the lanes that answer for them
#pragma unroll
  for (unsigned r = 0; r < 4; ++r) {
    of_rows[r] = fminf(least[2 * r], least[2 * r + 1]);
  }
  const float own = transposing_fold(of_rows, t, [](float a, float b) { return fminf(a, b); });
  const float limit = own + slack(own);
  std::uint32_t near[2] = {}; // of two rows each, one in a half
#pragma unroll
  for (unsigned r = 0; r < 4; ++r) {
    const float limit_of = __shfl_sync(kAllLanes, limit, static_cast<int>(r), 4);
    std::uint32_t ones[2] = {}; // apart, as above
#pragma unroll
    for (unsigned e = 0; e < 2 * T; ++e) {
      if (score[r / 2][e / 2][r % 2 * 2 + e % 2] <= limit_of) {
        ones[e % 2] |= 1u << (r % 2 * 16 + e);
      }
    }
    near[r / 2] |= ones[0] | ones[1];
  }
  return to_owners(near);
}

} // namespace clusterbench::cuda
