// Rows as tiles for BulkRing and row_tiles.cuh: uploads, changes the layout, and puts the length of
// every row beside it.
#pragma once

#include "impls/cuda/support/buffer.hpp"
#include "impls/cuda/support/grid.hpp"
#include "impls/cuda/support/row_tiles.cuh"
#include "impls/cuda/support/warp_sums.cuh"

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <span>

namespace clusterbench::cuda {

/// A warp a row; a tile: rows, then for each row the length |x|, then the length of what tf32 cuts off.
/// rows: [count, d], the first of which is row `first` of all tiles.
static __global__ void pack_rows(const float* rows, std::size_t count, unsigned d,
                                 std::size_t first, unsigned tile_rows, float* tiles) {
  const RowLayout layout = RowLayout::of(d);
  const unsigned lane = threadIdx.x % 32;
  for (std::size_t i = (std::size_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32; i < count;
       i += std::size_t{gridDim.x} * blockDim.x / 32) {
    const unsigned row = static_cast<unsigned>((first + i) % tile_rows);
    float* tile = tiles + (first + i) / tile_rows * tile_rows * (layout.stride() + 2);
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

/// Uploads [n, d] rows as tiles of `size` floats, zero where there is no data, through a staging buffer
/// of bounded size; pack(rows, count, first, tiles) changes the layout. Blocks. Throws
/// std::runtime_error.
template <typename Pack>
DeviceBuffer<float> upload_tiles(std::span<const float> rows, std::size_t n, std::size_t d,
                                 unsigned tile_rows, std::size_t size, cudaStream_t stream,
                                 const Pack& pack) {
  constexpr std::size_t kStagingBytes = std::size_t{64} << 20;
  const std::size_t chunk = std::clamp<std::size_t>(kStagingBytes / (d * sizeof(float)), 1, n);
  DeviceBuffer<float> tiles(ceil_div(n, tile_rows) * size);
  tiles.zero(stream);
  DeviceBuffer<float> staging(chunk * d);
  for (std::size_t first = 0; first < n; first += chunk) {
    const std::size_t count = std::min(chunk, n - first);
    staging.upload(rows.subspan(first * d, count * d), stream);
    pack(staging.data(), count, first, tiles.data());
  }
  check(cudaStreamSynchronize(stream), "cudaStreamSynchronize after the change of layout");
  return tiles;
}

/// What TileRun needs to know of such tiles; `width`: floats of a centroid.
struct FloatRows {
  static unsigned width(std::size_t d) { return RowLayout::of(d).stride(); }
  static std::size_t tile_size(std::size_t rows, std::size_t d) { return rows * (width(d) + 2); }
  DeviceBuffer<float> upload(std::span<const float> rows, std::size_t n, std::size_t d,
                             unsigned tile_rows, cudaStream_t stream) const {
    return upload_tiles(
        rows, n, d, tile_rows, tile_size(tile_rows, d), stream,
        [&](const float* staging, std::size_t count, std::size_t first, float* tiles) {
          pack_rows<<<blocks_at_most(count, 8, 65536), 256, 0, stream>>>(
              staging, count, static_cast<unsigned>(d), first, tile_rows, tiles);
          check_launch("pack_rows");
        });
  }
};

} // namespace clusterbench::cuda
