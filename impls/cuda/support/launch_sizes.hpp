// Launch sizes, computed in 64 bits and checked against the limits of a grid.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <string>

namespace clusterbench::cuda {

inline constexpr std::size_t kMaxGridX = 2147483647; ///< blocks in x; the same on all devices

/// a / b, rounded up.
constexpr std::size_t ceil_div(std::size_t a, std::size_t b) {
  return a / b + (a % b != 0 ? 1 : 0);
}

/// k rounded up to a multiple of 128, for float and wider whole cache lines and 512 bytes at least:
/// the distance between the arrays of two features' sums. The slices of the level-2 cache take
/// whole lines, and add to different ones side by side.
__host__ __device__ constexpr std::size_t line_stride(std::size_t k) {
  return (k + 127) / 128 * 128;
}

/// Blocks of `threads` threads, one thread an item. Throws std::runtime_error over the grid's
/// limit.
inline unsigned blocks_for(std::size_t items, std::size_t threads) {
  const std::size_t blocks = ceil_div(items, threads);
  if (blocks > kMaxGridX) {
    throw std::runtime_error(std::to_string(items) + " items in blocks of " +
                             std::to_string(threads) + " exceed the grid");
  }
  return static_cast<unsigned>(blocks);
}

/// At most `limit` blocks, for kernels whose threads stride over the items.
inline unsigned blocks_at_most(std::size_t items, std::size_t threads, std::size_t limit) {
  return static_cast<unsigned>(std::min(ceil_div(items, threads), std::min(limit, kMaxGridX)));
}

} // namespace clusterbench::cuda
