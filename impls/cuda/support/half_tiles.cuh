// Rows of float16 in tiles that go to shared memory as they are: one contiguous copy a piece, and
// no bank conflict where ldmatrix or wgmma read it.
#pragma once

#include <cuda_fp16.h>

#include <cstddef>

namespace clusterbench::cuda {

inline constexpr unsigned kHalfTileRows = 128;

/// [tiles][chunks][kHalfTileRows][width]: a chunk holds `width` features of kHalfTileRows rows. In
/// a row, groups of 8 halves (16 bytes) are permuted by the low bits of the row: the 128-, 64- and
/// 32-byte swizzles of the PTX manual.
struct HalfTiles {
  unsigned width = 0;  ///< features of a chunk: 32 or 64
  unsigned chunks = 0; ///< chunks of a row
  unsigned steps = 0;  ///< groups of 16 features that are not all padding

  static HalfTiles of(std::size_t d) {
    const unsigned width = d <= 32 ? 32 : 64;
    return {width, static_cast<unsigned>((d + width - 1) / width),
            static_cast<unsigned>((d + 15) / 16)};
  }
  __host__ __device__ std::size_t chunk_size() const { return std::size_t{kHalfTileRows} * width; }
  __host__ __device__ std::size_t tile_size() const { return chunk_size() * chunks; }
  std::size_t size(std::size_t rows) const {
    return (rows + kHalfTileRows - 1) / kHalfTileRows * tile_size();
  }
  /// The permutation: where in a row of 64, 32 or 16 halves the group of 8 halves `group` is.
  __host__ __device__ static unsigned swizzled(unsigned width, unsigned row, unsigned group) {
    return width == 64   ? group ^ (row & 7)
           : width == 32 ? group ^ (row >> 1 & 3)
                         : group ^ (row >> 2 & 1);
  }
  __device__ std::size_t offset(std::size_t row, unsigned feature) const {
    const unsigned in_tile = static_cast<unsigned>(row % kHalfTileRows);
    const unsigned in_chunk = feature % width;
    return row / kHalfTileRows * tile_size() + feature / width * chunk_size() + in_tile * width +
           swizzled(width, in_tile, in_chunk / 8) * 8 + in_chunk % 8;
  }
};

} // namespace clusterbench::cuda
