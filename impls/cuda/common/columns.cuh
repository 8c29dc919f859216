// Structure of arrays: turns rows into columns, so that threads with neighbouring points read
// neighbouring addresses.
#pragma once

#include "impls/cuda/common/runtime.hpp"

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <span>

namespace clusterbench::cuda {

/// A tile is at most 32 x 32 values; where the matrix is narrower than 32, at most 128 long.
inline constexpr unsigned kTileSide = 32, kTileLength = 128;

/// to[c, r] = from[r, c], a tile of `high` x `wide` values a block. Goes through shared memory, so
/// that neighbouring threads both read and write neighbouring addresses. from: [rows, columns]
template <typename T>
__global__ void transpose_tiles(const T* __restrict__ from, std::size_t rows, std::size_t columns,
                                unsigned high, unsigned wide, T* to) {
  __shared__ T s_tile[kTileLength * (kTileSide + 1)];
  const unsigned pitch = wide | 1; // odd: the values of a column lie in different banks
  const std::size_t across = (columns + wide - 1) / wide;
  const std::size_t first_row = blockIdx.x / across * high;
  const std::size_t first_column = blockIdx.x % across * wide;
  for (unsigned e = threadIdx.x; e < high * wide; e += blockDim.x) {
    const unsigned r = e / wide, c = e % wide;
    if (first_row + r < rows && first_column + c < columns) {
      s_tile[r * pitch + c] = from[(first_row + r) * columns + first_column + c];
    }
  }
  __syncthreads(); // the tile is complete before it is read the other way
  for (unsigned e = threadIdx.x; e < high * wide; e += blockDim.x) {
    const unsigned c = e / high, r = e % high;
    if (first_row + r < rows && first_column + c < columns) {
      to[(first_column + c) * rows + first_row + r] = s_tile[r * pitch + c];
    }
  }
}

/// to [columns, rows] = the transpose of from [rows, columns], both on the device, in the order of
/// `stream`; does not block. Throws std::runtime_error.
template <typename T>
void transpose(const T* from, std::size_t rows, std::size_t columns, T* to,
               cudaStream_t stream = nullptr) {
  const auto high = std::min<std::size_t>(rows, columns < kTileSide ? kTileLength : kTileSide);
  const auto wide = std::min<std::size_t>(columns, rows < kTileSide ? kTileLength : kTileSide);
  const std::size_t tiles = ceil_div(rows, high) * ceil_div(columns, wide);
  transpose_tiles<<<blocks_for(tiles, 1), 256, 0, stream>>>(
      from, rows, columns, static_cast<unsigned>(high), static_cast<unsigned>(wide), to);
  check_launch("transpose_tiles");
}

/// [n, d] rows on the device as [max(d, padded), n] columns, those behind d zero, in the order of
/// `stream`; does not block. Throws std::runtime_error.
template <typename T>
DeviceBuffer<T> make_columns(std::span<const T> d_rows, std::size_t n, std::size_t d,
                             cudaStream_t stream = nullptr, std::size_t padded = 0) {
  DeviceBuffer<T> columns(n * std::max(d, padded));
  if (padded > d) {
    columns.zero(stream);
  }
  transpose(d_rows.data(), n, d, columns.data(), stream);
  return columns;
}

} // namespace clusterbench::cuda
