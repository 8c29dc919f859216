// The host's side of kernels that work through tiles in one launch: which compiled shape fits, its
// buffers, the tiles, and what the kernels have in common of their argument. Float only.
#pragma once

#include "impls/contract.hpp"
#include "impls/cuda/support/buffer.hpp"
#include "impls/cuda/support/cluster_sums.cuh"
#include "impls/cuda/support/grid.hpp"
#include "impls/cuda/support/one_launch.cuh"
#include "impls/cuda/support/row_tiles.cuh"
#include "impls/cuda/support/warp_sums.cuh"

#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <string>

namespace clusterbench::cuda {

inline constexpr unsigned kTileCluster = 8; ///< blocks of a cluster
inline constexpr unsigned kMaxStages = 4;   ///< tiles of a ring in shared memory, at most

struct TileTask {
  RunTask run;
  const float* tiles; // see FloatRows
  unsigned n, d, k, tiles_count, stages;
  Stamped<float>* sum_words;   // of k times the padded row
  Stamped<double>* fact_words; // of k weights and what the stop rule wants
};

/// A warp a row; a tile: rows, then for each row the length |x|, then the length of what tf32 cuts
/// off. What lies behind n or d becomes zero. rows: [n, d]; size: rows of all tiles.
static __global__ void pack_rows(const float* rows, std::size_t n, unsigned d, std::size_t size,
                                 unsigned tile_rows, float* tiles) {
  const RowLayout layout = RowLayout::of(d);
  const unsigned lane = threadIdx.x % 32;
  for (std::size_t i = (std::size_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32; i < size;
       i += std::size_t{gridDim.x} * blockDim.x / 32) {
    const unsigned row = static_cast<unsigned>(i % tile_rows);
    float* tile = tiles + i / tile_rows * tile_rows * (layout.stride() + 2);
    double squared = 0.0, squared_rest = 0.0;
#pragma unroll 4
    for (unsigned f = lane; f < layout.stride(); f += 32) {
      const float x = i < n && f < d ? rows[i * d + f] : 0.0f;
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

/// What TileRun needs to know of such tiles; `width`: floats of a centroid.
struct FloatRows {
  static unsigned width(std::size_t d) { return RowLayout::of(d).stride(); }
  static std::size_t tile_size(std::size_t rows, std::size_t d) { return rows * (width(d) + 2); }
  /// Tiles of [n, d] rows on the device, zero where there is no data. Does not block. Throws
  /// std::runtime_error.
  DeviceBuffer<float> make_tiles(std::span<const float> d_rows, std::size_t n, std::size_t d,
                                 unsigned tile_rows) const {
    const std::size_t count = ceil_div(n, tile_rows), size = count * tile_rows;
    DeviceBuffer<float> tiles(count * tile_size(tile_rows, d));
    pack_rows<<<blocks_at_most(size, 8, 65536), 256>>>(d_rows.data(), n, static_cast<unsigned>(d),
                                                       size, tile_rows, tiles.data());
    check_launch("pack_rows");
    return tiles;
  }
};

/// A compiled shape of a kernel: rings of tiles and a fixed part in shared memory, which also holds
/// the centroids and, padded, two times their sums.
template <typename Task, typename Rows = FloatRows>
struct TileKernel {
  unsigned max_d, max_k;
  unsigned rows;  ///< of a tile
  unsigned rings; ///< of a block
  unsigned threads, blocks_per_processor;
  unsigned parts; ///< floats of the fixed part besides centroids and sums
  void (*kernel)(const Task);

  static constexpr std::size_t kStaticBytes = 3072; // and what the system takes of each block

  std::size_t shared_bytes(std::size_t d, std::size_t k, std::size_t stages) const {
    const unsigned values = static_cast<unsigned>(k) * Rows::width(d);
    return (parts + values + 2 * ManySums<kTileCluster>::padded(values) +
            stages * rings * Rows::tile_size(rows, d)) *
           sizeof(float);
  }
  /// Tiles of a ring that fit the current device; below 2 it cannot run.
  std::size_t stages(std::size_t d, std::size_t k) const {
    const std::size_t room = shared_memory_limit() / blocks_per_processor - kStaticBytes;
    std::size_t stages = kMaxStages;
    while (stages > 0 && shared_bytes(d, k, stages) > room) {
      --stages;
    }
    return stages;
  }
  /// The first that is large enough; null if there is none.
  static const TileKernel* find(std::span<const TileKernel> kernels, std::size_t d, std::size_t k) {
    const auto found = std::ranges::find_if(kernels, [=](const TileKernel& kernel) {
      return kernel.max_d >= d && kernel.max_k >= k && kernel.stages(d, k) >= 2;
    });
    return found == kernels.end() ? nullptr : &*found;
  }
};

/// Why none of the kernels takes the shape; empty if one does.
template <typename Kernel>
std::string refuse_tiles(std::span<const Kernel> kernels, const Shape& shape) {
  if (shape.n > 0x7fffffff || shape.stop.max_iterations >= kMostIterations) {
    return "more than 2^31 - 1 points or 2^30 - 1 iterations";
  }
  if (lacks_clusters()) {
    return "the device has no clusters of blocks (compute capability 9.0)";
  }
  if (Kernel::find(kernels, shape.d, shape.k) == nullptr) {
    return "k = " + std::to_string(shape.k) + " clusters of " + std::to_string(shape.d) +
           " features: k up to 16 and d up to 512, as far as shared memory holds two tiles";
  }
  return {};
}

/// Buffers and launch of one of the kernels.
template <typename Task, typename Rows = FloatRows>
class TileRun {
public:
  /// Makes the tiles; `shape` must have a kernel. Sets the common part of the task. Does not block.
  /// Throws std::runtime_error.
  void prepare(std::span<const TileKernel<Task, Rows>> kernels, const Shape& shape,
               std::span<const float> d_points, Task& task, const Rows& rows = {}) {
    kernel_ = TileKernel<Task, Rows>::find(kernels, shape.d, shape.k);
    launch_.prepare(shape);
    d_tiles_ = rows.make_tiles(d_points, shape.n, shape.d, kernel_->rows);
    const std::size_t tiles = ceil_div(shape.n, kernel_->rows);
    const std::size_t stages = kernel_->stages(shape.d, shape.k);
    shape_ = {.blocks = 0,
              .threads = kernel_->threads,
              .cluster = kTileCluster,
              .shared_bytes = kernel_->shared_bytes(shape.d, shape.k, stages)};
    shape_.blocks = static_cast<unsigned>(std::min<std::size_t>(
        resident_in_clusters(kernel_->kernel, shape_),
        ceil_div(ceil_div(tiles, kernel_->rings), kTileCluster) * kTileCluster));
    const unsigned k = static_cast<unsigned>(shape.k);
    const std::size_t words = std::size_t{2} * shape_.blocks / kTileCluster;
    d_sum_words_ = DeviceBuffer<Stamped<float>>(
        words * ManySums<kTileCluster>::padded(k * Rows::width(shape.d)));
    d_sum_words_.zero(); // stamps begin with 1
    d_fact_words_ = DeviceBuffer<Stamped<double>>(words * FewSums<kTileCluster>::padded(k + 1));
    d_fact_words_.zero();
    task.tiles = d_tiles_.data();
    task.n = static_cast<unsigned>(shape.n);
    task.d = static_cast<unsigned>(shape.d);
    task.k = k;
    task.tiles_count = static_cast<unsigned>(tiles);
    task.stages = static_cast<unsigned>(stages);
    task.sum_words = d_sum_words_.data();
    task.fact_words = d_fact_words_.data();
  }
  /// Writes all of the answer but memberships. Throws std::runtime_error.
  void run(const Start<float>& start, Answer<float>& answer, Observer<float>& observer,
           const Task& task) {
    launch_.run(start, answer, observer, kernel_->kernel, task, shape_);
  }

private:
  const TileKernel<Task, Rows>* kernel_ = nullptr;
  ClusterLaunch shape_{};
  OneLaunch launch_;
  DeviceBuffer<float> d_tiles_;
  DeviceBuffer<Stamped<float>> d_sum_words_;
  DeviceBuffer<Stamped<double>> d_fact_words_;
};

} // namespace clusterbench::cuda
