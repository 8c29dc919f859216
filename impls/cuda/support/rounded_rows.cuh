// Rows of which only the first of two float16 parts is read (split_columns.cuh): what rounding took
// from each, and which centroids may be nearest to them. The bounds: rounded_bound.hpp. Needs
// sm_90a.
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

/// A thread a row. rows: [n, width] as they came, whole groups of four.
static __global__ void measure_rounded_rows(const float* rows, std::size_t n, unsigned width,
                                            float scale, RoundedRow* rounded) {
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n;
       i += std::size_t{gridDim.x} * blockDim.x) {
    float squared = 0.0f, lost = 0.0f;
#pragma unroll 4
    for (unsigned first = 0; first < width; first += 4) {
      const float4 four = *reinterpret_cast<const float4*>(rows + i * width + first);
      const float values[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
      for (unsigned e = 0; e < 4; ++e) {
        const float x = values[e] * scale;
        const float y = __half2float(SplitPair::of(x).high);
        squared += y * y;
        lost += (x - y) * (x - y);
      }
    }
    rounded[i] = RoundedRow::of(squared, sqrtf(lost));
  }
}

/// Of all rows; does not block. Throws std::runtime_error.
inline void measure_rounded_rows(const SplitRun& run, DeviceBuffer<RoundedRow>& rounded) {
  measure_rounded_rows<<<blocks_at_most(run.exact.n, 256, 65536), 256>>>(
      run.exact.rows, run.exact.n, run.exact.width, run.scale, rounded.data());
  check_launch("measure_rounded_rows");
}

/// What takes the half squares to the scores, as one more step of their products: 16 features that
/// are 1 in every row, and of every centroid the two parts of its half square, and zeros.
template <typename S>
struct HalfSquareStep {
  alignas(16) __half ones[S::Tile::kRows * 8];
  alignas(16) __half parts[2 * S::K * 8]; ///< [2 columns, K, 8]

  /// All threads, once. They must publish their operands, and a barrier must follow.
  __device__ void clear() {
    for (unsigned e = threadIdx.x; e < S::Tile::kRows * 8; e += S::kThreads) {
      ones[e] = __float2half(1.0f);
    }
    for (unsigned e = threadIdx.x; e < 2 * S::K * 8; e += S::kThreads) {
      parts[e] = __half{};
    }
  }
  /// Any thread, before operands are published: sets the half square of a centroid, and `shift`
  /// more, in `unit`. That of one behind k, kNever, becomes the largest float16.
  __device__ void set(unsigned j, float half_square, float shift, HalfUnit unit) {
    constexpr float kMost = 65504.0f;
    const auto pair = SplitPair::of(fminf((half_square + shift) * unit.to, kMost));
    parts[j * 8] = pair.high;
    parts[j * 8 + 1] = pair.low;
  }
  __device__ std::uint64_t rows() const { return operand(shared_address(ones) / 16, 0, 8); }
  __device__ std::uint64_t columns() const { return operand(shared_address(parts) / 16, S::K, 8); }
};

/// Starts the scores of 64 rounded rows of each of two tiles with all centroids, which are in two
/// parts and in HalfUnit; see multiply_tile(). tiles: places of the first parts.
/// SplitRange::longest() allows for a row that is rounded up.
template <typename S>
__device__ void multiply_rounded(const unsigned (&tiles)[2], unsigned parts,
                                 const HalfSquareStep<S>& half_squares,
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
    multiply_rows<S::K>(score[of], half_squares.rows(), half_squares.columns(), true);
  }
  close_products();
}

/// A whole warp: the mean of so many values.
__device__ inline float mean_over_warp(const float* s_values, unsigned count) {
  float sum = 0.0f;
  for (unsigned j = threadIdx.x % 32; j < count; j += 32) {
    sum += s_values[j];
  }
  return over_lanes<32>(sum) / static_cast<float>(count);
}

/// The least values of four rows, each in two halves, from four lanes; lane t gets that of row t.
__device__ inline __half least_of_row(unsigned lane, const __half2 (&least)[4]) {
  const auto swapped = [](unsigned lanes, __half2 value) {
    return __shfl_xor_sync(kAllLanes, value, static_cast<int>(lanes));
  };
  const auto of_two = [](__half2 a, __half2 b) { // rows side by side
    return __hmin2(__lows2half2(a, b), __highs2half2(a, b));
  };
  const __half2 first = of_two(least[0], least[1]), second = of_two(least[2], least[3]);
  const bool upper = lane % 4 / 2 == 1, odd = lane % 2 == 1;
  const __half2 mine = __hmin2(upper ? second : first, swapped(2, upper ? first : second));
  const __half2 all = __hmin2(mine, swapped(1, mine));
  return odd ? __high2half(all) : __low2half(all);
}

/// Gives each of four lanes what all of them know of one row. near: of rows 0 and 1, and of rows 2
/// and 3, in halves; lane t gets that of row t.
__device__ inline NearOnes to_owners(unsigned lane, const std::uint32_t (&near)[2]) {
  const bool upper = lane % 4 / 2 == 1, odd = lane % 2 == 1;
  const std::uint32_t mine = upper ? near[1] : near[0];
  const std::uint32_t received = __shfl_xor_sync(kAllLanes, upper ? near[0] : near[1], 2);
  const std::uint32_t low = upper ? received : mine, high = upper ? mine : received;
  const std::uint32_t rows[2] = {__byte_perm(low, high, 0x5410), __byte_perm(low, high, 0x7632)};
  const std::uint32_t own = odd ? rows[1] : rows[0];
  const std::uint32_t others = __shfl_xor_sync(kAllLanes, odd ? rows[0] : rows[1], 1);
  return {odd ? others : own, odd ? own : others};
}

/// Of 16 rows of each of two tiles, from a warp's scores, for which it waits, see label_rows(): the
/// centroids that may be nearest. Each lane answers for one row, lane 4 g + t for row g + 8 (t % 2)
/// of tile t / 2, and gets those of that one. Scores are compared two at a time, rounded to
/// float16: none that is less than another becomes more. They are in `unit`, and all `shift` more;
/// slack: see HalfUnit::limit(). There is always one, and none behind k, whose scores are 65504,
/// where others and the limit are less than 2^15 and a little.
template <unsigned T, typename Slack>
__device__ NearOnes find_near(unsigned lane, float shift, HalfUnit unit, Slack slack,
                              float (&score)[2][T][4]) {
  __half2 scores[4][T], least[4]; // of rows in the order of the lanes that answer for them
  wait_for_products<0>();
  take_products(score[0]);
  take_products(score[1]);
#pragma unroll
  for (unsigned e = 0; e < T; ++e) {
#pragma unroll
    for (unsigned r = 0; r < 4; ++r) {
      const float* two = score[r / 2][e] + r % 2 * 2;
      scores[r][e] = __floats2half2_rn(two[0], two[1]);
      least[r] = e == 0 ? scores[r][e] : __hmin2(least[r], scores[r][e]);
    }
  }
  const __half2 limit =
      __float2half2_rn(unit.limit(__half2float(least_of_row(lane, least)), shift, slack));
  __half2 near[4]; // bit e of a half's lower byte: a number from 1024 to 2047 has steps of one
#pragma unroll
  for (unsigned r = 0; r < 4; ++r) {
    const __half2 limit_of = __shfl_sync(kAllLanes, limit, static_cast<int>(r), 4);
    near[r] = __float2half2_rn(1024.0f);
#pragma unroll
    for (unsigned e = 0; e < T; ++e) {
      near[r] = __hfma2(__hle2(scores[r][e], limit_of),
                        __float2half2_rn(static_cast<float>(1u << e)), near[r]);
    }
  }
  const auto bytes_of = [](__half2 a, __half2 b) {
    return __byte_perm(*reinterpret_cast<const std::uint32_t*>(&a),
                       *reinterpret_cast<const std::uint32_t*>(&b), 0x6420);
  };
  return to_owners(lane, {bytes_of(near[0], near[1]), bytes_of(near[2], near[3])});
}

} // namespace clusterbench::cuda
