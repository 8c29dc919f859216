// What the current device has, how many blocks fill it, and the sizes of launches.
#pragma once

#include "impls/cuda/common/memory.hpp"

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <string>

namespace clusterbench::cuda {

// Launch sizes, computed in 64 bits and checked against the limits of a grid.

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

/// An attribute of the current device; 0 where there is none. Does not create a context.
inline int device_attribute(cudaDeviceAttr attribute) {
  int device = 0;
  int value = 0;
  if (cudaGetDevice(&device) != cudaSuccess ||
      cudaDeviceGetAttribute(&value, attribute, device) != cudaSuccess) {
    static_cast<void>(cudaGetLastError()); // no device is an answer here, not a fault
    return 0;
  }
  return value;
}

/// Bytes of shared memory that one block may ask for; 48 KiB, which every device has, where there
/// is none to ask.
inline std::size_t shared_memory_limit() {
  const int bytes = device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin);
  return bytes > 0 ? static_cast<std::size_t>(bytes) : std::size_t{48 * 1024};
}

/// Multiprocessors of the current device; 0 where there is none.
inline std::size_t multiprocessors() {
  return static_cast<std::size_t>(device_attribute(cudaDevAttrMultiProcessorCount));
}

/// Why a kernel that gives each multiprocessor a block does not take so many rows; empty if it
/// does.
inline std::string refuse_rows(std::size_t n, std::size_t most_of_a_block) {
  const std::size_t count = multiprocessors();
  return count == 0 || n <= count * most_of_a_block
             ? ""
             : std::to_string(n) + " points, at most " + std::to_string(most_of_a_block) +
                   " for each of " + std::to_string(count) + " multiprocessors";
}

/// Compute capability of the current device times ten, 90 for 9.0; 0 where there is none.
inline int compute_capability() {
  return 10 * device_attribute(cudaDevAttrComputeCapabilityMajor) +
         device_attribute(cudaDevAttrComputeCapabilityMinor);
}

/// Bytes of memory of the current device; 0 where there is none. Does not create a context.
inline std::size_t device_memory() {
  int device = 0;
  cudaDeviceProp properties{};
  if (cudaGetDevice(&device) != cudaSuccess ||
      cudaGetDeviceProperties(&properties, device) != cudaSuccess) {
    static_cast<void>(cudaGetLastError()); // no device is an answer here, not a fault
    return 0;
  }
  return properties.totalGlobalMem;
}

/// Lets `kernel` use `bytes` of dynamic shared memory; beyond 48 KiB a kernel must be asked to.
template <typename Kernel>
void allow_shared_memory(Kernel* kernel, std::size_t bytes) {
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(bytes)),
        "cudaFuncSetAttribute for " + std::to_string(bytes) + " bytes of shared memory");
}

/// Blocks that fill the current device once: those resident on a multiprocessor times their number.
template <typename Kernel>
std::size_t resident_blocks(Kernel* kernel, std::size_t threads, std::size_t shared_bytes) {
  int blocks = 0;
  check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, static_cast<int>(threads),
                                                      shared_bytes),
        "cudaOccupancyMaxActiveBlocksPerMultiprocessor");
  return multiprocessors() * static_cast<std::size_t>(std::max(1, blocks));
}

} // namespace clusterbench::cuda
