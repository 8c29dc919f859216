// Points in the order of a k-d tree, whose leaves are boxes of 32: neighbours lie side by side.
//
// Every level splits each node at half of its places along its widest feature: one sort by node and value.
#pragma once

#include "impls/cuda/support/box_candidates.cuh"
#include "impls/cuda/support/buffer.hpp"
#include "impls/cuda/support/grid.hpp"
#include "impls/cuda/support/warp_sums.cuh"

#include <cub/device/device_radix_sort.cuh>
#include <cuda_runtime.h>
#include <thrust/execution_policy.h>
#include <thrust/sequence.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace clusterbench::cuda {

/// Integers in the order of the floats, and back.
__device__ inline unsigned ordered(float value) {
  const unsigned bits = __float_as_uint(value);
  return bits >> 31 != 0 ? ~bits : bits | 0x80000000u;
}
__device__ inline float unordered(unsigned bits) {
  return __uint_as_float(bits >> 31 != 0 ? bits & 0x7fffffffu : ~bits);
}

/// Least and largest value of every feature in every node of `size` places, a multiple of 32. Bounds must
/// hold all ones in `lows` and zeros in `highs`, [nodes, d], before. columns: [d, n]; order: [n].
static __global__ void find_bounds(const float* columns, const unsigned* order, unsigned n,
                                   unsigned d, unsigned size, unsigned* lows, unsigned* highs) {
  const unsigned warps = gridDim.x * blockDim.x / 32, lane = threadIdx.x % 32;
  for (unsigned first = (blockIdx.x * blockDim.x + threadIdx.x) / 32; first * 32ull < n;
       first += warps) {
    const unsigned point = order[min(first * 32 + lane, n - 1)], node = first * 32 / size;
    for (unsigned f = 0; f < d; ++f) {
      const unsigned value = ordered(columns[std::size_t{f} * n + point]);
      const unsigned low = __reduce_min_sync(kAllLanes, value);
      const unsigned high = __reduce_max_sync(kAllLanes, value);
      if (lane == 0) {
        atomicMin(&lows[node * d + f], low);
        atomicMax(&highs[node * d + f], high);
      }
    }
  }
}

/// keys[i]: node of place i, and its point's value of the feature in which the node is widest.
static __global__ void make_keys(const float* columns, const unsigned* order, unsigned n,
                                 unsigned d, unsigned size, const unsigned* lows,
                                 const unsigned* highs, std::uint64_t* keys) {
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    const unsigned node = i / size;
    unsigned widest = 0;
    float width = -1.0f;
    for (unsigned f = 0; f < d; ++f) {
      const float its = unordered(highs[node * d + f]) - unordered(lows[node * d + f]);
      if (its > width) {
        widest = f;
        width = its;
      }
    }
    keys[i] = std::uint64_t{node} << 32 | ordered(columns[std::size_t{widest} * n + order[i]]);
  }
}

/// Moves points to their places, and measures boxes: points [boxes, d, 32], the last one again behind n;
/// extents [boxes, 2, d]: middles, and how far a point is from them at most, rounded up.
static __global__ void fill_boxes(const float* columns, const unsigned* order, unsigned n,
                                  unsigned d, unsigned boxes, float* points, float* extents) {
  const unsigned warps = gridDim.x * blockDim.x / 32, lane = threadIdx.x % 32;
  for (unsigned box = (blockIdx.x * blockDim.x + threadIdx.x) / 32; box < boxes; box += warps) {
    const unsigned i = box * kBoxPoints + lane, point = order[min(i, n - 1)];
    const std::size_t first = std::size_t{box} * d;
    for (unsigned f = 0; f < d; ++f) {
      const float value = columns[std::size_t{f} * n + point];
      const float low = unordered(__reduce_min_sync(kAllLanes, ordered(value)));
      const float high = unordered(__reduce_max_sync(kAllLanes, ordered(value)));
      const float middle = 0.5f * low + 0.5f * high;
      points[(first + f) * kBoxPoints + lane] = value;
      if (lane == 0) {
        extents[2 * first + f] = middle;
        extents[2 * first + d + f] = fmaxf(__fsub_ru(high, middle), __fsub_ru(middle, low));
      }
    }
  }
}

/// All points in their boxes, the last of which may not be full.
struct KdBoxes {
  unsigned boxes = 0;
  DeviceBuffer<float> points;   ///< [boxes, d, 32], the last one again behind n
  DeviceBuffer<float> extents;  ///< [boxes, 2, d]: middles; distances from them at most
  DeviceBuffer<unsigned> order; ///< [n]: the row at a place

  /// Of [n, d] columns on the device, n < 2^31. Blocks. Throws std::runtime_error.
  static KdBoxes of(const DeviceBuffer<float>& columns, std::size_t n, std::size_t d,
                    cudaStream_t stream) {
    KdBoxes made;
    const unsigned points = static_cast<unsigned>(n), features = static_cast<unsigned>(d);
    made.boxes = static_cast<unsigned>(ceil_div(n, kBoxPoints));
    const unsigned levels = std::bit_width(made.boxes - 1u), nodes = 1u << levels;
    const unsigned blocks = blocks_at_most(n, 256, 65536);
    DeviceBuffer<unsigned> order(n), next(n), lows(nodes * d), highs(nodes * d);
    DeviceBuffer<std::uint64_t> keys(n), sorted(n);
    std::size_t bytes = 0;
    const auto sort = [&](void* storage, unsigned level) {
      check(cub::DeviceRadixSort::SortPairs(storage, bytes, keys.data(), sorted.data(),
                                            order.data(), next.data(), n, 0,
                                            static_cast<int>(32 + level), stream),
            "cub::DeviceRadixSort::SortPairs");
    };
    sort(nullptr, levels); // says how much it needs
    DeviceBuffer<unsigned char> storage(bytes);
    thrust::sequence(thrust::cuda::par.on(stream), order.data(), order.data() + n);
    for (unsigned level = 0; level < levels; ++level) {
      const unsigned size = kBoxPoints << (levels - level);
      lows.fill_bytes(0xFF, stream);
      highs.zero(stream);
      find_bounds<<<blocks, 256, 0, stream>>>(columns.data(), order.data(), points, features, size,
                                              lows.data(), highs.data());
      check_launch("find_bounds");
      make_keys<<<blocks, 256, 0, stream>>>(columns.data(), order.data(), points, features, size,
                                            lows.data(), highs.data(), keys.data());
      check_launch("make_keys");
      sort(storage.data(), level);
      std::swap(order, next);
    }
    made.points = DeviceBuffer<float>(d * made.boxes * kBoxPoints);
    made.extents = DeviceBuffer<float>(2 * d * made.boxes);
    fill_boxes<<<blocks, 256, 0, stream>>>(columns.data(), order.data(), points, features,
                                           made.boxes, made.points.data(), made.extents.data());
    check_launch("fill_boxes");
    check(cudaStreamSynchronize(stream), "cudaStreamSynchronize after the k-d tree");
    made.order = std::move(order);
    return made;
  }
};

} // namespace clusterbench::cuda
