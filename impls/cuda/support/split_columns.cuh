// Tiles of 64 rows in two float16 parts, as wgmma reads them without swizzle, for products with rows and
// for sums of them; and how they are made. What a part loses: split_rows.cuh.
//
// Columns of eight features, first of the high parts, then of the low ones: [2 columns, 64 rows, 8]. Eight
// rows of a column are 128 bytes in a row, which is all that either reading asks for.
#pragma once

#include "impls/cuda/support/narrow_products.cuh"
#include "impls/cuda/support/pack_tiles.cuh"
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

  /// 64 rows, 16 features from column 2 step on, as multiply_rows() wants them. `part`: its place. Of an
  /// odd number of columns the last is there twice: a step's second half is multiplied by zero then.
  __device__ static std::uint64_t rows(unsigned part, unsigned step) {
    return operand(part + step * 2 * kRows, 2 * step + 1 < kColumns ? kRows : 0, 8);
  }
  /// Rows 16 step ... 16 step + 15, all features, as add_rows() wants them.
  __device__ static std::uint64_t sixteen_rows(unsigned part, unsigned step) {
    return operand(part + step * 16, 8, kRows);
  }
};

/// A thread eight features of a row. rows: [n, d]
static __global__ void pack_split_columns(const float* rows, std::size_t n, unsigned d, float scale,
                                          float* tiles) {
  constexpr unsigned kRows = SplitTile<1>::kRows;
  const unsigned columns = (d + 7) / 8;
  const std::size_t size = n * columns;
  for (std::size_t e = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; e < size;
       e += std::size_t{gridDim.x} * blockDim.x) {
    const std::size_t row = e / columns;
    const unsigned column = static_cast<unsigned>(e % columns);
    __half* high = reinterpret_cast<__half*>(tiles + row / kRows * columns * kRows * 8) +
                   (column * kRows + row % kRows) * 8;
    __half* low = high + columns * kRows * 8;
    for (unsigned f = 0; f < 8; ++f) {
      const bool real = column * 8 + f < d;
      const auto parts = SplitPair::of(real ? rows[row * d + column * 8 + f] * scale : 0.0f);
      high[f] = parts.high;
      low[f] = parts.low;
    }
  }
}

/// Room for the tiles of [n, d] rows, zero in the order of `stream`. Throws std::runtime_error.
inline DeviceBuffer<float> empty_split_columns(std::size_t n, std::size_t d, cudaStream_t stream) {
  constexpr unsigned kRows = SplitTile<1>::kRows;
  return empty_tiles(n, kRows, ceil_div(d, 8) * kRows * 8, stream);
}

/// Fills them, but for what lies behind n, in the order of `stream`; does not block. Throws
/// std::runtime_error.
inline void pack_split_columns(std::span<const float> d_rows, std::size_t d, float scale,
                               DeviceBuffer<float>& tiles, cudaStream_t stream) {
  const std::size_t n = d_rows.size() / d;
  pack_split_columns<<<blocks_at_most(n * ceil_div(d, 8), 256, 65536), 256, 0, stream>>>(
      d_rows.data(), n, static_cast<unsigned>(d), scale, tiles.data());
  check_launch("pack_split_columns");
}

} // namespace clusterbench::cuda
