// Numbers as two or more narrow ones, whose products the tensor cores make exactly.
#pragma once

#include "impls/cuda/common/copies.cuh"
#include "impls/cuda/common/runtime.hpp"
#include "impls/cuda/few_clusters/narrow_products.cuh"

#include <cstddef>
#include <cstdint>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <nv/target>
#include <span>

namespace clusterbench::cuda {

// ---- rows
//
// Rows as two float16 parts for the tensor cores: their layout, the products of 16 rows with all
// centres, and the weighted sums of 16 rows, as m16n8k16 products with float32 sums.
//
// A value x times a power of two is h + l: h rounds it to float16, l rounds what is left. Either has 11
// bits and l a sign of its own, so h + l differs from it by 2^-23 of it at most; or, as float16 ends at
// 2^-24, by 2^-25, which is 2^-39 of a largest value between 2^14 and 2^15. Of a product of two such
// values that of the two low parts is left out: 2^-22 of the term. Both parts lie in memory side by side,
// four bytes a value, so nothing is split during a sweep. Sums of a tile are added to those of the
// sweep in float32, as the tensor cores' own additions do not round to nearest.
//
// Lanes are counted as the instruction does: lane = 4 g + t. A warp looks after kSteps groups of 16
// features from a first one on; features behind the last read column 0 and are multiplied by zero.

inline constexpr unsigned kSplitRows = 16;

/// Rows of whole columns of eight halves (16 bytes), and one more if they would be even: so eight rows of
/// one column lie in different banks. A tile: high parts, low parts [rows, stride], lengths |x| [rows].
struct SplitLayout {
  unsigned columns;

  __host__ __device__ static SplitLayout of(std::size_t d) {
    return {static_cast<unsigned>((d + 7) / 8)};
  }
  /// Features of a centre.
  __host__ __device__ unsigned width() const { return 8 * columns; }
  /// Halves from row to row.
  __host__ __device__ unsigned stride() const { return 8 * (columns | 1u); }
};

/// Four 8x8 matrices; the address is that of row lane % 8 of matrix lane / 8.
template <bool kTransposed>
__device__ void load_matrices(unsigned (&to)[4], const __half* from) {
  if constexpr (kTransposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(shared_address(from)));
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(shared_address(from)));
  }
}

/// c (16 x 8) += a (16 x 16) b (16 x 8)
__device__ inline void multiply_halves(float (&c)[4], const unsigned (&a)[4],
                                       const unsigned (&b)[2]) {
  NV_IF_ELSE_TARGET(
      NV_PROVIDES_SM_80,
      (asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
           "{%8, %9}, {%0, %1, %2, %3};"
           : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
           : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));),
      (__trap();))
}

struct SplitPair {
  __half high, low;
  __device__ static SplitPair of(float scaled) {
    const __half high = __float2half_rn(scaled);
    return {high, __float2half_rn(scaled - __half2float(high))};
  }
  __device__ float sum() const { return __half2float(high) + __half2float(low); }
};

/// Two halves in one register, the first one in the low bits.
__device__ inline unsigned packed(__half first, __half second) {
  return unsigned{__half_as_ushort(first)} | unsigned{__half_as_ushort(second)} << 16;
}

/// A warp's features of 8 T centres, in registers for a whole sweep.
template <unsigned kSteps, unsigned T>
class SplitCentres {
public:
  /// s_centres: [k, width]; s_scales: [8 T], powers of two that take each centre below 2^15.
  __device__ SplitCentres(const float* s_centres, const float* s_scales, unsigned k, unsigned width,
                          unsigned first_step) {
    const unsigned g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
    for (unsigned e = 0; e < kSteps * T * 2; ++e) {
      const unsigned step = e / (2 * T), tile = e / 2 % T, half = e % 2, j = tile * 8 + g;
      const unsigned f = (first_step + step) * 16 + 8 * half + 2 * t;
      const bool real = j < k && f < width; // width is even
      const auto first = SplitPair::of(real ? s_centres[j * width + f] * s_scales[j] : 0.0f);
      const auto second = SplitPair::of(real ? s_centres[j * width + f + 1] * s_scales[j] : 0.0f);
      high_[step][tile][half] = packed(first.high, second.high);
      low_[step][tile][half] = packed(first.low, second.low);
    }
  }
  /// products[tile]: of rows g and g + 8 with clusters 8 tile + 2 t and the next, in this order:
  /// (g, 2 t), (g, 2 t + 1), (g + 8, 2 t), (g + 8, 2 t + 1). high, low: the parts of 16 rows.
  __device__ void multiply(const __half* high, const __half* low, SplitLayout layout,
                           unsigned first_step, float (&products)[T][4]) const {
    float sums[3][T][4] = {}; // several, as one would wait for itself
    const unsigned lane = threadIdx.x % 32;
#pragma unroll
    for (unsigned step = 0; step < kSteps; ++step) {
      const unsigned column = (first_step + step) * 2 + lane / 16;
      const unsigned at = lane % 16 * layout.stride() + 8 * (column < layout.columns ? column : 0);
      unsigned a_high[4], a_low[4];
      load_matrices<false>(a_high, high + at);
      load_matrices<false>(a_low, low + at);
#pragma unroll
      for (unsigned tile = 0; tile < T; ++tile) {
        multiply_halves(sums[0][tile], a_high, high_[step][tile]);
        multiply_halves(sums[1][tile], a_low, high_[step][tile]);
        multiply_halves(sums[2][tile], a_high, low_[step][tile]);
      }
    }
#pragma unroll
    for (unsigned e = 0; e < T * 4; ++e) {
      products[e / 4][e % 4] =
          sums[0][e / 4][e % 4] + (sums[1][e / 4][e % 4] + sums[2][e / 4][e % 4]);
    }
  }

private:
  unsigned high_[kSteps][T][2], low_[kSteps][T][2];
};

/// A warp's features of the weighted sums of 8 T clusters.
template <unsigned kSteps, unsigned T>
class SplitSums {
public:
  /// Adds 16 rows. w_high, w_low [tile]: weights of rows (2 t, 2 t + 1) and (2 t + 8, 2 t + 9) in cluster
  /// 8 tile + g.
  __device__ void add(const __half* high, const __half* low, SplitLayout layout,
                      unsigned first_step, const unsigned (&w_high)[T][2],
                      const unsigned (&w_low)[T][2]) {
    const unsigned lane = threadIdx.x % 32, row = lane / 16 * 8 + lane % 8;
#pragma unroll
    for (unsigned step = 0; step < kSteps; ++step) {
      const unsigned column = (first_step + step) * 2 + lane / 8 % 2;
      const unsigned at = row * layout.stride() + 8 * (column < layout.columns ? column : 0);
      unsigned a_high[4], a_low[4];
      load_matrices<true>(a_high, high + at);
      load_matrices<true>(a_low, low + at);
#pragma unroll
      for (unsigned tile = 0; tile < T; ++tile) {
        float sums[4] = {}, rests[4] = {};
        multiply_halves(sums, a_high, w_high[tile]);
        multiply_halves(rests, a_low, w_high[tile]);
        multiply_halves(rests, a_high, w_low[tile]);
#pragma unroll
        for (unsigned e = 0; e < 4; ++e) {
          sums_[step][tile][e] += sums[e] + rests[e];
        }
      }
    }
  }
  /// Puts the sums, times s_factors [8 T], into s_sums [k, width], or adds them to what is there.
  __device__ void store(const float* s_factors, unsigned first_step, unsigned k, unsigned width,
                        bool add, float* s_sums) const {
    const unsigned g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
    for (unsigned e = 0; e < kSteps * T * 4; ++e) {
      const unsigned step = e / (4 * T), tile = e / 4 % T, j = tile * 8 + 2 * t + e % 2;
      const unsigned f = (first_step + step) * 16 + g + 8 * (e % 4 / 2);
      if (f < width && j < k) {
        const float sum = sums_[step][tile][e % 4] * s_factors[j];
        s_sums[j * width + f] = add ? s_sums[j * width + f] + sum : sum;
      }
    }
  }

private:
  float sums_[kSteps][T][4] = {};
};

// ---- columns
//
// Tiles of 64 rows in two float16 parts, as wgmma reads them without swizzle, for products with
// rows and for sums of them; and how they are made. What a part loses: see the rows above.
//
// Columns of eight features, first of the high parts, then of the low ones: [2 columns, 64 rows,
// 8]. Eight rows of a column are 128 bytes in a row, which is all that either reading asks for.

/// Of kColumns columns; in units of 16 bytes, which are a row of a column.
template <unsigned kColumns>
struct SplitTile {
  static constexpr unsigned kRows = 64, kUnit = 16;  ///< bytes
  static constexpr unsigned kLow = kColumns * kRows; ///< where the low parts begin
  static constexpr unsigned kBytes = 2 * kLow * kUnit;

  /// 64 rows, 16 features from column 2 step on, as multiply_rows() wants them. `part`: its place.
  /// Of an odd number of columns the last is there twice: a step's second half is multiplied by
  /// zero then.
  __device__ static std::uint64_t rows(unsigned part, unsigned step) {
    return operand(part + step * 2 * kRows, 2 * step + 1 < kColumns ? kRows : 0, 8);
  }
  /// Rows 16 step ... 16 step + 15, all features, as add_rows() wants them.
  __device__ static std::uint64_t sixteen_rows(unsigned part, unsigned step) {
    return operand(part + step * 16, 8, kRows);
  }
};

/// A thread eight features of a row; what lies behind n or d becomes zero. Neighbours have
/// neighbouring rows, whose parts are neighbours. rows: [n, d]
static __global__ void pack_split_columns(const float* rows, std::size_t n, unsigned d, float scale,
                                          std::size_t tiles_count, uint4* tiles) {
  constexpr unsigned kRows = SplitTile<1>::kRows;
  const unsigned of_part = (d + 7) / 8 * kRows;
  for (std::size_t e = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
       e < tiles_count * of_part; e += std::size_t{gridDim.x} * blockDim.x) {
    const std::size_t tile = e / of_part;
    const unsigned place = static_cast<unsigned>(e % of_part), column = place / kRows;
    const std::size_t row = tile * kRows + place % kRows;
    float x[8]; // on their way together
#pragma unroll
    for (unsigned f = 0; f < 8; ++f) {
      x[f] = row < n && column * 8 + f < d ? rows[row * d + column * 8 + f] * scale : 0.0f;
    }
    unsigned high[4], low[4];
#pragma unroll
    for (unsigned i = 0; i < 4; ++i) {
      const auto first = SplitPair::of(x[2 * i]), second = SplitPair::of(x[2 * i + 1]);
      high[i] = packed(first.high, second.high);
      low[i] = packed(first.low, second.low);
    }
    uint4* to = tiles + tile * 2 * of_part + place;
    to[0] = make_uint4(high[0], high[1], high[2], high[3]);
    to[of_part] = make_uint4(low[0], low[1], low[2], low[3]);
  }
}

/// Floats of the tiles of [n, d] rows.
inline std::size_t split_columns_size(std::size_t n, std::size_t d) {
  constexpr std::size_t kRows = SplitTile<1>::kRows;
  return ceil_div(n, kRows) * ceil_div(d, 8) * kRows * 8;
}

/// Fills them; does not block. Throws std::runtime_error.
inline void pack_split_columns(std::span<const float> d_rows, std::size_t d, float scale,
                               DeviceBuffer<float>& tiles) {
  const std::size_t n = d_rows.size() / d;
  pack_split_columns<<<blocks_at_most(tiles.size() / 8, 256, 65536), 256>>>(
      d_rows.data(), n, static_cast<unsigned>(d), scale, ceil_div(n, SplitTile<1>::kRows),
      reinterpret_cast<uint4*>(tiles.data()));
  check_launch("pack_split_columns");
}

} // namespace clusterbench::cuda
