// Rows as tiles of two float16 parts (split_rows.cuh): whether they can be split without loss, and the
// upload.
#pragma once

#include "impls/cuda/support/pack_tiles.cuh"
#include "impls/cuda/support/split_rows.cuh"

#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <span>
#include <string>
#include <vector>

namespace clusterbench::cuda {

/// A power of two that takes |largest| to between 2^14 and 2^15; 1 for 0. Both it and its inverse are
/// normal numbers.
__host__ __device__ inline float split_scale(float largest) {
  if (!(largest > 0.0f)) {
    return 1.0f;
  }
  const int exponent = 14 - ilogbf(largest);
  return ldexpf(1.0f, exponent < -126 ? -126 : exponent > 126 ? 126 : exponent);
}

/// A warp a row. rows: [count, d], the first of which is row `first` of all tiles.
static __global__ void pack_split_rows(const float* rows, std::size_t count, unsigned d,
                                       std::size_t first, unsigned tile_rows, float scale,
                                       float* tiles) {
  const SplitLayout layout = SplitLayout::of(d);
  const unsigned lane = threadIdx.x % 32;
  for (std::size_t i = (std::size_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32; i < count;
       i += std::size_t{gridDim.x} * blockDim.x / 32) {
    const unsigned row = static_cast<unsigned>((first + i) % tile_rows);
    float* tile = tiles + (first + i) / tile_rows * tile_rows * (layout.stride() + 1);
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
struct SplitRows {
  float scale = 1.0f; ///< of all values

  static unsigned width(std::size_t d) { return SplitLayout::of(d).width(); }
  static std::size_t tile_size(std::size_t rows, std::size_t d) {
    return rows * (SplitLayout::of(d).stride() + 1);
  }
  DeviceBuffer<float> upload(std::span<const float> rows, std::size_t n, std::size_t d,
                             unsigned tile_rows, cudaStream_t stream) const {
    return upload_tiles(
        rows, n, d, tile_rows, tile_size(tile_rows, d), stream,
        [&](const float* staging, std::size_t count, std::size_t first, float* tiles) {
          pack_split_rows<<<blocks_at_most(count, 8, 65536), 256, 0, stream>>>(
              staging, count, static_cast<unsigned>(d), first, tile_rows, scale, tiles);
          check_launch("pack_split_rows");
        });
  }
};

/// The sizes that decide whether one scale serves all values of [n, d] rows.
class SplitRange {
public:
  SplitRange(std::span<const float> rows, std::size_t n, std::size_t d) {
    std::vector<float> largest(d, 0.0f);
    float shortest = INFINITY; // squared, of the rows that are not zero
    for (std::size_t i = 0; i < n; ++i) {
      float squared = 0.0f;
      for (std::size_t f = 0; f < d; ++f) {
        const float x = rows[i * d + f];
        finite_ = finite_ && std::isfinite(x);
        largest[f] = std::max(largest[f], std::abs(x));
        squared += x * x;
      }
      shortest = squared > 0.0f ? std::min(shortest, squared) : shortest;
    }
    for (const float value : largest) {
      largest_ = std::max(largest_, value);
      smallest_feature_ = value > 0.0f ? std::min(smallest_feature_, value) : smallest_feature_;
    }
    shortest_ = std::sqrt(shortest);
  }
  float scale() const { return split_scale(largest_); }
  /// Why float16 parts would lose digits of some row or feature; empty if they do not.
  std::string refuse() const {
    constexpr float kShortestRow = 0x1p-12f, kSmallestFeature = 0x1p-16f;
    // Squares must not overflow, nor may the inverse of two scales underflow.
    constexpr float kLargest = 0x1p58f, kSmallest = 0x1p-48f;
    if (!finite_) {
      return "values that are not finite";
    }
    if (largest_ > kLargest || (largest_ > 0.0f && largest_ < kSmallest)) {
      return "the largest value is " + in_words(largest_) +
             "; float16 parts and their squares want it between " + in_words(kSmallest) + " and " +
             in_words(kLargest);
    }
    if (shortest_ < kShortestRow * largest_ || smallest_feature_ < kSmallestFeature * largest_) {
      return "values too far apart for float16 parts of one scale: the largest is " +
             in_words(largest_) + ", the shortest row " + in_words(shortest_) +
             " (2^-12 of it at least), the largest of the smallest feature " +
             in_words(smallest_feature_) + " (2^-16)";
    }
    return {};
  }

private:
  static std::string in_words(float value) {
    char text[32];
    std::snprintf(text, sizeof text, "%.3g", static_cast<double>(value));
    return text;
  }

  bool finite_ = true;
  float largest_ = 0.0f, shortest_ = 0.0f, smallest_feature_ = INFINITY;
};

} // namespace clusterbench::cuda
