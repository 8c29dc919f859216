// K-means with up to 64 features and clusters: both products of a pass by wgmma, in one launch.
//
// Changed since kmeans_cuda_cells: the rows lie in memory as two float16 parts, as wgmma multiplies
//   them with the centroids (three products of parts) and, read the other way round, adds them up:
//   as products with weights, 1 or 0, made by comparing labels.
// Where one score alone is least beyond all rounding, it has the label; other rows are compared by
//   squared differences, of their parts or, if that could matter, as they came (docs/certified.md).
// Source: kmeans_cuda_fused, which does both on mma.sync; fcm_cuda_split for the parts.
// Cost per iteration: 4 n d bytes, d padded to eight; for 64 rows 3 d / 16 products with k columns
//   and 8 with d, and 4 k + 260 other instructions of a warp for 16 of them; 2 n k d flops useful.
// Limits: float; d, k <= 64, values that one scale serves (rounding_bounds.hpp), not far from the
//   origin (magnitudes.hpp), else refused; n < 2^31. The data lies on the device once more, twice if
//   d is no multiple of four; the rule `loss` reads it all again. Same bits in every run.
// Needs: sm_90a
#include "impls/contract.hpp"
#include "impls/cuda/common/one_launch.cuh"
#include "impls/cuda/common/runtime.hpp"
#include "impls/cuda/few_clusters/split_data.cuh"
#include "impls/cuda/few_clusters/split_teams.cuh"
#include "impls/cuda/few_clusters/tile_ring.cuh"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <type_traits>

namespace clusterbench {
namespace {

using namespace cuda;

constexpr unsigned kMaxFeatures = 64, kMaxClusters = 64;

struct Task {
  RunTask<> run;
  SplitRun split;
  GridMeansView means;
};

/// The whole run. One block a multiprocessor, all of them resident. Dynamic shared memory: see
/// below.
template <typename S>
__global__ void __launch_bounds__(S::kThreads, 1) cluster_rows(const Task task) {
  constexpr unsigned kThreads = S::kThreads, kTeams = S::kTeams, D = S::D, K = S::K;
  constexpr unsigned kRows = S::Tile::kRows;
  extern __shared__ __align__(128) float s_tiles[]; // [kTeams, kStages, tile], then:
  __half* s_parts = reinterpret_cast<__half*>(s_tiles + S::kRings); // see SplitShape
  float* s_sums = reinterpret_cast<float*>(s_parts);                // [K, D], after the products
  float* s_centroids = s_tiles + S::kRings + S::kPartBytes / 4;     // [K, stride]
  __shared__ __align__(8) float s_half_squares[K];
  __shared__ unsigned s_counts[K];
  __shared__ __align__(8) __half s_labels[kTeams][2][kRows];

  const unsigned lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  const unsigned team = warp_uniform(threadIdx.x / 128);
  const unsigned first_row = threadIdx.x % 128 / 32 * 16;
  const __half kNone = __float2half(1000.0f); // no cluster's number
  const unsigned n = task.split.exact.n, k = task.split.exact.k, d = task.split.d;
  ExactRows exact = task.split.exact;
  exact.s_centroids = s_centroids;
  GridMeans<kThreads> means(task.means, k, D, s_parts);
  for (unsigned e = threadIdx.x; e < K * exact.stride(); e += kThreads) {
    const unsigned j = e / exact.stride(), f = e % exact.stride();
    s_centroids[e] = j < k && f < d ? task.run.initial[j * d + f] : 0.0f;
  }
  CopiedRing<S::kStages, S::Tile::kBytes, 1> ring(
      task.split.tiles, task.split.tiles_count, s_tiles + team * S::kStages * S::Tile::kBytes / 4,
      team * gridDim.x + blockIdx.x, gridDim.x * kTeams);
  const bool wants_loss = task.run.rule == StopRule::Kind::loss;
  const bool wants_changes = task.run.rule == StopRule::Kind::labels;
  double previous = INFINITY;
  std::size_t pass = 0;
  bool last = false;
  __syncthreads(); // the first tiles are there
  task.run.note_time(0);

  while (!last) {
    split_centroids<S>(task.split, s_centroids, s_parts, s_half_squares);
    for (unsigned j = threadIdx.x; j < K; j += kThreads) {
      s_counts[j] = 0;
    }
    __syncthreads(); // the parts are there
    const float certain = 2.0f * task.split.of_scores.of(task.split.longest,
                                                         longest_of<S>(task.split, s_half_squares));
    means.begin(task.run.tag(pass));
    double wanted = 0.0;
    unsigned changes = 0;
    float score[K / 8][4], sums[D / 8][4], all_sums[D / 8][4] = {};
    unsigned before = warp_uniform(ring.place()); // no tile: nothing has a label yet
    if (threadIdx.x % 128 < kRows) {
      s_labels[team][1][threadIdx.x % 128] = kNone;
    }
    const auto sweep = [&](auto keep) { // labels of the run, or only for the sums
      constexpr bool kKeep = decltype(keep)::value;
#pragma unroll 1
      for (unsigned i = 0; i < ring.count(); ++i) {
        // This tile and the labels of the one before are there, and nobody needs what came earlier.
        sync_team(team);
        const unsigned tile = warp_uniform(ring.place());
        multiply_tile<S>(tile, shared_address(s_parts) / 16, score);
        ring.fetch();
        const unsigned row = ring.tile(pass, i) * kRows + first_row;
        const unsigned own = g + 8 * t; // the row of lanes with t < 2
        const bool real = t < 2 && row + own < n;
        std::int32_t* kept = task.run.labels + row + own;
        const std::int32_t label_before = kKeep && real && wants_changes ? *kept : -1; // on its way
        start_sums<S>(before, s_labels[team][(i + 1) % 2], sums);
        wgmma_wait_group<1>();
        take_products(score);
        // While the sums of the tile before are made:
        unsigned label[2];
        label_rows(exact, s_half_squares, certain, score, label,
                   [&](unsigned r, const auto& among) {
                     return settle<S>(task.split, tile, first_row + r, row + r, among);
                   });
        const unsigned its = t == 0 ? label[0] : label[1];
        if (t < 2) {
          s_labels[team][i % 2][first_row + own] =
              real ? __ushort2half_rn(static_cast<unsigned short>(its)) : kNone;
        }
        if (real) {
          atomicAdd(&s_counts[its], 1u);
          if (const auto now = static_cast<std::int32_t>(its); kKeep && label_before != now) {
            *kept = now;
            ++changes;
          }
        }
        if (kKeep && wants_loss) {
          wanted += two_distances(exact, row + g, label);
        }
        __syncwarp(); // products are waited for together
        finish_sums<S>(sums, all_sums);
        ring.await_next();
        ring.advance();
        before = tile;
      }
    };
    if (task.run.keeps_labels(pass)) {
      sweep(std::true_type{});
    } else {
      sweep(std::false_type{});
    }
    sync_team(team); // the labels of the last tile are there
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
    for (unsigned v = threadIdx.x; v < k * (D + 1); v += kThreads) {
      const unsigned j = v / (D + 1), f = v % (D + 1);
      means.set(v, f < D ? s_sums[j * D + f] : static_cast<float>(s_counts[j]));
    }
    share_fact<kThreads>(task.run, means, wants_changes ? static_cast<double>(changes) : wanted);
    const auto place_of = [&](unsigned j, unsigned f) { return j * exact.stride() + f; };
    means.finish([&](unsigned j, unsigned f, double sum, double size) {
      return size > 0.0 ? static_cast<float>(sum / (static_cast<double>(task.split.scale) * size))
                        : s_centroids[place_of(j, f)];
    });
    const auto mean_of = [&](unsigned j, unsigned f, float) { return means.mean(j, f); };
    last =
        end_pass<kThreads>(task.run, means, k, d, mean_of, s_centroids, place_of, pass, previous);
  }
  cp_async_wait<0>();
}

/// As many teams as leave threads the registers they need, 128 or 168, and tiles enough room.
template <unsigned D, unsigned K>
using TeamShape = SplitShape<D, K, D <= 40 ? 4 : 3, D <= 40 ? 5 : 4>;

/// A compiled shape, and bytes of shared memory beside what the compiler places.
struct Kernel {
  unsigned teams;
  std::size_t bytes;
  void (*run)(const Task);
};
template <unsigned D, unsigned K, typename S = TeamShape<D, K>>
constexpr Kernel kKernel{S::kTeams,
                         S::kRings * sizeof(float) + S::kPartBytes + K*(D + 4) * sizeof(float),
                         cluster_rows<S>};
template <unsigned K>
constexpr std::array kKernels{kKernel<8, K>,  kKernel<16, K>, kKernel<24, K>, kKernel<32, K>,
                              kKernel<40, K>, kKernel<48, K>, kKernel<56, K>, kKernel<64, K>};

const Kernel& kernel_for(std::size_t d, std::size_t k) {
  const auto& kernels = k <= 8 ? kKernels<8> : k <= 24 ? kKernels<24> : kKernels<64>;
  return kernels[(d - 1) / 8];
}

class KmeansCudaFusedWgmma final : public Variant<float> {
public:
  std::string refuse(const Shape& shape) const override {
    return SplitData::refuse(shape, kMaxFeatures, kMaxClusters);
  }

  void prepare(const Shape& shape, const Points<float>& points) override {
    const Kernel& kernel = kernel_for(shape.d, shape.k);
    kernel_ = kernel.run;
    launch_.prepare(shape);
    data_ = SplitData(shape, points.rows);
    shape_ = {
        .blocks = 0, .threads = kernel.teams * 128, .cluster = 1, .shared_bytes = kernel.bytes};
    shape_.blocks = static_cast<unsigned>(std::min<std::size_t>(
        resident_in_clusters(kernel_, shape_), ceil_div(data_.run().tiles_count, kernel.teams)));
    means_ = GridMeansBuffers(shape.k, ceil_div(shape.d, 8) * 8, shape_.blocks);
    task_ = {.run = {}, .split = data_.run(), .means = means_.view()};
  }

  void run(const Start<float>& start, Answer<float>& answer, Observer<float>& observer) override {
    data_.fit(start.centroids);
    task_.split = data_.run();
    launch_.run(start, answer, observer, kernel_, task_, shape_);
  }

private:
  void (*kernel_)(const Task) = nullptr;
  Task task_{};
  ClusterLaunch shape_{};
  OneLaunch<> launch_;
  SplitData data_;
  GridMeansBuffers means_;
};

const Registration registration({.name = "kmeans_cuda_fused_wgmma",
                                 .idea = "both products of a pass by wgmma, one launch",
                                 .source = "kmeans_cuda_fused and kmeans_cuda_cells",
                                 .device = Device::gpu,
                                 .multiplier = Multiplier::tensor_f16,
                                 .max_d = kMaxFeatures,
                                 .max_k = kMaxClusters,
                                 .previous = "kmeans_cuda_cells"},
                                f32_only<KmeansCudaFusedWgmma>());

} // namespace
} // namespace clusterbench
