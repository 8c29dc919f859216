// Rows as tiles of two float16 parts (split_rows.cuh): the change of layout.
#pragma once

#include "impls/cuda/support/pack_tiles.cuh"
#include "impls/cuda/support/split_range.hpp"
#include "impls/cuda/support/split_rows.cuh"

#include <cuda_runtime.h>

#include <cmath>
#include <cstddef>
#include <span>

namespace clusterbench::cuda {

/// A warp a row. rows: [n, d]
static __global__ void pack_split_rows(const float* rows, std::size_t n, unsigned d,
                                       unsigned tile_rows, float scale, float* tiles) {
  const SplitLayout layout = SplitLayout::of(d);
  const unsigned lane = threadIdx.x % 32;
  for (std::size_t i = (std::size_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32; i < n;
       i += std::size_t{gridDim.x} * blockDim.x / 32) {
    const unsigned row = static_cast<unsigned>(i % tile_rows);
    float* tile = tiles + i / tile_rows * tile_rows * (layout.stride() + 1);
    __half* high = reinterpret_cast<__half*>(tile);
    __half* low = high + tile_rows * layout.stride();
    double squared = 0.0;
    for (unsigned f = lane; f < d; f += 32) {
      const float x = rows[i * d + f];
      const SplitPair parts = SplitPair::of(x * scale);
      high[row * layout.stride() + f] = parts.high;
      low[row * layout.stride() + f] = parts.low;
      squared += static_cast<double>(x) * static_cast<double>(x);
    }
    squared = over_lanes<32>(squared);
    if (lane == 0) {
      tile[tile_rows * layout.stride() + row] = static_cast<float>(sqrt(squared));
    }
  }
}

/// What TileRun needs to know of such tiles.
struct PackedSplitRows {
  float scale = 1.0f; ///< of all values

  static unsigned width(std::size_t d) { return SplitLayout::of(d).width(); }
  static std::size_t tile_size(std::size_t rows, std::size_t d) {
    return rows * (SplitLayout::of(d).stride() + 1);
  }
  /// See FloatRows::make_tiles().
  DeviceBuffer<float> make_tiles(std::span<const float> d_rows, std::size_t n, std::size_t d,
                                 unsigned tile_rows, cudaStream_t stream) const {
    auto tiles = empty_tiles(n, tile_rows, tile_size(tile_rows, d), stream);
    pack_split_rows<<<blocks_at_most(n, 8, 65536), 256, 0, stream>>>(
        d_rows.data(), n, static_cast<unsigned>(d), tile_rows, scale, tiles.data());
    check_launch("pack_split_rows");
    return tiles;
  }
};

} // namespace clusterbench::cuda
