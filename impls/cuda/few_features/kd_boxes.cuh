// Points in the order of a k-d tree, whose leaves are boxes of 32: neighbours lie side by side.
//
// One sort, by node and by where between the node's bounds a value is, splits each node at half of
// its places along its widest feature, or at all fourths, eighths and so on: large nodes are split
// into many, the last ones into two. Places are rounded, for the sake of short keys: points that
// round alike are split anyhow. One feature alone is sorted once, by its bits. Boxes are measured
// as they become.
#pragma once

#include "impls/cuda/common/runtime.hpp"
#include "impls/cuda/few_features/column_points.cuh"

#include <cuda_runtime.h>

#include <algorithm>
#include <bit>
#include <cfloat>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cub/device/device_radix_sort.cuh>
#include <span>

namespace clusterbench::cuda {

// Which centroids the points of a box can belong to at all, and the nearest of those.

inline constexpr unsigned kBoxPoints = 32; ///< one a lane

/// Centroids that are the nearest of some point in a box, perhaps: a bit each. Of the lanes that
/// share a box each has every so many of them, beginning with its own number: so they do the same
/// work, and read side by side.
struct Candidates {
  unsigned words[2];

  __device__ int count() const { return __popc(words[0]) + __popc(words[1]); }
};
/// The centroid of a bit of such a word.
template <unsigned lanes>
__device__ constexpr unsigned centroid_of(unsigned word, unsigned bit, unsigned lane) {
  return (word * 32 + bit) * lanes + lane;
}

template <unsigned D>
__device__ float squared_distance(const float (&x)[D], const float (&c)[D]) {
  float squared = 0.0f;
#pragma unroll
  for (unsigned f = 0; f < D; ++f) {
    squared = fmaf(x[f] - c[f], x[f] - c[f], squared);
  }
  return squared;
}

/// The nearest of all k centroids, of which each of the `lanes` lanes that share the point looks at
/// every so many. All lanes of a warp.
template <unsigned D, unsigned lanes>
__device__ unsigned nearest_centroid(const float* point, const float* s_centroids, unsigned k) {
  float x[D], squared = INFINITY;
  unsigned label = 0;
#pragma unroll
  for (unsigned f = 0; f < D; ++f) {
    x[f] = point[f];
  }
#pragma unroll 4
  for (unsigned j = threadIdx.x % lanes; j < k; j += lanes) {
    float c[D];
    read_centroid<D>(s_centroids + j * kStride<D>, c);
    const float its = squared_distance(x, c);
    label = its < squared ? j : label;
    squared = fminf(squared, its);
  }
#pragma unroll
  for (unsigned offset = lanes / 2; offset > 0; offset /= 2) {
    const float its = __shfl_xor_sync(kAllLanes, squared, static_cast<int>(offset));
    const unsigned who = __shfl_xor_sync(kAllLanes, label, static_cast<int>(offset));
    label = its < squared || (its == squared && who < label) ? who : label; // the same in all lanes
    squared = fminf(squared, its);
  }
  return label;
}

/// Compares a box with this lane's centroids. One is out if the rival is nearer in the
/// corner that is best for it: the difference of the squared distances is linear.
template <unsigned D, unsigned lanes>
__device__ Candidates candidates_of(const float* extents, const float* s_centroids, unsigned k,
                                    unsigned rival) {
  // Of sums of 2 D products, each of them rounded a few times.
  constexpr float kSlack = static_cast<float>(4 * D + 16) * 0x1p-24f;
  float middle[D], half[D], its[D];
#pragma unroll
  for (unsigned f = 0; f < D; ++f) {
    middle[f] = extents[f];
    half[f] = extents[D + f];
  }
  read_centroid<D>(s_centroids + rival * kStride<D>, its);
  const float to_rival = squared_distance(middle, its);
  Candidates found{};
#pragma unroll
  for (unsigned word = 0; word < 2; ++word) {
    const unsigned lane = threadIdx.x % lanes;
    const unsigned end = min(k, centroid_of<lanes>(word + 1, 0, 0));
    unsigned bit = 1;
#pragma unroll 4
    for (unsigned j = centroid_of<lanes>(word, 0, lane); j < end; j += lanes, bit <<= 1) {
      float c[D];
      read_centroid<D>(s_centroids + j * kStride<D>, c);
      const float to_this = squared_distance(middle, c);
      float reach = 0.0f;
#pragma unroll
      for (unsigned f = 0; f < D; ++f) {
        reach += fabsf(half[f] * (c[f] - its[f]));
      }
      const float sum = to_this + to_rival + 2.0f * reach;
      const bool out = to_this - to_rival - 2.0f * reach > fmaf(kSlack, sum, FLT_MIN);
      found.words[word] |= out ? 0u : bit;
    }
  }
  return found;
}

/// The nearest of the candidates, [lanes] of those that share a box; ties go to the lowest index.
template <unsigned D, unsigned lanes>
__device__ unsigned nearest_of(const float (&x)[D], const float* s_centroids,
                               const Candidates* s_candidates, float& squared) {
  constexpr unsigned kNone = ~0u;
  unsigned label = kNone;
  squared = INFINITY;
#pragma unroll
  for (unsigned word = 0; word < 2; ++word) {
#pragma unroll
    for (unsigned lane = 0; lane < lanes; ++lane) {
      for (unsigned bits = s_candidates[lane].words[word]; bits != 0; bits &= bits - 1) {
        const unsigned bit = static_cast<unsigned>(__ffs(static_cast<int>(bits))) - 1;
        const unsigned j = centroid_of<lanes>(word, bit, lane);
        float c[D];
        read_centroid<D>(s_centroids + j * kStride<D>, c);
        const float its = squared_distance(x, c);
        // Of one lane they come in order. The first one counts even if it is beyond all floats.
        const bool ties = lanes == 1 ? label == kNone : its == squared && j < label;
        label = its < squared || ties ? j : label;
        squared = fminf(squared, its);
      }
    }
  }
  return label;
}

/// Integers in the order of the floats, and back.
__device__ inline unsigned ordered(float value) {
  const unsigned bits = __float_as_uint(value);
  return bits >> 31 != 0 ? ~bits : bits | 0x80000000u;
}
__device__ inline float unordered(unsigned bits) {
  return __uint_as_float(bits >> 31 != 0 ? bits & 0x7fffffffu : ~bits);
}

static __global__ void number_places(unsigned n, unsigned* order) {
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    order[i] = i;
  }
}

/// keys[i]: bits of value i, in the order of values.
static __global__ void order_values(const float* values, unsigned n, unsigned* keys) {
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    keys[i] = ordered(values[i]);
  }
}

/// Nodes of a level, of `size` places each, a multiple of 32.
struct KdNodes {
  static constexpr unsigned kMostFeatures = 8;

  const float* rows; ///< [n, d]
  unsigned n, d, size;
  unsigned* bounds; ///< [nodes, 2, d]: least values, and largest ones inverted; see ordered()

  __device__ float value(unsigned point, unsigned f) const {
    return rows[std::size_t{point} * d + f];
  }
  __device__ float low(unsigned node, unsigned f) const {
    return unordered(bounds[2 * node * d + f]);
  }
  __device__ float high(unsigned node, unsigned f) const {
    return unordered(~bounds[(2 * node + 1) * d + f]);
  }
};

/// Lowers the bounds, which must be all ones before. A warp looks at 16 times 32 places, so that
/// few atomics meet in one node. order: [n]
static __global__ void find_bounds(const KdNodes nodes, const unsigned* order) {
  constexpr unsigned kTimes = 16;
  const unsigned warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
  unsigned low[KdNodes::kMostFeatures], high[KdNodes::kMostFeatures];
  bool begins = true; // a node, or what this warp sees of it
  for (unsigned e = 0; e < kTimes; ++e) {
    const std::size_t first = (std::size_t{warp} * kTimes + e) * 32; // all 32 are of one node
    if (first >= nodes.n) {
      break;
    }
    const unsigned i = static_cast<unsigned>(first), point = order[min(i + lane, nodes.n - 1)];
    const bool ends = e + 1 == kTimes || i + 32 >= nodes.n || (i + 32) % nodes.size == 0;
#pragma unroll
    for (unsigned f = 0; f < KdNodes::kMostFeatures; ++f) {
      if (f < nodes.d) {
        const unsigned value = ordered(nodes.value(point, f));
        low[f] = begins ? value : min(low[f], value);
        high[f] = begins ? ~value : min(high[f], ~value);
        if (ends) {
          const unsigned lowest = __reduce_min_sync(kAllLanes, low[f]);
          const unsigned highest = __reduce_min_sync(kAllLanes, high[f]);
          if (lane == 0) {
            unsigned* bounds = nodes.bounds + 2 * (i / nodes.size) * nodes.d + f;
            atomicMin(bounds, lowest);
            atomicMin(bounds + nodes.d, highest);
          }
        }
      }
    }
    begins = ends;
  }
}

/// keys[i]: node of place i, and in `bits` bits where in it its point is, along the widest feature.
static __global__ void make_keys(const KdNodes nodes, const unsigned* order, unsigned bits,
                                 unsigned* keys) {
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < nodes.n;
       i += gridDim.x * blockDim.x) {
    const unsigned node = i / nodes.size, steps = 1u << bits;
    unsigned widest = 0;
    float width = -1.0f;
    for (unsigned f = 0; f < nodes.d; ++f) {
      const float its = nodes.high(node, f) - nodes.low(node, f);
      if (its > width) {
        widest = f;
        width = its;
      }
    }
    const float above = nodes.value(order[i], widest) - nodes.low(node, widest);
    // What is no number, as where a node has no width, becomes zero.
    const unsigned step = __float2uint_rz(above / width * static_cast<float>(steps));
    keys[i] = node << bits | min(step, steps - 1);
  }
}

/// Moves points to their places, and measures boxes: points [boxes, width, 32], the last one again
/// behind n, zero behind d; extents [boxes, 2, width]: middles, and how far a point is from them at
/// most, rounded up. place_of[row]: where its point goes.
static __global__ void fill_boxes(const float* rows, const unsigned* order, unsigned n, unsigned d,
                                  unsigned width, unsigned boxes, float* points, float* extents,
                                  unsigned* place_of) {
  const unsigned warps = gridDim.x * blockDim.x / 32, lane = threadIdx.x % 32;
  for (unsigned box = (blockIdx.x * blockDim.x + threadIdx.x) / 32; box < boxes; box += warps) {
    const unsigned i = box * kBoxPoints + lane, point = order[min(i, n - 1)];
    const std::size_t first = std::size_t{box} * width;
    if (i < n) {
      place_of[point] = i;
    }
    for (unsigned f = 0; f < width; ++f) {
      const float value = f < d ? rows[std::size_t{point} * d + f] : 0.0f;
      const float low = unordered(__reduce_min_sync(kAllLanes, ordered(value)));
      const float high = unordered(__reduce_max_sync(kAllLanes, ordered(value)));
      const float middle = 0.5f * low + 0.5f * high;
      points[(first + f) * kBoxPoints + lane] = value;
      if (lane == 0) {
        extents[2 * first + f] = middle;
        extents[2 * first + width + f] = fmaxf(__fsub_ru(high, middle), __fsub_ru(middle, low));
      }
    }
  }
}

/// Labels, by place, go back to the order of the data: to [n]. Reading here and there takes less
/// time than writing here and there. places: of KdBoxes.
template <typename Label>
__global__ void restore_order(const Label* labels, const unsigned* places, unsigned n,
                              std::int32_t* to) {
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    to[i] = static_cast<std::int32_t>(labels[places[i]]);
  }
}

/// How many levels of the tree the next sort makes, of those left: several as long as nodes are so
/// large that boxes become no longer by it.
inline unsigned levels_at_once(unsigned left, std::size_t d) {
  const unsigned most = d == 2 ? 4 : 2;
  const unsigned last = d <= 4 ? 6 : 9; // of so many left, one by one
  return left > last ? std::min(most, left) : 1;
}

/// All points in their boxes, the last of which may not be full.
struct KdBoxes {
  unsigned boxes = 0;
  DeviceBuffer<float> points;    ///< [boxes, width, 32], the last one again behind n
  DeviceBuffer<float> extents;   ///< [boxes, 2, width]: middles; distances from them at most
  DeviceBuffer<unsigned> places; ///< [n]: where a row's point is

  /// Of [n, d] rows on the device, n < 2^29, d <= 8; width: d with the padding. Blocks. Throws
  /// std::runtime_error.
  static KdBoxes of(std::span<const float> d_rows, std::size_t n, std::size_t d,
                    std::size_t width) {
    const auto boxes = static_cast<unsigned>(ceil_div(n, kBoxPoints));
    const auto levels = static_cast<unsigned>(std::bit_width(boxes - 1u));
    const unsigned blocks = blocks_at_most(n, 256, 65536);
    const std::size_t bounds = (std::size_t{2} << levels) * d; // words of the lowest level
    std::size_t bytes = 0;
    const auto sort = [&](void* storage, auto& keys, auto& order, unsigned bits) {
      check(cub::DeviceRadixSort::SortPairs(storage, bytes, keys, order, static_cast<int>(n), 0,
                                            static_cast<int>(bits)),
            "cub::DeviceRadixSort::SortPairs");
    };
    cub::DoubleBuffer<unsigned> keys(nullptr, nullptr), order(nullptr, nullptr);
    sort(nullptr, keys, order, 32); // says how many bytes it needs at most
    DeviceBuffer<unsigned> scratch(4 * n + bounds + ceil_div(bytes, sizeof(unsigned)));
    unsigned* const d_bounds = scratch.data() + 4 * n;
    keys = {scratch.data(), scratch.data() + n};
    order = {scratch.data() + 2 * n, scratch.data() + 3 * n};
    number_places<<<blocks, 256>>>(static_cast<unsigned>(n), order.Current());
    check_launch("number_places");
    if (d == 1) {
      order_values<<<blocks, 256>>>(d_rows.data(), static_cast<unsigned>(n), keys.Current());
      check_launch("order_values");
      sort(d_bounds + bounds, keys, order, 32);
    }
    for (unsigned level = 0; d > 1 && level < levels; level += levels_at_once(levels - level, d)) {
      const KdNodes nodes{d_rows.data(), static_cast<unsigned>(n), static_cast<unsigned>(d),
                          kBoxPoints << (levels - level), d_bounds};
      fill_bytes(std::span(d_bounds, (std::size_t{2} << level) * d), 0xFF);
      find_bounds<<<blocks_for(n, 16 * 256), 256>>>(nodes, order.Current());
      check_launch("find_bounds");
      // Keys of 24 bits are sorted in three rounds; eight bits at least tell a node's parts apart.
      const auto bits = static_cast<unsigned>(std::max(24 - static_cast<int>(level), 8));
      make_keys<<<blocks, 256>>>(nodes, order.Current(), bits, keys.Current());
      check_launch("make_keys");
      sort(d_bounds + bounds, keys, order, level + bits);
    }
    KdBoxes made{boxes, DeviceBuffer<float>(width * boxes * kBoxPoints),
                 DeviceBuffer<float>(2 * width * boxes), DeviceBuffer<unsigned>(n)};
    fill_boxes<<<blocks, 256>>>(d_rows.data(), order.Current(), static_cast<unsigned>(n),
                                static_cast<unsigned>(d), static_cast<unsigned>(width), boxes,
                                made.points.data(), made.extents.data(), made.places.data());
    check_launch("fill_boxes");
    check(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize after the k-d tree");
    return made;
  }
};

} // namespace clusterbench::cuda
