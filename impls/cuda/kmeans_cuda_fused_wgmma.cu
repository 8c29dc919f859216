// K-means with up to 64 features and clusters: both products of a pass by wgmma, in one launch.
//
// Changed since kmeans_cuda_cells_mma: the rows lie in memory as two float16 parts, four bytes a value
//   as before, and copies bring them to shared memory in the form in which wgmma multiplies them with
//   the centroids and, read the other way round, adds them up: as products of the rows and their weights,
//   1 or 0, which a comparison of labels makes in registers. So a warp neither loads nor splits a
//   value, nor adds one with atomics: it only compares scores, while other warpgroups multiply.
// Where one score alone is least beyond all rounding, it has the label; other rows are compared by squared
// differences of the rows as they came (docs/certified.md).
// Source: kmeans_cuda_fused, which does both on mma.sync; fcm_cuda_split for the parts.
// Cost per iteration: 4 n d bytes, d padded to eight features; for 64 rows 3 d / 16 products with k
//   columns and 8 with d, and 4 k + 260 other instructions for 16 of them; 2 n k d flops useful.
// Limits: float; d <= 64, k <= 64; values that one scale serves (rows of 2^-12 of the largest value at
//   least, features of 2^-16), else refused; n < 2^31; compute capability 9.0. A copy of the data besides.
//   Where many rows lie between centroids, or far from the origin, comparing them adds to the pass,
//   as does the rule `loss`, which reads all rows again. Same bits in every run.
// Needs: sm_90a
#include "impls/contract.hpp"
#include "impls/cuda/support/certified_bound.hpp"
#include "impls/cuda/support/copied_ring.cuh"
#include "impls/cuda/support/end_pass.cuh"
#include "impls/cuda/support/exact_rows.cuh"
#include "impls/cuda/support/grid.hpp"
#include "impls/cuda/support/grid_means.cuh"
#include "impls/cuda/support/magnitudes.hpp"
#include "impls/cuda/support/product_order.cuh"
#include "impls/cuda/support/split_columns.cuh"
#include "impls/cuda/support/split_range.hpp"
#include "impls/cuda/support/stream.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace clusterbench {
namespace {

using namespace cuda;

constexpr unsigned kMaxFeatures = 64, kMaxClusters = 64;

struct Task {
  RunTask run;
  ExactRows exact;
  const float* tiles; // see split_columns.cuh
  unsigned d, tiles_count;
  float scale;   // of the parts, a power of two
  float longest; // row, and what of it the parts lose, both times the scale
  float lost;
  PlainError of_scores;
  double* words; // of GridMeans
};

/// Of D features, with the padding, and up to K clusters: warpgroups ("teams") with a ring of tiles each.
/// As many as leave threads the registers they need, 128 or 168, and tiles enough room.
template <unsigned D_, unsigned K_>
struct Shape {
  static constexpr unsigned D = D_, K = K_;
  static constexpr unsigned kTeams = D > 40 || D + K > 88 ? 3 : 4, kThreads = kTeams * 128;
  static constexpr unsigned kStages = D > 40 ? 4 : 5;
  static constexpr unsigned kSteps = (D + 15) / 16; // of 16 features
  using Tile = SplitTile<D / 8>;
  /// Floats of all rings, and of what the last step reads beside the last tile.
  static constexpr unsigned kRings =
      (kTeams * kStages * Tile::kBytes + (kSteps * 16 - D) / 8 * Tile::kRows * Tile::kUnit) / 4;
  /// Halves of a part of the centroids: [2 kSteps columns, K, 8].
  static constexpr unsigned kPart = kSteps * 16 * K;
  /// Bytes of both parts, and of what takes their place at the end of a pass: sums [K, D], and then what
  /// GridMeans needs.
  static constexpr unsigned kPartBytes = std::max(kPart * 4, GridMeans<kThreads>::kScratchBytes);
  static_assert(K * D * sizeof(float) <= kPartBytes);
};

/// The centroids' parts, with the sign changed, and half squares; all threads. s_parts: [2, kPart].
template <typename S>
__device__ void split_centroids(const Task& task, const float* s_centroids, __half* s_parts,
                                float* s_half_squares) {
  const unsigned stride = task.exact.stride();
  for (unsigned e = threadIdx.x; e < S::kPart; e += S::kThreads) {
    const unsigned f = e / (8 * S::K) * 8 + e % 8, j = e / 8 % S::K;
    const auto parts =
        SplitPair::of(f < task.exact.width ? -s_centroids[j * stride + f] * task.scale : 0.0f);
    s_parts[e] = parts.high;
    s_parts[S::kPart + e] = parts.low;
  }
  for (unsigned e = threadIdx.x; e < S::K * 4; e += S::kThreads) { // four lanes a centroid
    const unsigned j = e / 4;
    double squares = 0.0;
    for (unsigned f = e % 4; f < task.exact.width; f += 4) {
      const double c = static_cast<double>(s_centroids[j * stride + f] * task.scale);
      squares += c * c;
    }
    squares = over_lanes<4>(squares);
    s_half_squares[j] = j < task.exact.k ? static_cast<float>(0.5 * squares) : kNever;
  }
  publish_operands();
}

/// The length of the longest centroid, times the scale, or a little more.
template <typename S>
__device__ float longest_of(const Task& task, const float* s_half_squares) {
  float largest = 0.0f;
  for (unsigned j = threadIdx.x % 32; j < task.exact.k; j += 32) {
    largest = fmaxf(largest, s_half_squares[j]);
  }
  largest = __uint_as_float(__reduce_max_sync(kAllLanes, __float_as_uint(largest))); // not negative
  return 1.001f * sqrtf(2.0f * largest);
}

/// Starts the scores but for the half squares, -x.c, of 64 rows with all centroids. What is small is added up
/// first, so that the tensor cores cut less of it. tile, parts: places in units of 16 bytes.
template <typename S>
__device__ void multiply_tile(unsigned tile, unsigned parts, float (&score)[S::K / 8][4]) {
  const unsigned low = tile + S::Tile::kLow, low_parts = parts + S::kPart / 8;
  const auto of = [](unsigned part, unsigned step) {
    return operand(part + step * 2 * S::K, S::K, 8);
  };
  open_products();
#pragma unroll
  for (unsigned step = 0; step < S::kSteps; ++step) {
    multiply_rows<S::K>(score, S::Tile::rows(low, step), of(parts, step), step > 0);
    multiply_rows<S::K>(score, S::Tile::rows(tile, step), of(low_parts, step), true);
  }
#pragma unroll
  for (unsigned step = 0; step < S::kSteps; ++step) {
    multiply_rows<S::K>(score, S::Tile::rows(tile, step), of(parts, step), true);
  }
  close_products();
}

/// Starts a tile's sums by label. s_labels: of 64 rows.
template <typename S>
__device__ void start_sums(unsigned tile, const __half* s_labels, float (&sums)[S::D / 8][4]) {
  const unsigned lane = threadIdx.x % 32, t = lane % 4;
  const unsigned cluster = threadIdx.x % 128 / 32 * 16 + lane / 4;
  const __half2 own[2] = {__float2half2_rn(static_cast<float>(cluster)),
                          __float2half2_rn(static_cast<float>(cluster + 8))};
  unsigned weights[4][4]; // 1 or 0, of 16 rows each
#pragma unroll
  for (unsigned e = 0; e < 16; ++e) {
    const unsigned row = e / 4 * 16 + e % 4 / 2 * 8 + 2 * t;
    const __half2 equal = __heq2(*reinterpret_cast<const __half2*>(s_labels + row), own[e % 2]);
    weights[e / 4][e % 4] = *reinterpret_cast<const unsigned*>(&equal);
  }
  open_products();
#pragma unroll
  for (unsigned step = 0; step < 4; ++step) {
    const std::uint64_t low = S::Tile::sixteen_rows(tile + S::Tile::kLow, step);
    add_rows<S::D>(sums, weights[step], low, step > 0);
    add_rows<S::D>(sums, weights[step], S::Tile::sixteen_rows(tile, step), true);
  }
  close_products();
}

/// Waits for all products, and adds a tile's sums to those of the pass: to nearest, as tensor cores do not.
template <typename S>
__device__ void finish_sums(float (&sums)[S::D / 8][4], float (&all_sums)[S::D / 8][4]) {
  wait_for_products<0>();
  take_products(sums);
#pragma unroll
  for (unsigned e = 0; e < S::D / 2; ++e) {
    all_sums[e / 4][e % 4] += sums[e / 4][e % 4];
  }
}

/// Puts a team's sums into s_sums [K, D], or adds them to what is there.
template <typename S>
__device__ void add_sums(float (&sums)[S::D / 8][4], bool add, float* s_sums) {
  const unsigned lane = threadIdx.x % 32, j = threadIdx.x % 128 / 32 * 16 + lane / 4;
  const auto at = [&](unsigned e) { // two neighbours: of row j, of row j + 8
    return reinterpret_cast<float2*>(s_sums + (j + e % 2 * 8) * S::D + e / 2 * 8 + lane % 4 * 2);
  };
#pragma unroll
  for (unsigned e = 0; add && e < S::D / 4; ++e) { // all loads before the stores
    if (j + e % 2 * 8 < S::K) {
      const float2 there = *at(e);
      sums[e / 2][e % 2 * 2] += there.x;
      sums[e / 2][e % 2 * 2 + 1] += there.y;
    }
  }
#pragma unroll
  for (unsigned e = 0; e < S::D / 4; ++e) {
    if (j + e % 2 * 8 < S::K) {
      *at(e) = make_float2(sums[e / 2][e % 2 * 2], sums[e / 2][e % 2 * 2 + 1]);
    }
  }
}

/// The label of a row that scores leave open: by its parts, unless what they lose could matter.
template <typename S, typename Among>
__device__ unsigned settle(const Task& task, unsigned tile, unsigned row_of_tile, unsigned row,
                           const Among& among) {
  const unsigned f = threadIdx.x % 32 * 2;
  const float inverse = 1.0f / task.scale;
  const unsigned place = tile + f / 8 * S::Tile::kRows + row_of_tile;
  const auto part = [&](unsigned from) {
    const auto* halves = static_cast<const __half2*>(__cvta_shared_to_generic(from * 16));
    return __half22float2(halves[f % 8 / 2]);
  };
  float2 x{};
  if (f < task.exact.width) {
    const float2 high = part(place), low = part(place + S::Tile::kLow);
    x = {(high.x + low.x) * inverse, (high.y + low.y) * inverse};
  }
  const Compared found = among(x);
  // By Cauchy and Schwarz, for two centroids no further away than the second.
  return found.second - found.nearest > 4.1f * sqrtf(found.second) * task.lost * inverse
             ? found.label
             : among(two_of_row(task.exact, row)).label;
}

/// The distance of a row to its centroid, by the row's four lanes.
__device__ float distance_to(const ExactRows& exact, unsigned row, unsigned label) {
  const float* values = exact.rows + std::size_t{min(row, exact.n - 1)} * exact.width;
  float squared = 0.0f;
  for (unsigned f = threadIdx.x % 4 * 4; f < exact.width; f += 16) {
    const float4 x = __ldg(reinterpret_cast<const float4*>(values + f));
    const float4 c =
        *reinterpret_cast<const float4*>(exact.s_centroids + label * exact.stride() + f);
    squared += (x.x - c.x) * (x.x - c.x) + (x.y - c.y) * (x.y - c.y) + (x.z - c.z) * (x.z - c.z) +
               (x.w - c.w) * (x.w - c.w);
  }
  return sqrtf(over_lanes<4>(squared));
}

/// Keeps a row's label, and adds what the stop rule asks for to `wanted` of one of its four lanes.
__device__ void keep_label(const Task& task, const ExactRows& exact, unsigned row, unsigned label,
                           bool first_lane, double& wanted) {
  const bool wants_loss = task.run.rule == StopRule::Kind::loss;
  const float distance = wants_loss ? distance_to(exact, row, label) : 0.0f;
  if (first_lane && row < exact.n) {
    std::int32_t& kept = task.run.labels[row];
    const auto now = static_cast<std::int32_t>(label);
    wanted += wants_loss ? static_cast<double>(distance)
              : task.run.rule == StopRule::Kind::labels && kept != now ? 1.0
                                                                       : 0.0;
    kept = now;
  }
}

/// A value that all lanes of a warp have: so the compiler knows it, too, and needs no register of each.
__device__ unsigned for_all(unsigned value) {
  return __shfl_sync(kAllLanes, value, 0);
}

/// A barrier of a team.
__device__ void meet(unsigned team) {
  asm volatile("bar.sync %0, 128;" ::"r"(team + 1) : "memory");
}

/// The whole run. One block a multiprocessor, all of them resident. Dynamic shared memory: see below.
template <typename S>
__global__ void __launch_bounds__(S::kThreads, 1) cluster_rows(const Task task) {
  constexpr unsigned kThreads = S::kThreads, kTeams = S::kTeams, D = S::D, K = S::K;
  constexpr unsigned kRows = S::Tile::kRows;
  extern __shared__ __align__(128) float s_tiles[]; // [kTeams, kStages, tile], [beside]:
  __half* s_parts = reinterpret_cast<__half*>(s_tiles + S::kRings); // see Shape
  float* s_sums = reinterpret_cast<float*>(s_parts);                // [K, D], after the products
  float* s_centroids = s_sums + S::kPartBytes / 4;                  // [K, stride]
  __shared__ float s_half_squares[K];
  __shared__ unsigned s_counts[K];
  __shared__ __half s_labels[kTeams][2][kRows];

  const unsigned lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  const unsigned team = for_all(threadIdx.x / 128);
  const unsigned first_row = threadIdx.x % 128 / 32 * 16;
  const __half kNone = __float2half(1000.0f); // no cluster's number
  const unsigned n = task.exact.n, k = task.exact.k, d = task.d;
  ExactRows exact = task.exact;
  exact.s_centroids = s_centroids;
  GridMeans<kThreads> means(task.words, k, d, s_parts);
  // What products read beside a tile, or before it came, is multiplied by zero: it must be a number.
  for (unsigned e = threadIdx.x; e < S::kRings; e += kThreads) {
    s_tiles[e] = 0.0f;
  }
  for (unsigned e = threadIdx.x; e < K * exact.stride(); e += kThreads) {
    const unsigned j = e / exact.stride(), f = e % exact.stride();
    s_centroids[e] = j < k && f < d ? task.run.initial[j * d + f] : 0.0f;
  }
  __syncthreads(); // the zeros come first
  CopiedRing<S::kStages, D / 8> ring(task.tiles, task.tiles_count,
                                     s_tiles + team * S::kStages * S::Tile::kBytes / 4,
                                     blockIdx.x * kTeams + team, gridDim.x * kTeams);
  double previous = INFINITY;
  std::size_t pass = 0;
  bool last = false;
  __syncthreads(); // the first tiles are there
  task.run.note_time(0);

  while (!last) {
    split_centroids<S>(task, s_centroids, s_parts, s_half_squares);
    for (unsigned j = threadIdx.x; j < K; j += kThreads) {
      s_counts[j] = 0;
    }
    __syncthreads(); // the parts are there
    const float certain =
        2.0f * task.of_scores.of(task.longest, longest_of<S>(task, s_half_squares));
    const bool keep_labels =
        task.run.rule != StopRule::Kind::iterations || pass + 1 == task.run.max_iterations;
    double wanted = 0.0;
    float score[K / 8][4], sums[D / 8][4], all_sums[D / 8][4] = {};
    unsigned before = for_all(ring.place()); // no tile: nothing has a label yet
    if (threadIdx.x % 128 < kRows) {
      s_labels[team][1][threadIdx.x % 128] = kNone;
    }
#pragma unroll 1
    for (unsigned i = 0; i < ring.count(); ++i) {
      meet(
          team); // this tile and the labels of the one before are there; nobody needs what came earlier
      const unsigned tile = for_all(ring.place());
      multiply_tile<S>(tile, shared_address(s_parts) / 16, score);
      ring.fetch();
      start_sums<S>(before, s_labels[team][(i + 1) % 2], sums);
      wait_for_products<1>();
      take_products(score);
      // While the sums of the tile before are made:
      const unsigned row = ring.tile(pass, i) * kRows + first_row;
      unsigned label[2];
      label_rows(exact, s_half_squares, certain, score, label, [&](unsigned r, const auto& among) {
        return settle<S>(task, tile, first_row + r, row + r, among);
      });
      if (t < 2) { // one lane a row
        const unsigned its = t == 0 ? label[0] : label[1], r = g + 8 * t;
        const bool real = row + r < n;
        s_labels[team][i % 2][first_row + r] =
            real ? __ushort2half_rn(static_cast<unsigned short>(its)) : kNone;
        if (real) {
          atomicAdd(&s_counts[its], 1u);
        }
      }
      if (keep_labels) {
        keep_label(task, exact, row + g, label[0], t == 0, wanted);
        keep_label(task, exact, row + g + 8, label[1], t == 0, wanted);
      }
      finish_sums<S>(sums, all_sums);
      ring.await_next();
      ring.advance();
      before = tile;
    }
    meet(team); // the labels of the last tile are there
    if (ring.count() > 0) {
      start_sums<S>(before, s_labels[team][(ring.count() + 1) % 2], sums);
      finish_sums<S>(sums, all_sums);
    }
    __syncthreads(); // nobody needs the parts
    for (unsigned turn = 0; turn < kTeams; ++turn) {
      if (turn == team) {
        add_sums<S>(all_sums, turn > 0, s_sums);
      }
      __syncthreads(); // the team's sums are there
    }
    for (unsigned v = threadIdx.x; v < k * (d + 1); v += kThreads) {
      const unsigned j = v / (d + 1), f = v % (d + 1);
      means.set(v, f < d ? s_sums[j * D + f] : static_cast<float>(s_counts[j]));
    }
    share_fact<kThreads>(task.run, means, wanted);
    const auto place_of = [&](unsigned j, unsigned f) { return j * exact.stride() + f; };
    means.finish([&](unsigned j, unsigned f, double sum, double size) {
      return size > 0.0 ? static_cast<float>(sum / (static_cast<double>(task.scale) * size))
                        : s_centroids[place_of(j, f)];
    });
    const auto mean_of = [&](unsigned j, unsigned f, float) { return means.mean(j, f); };
    last =
        end_pass<kThreads>(task.run, means, k, d, mean_of, s_centroids, place_of, pass, previous);
  }
  wait_for_copies<0>();
}

/// A compiled shape, and bytes of shared memory beside what the compiler places.
struct Kernel {
  unsigned d, k, teams;
  std::size_t bytes;
  void (*run)(const Task);
};
template <unsigned D, unsigned K, typename S = Shape<D, K>>
constexpr Kernel kKernel{D, K, S::kTeams,
                         S::kRings * sizeof(float) + S::kPartBytes + K*(D + 4) * sizeof(float),
                         cluster_rows<S>};
template <unsigned K>
constexpr std::array kKernels{kKernel<8, K>,  kKernel<16, K>, kKernel<24, K>, kKernel<32, K>,
                              kKernel<40, K>, kKernel<48, K>, kKernel<56, K>, kKernel<64, K>};

const Kernel& kernel_for(std::size_t d, std::size_t k) {
  const auto& kernels = k <= 8 ? kKernels<8> : k <= 24 ? kKernels<24> : kKernels<64>;
  return kernels[(d - 1) / 8];
}

SplitRange range_of(const Problem<float>& problem) {
  SplitRange range(problem.points, problem.n, problem.d);
  range.include(problem.centroids);
  return range;
}

class KmeansCudaFusedWgmma final : public Variant<float> {
public:
  std::string refuse(const Problem<float>& problem) const override {
    if (problem.n > 0x7fffffff) {
      return "more than 2^31 - 1 points";
    }
    if (const int capability = compute_capability(); capability != 0 && capability != 90) {
      return "compute capability 9.0 is needed, and no other"; // 0: no device, which others report
    }
    if (problem.d > kMaxFeatures || problem.k > kMaxClusters) {
      return "k = " + std::to_string(problem.k) + ", d = " + std::to_string(problem.d) +
             ": at most " + std::to_string(kMaxClusters) + " clusters of " +
             std::to_string(kMaxFeatures) + " features";
    }
    return range_of(problem).refuse();
  }

  void prepare(const Problem<float>& problem) override {
    const std::size_t n = problem.n, d = problem.d, width = ceil_div(d, 4) * 4;
    const Kernel& kernel = kernel_for(d, problem.k);
    kernel_ = kernel.run;
    stream_ = Stream::create();
    launch_.prepare(problem, stream_);
    const float scale = range_of(problem).scale();
    d_tiles_ = upload_split_columns(problem.points, n, d, scale, stream_);
    d_rows_ = DeviceBuffer<float>(n * width);
    d_rows_.zero(stream_);
    {
      DeviceBuffer<float> staging(problem.points.size()); // padding is quicker on the device
      staging.upload(problem.points, stream_);
      check(cudaMemcpy2DAsync(d_rows_.data(), width * sizeof(float), staging.data(),
                              d * sizeof(float), d * sizeof(float), n, cudaMemcpyDeviceToDevice,
                              stream_),
            "cudaMemcpy2DAsync of the rows");
      stream_.synchronize();
    }
    const std::size_t tiles = ceil_div(n, SplitTile<1>::kRows);
    shape_ = {
        .blocks = 0, .threads = kernel.teams * 128, .cluster = 1, .shared_bytes = kernel.bytes};
    shape_.blocks = static_cast<unsigned>(std::min<std::size_t>(
        resident_in_clusters(kernel_, shape_), ceil_div(tiles, kernel.teams)));
    d_words_ = DeviceBuffer<double>(grid_mean_words(problem.k, d, shape_.blocks));
    const double longest = // norms are rounded
        1.001 * static_cast<double>(scale) * Magnitudes::of(problem.points, d).longest;
    const std::size_t products = ceil_div(d, 16) * 16;
    task_ = {.run = {},
             .exact = {.rows = d_rows_.data(),
                       .n = static_cast<unsigned>(n),
                       .width = static_cast<unsigned>(width),
                       .k = static_cast<unsigned>(problem.k),
                       .s_centroids = nullptr},
             .tiles = d_tiles_.data(),
             .d = static_cast<unsigned>(d),
             .tiles_count = static_cast<unsigned>(tiles),
             .scale = scale,
             .longest = static_cast<float>(longest),
             // 2^-23 of a value, or half of float16's smallest step.
             .lost = static_cast<float>(0x1p-23 * longest + 0x1p-25 * std::sqrt(d)),
             .of_scores = split_error_small_first(products),
             .words = d_words_.data()};
    stream_.synchronize();
  }

  void run(Observer<float>& observer) override {
    launch_.run(observer, kernel_, task_, shape_, stream_);
  }

  void fetch(Result<float>& result) override { launch_.fetch(result, stream_); }

private:
  void (*kernel_)(const Task) = nullptr;
  Task task_{};
  ClusterLaunch shape_{};
  Stream stream_;
  OneLaunch launch_;
  DeviceBuffer<float> d_tiles_, d_rows_; // [tiles, tile], [n, width]
  DeviceBuffer<double> d_words_;
};

const Registration registration({.name = "kmeans_cuda_fused_wgmma",
                                 .idea = "both products of a pass by wgmma, one launch",
                                 .source = "kmeans_cuda_fused and kmeans_cuda_cells_mma",
                                 .device = Device::gpu,
                                 .multiplier = Multiplier::tensor_f16,
                                 .max_d = kMaxFeatures,
                                 .max_k = kMaxClusters,
                                 .previous = "kmeans_cuda_cells_mma"},
                                f32_only<KmeansCudaFusedWgmma>());

} // namespace
} // namespace clusterbench
