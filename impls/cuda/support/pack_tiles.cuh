// Rows as tiles for BulkRing and row_tiles.cuh: changes the layout, and puts the length of every row
// beside it.
#pragma once

#include "impls/cuda/support/buffer.hpp"
#include "impls/cuda/support/grid.hpp"
#include "impls/cuda/support/row_tiles.cuh"
#include "impls/cuda/support/warp_sums.cuh"

#include <cuda_runtime.h>

#include <cstddef>
#include <span>

namespace clusterbench::cuda {

/// A warp a row; a tile: rows, then for each row the length |x|, then the length of what tf32 cuts off.
/// rows: [n, d]
static __global__ void pack_rows(const float* rows, std::size_t n, unsigned d, unsigned tile_rows,
                                 float* tiles) {
  const RowLayout layout = RowLayout::of(d);
  const unsigned lane = threadIdx.x % 32;
  for (std::size_t i = (std::size_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32; i < n;
       i += std::size_t{gridDim.x} * blockDim.x / 32) {
    const unsigned row = static_cast<unsigned>(i % tile_rows);
    float* tile = tiles + i / tile_rows * tile_rows * (layout.stride() + 2);
    double squared = 0.0, squared_rest = 0.0;
    for (unsigned f = lane; f < d; f += 32) {
      const float x = rows[i * d + f];
      const float rest = x - cut_part(x);
      tile[layout.at(row, f)] = x;
      squared += static_cast<double>(x) * static_cast<double>(x);
      squared_rest += static_cast<double>(rest) * static_cast<double>(rest);
    }
    squared = over_lanes<32>(squared);
    squared_rest = over_lanes<32>(squared_rest);
    if (lane == 0) {
      tile[tile_rows * layout.stride() + row] = static_cast<float>(sqrt(squared));
      tile[tile_rows * (layout.stride() + 1) + row] = static_cast<float>(sqrt(squared_rest));
    }
  }
}

/// Room for [n, d] rows as tiles of `size` floats, zero in the order of `stream`. Throws
/// std::runtime_error.
inline DeviceBuffer<float> empty_tiles(std::size_t n, unsigned tile_rows, std::size_t size,
                                       cudaStream_t stream) {
  DeviceBuffer<float> tiles(ceil_div(n, tile_rows) * size);
  tiles.zero(stream);
  return tiles;
}

/// What TileRun needs to know of such tiles; `width`: floats of a centroid.
struct FloatRows {
  static unsigned width(std::size_t d) { return RowLayout::of(d).stride(); }
  static std::size_t tile_size(std::size_t rows, std::size_t d) { return rows * (width(d) + 2); }
  /// Tiles of [n, d] rows on the device, zero where there is no data, in the order of `stream`; does not
  /// block. Throws std::runtime_error.
  DeviceBuffer<float> make_tiles(std::span<const float> d_rows, std::size_t n, std::size_t d,
                                 unsigned tile_rows, cudaStream_t stream) const {
    auto tiles = empty_tiles(n, tile_rows, tile_size(tile_rows, d), stream);
    pack_rows<<<blocks_at_most(n, 8, 65536), 256, 0, stream>>>(
        d_rows.data(), n, static_cast<unsigned>(d), tile_rows, tiles.data());
    check_launch("pack_rows");
    return tiles;
  }
};

} // namespace clusterbench::cuda
