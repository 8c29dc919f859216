// K-means with up to 64 features and clusters: rows that change their cluster change the sums.
//
// Changed since kmeans_cuda_fused_wgmma: the sums are updated incrementally. After a few passes one or two
//   rows of a hundred change their cluster; every block keeps the sums of its rows in shared memory, in
//   fixed point, and moves such a row from one cluster to the other. That spares the products for sums
//   and their registers, so more warpgroups work side by side.
// A block adds up all of its rows, as before, after a pass in which many moved, in every pass under the rule
// `loss`, and once more in a pass that leaves a cluster less than a fourth of the rows its sum was made of.
// Source: kmeans_cuda_fused_wgmma; MacQueen, 1967, moved a mean with each point, here it is in passes.
// Cost per iteration: 4 n d bytes, d padded to eight, and one a row; for 64 rows 3 d / 16 products with k
//   columns, 4 k + 150 other instructions of a warp for 16 of them, 50 for each that moves.
// Limits: float; d, k <= 64, n < 2^31, 2^17 a multiprocessor, values that one scale serves (split_range.hpp)
//   and no feature that is zero in some rows only, or tiny in many (kept_range.hpp), else refused. The data
//   lies on the device twice. Same bits in every run.
// Needs: sm_90a
#include "impls/contract.hpp"
#include "impls/cuda/support/copied_ring.cuh"
#include "impls/cuda/support/end_pass.cuh"
#include "impls/cuda/support/grid.hpp"
#include "impls/cuda/support/kept_range.hpp"
#include "impls/cuda/support/magnitudes.hpp"
#include "impls/cuda/support/moved_sums.cuh"
#include "impls/cuda/support/split_data.cuh"
#include "impls/cuda/support/stream.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <type_traits>

namespace clusterbench {
namespace {

using namespace cuda;

constexpr unsigned kMaxFeatures = 64, kMaxClusters = 64;
constexpr std::size_t kMaxOfBlock = std::size_t{1} << 17; // rows: twelve bits a word or more
// After a pass in which more than one row of so many moved, the next adds up all rows. (Not a smaller share: in
// the next pass fewer will move than in this one.)
constexpr unsigned kMoving = 3;

struct Task {
  RunTask run;
  SplitRun split;
  GridMeansView means;
  std::uint8_t* clusters;        // [tiles, 64] of the pass before
  ToWords<kMaxFeatures> to_word; // see MovedSums; of parts
  float next;                    // 2^bits of a word
};

/// Adds a tile's rows to a team's sums. s_labels: of its rows, which the team is about to meet for.
template <typename S>
__device__ void add_tile(unsigned team, unsigned tile, const __half* s_labels,
                         float (&all_sums)[S::D / 8][4]) {
  float sums[S::D / 8][4];
  meet(team); // the labels are there
  start_sums<S, 0, 2>(tile, s_labels, sums);
  wait_for_products<0>(); // in two halves for want of registers
  take_products(sums);
  start_sums<S, 2, 2>(tile, s_labels, sums);
  finish_sums<S>(sums, all_sums);
}

/// Moves rows of a tile, which `moving` has a bit for: of the lane (g, t) that knows where from and where to,
/// row g + 8 t from first_row on.
template <typename S>
__device__ void move_rows(const MovedSums<S::D>& sums, unsigned tile, unsigned first_row,
                          unsigned moving, unsigned from, unsigned to) {
#pragma unroll 1
  for (; moving != 0; moving &= moving - 1) {
    const int of = __ffs(static_cast<int>(moving)) - 1;
    sums.move(two_of_parts<S>(tile, first_row + of / 4 + of % 4 * 8),
              __shfl_sync(kAllLanes, from, of), __shfl_sync(kAllLanes, to, of));
  }
}

/// The whole run. One block a multiprocessor, all of them resident. Dynamic shared memory: see below.
template <typename S>
__global__ void __launch_bounds__(S::kThreads, 1) cluster_rows(const Task task) {
  constexpr unsigned kThreads = S::kThreads, kTeams = S::kTeams, D = S::D, K = S::K;
  constexpr unsigned kRows = S::Tile::kRows, kNowhere = MovedSums<D>::kNowhere;
  extern __shared__ __align__(128) float s_tiles[]; // [kTeams, kStages, tile], then:
  __half* s_parts = reinterpret_cast<__half*>(s_tiles + S::kRings); // see SplitShape
  float* s_sums = reinterpret_cast<float*>(s_parts);                // [K, D], after the products
  float* s_centroids = s_tiles + S::kRings + S::kPartBytes / 4;     // [K, stride]
  int* s_words = reinterpret_cast<int*>(s_centroids + K * (D + 4)); // [K, kWords]
  __shared__ __align__(8) float s_half_squares[K];
  __shared__ int s_counts[K], s_counts_then[K]; // now, and when all rows were added up
  __shared__ unsigned s_changes;                // rows that have changed their cluster
  __shared__ bool s_worn;                       // some sum: few of its rows are left
  __shared__ double s_previous;                 // not in registers, of which there are too few
  __shared__ __align__(8) __half s_labels[kTeams][kRows];

  const unsigned lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  const unsigned team = for_all(threadIdx.x / 128);
  const unsigned first_row = threadIdx.x % 128 / 32 * 16;
  const __half kNone = __float2half(1000.0f); // no cluster's number
  const unsigned n = task.split.exact.n, k = task.split.exact.k, d = task.split.d;
  ExactRows exact = task.split.exact;
  exact.s_centroids = s_centroids;
  const MovedSums<D> sums(s_words, task.to_word, task.next);
  GridMeans<kThreads> means(task.means, k, D, s_parts);
  for (unsigned e = threadIdx.x; e < K * exact.stride(); e += kThreads) {
    const unsigned j = e / exact.stride(), f = e % exact.stride();
    s_centroids[e] = j < k && f < d ? task.run.initial[j * d + f] : 0.0f;
  }
  for (unsigned e = threadIdx.x; e < K * MovedSums<D>::kWords; e += kThreads) {
    s_words[e] = 0;
  }
  for (unsigned j = threadIdx.x; j < K; j += kThreads) {
    s_counts[j] = 0;
  }
  if (threadIdx.x == 0) {
    s_changes = 0;
    s_worn = false;
    s_previous = INFINITY;
  }
  using Ring = CopiedRing<S::kStages, D / 8, 0>;
  static_assert(Ring::kBytes == S::Tile::kBytes);
  Ring ring(task.split.tiles, task.split.tiles_count,
            s_tiles + team * S::kStages * S::Tile::kBytes / 4, team * gridDim.x + blockIdx.x,
            gridDim.x * kTeams);
  const bool wants_loss = task.run.rule == StopRule::Kind::loss;
  std::size_t pass = 0;
  unsigned sweeps = 0;
  bool last = false, afresh = true; // the next sweep adds up all rows
  __syncthreads();                  // the first tiles are there
  task.run.note_time(0);

  while (!last) {
    split_centroids<S>(task.split, s_centroids, s_parts, s_half_squares);
    __syncthreads(); // the parts are there
    const float certain = 2.0f * task.split.of_scores.of(task.split.longest,
                                                         longest_of<S>(task.split, s_half_squares));
    means.begin(task.run.stamp(pass));
    double wanted = 0.0;
    const auto sweep = [&](auto all) { // adds up all rows, or moves some
      constexpr bool kAll = decltype(all)::value;
      float all_sums[D / 8][4] = {};
#pragma unroll 1
      for (unsigned i = 0; i < ring.count(); ++i) {
        meet(team); // this tile is there, and nobody needs the one before
        const unsigned tile = for_all(ring.place());
        float score[K / 8][4];
        multiply_tile<S>(tile, shared_address(s_parts) / 16, score);
        ring.fetch();
        const unsigned row = ring.tile(sweeps, i) * kRows + first_row;
        const unsigned own = g + 8 * t; // the row that lanes with t < 2 answer for
        const bool real = t < 2 && row + own < n;
        const unsigned from =
            real && sweeps > 0 ? task.clusters[row + own] : kNowhere; // on its way
        wait_for_products<0>();
        take_products(score);
        unsigned label[2];
        label_rows(exact, s_half_squares, certain, score, label,
                   [&](unsigned r, const auto& among) {
                     return settle<S>(task.split, tile, first_row + r, row + r, among);
                   });
        const unsigned to = t == 0 ? label[0] : label[1];
        const bool moves = real && to != from;
        if (moves) {
          task.clusters[row + own] = static_cast<std::uint8_t>(to);
          task.run.labels[row + own] = static_cast<std::int32_t>(to);
          atomicAdd(&s_counts[to], 1);
          if (from != kNowhere) {
            atomicSub(&s_counts[from], 1);
          }
        }
        const unsigned moving = __ballot_sync(kAllLanes, moves);
        if (lane == 0 && moving != 0) {
          atomicAdd(&s_changes, __popc(moving));
        }
        if constexpr (kAll) {
          if (t < 2) {
            s_labels[team][first_row + own] =
                real ? __ushort2half_rn(static_cast<unsigned short>(to)) : kNone;
          }
          add_tile<S>(team, tile, s_labels[team], all_sums);
        } else {
          move_rows<S>(sums, tile, first_row, moving, from, to);
        }
        if (kAll && wants_loss) {
          wanted += two_distances(exact, row + g, label);
        }
        __syncwarp(); // products are waited for together
        ring.await_next();
        ring.advance();
      }
      ++sweeps;
      __syncthreads(); // nobody needs the parts
      for (unsigned turn = 0; kAll && turn < kTeams; ++turn) {
        if (turn == team) {
          add_sums<S>(all_sums, turn > 0, s_sums);
        }
        __syncthreads(); // the team's sums are there
      }
      for (unsigned v = threadIdx.x; kAll && v < k * D; v += kThreads) {
        sums.set(v / D, v % D, s_sums[v], task.to_word.factor[v % D]);
      }
      for (unsigned j = threadIdx.x; kAll && j < k; j += kThreads) {
        s_counts_then[j] = s_counts[j];
      }
    };
    if (!afresh) {
      sweep(std::false_type{});
      const unsigned j = threadIdx.x;
      if (j < k && 4 * s_counts[j] < s_counts_then[j]) {
        s_worn = true;
      }
      __syncthreads(); // all clusters have been looked at
      afresh = s_worn;
    }
    if (afresh) { // or once more
      sweep(std::true_type{});
    }
    __syncthreads(); // the sums are there
    const unsigned changes = s_changes;
    // The rule `loss` needs all distances, and only one of the sweeps makes them.
    afresh = wants_loss || changes > task.split.tiles_count * kRows / gridDim.x / kMoving;
    for (unsigned v = threadIdx.x; v < k * (D + 1); v += kThreads) {
      const unsigned j = v / (D + 1), f = v % (D + 1);
      means.set(v, f < D ? static_cast<float>(sums.sum(j, f)) : static_cast<float>(s_counts[j]));
    }
    share_fact<kThreads>(task.run, means, wants_loss || threadIdx.x > 0 ? wanted : changes);
    const auto place_of = [&](unsigned j, unsigned f) { return j * exact.stride() + f; };
    means.finish([&](unsigned j, unsigned f, double sum, double size) {
      const double unit = static_cast<double>(task.to_word.factor[f]) *
                          static_cast<double>(task.next) * static_cast<double>(task.split.scale);
      return size > 0.0 ? static_cast<float>(sum / (unit * size)) : s_centroids[place_of(j, f)];
    });
    if (threadIdx.x == 0) {
      s_changes = 0;
      s_worn = false;
    }
    const auto mean_of = [&](unsigned j, unsigned f, float) { return means.mean(j, f); };
    double previous = s_previous;
    last =
        end_pass<kThreads>(task.run, means, k, d, mean_of, s_centroids, place_of, pass, previous);
    s_previous = previous;
  }
  wait_for_copies<0>();
}

/// As many teams as were fastest, and few tiles on their way: more were slower (docs/ladder.md).
template <unsigned D, unsigned K>
constexpr unsigned kTeamsOf = (D > 40) || K == 8 ? 4
                              : K == 24          ? 5
                                                 : 6;
template <unsigned D, unsigned K>
constexpr unsigned kStagesOf = (D > 40) || (D == 40 && K == 24) ? 2 : 3;
template <unsigned D, unsigned K>
using MoveShape = SplitShape<D, K, kTeamsOf<D, K>, kStagesOf<D, K>>;

/// A compiled shape, and bytes of shared memory beside what the compiler places.
struct Kernel {
  unsigned teams;
  std::size_t bytes;
  void (*run)(const Task);
};
template <unsigned D, unsigned K, typename S = MoveShape<D, K>>
constexpr Kernel kKernel{
    S::kTeams, (S::kRings + K * (D + 4) + K * MovedSums<D>::kWords) * sizeof(float) + S::kPartBytes,
    cluster_rows<S>};
template <unsigned K>
constexpr std::array kKernels{kKernel<8, K>,  kKernel<16, K>, kKernel<24, K>, kKernel<32, K>,
                              kKernel<40, K>, kKernel<48, K>, kKernel<56, K>, kKernel<64, K>};

const Kernel& kernel_for(std::size_t d, std::size_t k) {
  const auto& kernels = k <= 8 ? kKernels<8> : k <= 24 ? kKernels<24> : kKernels<64>;
  return kernels[(d - 1) / 8];
}

class KmeansCudaMovesWgmma final : public Variant<float> {
public:
  std::string refuse(const Problem<float>& problem) const override {
    for (const std::string& reason : {SplitData::refuse(problem, kMaxFeatures, kMaxClusters),
                                      refuse_rows(problem.n, kMaxOfBlock)}) {
      if (!reason.empty()) {
        return reason;
      }
    }
    return refuse_to_keep(problem.points, problem.d);
  }

  void prepare(const Problem<float>& problem) override {
    const Kernel& kernel = kernel_for(problem.d, problem.k);
    kernel_ = kernel.run;
    stream_ = Stream::create();
    launch_.prepare(problem, stream_);
    data_ = SplitData(problem, stream_);
    const std::size_t tiles = data_.run().tiles_count;
    shape_ = {
        .blocks = 0, .threads = kernel.teams * 128, .cluster = 1, .shared_bytes = kernel.bytes};
    shape_.blocks = static_cast<unsigned>(std::min<std::size_t>(
        resident_in_clusters(kernel_, shape_), ceil_div(tiles, kernel.teams)));
    means_ = GridMeansBuffers(problem.k, ceil_div(problem.d, 8) * 8, shape_.blocks, stream_);
    d_clusters_ = DeviceBuffer<std::uint8_t>(tiles * SplitTile<1>::kRows);
    const std::size_t teams = kernel.teams * shape_.blocks;
    const int bits = moved_bits(ceil_div(tiles, teams) * kernel.teams * SplitTile<1>::kRows);
    task_ = {.run = {},
             .split = data_.run(),
             .means = means_.view(),
             .clusters = d_clusters_.data(),
             .to_word =
                 ToWords<kMaxFeatures>::of(problem.points, problem.d, bits, data_.run().scale),
             .next = std::ldexp(1.0f, bits)};
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
  SplitData data_;
  GridMeansBuffers means_;
  DeviceBuffer<std::uint8_t> d_clusters_;
};

const Registration registration({.name = "kmeans_cuda_moves_wgmma",
                                 .idea = "sums change by rows that change their cluster",
                                 .source = "kmeans_cuda_fused_wgmma",
                                 .device = Device::gpu,
                                 .multiplier = Multiplier::tensor_f16,
                                 .max_d = kMaxFeatures,
                                 .max_k = kMaxClusters,
                                 .previous = "kmeans_cuda_fused_wgmma"},
                                f32_only<KmeansCudaMovesWgmma>());

} // namespace
} // namespace clusterbench
