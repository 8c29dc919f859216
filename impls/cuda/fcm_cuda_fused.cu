// Fuzzy c-means in one pass over the data: distances, memberships and weighted sums together.
//
// Changed since fcm_cuda_warp: a sample comes from memory once an iteration instead of twice, and
//   memberships go there only when somebody will read them. The loop is that of kmeans_cuda_fused:
//   tiles of rows are copied to shared memory asynchronously, two deep; a few lanes share a row and
//   compare it with all centres; a lane turns one distance into one membership; then a thread owns
//   a column of the tile, whose weighted sums for all centres stay in its registers.
// Blocks exchange sums in words that carry their number (support/exchange.cuh), without a barrier
//   of the grid, while the first tiles of the next sweep are already on their way. Every second
//   sweep runs backwards: what the last one left in L2 is read first.
// Source: article 001, sections 4.2 to 4.4, its kernels as one; one persistent launch.
// Cost per iteration: n d values; (3 k + 1) n d / 32 instructions of a warp; about 3 us of latency.
//   Started from memberships, one sweep more for the first centres.
// Limits: float; d <= 512, k <= 16, else refused; n < 2^31. Same bits in every run.
#include "impls/contract.hpp"
#include "impls/cuda/support/buffer.hpp"
#include "impls/cuda/support/exchange.cuh"
#include "impls/cuda/support/grid.hpp"
#include "impls/cuda/support/one_launch.cuh"
#include "impls/cuda/support/stream.hpp"
#include "impls/cuda/support/tile_ring.cuh"

#include <algorithm>
#include <array>
#include <cmath>

namespace clusterbench {
namespace {

using namespace cuda;

constexpr unsigned kThreads = 128; // small blocks: while one waits at a barrier, others work
constexpr unsigned kWarps = kThreads / 32;
constexpr unsigned kStages = 2;   // tiles of a block in shared memory
constexpr unsigned kPerLane = 20; // blocks whose words one lane adds up
constexpr unsigned kMaxBlocks = 32 * kPerLane;

/// What registers allow: the sums of 16 clusters fill those of half a multiprocessor.
template <unsigned K, unsigned V>
constexpr unsigned kBlocksPerProcessor = K* V < 64 ? 4 : 2;

struct Task {
  RunTask run;
  const float* points; // [tiles * rows of a tile, stride], zero where there is no data
  const float* given;  // [n, k] initial memberships, or null
  float* memberships;  // [n, k]
  float fuzzifier;
  unsigned n, d, k, stride, tiles;
  Word* sums;  // [pairs + 1, kMaxBlocks]: two sums of a cluster and its weight
  Word* means; // [pairs + 1]: the two means; the last word of both: what the rule wants
};

/// How a tile is compared: a row by kSlices lanes, each taking every kSlices-th column of V floats.
template <unsigned V, unsigned kSlices>
struct Tile {
  static constexpr unsigned kRowLanes = 32 / kSlices;
  static constexpr unsigned kRowsPerLane = kSlices > 1 ? 2 : 1; // a centre is read once for both
  static constexpr unsigned kRowsPerWarp = kRowLanes * kRowsPerLane;
  static constexpr unsigned kRows = kWarps * kRowsPerWarp;
};

/// The first column of a slice. Eight neighbouring lanes read 16 bytes each at once, and as rows
/// are an odd number of such columns apart, these offsets send them to eight different banks.
template <unsigned kSlices>
__device__ unsigned first_column(unsigned slice) {
  return kSlices == 16  ? slice % 4 * 2 + slice / 4 % 2 + slice / 8 * 8
         : kSlices == 8 ? slice % 2 * 4 + slice / 2
                        : slice;
}

/// Squared distances of the rows of a lane to all centres, as far as its slice goes.
/// rows: the first row, [.., stride]; centres: [K, width]
template <unsigned K, unsigned V, unsigned kSlices>
__device__ void compare(const float* rows, unsigned stride, const float* centres, unsigned width,
                        unsigned d, unsigned slice,
                        float (&squared)[Tile<V, kSlices>::kRowsPerLane][K]) {
  constexpr unsigned kRowsPerLane = Tile<V, kSlices>::kRowsPerLane;
  const unsigned step = Tile<V, kSlices>::kRowLanes * stride;
  const unsigned end = V == 4 ? width : d / 4 * 4;
#pragma unroll 2
  for (unsigned f = 4 * first_column<kSlices>(slice); f < end; f += 4 * kSlices) {
    float x[kRowsPerLane][4];
#pragma unroll
    for (unsigned p = 0; p < kRowsPerLane; ++p) {
      const float* from = rows + p * step + f;
      if constexpr (V == 4) {
        const float4 four = *reinterpret_cast<const float4*>(from);
        x[p][0] = four.x, x[p][1] = four.y, x[p][2] = four.z, x[p][3] = four.w;
      } else { // an odd stride keeps single floats apart, but not aligned
        x[p][0] = from[0], x[p][1] = from[1], x[p][2] = from[2], x[p][3] = from[3];
      }
    }
#pragma unroll
    for (unsigned j = 0; j < K; ++j) {
      const float4 four = *reinterpret_cast<const float4*>(centres + j * width + f);
      const float c[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
      for (unsigned p = 0; p < kRowsPerLane; ++p) {
#pragma unroll
        for (unsigned v = 0; v < 4; ++v) {
          const float difference = x[p][v] - c[v];
          squared[p][j] += difference * difference;
        }
      }
    }
  }
  for (unsigned f = end; f < d; ++f) { // V == 1: up to three features are left
#pragma unroll
    for (unsigned j = 0; j < K; ++j) {
      const float difference = rows[f] - centres[j * width + f];
      squared[0][j] += difference * difference;
    }
  }
}

/// Adds up the slices of a row. Of its two rows, the lower half of the warp keeps the first and the
/// upper half the second, so only the first step has to exchange both.
template <unsigned K, unsigned kSlices, unsigned kRowsPerLane>
__device__ void add_slices(const float (&part)[kRowsPerLane][K], unsigned lane,
                           float (&squared)[K]) {
#pragma unroll
  for (unsigned j = 0; j < K; ++j) {
    if constexpr (kSlices == 1) {
      squared[j] = part[0][j];
    } else {
      const float given = lane < 16 ? part[1][j] : part[0][j];
      squared[j] = (lane < 16 ? part[0][j] : part[1][j]) + __shfl_xor_sync(kAllLanes, given, 16);
#pragma unroll
      for (unsigned offset = 8; offset >= 32 / kSlices; offset /= 2) {
        squared[j] += __shfl_xor_sync(kAllLanes, squared[j], static_cast<int>(offset));
      }
    }
  }
}

__device__ float to_the_m(float membership, float m) {
  return m == 2.0f ? membership * membership : powf(membership, m);
}

/// (nearest / squared)^(1 / (m - 1)), which cannot overflow; 1 for every centre a sample sits on.
__device__ float closeness(float nearest, float squared, float m) {
  const float ratio = squared == nearest ? 1.0f : nearest / squared;
  return m == 2.0f ? ratio : powf(ratio, 1.0f / (m - 1.0f));
}

/// Combines lanes that differ in the bits below `width`; all of them get the result.
template <unsigned width, typename Combine>
__device__ float combine_lanes(float value, Combine combine) {
#pragma unroll
  for (unsigned offset = width / 2; offset > 0; offset /= 2) {
    value = combine(value, __shfl_xor_sync(kAllLanes, value, static_cast<int>(offset)));
  }
  return value;
}

/// Turns the squared distances of a warp's rows, [rows, K], into weights u^m in place, a lane each.
/// Returns this lane's share of the weight of cluster lane % K, and adds what the stop rule wants.
template <unsigned K>
__device__ float weigh(const Task& task, bool given, bool keep, std::size_t first_point,
                       unsigned rows, unsigned lane, float* squared_to_weight, double& wanted) {
  const unsigned j = lane % K;
  float mass = 0.0f;
  for (unsigned e = lane; e < max(rows * K, 32u); e += 32) { // whole warps, for the shuffles
    const std::size_t point = first_point + e / K;
    const bool real = e < rows * K && point < task.n && j < task.k;
    float weight = 0.0f;
    if (given) {
      weight = real ? to_the_m(task.given[point * task.k + j], task.fuzzifier) : 0.0f;
    } else {
      // A cluster behind k is infinitely far: it is never the nearest and has no closeness.
      const float squared = e < rows * K ? squared_to_weight[e] : 1.0f;
      const float nearest = combine_lanes<K>(squared, [](float a, float b) { return fminf(a, b); });
      const float close = closeness(nearest, squared, task.fuzzifier);
      const float membership = close / over_lanes<K>(close);
      weight = real ? to_the_m(membership, task.fuzzifier) : 0.0f;
      if (real && task.run.rule == StopRule::Kind::loss) {
        wanted += static_cast<double>(weight) * static_cast<double>(squared);
      }
      if (keep) {
        const float largest =
            combine_lanes<K>(membership, [](float a, float b) { return fmaxf(a, b); });
        const unsigned at = __ballot_sync(kAllLanes, membership == largest) >> (lane / K * K);
        const std::int32_t label = __ffs(static_cast<int>(at)) - 1; // the lowest of equal ones
        if (real) {
          task.memberships[point * task.k + j] = membership;
        }
        if (real && j == static_cast<unsigned>(label)) {
          wanted += task.run.rule == StopRule::Kind::labels && task.run.labels[point] != label;
          task.run.labels[point] = label;
        }
      }
    }
    if (e < rows * K) {
      squared_to_weight[e] = weight;
    }
    mass += weight;
  }
  return mass;
}

/// The whole run; all blocks are resident. Dynamic shared memory: see shared_bytes().
template <unsigned K, unsigned V, unsigned kSlices>
__global__ void __launch_bounds__(kThreads, kBlocksPerProcessor<K, V>)
    cluster_rows(const Task task) {
  using Shape = Tile<V, kSlices>;
  extern __shared__ __align__(16) float s_dynamic[];
  const unsigned width = (task.d + 3) / 4 * 4;
  const unsigned tile_size = Shape::kRows * task.stride;
  // Dynamic: tiles [kStages, kRows, stride], then:
  float* s_weights = s_dynamic + kStages * tile_size; // [kRows, K]: squared distances, then u^m
  float* s_centres = s_weights + Shape::kRows * K;    // [K, width]
  float* s_sums = s_centres + K * width;              // [K, width]
  __shared__ float s_masses[kWarps][K];
  __shared__ double s_wanted[kWarps];

  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const bool wants_fact = task.run.wants_fact();

  TileRing<kStages, kThreads> ring(task.points, task.tiles, tile_size, s_dynamic);
  for (unsigned e = threadIdx.x; e < K * width; e += kThreads) {
    // Clusters behind k are infinitely far, features behind d are zero everywhere; without initial
    // centres, those of clusters that never get any weight are zero.
    const unsigned j = e / width, f = e % width;
    const bool known = f < task.d && task.run.initial != nullptr;
    s_centres[e] = j >= task.k ? INFINITY : known ? task.run.initial[j * task.d + f] : 0.0f;
    s_sums[e] = 0.0f; // and stays zero behind d
  }
  const unsigned columns = (task.d + V - 1) / V, groups = kThreads / columns;
  const unsigned column = threadIdx.x % columns, group = threadIdx.x / columns;
  // Started from memberships, sweep 0 only finds the first centres, and sweep s is pass s: its
  // memberships, and the centres of the pass after it. From centres, sweep s is all of pass s + 1.
  const bool from_memberships = task.given != nullptr;
  double previous = INFINITY, previous_shift = INFINITY;
  std::size_t sweep = 0;
  bool last = false;

  task.run.note_time(0);

  while (!last) {
    const bool given = from_memberships && sweep == 0;
    const std::size_t passes = from_memberships ? sweep : sweep + 1; // when this sweep is done
    const bool keep = !given && (task.run.rule != StopRule::Kind::iterations ||
                                 passes == task.run.max_iterations);
    float sums[K * V] = {}; // of this thread's column and its group's rows
    float mass = 0.0f;      // of cluster lane % K, in the rows that this lane weighs
    double wanted = 0.0;
#pragma unroll 1
    for (unsigned i = 0; i < ring.count(); ++i) {
      const float* tile = ring.next();

      float* own_rows = s_weights + warp * Shape::kRowsPerWarp * K;
      if (!given) {
        float part[Shape::kRowsPerLane][K] = {};
        float squared[K];
        const unsigned row = lane % Shape::kRowLanes, slice = lane / Shape::kRowLanes;
        compare<K, V, kSlices>(tile + (warp * Shape::kRowsPerWarp + row) * task.stride, task.stride,
                               s_centres, width, task.d, slice, part);
        add_slices<K, kSlices>(part, lane, squared);
        if (kSlices == 1 || lane % 16 < Shape::kRowLanes) { // one lane a row
          const unsigned second = kSlices > 1 && lane >= 16 ? Shape::kRowLanes : 0;
#pragma unroll
          for (unsigned j = 0; j < K; ++j) {
            own_rows[(row + second) * K + j] = squared[j];
          }
        }
        __syncwarp(); // the distances of the warp's rows are there
      }
      const std::size_t tile_row = std::size_t{ring.tile(sweep, i)} * Shape::kRows;
      mass += weigh<K>(task, given, keep, tile_row + warp * Shape::kRowsPerWarp,
                       Shape::kRowsPerWarp, lane, own_rows, wanted);
      __syncthreads(); // the weights of all rows are there

      if (group < groups) {
#pragma unroll 4
        for (unsigned row = group; row < Shape::kRows; row += groups) {
          const float* from = tile + row * task.stride + column * V;
          float x[V];
          if constexpr (V == 4) {
            const float4 four = *reinterpret_cast<const float4*>(from);
            x[0] = four.x, x[1] = four.y, x[2] = four.z, x[3] = four.w;
          } else {
            x[0] = *from;
          }
#pragma unroll
          for (unsigned j = 0; j < K; j += 4) {
            const float4 four = *reinterpret_cast<const float4*>(s_weights + row * K + j);
            const float weight[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
            for (unsigned e = 0; e < 4 * V; ++e) {
              sums[j * V + e] += weight[e / V] * x[e % V];
            }
          }
        }
      }
    }

    // The block's sums: the groups one after another, so that the order is always the same.
    for (unsigned g = 0; g < groups; ++g) {
      if (group == g) {
#pragma unroll
        for (unsigned e = 0; e < K * V; ++e) {
          float& sum = s_sums[e / V * width + column * V + e % V];
          sum = g == 0 ? sums[e] : sum + sums[e];
        }
      }
      __syncthreads(); // the next group adds to what this one has left
    }
#pragma unroll
    for (unsigned offset = K; offset < 32; offset *= 2) {
      mass += __shfl_xor_sync(kAllLanes, mass, static_cast<int>(offset));
    }
    if (lane < K) {
      s_masses[warp][lane] = mass;
    }
    wanted = over_lanes<32>(wanted);
    if (lane == 0) {
      s_wanted[warp] = wanted;
    }
    __syncthreads(); // masses and wanted facts of all warps are there

    const auto weight_of = [&](unsigned j) {
      float weight = 0.0f;
      for (unsigned w = 0; w < kWarps; ++w) {
        weight += s_masses[w][j];
      }
      return weight;
    };
    for (unsigned w = 1; w < kWarps; ++w) { // counts in thread 0
      wanted += s_wanted[w];
    }
    // All threads of all blocks get the same bits, so they take the same decision.
    const auto [squared_shift, fact] = exchange_means<kPerLane, kThreads>(
        task.sums, task.means, s_sums, s_centres, task.k, width, weight_of, wants_fact, wanted,
        task.run.first_stamp + static_cast<unsigned>(sweep));
    if (!given) { // from memberships, a pass moves the centres before it needs them
      last = task.run.is_last(passes, fact, previous,
                              from_memberships ? previous_shift : squared_shift);
      previous = fact;
      previous_shift = squared_shift;
      task.run.note_time(passes);
    }
    if (!(last && from_memberships)) {
      adopt_means<kThreads>(task.run, s_sums, s_centres, task.k, task.d, width, sweep);
    }
    ++sweep;
  }
  ring.drain();
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    *task.run.iterations = from_memberships ? sweep - 1 : sweep;
  }
}

/// A compiled shape of the kernel.
struct Shape {
  unsigned k, v, rows;
  void (*kernel)(const Task);

  /// Floats between rows: an odd number of columns, so that neighbouring rows start in different
  /// banks of shared memory.
  std::size_t stride(std::size_t d) const { return ((d + v - 1) / v | 1) * v; }
  std::size_t shared_bytes(std::size_t d) const {
    return (kStages * rows * stride(d) + rows * k + 2 * k * ((d + 3) / 4 * 4)) * sizeof(float);
  }
};
template <unsigned K, unsigned V, unsigned kSlices>
constexpr Shape kShape{K, V, Tile<V, kSlices>::kRows, cluster_rows<K, V, kSlices>};
constexpr std::array kShapes{kShape<4, 1, 1>,  kShape<4, 4, 4>,  kShape<4, 4, 8>,
                             kShape<4, 4, 16>, kShape<8, 1, 1>,  kShape<8, 4, 4>,
                             kShape<8, 4, 8>,  kShape<8, 4, 16>, kShape<16, 1, 1>,
                             kShape<16, 4, 4>, kShape<16, 4, 8>, kShape<16, 4, 16>};
constexpr std::size_t kMaxFeatures = 512;
constexpr std::size_t kScalarBelow = 64; // features; from there on 16 bytes at a time

/// The shape with the fewest slices of which two blocks fit a multiprocessor, or else the smallest;
/// null if k is too large.
const Shape* shape_for(std::size_t d, std::size_t k) {
  const std::size_t half = (shared_memory_limit() - 2048) / 2; // less the static part
  const Shape* best = nullptr;
  for (const Shape& shape : kShapes) {
    const bool possible = shape.k >= k && (shape.v == 1) == (d < kScalarBelow);
    if (possible && (best == nullptr || (best->k == shape.k && best->shared_bytes(d) > half))) {
      best = &shape;
    }
  }
  return best;
}

class FcmCudaFused final : public Variant<float> {
public:
  std::string refuse(const Problem<float>& problem) const override {
    if (!(problem.fuzzifier > 1.0)) {
      return "the fuzzifier must be greater than 1";
    }
    if (std::max(problem.n, problem.stop.max_iterations) > 0x7fffffff) {
      return "more than 2^31 - 1 points or iterations";
    }
    if (problem.d > kMaxFeatures) {
      return "d = " + std::to_string(problem.d) + ": a block has threads for " +
             std::to_string(kMaxFeatures) + " features, four each";
    }
    if (shape_for(problem.d, problem.k) == nullptr) {
      return "k = " + std::to_string(problem.k) + ": a thread holds the sums of up to 16 clusters";
    }
    const std::size_t needed = shape_for(problem.d, problem.k)->shared_bytes(problem.d);
    if (needed + 1024 > shared_memory_limit()) {
      return "two tiles take " + std::to_string(needed) + " bytes of shared memory, a block has " +
             std::to_string(shared_memory_limit());
    }
    return {};
  }

  void prepare(const Problem<float>& problem) override {
    shape_ = shape_for(problem.d, problem.k);
    stream_ = Stream::create();
    launch_.prepare(problem, stream_);
    const std::size_t stride = shape_->stride(problem.d);
    const std::size_t tiles = ceil_div(problem.n, shape_->rows);
    d_points_ = DeviceBuffer<float>(tiles * shape_->rows * stride);
    d_points_.zero(stream_);
    check(cudaMemcpy2DAsync(d_points_.data(), stride * sizeof(float), problem.points.data(),
                            problem.d * sizeof(float), problem.d * sizeof(float), problem.n,
                            cudaMemcpyHostToDevice, stream_),
          "cudaMemcpy2DAsync of the points");
    d_given_ = DeviceBuffer<float>(problem.memberships.size());
    if (d_given_.size() > 0) {
      d_given_.upload(problem.memberships, stream_);
    }
    d_memberships_ = DeviceBuffer<float>(problem.n * problem.k);
    const std::size_t words = problem.k * ((problem.d + 3) / 4 * 2) + 1;
    d_sums_ = DeviceBuffer<Word>(words * kMaxBlocks);
    d_sums_.zero(stream_); // stamps begin with 1
    d_means_ = DeviceBuffer<Word>(words);
    d_means_.zero(stream_);

    shared_bytes_ = shape_->shared_bytes(problem.d);
    allow_shared_memory(shape_->kernel, shared_bytes_);
    blocks_ =
        static_cast<unsigned>(std::min({resident_blocks(shape_->kernel, kThreads, shared_bytes_),
                                        std::size_t{kMaxBlocks}, tiles}));
    task_ = {.run = {},
             .points = d_points_.data(),
             .given = d_given_.data(),
             .memberships = d_memberships_.data(),
             .fuzzifier = static_cast<float>(problem.fuzzifier),
             .n = static_cast<unsigned>(problem.n),
             .d = static_cast<unsigned>(problem.d),
             .k = static_cast<unsigned>(problem.k),
             .stride = static_cast<unsigned>(stride),
             .tiles = static_cast<unsigned>(tiles),
             .sums = d_sums_.data(),
             .means = d_means_.data()};
    stream_.synchronize();
  }

  void run(Observer<float>& observer) override {
    launch_.run(observer, shape_->kernel, task_, blocks_, kThreads, shared_bytes_, stream_);
  }

  void fetch(Result<float>& result) override {
    launch_.fetch(result, stream_);
    d_memberships_.download(result.memberships, stream_);
  }

private:
  const Shape* shape_ = nullptr;
  Task task_{};
  unsigned blocks_ = 0;
  std::size_t shared_bytes_ = 0;
  Stream stream_;
  OneLaunch launch_;
  DeviceBuffer<float> d_points_;                // [tiles * rows, stride]
  DeviceBuffer<float> d_given_, d_memberships_; // [n, k]
  DeviceBuffer<Word> d_sums_, d_means_;
};

const Registration registration({.name = "fcm_cuda_fused",
                                 .idea = "distances, memberships and sums in one pass",
                                 .source = "article 001, sections 4.2 to 4.4, as one kernel",
                                 .family = Family::fcm,
                                 .device = Device::gpu,
                                 .max_d = kMaxFeatures,
                                 .max_k = 16,
                                 .previous = "fcm_cuda_warp"},
                                f32_only<FcmCudaFused>());

} // namespace
} // namespace clusterbench
