// Rows of numbers in two float16 parts: the parts, tiles of them that a warpgroup multiplies
// (wgmma), and how tiles are made.
#pragma once

#include "impls/cuda/common/certified_bound.hpp"
#include "impls/cuda/common/runtime.hpp"

#include <cstddef>
#include <cstdint>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <span>

namespace clusterbench::cuda {

// ---- parts
//
// A value x times a power of two is h + l: h rounds it to float16, l rounds what is left. Either
// has 11 bits and l a sign of its own, so h + l differs from it by 2^-23 of it at most; or, as
// float16 ends at 2^-24, by 2^-25, which is 2^-39 of a largest value between 2^14 and 2^15. Of a
// product of two such values that of the two low parts is left out: 2^-22 of the term. Both parts
// lie in memory side by side, four bytes a value, so nothing is split during a sweep.

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

// ---- products
//
// Products of a warpgroup (wgmma) with few columns, on operands that are not swizzled. Needs
// sm_90a.
//
// An operand in shared memory is 8 x 8 matrices of halves, 16 bytes a row and 128 in all. Rows and
// features change places for free, so the tile that is multiplied with the centroids is the one
// that is summed. Of 64 x N results s, s[i][e] belongs to row 16 warp + 8 (e / 2) + lane / 4 and
// column 8 i + 2 (lane % 4) + e % 2, as in an m16n8k16 product of each warp.
//
// The shape is part of an instruction's name, and every result an operand of its own: hence the
// length.

/// An operand in shared memory, all in units of 16 bytes, of which an address is less than 2^14:
/// from one matrix to the next along the dimension that is added up, and across it.
__device__ inline std::uint64_t operand(unsigned place, unsigned along, unsigned across) {
  std::uint64_t both = 0;
  asm("mov.b64 %0, {%1, %2};" : "=l"(both) : "r"(place + (along << 16)), "r"(across));
  return both;
}

// Every sum is an operand of its own.
#define CLUSTERBENCH_SUMS(i) "+f"(s[i][0]), "+f"(s[i][1]), "+f"(s[i][2]), "+f"(s[i][3])

/// s = rows (64 x 16) * columns (16 x N), plus s if `add`. N: 8, 16, 24, 32, 48 or 64.
template <unsigned N>
__device__ void multiply_rows(float (&s)[N / 8][4], std::uint64_t rows, std::uint64_t columns,
                              bool add) {
  if constexpr (N == 8) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %6, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {"
                 "%0, %1, %2, %3"
                 "}, %4, %5, p, 1, 1, 0, 0;\n}"
                 : CLUSTERBENCH_SUMS(0)
                 : "l"(rows), "l"(columns), "r"(static_cast<int>(add)));
  } else if constexpr (N == 16) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %10, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7"
                 "}, %8, %9, p, 1, 1, 0, 0;\n}"
                 : CLUSTERBENCH_SUMS(0), CLUSTERBENCH_SUMS(1)
                 : "l"(rows), "l"(columns), "r"(static_cast<int>(add)));
  } else if constexpr (N == 24) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %14, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n24k16.f32.f16.f16 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11"
                 "}, %12, %13, p, 1, 1, 0, 0;\n}"
                 : CLUSTERBENCH_SUMS(0), CLUSTERBENCH_SUMS(1), CLUSTERBENCH_SUMS(2)
                 : "l"(rows), "l"(columns), "r"(static_cast<int>(add)));
  } else if constexpr (N == 32) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %18, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
                 "}, %16, %17, p, 1, 1, 0, 0;\n}"
                 : CLUSTERBENCH_SUMS(0), CLUSTERBENCH_SUMS(1), CLUSTERBENCH_SUMS(2),
                   CLUSTERBENCH_SUMS(3)
                 : "l"(rows), "l"(columns), "r"(static_cast<int>(add)));
  } else if constexpr (N == 48) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %26, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n48k16.f32.f16.f16 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, "
                 "%18, %19, %20, %21, %22, %23"
                 "}, %24, %25, p, 1, 1, 0, 0;\n}"
                 : CLUSTERBENCH_SUMS(0), CLUSTERBENCH_SUMS(1), CLUSTERBENCH_SUMS(2),
                   CLUSTERBENCH_SUMS(3), CLUSTERBENCH_SUMS(4), CLUSTERBENCH_SUMS(5)
                 : "l"(rows), "l"(columns), "r"(static_cast<int>(add)));
  } else {
    static_assert(N == 64);
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, "
        "%19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
        "}, %32, %33, p, 1, 1, 0, 0;\n}"
        : CLUSTERBENCH_SUMS(0), CLUSTERBENCH_SUMS(1), CLUSTERBENCH_SUMS(2), CLUSTERBENCH_SUMS(3),
          CLUSTERBENCH_SUMS(4), CLUSTERBENCH_SUMS(5), CLUSTERBENCH_SUMS(6), CLUSTERBENCH_SUMS(7)
        : "l"(rows), "l"(columns), "r"(static_cast<int>(add)));
  }
}

/// s = a (64 x 16) * rows (16 x N), plus s if `add`. a: of each warp, as in an m16n8k16 product.
/// The rows are as multiply_rows() has them, with the other dimension added up. N: 8, 16, ... 64.
template <unsigned N>
__device__ void add_rows(float (&s)[N / 8][4], const unsigned (&a)[4], std::uint64_t rows,
                         bool add) {
  if constexpr (N == 8) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %9, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {"
                 "%0, %1, %2, %3"
                 "}, {%4, %5, %6, %7}, %8, p, 1, 1, 1;\n}"
                 : CLUSTERBENCH_SUMS(0)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(rows),
                   "r"(static_cast<int>(add)));
  } else if constexpr (N == 16) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %13, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7"
                 "}, {%8, %9, %10, %11}, %12, p, 1, 1, 1;\n}"
                 : CLUSTERBENCH_SUMS(0), CLUSTERBENCH_SUMS(1)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(rows),
                   "r"(static_cast<int>(add)));
  } else if constexpr (N == 24) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %17, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n24k16.f32.f16.f16 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11"
                 "}, {%12, %13, %14, %15}, %16, p, 1, 1, 1;\n}"
                 : CLUSTERBENCH_SUMS(0), CLUSTERBENCH_SUMS(1), CLUSTERBENCH_SUMS(2)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(rows),
                   "r"(static_cast<int>(add)));
  } else if constexpr (N == 32) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %21, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
        "}, {%16, %17, %18, %19}, %20, p, 1, 1, 1;\n}"
        : CLUSTERBENCH_SUMS(0), CLUSTERBENCH_SUMS(1), CLUSTERBENCH_SUMS(2), CLUSTERBENCH_SUMS(3)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(rows), "r"(static_cast<int>(add)));
  } else if constexpr (N == 40) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %25, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n40k16.f32.f16.f16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, "
        "%19"
        "}, {%20, %21, %22, %23}, %24, p, 1, 1, 1;\n}"
        : "+f"(s[0][0]), "+f"(s[0][1]), "+f"(s[0][2]), "+f"(s[0][3]), "+f"(s[1][0]), "+f"(s[1][1]),
          "+f"(s[1][2]), "+f"(s[1][3]), "+f"(s[2][0]), "+f"(s[2][1]), "+f"(s[2][2]), "+f"(s[2][3]),
          "+f"(s[3][0]), "+f"(s[3][1]), "+f"(s[3][2]), "+f"(s[3][3]), "+f"(s[4][0]), "+f"(s[4][1]),
          "+f"(s[4][2]), "+f"(s[4][3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(rows), "r"(static_cast<int>(add)));
  } else if constexpr (N == 48) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %29, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n48k16.f32.f16.f16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, "
        "%19, %20, %21, %22, %23"
        "}, {%24, %25, %26, %27}, %28, p, 1, 1, 1;\n}"
        : CLUSTERBENCH_SUMS(0), CLUSTERBENCH_SUMS(1), CLUSTERBENCH_SUMS(2), CLUSTERBENCH_SUMS(3),
          CLUSTERBENCH_SUMS(4), CLUSTERBENCH_SUMS(5)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(rows), "r"(static_cast<int>(add)));
  } else if constexpr (N == 56) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %33, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n56k16.f32.f16.f16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, "
        "%19, %20, %21, %22, %23, %24, %25, %26, %27"
        "}, {%28, %29, %30, %31}, %32, p, 1, 1, 1;\n}"
        : "+f"(s[0][0]), "+f"(s[0][1]), "+f"(s[0][2]), "+f"(s[0][3]), "+f"(s[1][0]), "+f"(s[1][1]),
          "+f"(s[1][2]), "+f"(s[1][3]), "+f"(s[2][0]), "+f"(s[2][1]), "+f"(s[2][2]), "+f"(s[2][3]),
          "+f"(s[3][0]), "+f"(s[3][1]), "+f"(s[3][2]), "+f"(s[3][3]), "+f"(s[4][0]), "+f"(s[4][1]),
          "+f"(s[4][2]), "+f"(s[4][3]), "+f"(s[5][0]), "+f"(s[5][1]), "+f"(s[5][2]), "+f"(s[5][3]),
          "+f"(s[6][0]), "+f"(s[6][1]), "+f"(s[6][2]), "+f"(s[6][3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(rows), "r"(static_cast<int>(add)));
  } else {
    static_assert(N == 64);
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %37, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, "
        "%19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
        "}, {%32, %33, %34, %35}, %36, p, 1, 1, 1;\n}"
        : CLUSTERBENCH_SUMS(0), CLUSTERBENCH_SUMS(1), CLUSTERBENCH_SUMS(2), CLUSTERBENCH_SUMS(3),
          CLUSTERBENCH_SUMS(4), CLUSTERBENCH_SUMS(5), CLUSTERBENCH_SUMS(6), CLUSTERBENCH_SUMS(7)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(rows), "r"(static_cast<int>(add)));
  }
}

#undef CLUSTERBENCH_SUMS

// ---- tiles
//
// Tiles of 64 rows in two float16 parts, as wgmma reads them without swizzle, for products with
// rows and for sums of them; and how they are made.
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

// ---- what a kernel is told of them

/// Rows of whole columns of four features, and the centroids in shared memory.
struct ExactRows {
  const float* rows; ///< [n, width], zero behind d
  unsigned n, width, k;
  float* s_centroids; ///< [k to the next 8, stride()], zero behind k and d

  __host__ __device__ unsigned stride() const { return width + 4; }
};

/// The rows, in parts and as they came, and how the parts were made.
struct SplitRun {
  ExactRows exact;
  const float* tiles; ///< SplitTile
  unsigned d, tiles_count;
  float scale;   ///< of the parts, a power of two
  float longest; ///< row, times the scale
  float lost;    ///< by the parts of a row, at most, times the scale
  PlainError of_scores;
};

} // namespace clusterbench::cuda
