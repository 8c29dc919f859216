// Tiles of 64 rows in two float16 parts, as wgmma reads them without swizzle, for products with
// rows and for sums of them; and how they are made. What a part loses: split_rows.cuh.
//
// Columns of eight features, first of the high parts, then of the low ones: [2 columns, 64 rows,
// 8]. Eight rows of a column are 128 bytes in a row, which is all that either reading asks for.
#pragma once

#include "impls/cuda/support/buffer.hpp"
#include "impls/cuda/support/grid.hpp"
#include "impls/cuda/support/narrow_products.cuh"
#include "impls/cuda/support/split_rows.cuh"

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace clusterbench::cuda {

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
