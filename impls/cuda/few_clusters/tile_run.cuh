// A run whose blocks walk over tiles of rows: the tiles, their copies, the kernel's sizes, its
// launch.
#pragma once

#include "impls/contract.hpp"
#include "impls/cuda/common/copies.cuh"
#include "impls/cuda/common/one_launch.cuh"
#include "impls/cuda/common/runtime.hpp"
#include "impls/cuda/few_clusters/grid_sums.cuh"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cuda_runtime.h>
#include <nv/target>
#include <span>
#include <string>

namespace clusterbench::cuda {

// ---- tiles of rows
//
// Tiles of rows for the tensor cores: their layout, the products of 16 rows with all centroids, and
// the weighted sums of 16 rows, both as m16n8k8 products in tf32 with float32 sums.
//
// A float is split into a part of 11 bits, which tf32 holds, and a rest. Weighted sums multiply
// both parts of a value, and both of a weight unless that is 0 or 1; the product of two rests,
// below 2^-24 of the term, is left out. There parts are rounded: then a rest has 12 bits and loses
// one at most, where one of 13 bits would lose two, which shows in the mean of a single row.
// Products are the same, or rough: of the 11 bits alone, with an error that the caller bounds. Sums
// of a tile are added to those of the sweep in float32, as the tensor cores' own additions do not
// round to nearest.
//
// Lanes are counted as the instruction does: lane = 4 g + t. A warp looks after kGroups groups of
// 32 features from a first one on; features behind the last read column 0 and are multiplied by
// zero.

inline constexpr unsigned kTileRows = 16;

/// Rows of whole columns of four floats, row after row. Columns are swapped inside a row such that
/// what eight neighbouring lanes read at once lies in different banks, in both directions.
struct RowLayout {
  unsigned columns; // of four features
  unsigned mask;    // column c of row r is at c ^ (r & mask)

  __host__ __device__ static RowLayout of(std::size_t d) {
    const unsigned columns = static_cast<unsigned>((d + 3) / 4);
    return {columns, columns % 4 == 0 ? 3u : columns % 2 == 0 ? 1u : 0u};
  }
  __host__ __device__ unsigned stride() const { return 4 * columns; }
  /// Where feature f of row r is.
  __host__ __device__ unsigned at(unsigned row, unsigned f) const {
    return row * stride() + 4 * (f / 4 ^ (row & mask)) + f % 4;
  }
};

struct Lane {
  unsigned g, t;
  __device__ static Lane get() { return {threadIdx.x % 32 / 4, threadIdx.x % 4}; }
  /// Which of the eight columns of a group this lane sums.
  __device__ unsigned summed_column(RowLayout layout) const {
    return layout.columns % 4 == 2 ? g : 4 * (g % 2) + g / 2;
  }
};

/// The part of a float that tf32 holds, rounded or cut off.
__device__ inline float rounded_part(float x) {
  return __uint_as_float((__float_as_uint(x) + 0x1000u) & 0xffffe000u);
}
__device__ inline float cut_part(float x) {
  return __uint_as_float(__float_as_uint(x) & 0xffffe000u);
}

/// c += a b. a: 16 x 8, b: 8 x 8; the tensor cores ignore what tf32 does not hold.
__device__ inline void multiply_add(float (&c)[4], const float (&a)[4], const float (&b)[2]) {
  NV_IF_ELSE_TARGET(
      NV_PROVIDES_SM_80,
      (asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
           "{%8, %9}, {%0, %1, %2, %3};"
           : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
           : "r"(__float_as_uint(a[0])), "r"(__float_as_uint(a[1])), "r"(__float_as_uint(a[2])),
             "r"(__float_as_uint(a[3])), "r"(__float_as_uint(b[0])), "r"(__float_as_uint(b[1])));),
      (__trap();))
}

__device__ inline void read_four(const float* from, float* to) {
  const float4 four = *reinterpret_cast<const float4*>(from);
  to[0] = four.x, to[1] = four.y, to[2] = four.z, to[3] = four.w;
}

/// A warp's features of 8 T centroids, in registers for a whole sweep.
template <unsigned kGroups, unsigned T, bool kRough>
class Centroids {
public:
  /// s_centroids: [k, d]
  __device__ Centroids(const float* s_centroids, unsigned k, unsigned d, unsigned first_group) {
    const auto [g, t] = Lane::get();
#pragma unroll
    for (unsigned e = 0; e < kGroups * 8 * T; ++e) {
      const unsigned i = e / (8 * T), step = e / (2 * T) % 4, tile = e / 2 % T, half = e % 2;
      const unsigned j = tile * 8 + g, f = (first_group + i) * 32 + 8 * t + 2 * step + half;
      const float c = j < k && f < d ? s_centroids[j * d + f] : 0.0f;
      part_[i][step][tile][half] = rounded_part(c);
      if constexpr (!kRough) {
        rest_[i][step][tile][half] = c - rounded_part(c);
      }
    }
  }
  /// products[tile]: of rows g and g + 8 with clusters 8 tile + 2 t and the next, in this order:
  /// (g, 2 t), (g, 2 t + 1), (g + 8, 2 t), (g + 8, 2 t + 1). rows: the first of 16.
  __device__ void multiply(const float* rows, RowLayout layout, unsigned first_group,
                           float (&products)[T][4]) const {
    const auto [g, t] = Lane::get();
    constexpr unsigned kSums = kRough ? 2 : 3; // several, as one would wait for itself
    float sums[kSums][T][4] = {};
    const float* row = rows + g * layout.stride();
#pragma unroll
    for (unsigned i = 0; i < kGroups; ++i) {
      float x[2][8];
#pragma unroll
      for (unsigned e = 0; e < 4; ++e) {
        const unsigned column = (first_group + i) * 8 + 2 * t + e % 2;
        const unsigned at = column < layout.columns ? column ^ (g & layout.mask) : 0;
        read_four(row + e / 2 * 8 * layout.stride() + 4 * at, &x[e / 2][e % 2 * 4]);
      }
#pragma unroll
      for (unsigned step = 0; step < 4; ++step) {
        const float whole[4] = {x[0][2 * step], x[1][2 * step], x[0][2 * step + 1],
                                x[1][2 * step + 1]};
#pragma unroll
        for (unsigned tile = 0; tile < T; ++tile) {
          if constexpr (kRough) {
            multiply_add(sums[step % 2][tile], whole, part_[i][step][tile]);
          } else {
            float rest[4];
#pragma unroll
            for (unsigned v = 0; v < 4; ++v) {
              rest[v] = whole[v] - cut_part(whole[v]);
            }
            multiply_add(sums[0][tile], whole, part_[i][step][tile]);
            multiply_add(sums[1][tile], rest, part_[i][step][tile]);
            multiply_add(sums[2][tile], whole, rest_[i][step][tile]);
          }
        }
      }
    }
#pragma unroll
    for (unsigned e = 0; e < T * 4; ++e) {
      float& product = products[e / 4][e % 4];
      product = sums[kSums - 1][e / 4][e % 4];
#pragma unroll
      for (unsigned s = kSums - 1; s > 0; --s) {
        product += sums[s - 1][e / 4][e % 4];
      }
    }
  }

private:
  float part_[kGroups][4][T][2];
  float rest_[kRough ? 1 : kGroups][4][T][2];
};

/// A warp's features of the weighted sums of 8 T clusters.
template <unsigned kGroups, unsigned T, bool kExactWeights>
class WeightedSums {
public:
  /// Adds 16 rows. weights[step][tile][half]: of row 8 step + 4 half + t in cluster 8 tile + g.
  __device__ void add(const float* rows, RowLayout layout, unsigned first_group,
                      const float (&weights)[2][T][2]) {
    const Lane lane = Lane::get();
    const float* row = rows + lane.t * layout.stride();
#pragma unroll
    for (unsigned i = 0; i < kGroups; ++i) {
      const unsigned column = (first_group + i) * 8 + lane.summed_column(layout);
      const unsigned at = column < layout.columns ? column ^ (lane.t & layout.mask) : 0;
      float sums[2][T][4] = {}, rests[2][T][4] = {};
#pragma unroll
      for (unsigned step = 0; step < 2; ++step) {
        float x[2][4];
        read_four(row + 8 * step * layout.stride() + 4 * at, x[0]);
        read_four(row + (8 * step + 4) * layout.stride() + 4 * at, x[1]);
#pragma unroll
        for (unsigned m = 0; m < 2; ++m) {
          const float whole[4] = {x[0][2 * m], x[0][2 * m + 1], x[1][2 * m], x[1][2 * m + 1]};
          float part[4], rest[4];
#pragma unroll
          for (unsigned v = 0; v < 4; ++v) {
            part[v] = rounded_part(whole[v]);
            rest[v] = whole[v] - part[v];
          }
#pragma unroll
          for (unsigned tile = 0; tile < T; ++tile) {
            const float(&weight)[2] = weights[step][tile];
            const float kept[2] = {kExactWeights ? weight[0] : rounded_part(weight[0]),
                                   kExactWeights ? weight[1] : rounded_part(weight[1])};
            multiply_add(sums[m][tile], part, kept);
            multiply_add(rests[m][tile], rest, kept);
            if constexpr (!kExactWeights) {
              const float left[2] = {weight[0] - kept[0], weight[1] - kept[1]};
              multiply_add(rests[m][tile], part, left);
            }
          }
        }
      }
#pragma unroll
      for (unsigned e = 0; e < 2 * T * 4; ++e) {
        sums_[i][e / (4 * T)][e / 4 % T][e % 4] +=
            sums[e / (4 * T)][e / 4 % T][e % 4] + rests[e / (4 * T)][e / 4 % T][e % 4];
      }
    }
  }
  /// Puts the sums into s_sums [k, d], or adds them to what is there.
  __device__ void store(RowLayout layout, unsigned first_group, unsigned k, unsigned d, bool add,
                        float* s_sums) const {
    const Lane lane = Lane::get();
#pragma unroll
    for (unsigned e = 0; e < kGroups * 8 * T; ++e) {
      const unsigned i = e / (8 * T), m = e / (4 * T) % 2, tile = e / 4 % T;
      const unsigned j = tile * 8 + 2 * lane.t + e % 2;
      const unsigned f =
          4 * ((first_group + i) * 8 + lane.summed_column(layout)) + 2 * m + e / 2 % 2;
      if (f < d && j < k) {
        const float sum = sums_[i][m][tile][e % 4];
        s_sums[j * d + f] = add ? s_sums[j * d + f] + sum : sum;
      }
    }
  }

private:
  float sums_[kGroups][2][T][4] = {};
};

// ---- bulk copies
//
// Tiles that a group of warps works through again and again, copied to shared memory as wholes by
// the copy engine, several ahead.

/// A group takes each `groups`-th tile, in every sweep, and every second sweep backwards: what the
/// last one left in the L2 cache is then read first. Sweeps follow one another without a gap, so
/// the first tiles of the next are on their way while the last one is being wound up.
class BulkRing {
public:
  /// points: [tiles, size], 16-byte aligned, as is size in bytes; s_tiles: [stages, size];
  /// s_barriers: [stages]. `leader` is one thread of the group; sweep: the number of the first one.
  /// A barrier must follow, then start().
  __device__ BulkRing(const float* points, unsigned tiles, unsigned size, unsigned stages,
                      float* s_tiles, std::uint64_t* s_barriers, unsigned group, unsigned groups,
                      bool leader, std::size_t sweep = 0)
      : points_(points), s_tiles_(s_tiles), s_barriers_(s_barriers), size_(size), stages_(stages),
        group_(group), groups_(groups),
        count_(tiles > group ? (tiles - group - 1) / groups + 1 : 0), leader_(leader),
        fetched_sweep_(sweep) {
    for (unsigned stage = 0; stage < stages && leader; ++stage) {
      init_barrier(&s_barriers[stage]);
    }
  }
  /// Sends for the first tiles.
  __device__ void start() {
    for (unsigned stage = 0; stage + 1 < stages_; ++stage) {
      fetch();
    }
  }
  /// Tiles of this group.
  __device__ unsigned count() const { return count_; }
  /// Which of all tiles is the i-th of a sweep.
  __device__ unsigned tile(std::size_t sweep, unsigned i) const {
    return group_ + groups_ * (sweep % 2 == 1 ? count_ - 1 - i : i);
  }
  /// Waits for the next tile, in the order of the sweeps.
  __device__ const float* next() {
    wait_for(&s_barriers_[stage_], phase_);
    const float* tile = s_tiles_ + stage_ * size_;
    if (++stage_ == stages_) {
      stage_ = 0;
      ++phase_;
    }
    return tile;
  }
  /// Sends for one more tile, into the place of the one before the tile that next() gave last: all
  /// threads of the group must have left that one.
  __device__ void fetch() {
    if (leader_ && count_ > 0) {
      const float* from = points_ + std::size_t{tile(fetched_sweep_, fetched_)} * size_;
      const unsigned bytes = size_ * static_cast<unsigned>(sizeof(float));
      std::uint64_t* barrier = &s_barriers_[fetched_stage_];
      expect_bytes(barrier, bytes);
      NV_IF_ELSE_TARGET(
          NV_PROVIDES_SM_90,
          (asm volatile(
               "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, "
               "[%3];" ::"r"(shared_address(s_tiles_ + fetched_stage_ * size_)),
               "l"(from), "r"(bytes), "r"(shared_address(barrier))
               : "memory");),
          (__trap();))
    }
    if (++fetched_stage_ == stages_) {
      fetched_stage_ = 0;
    }
    if (++fetched_ == count_) {
      fetched_ = 0;
      ++fetched_sweep_;
    }
  }
  /// Waits for copies that nobody will need any more.
  __device__ void drain() {
    for (unsigned stage = 0; stage + 1 < stages_ && count_ > 0; ++stage) {
      next();
    }
  }

private:
  const float* points_;
  float* s_tiles_;
  std::uint64_t* s_barriers_;
  unsigned size_, stages_, group_, groups_, count_;
  bool leader_;
  unsigned stage_ = 0, phase_ = 0, fetched_stage_ = 0, fetched_ = 0;
  std::size_t fetched_sweep_;
};

// ---- the run
//
// The host's side of kernels that work through tiles in one launch: which compiled shape fits, its
// buffers, the tiles, and what the kernels have in common of their argument. Float only.

inline constexpr unsigned kTileCluster = 8; ///< blocks of a cluster
inline constexpr unsigned kMaxStages = 4;   ///< tiles of a ring in shared memory, at most

struct TileTask {
  RunTask<> run;
  const float* tiles; // see FloatRows
  unsigned n, d, k, tiles_count, stages;
  TaggedValue<float>* sum_words;   // of k times the padded row
  TaggedValue<double>* fact_words; // of k weights and what the stop rule wants
};

/// Makes the means of a pass the centroids: in shared memory and, by one block, in the run's answer
/// and history. A cluster without weight keeps its centroid. All threads must call it, and get the
/// squared shift if the rule asks for it. s_sums, s_centroids: [k, width >= d]; s_weights: [k].
template <unsigned kThreads>
__device__ double adopt_means(const RunTask<>& run, const float* s_sums, const double* s_weights,
                              float* s_centroids, unsigned k, unsigned d, unsigned width,
                              std::size_t pass) {
  __shared__ double s_shift[kThreads / 32];
  double shift = 0.0;
#pragma unroll 4 // one division need not wait for another
  for (unsigned e = threadIdx.x; e < k * width; e += kThreads) {
    const unsigned j = e / width, f = e % width;
    const float weight = static_cast<float>(s_weights[j]), old = s_centroids[e];
    const float mean = weight > 0.0f ? s_sums[e] / weight : old;
    s_centroids[e] = mean;
    const double moved = static_cast<double>(mean) - static_cast<double>(old);
    shift += moved * moved;
    if (blockIdx.x == 0 && f < d) {
      run.leave_centroid(pass, j * d + f, k * d, old, mean);
    }
  }
  if (run.rule != StopRule::Kind::shift) {
    return 0.0;
  }
  shift = over_lanes<32>(shift);
  if (threadIdx.x % 32 == 0) {
    s_shift[threadIdx.x / 32] = shift;
  }
  __syncthreads(); // the shifts of all warps are there
  double total = 0.0;
  for (unsigned w = 0; w < kThreads / 32; ++w) {
    total += s_shift[w];
  }
  return total;
}

/// A warp a row; a tile: rows, then for each row the length |x|, then the length of what tf32 cuts
/// off, then its weight if points have some. What lies behind n or d becomes zero. rows: [n, d];
/// size: rows of all tiles; weights: [n], or null.
template <bool kWeighted>
static __global__ void pack_rows(const float* rows, std::size_t n, unsigned d, std::size_t size,
                                 unsigned tile_rows, float* tiles, const float* weights) {
  constexpr unsigned kBeside = kWeighted ? 3 : 2; // floats of a row beside its features
  const RowLayout layout = RowLayout::of(d);
  const unsigned lane = threadIdx.x % 32;
  for (std::size_t i = (std::size_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32; i < size;
       i += std::size_t{gridDim.x} * blockDim.x / 32) {
    const unsigned row = static_cast<unsigned>(i % tile_rows);
    float* tile = tiles + i / tile_rows * tile_rows * (layout.stride() + kBeside);
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
      if constexpr (kWeighted) {
        tile[tile_rows * (layout.stride() + 2) + row] = i < n ? weights[i] : 0.0f;
      }
    }
  }
}

/// What TileRun needs to know of such tiles; `width`: floats of a centroid.
template <bool kWeighted = false>
struct FloatRows {
  std::span<const float> d_weights = {}; ///< [n], if points have some

  static unsigned width(std::size_t d) { return RowLayout::of(d).stride(); }
  static std::size_t tile_size(std::size_t rows, std::size_t d) {
    return rows * (width(d) + (kWeighted ? 3 : 2));
  }
  /// Tiles of [n, d] rows on the device, zero where there is no data. Does not block. Throws
  /// std::runtime_error.
  DeviceBuffer<float> make_tiles(std::span<const float> d_rows, std::size_t n, std::size_t d,
                                 unsigned tile_rows) const {
    const std::size_t count = ceil_div(n, tile_rows), size = count * tile_rows;
    DeviceBuffer<float> tiles(count * tile_size(tile_rows, d));
    pack_rows<kWeighted>
        <<<blocks_at_most(size, 8, 65536), 256>>>(d_rows.data(), n, static_cast<unsigned>(d), size,
                                                  tile_rows, tiles.data(), d_weights.data());
    check_launch("pack_rows");
    return tiles;
  }
};

/// A compiled shape of a kernel: rings of tiles and a fixed part in shared memory, which also holds
/// the centroids and, padded, two times their sums.
template <typename Task, typename Rows = FloatRows<>>
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
template <typename Task, typename Rows = FloatRows<>>
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
    d_sum_words_ = DeviceBuffer<TaggedValue<float>>(
        words * ManySums<kTileCluster>::padded(k * Rows::width(shape.d)));
    d_sum_words_.zero(); // tags begin with 1
    d_fact_words_ = DeviceBuffer<TaggedValue<double>>(words * FewSums<kTileCluster>::padded(k + 1));
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
  /// Starts one kernel with a task whose part about the run is set; does not wait for it. Throws
  /// std::runtime_error.
  void launch(const Task& task) const { launch_clusters(kernel_->kernel, task, shape_); }
  /// Writes all of the answer but memberships. Throws std::runtime_error.
  void run(const Start<float>& start, Answer<float>& answer, Observer<float>& observer,
           const Task& task) {
    launch_.run(start, answer, observer, kernel_->kernel, task, shape_);
  }

private:
  const TileKernel<Task, Rows>* kernel_ = nullptr;
  ClusterLaunch shape_{};
  OneLaunch<> launch_;
  DeviceBuffer<float> d_tiles_;
  DeviceBuffer<TaggedValue<float>> d_sum_words_;
  DeviceBuffer<TaggedValue<double>> d_fact_words_;
};

} // namespace clusterbench::cuda
