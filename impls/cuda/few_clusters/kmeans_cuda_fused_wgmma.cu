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
//   origin (magnitudes.hpp), else refused; n < 2^31. The data lies on the device once more, twice
//   if d is no multiple of four; the rule `loss` reads it all again. Same bits in every run.
// Needs: sm_90a
#include "impls/contract.hpp"
#include "impls/cuda/common/one_launch.cuh"
#include "impls/cuda/common/runtime.hpp"
#include "impls/cuda/few_clusters/grid_sums.cuh"
#include "impls/cuda/few_clusters/split_data.cuh"
#include "impls/cuda/few_clusters/split_teams.cuh"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

namespace clusterbench::cuda {

// Means over all blocks of a launch, without a barrier of the grid: every block leaves its sums in
// memory, each block adds up a share of them and publishes the means, all as tagged values
// (grid_sums.cuh). Always in the same order, so the same bits in every run.
//
// No word is written again before all have read it: a sum, by a block that has all means of its
// pass, which were made of it; a mean, by one that has the next sums of all blocks, who had read
// it; a fact, two passes later.

/// Words in device memory, of k clusters and `width` features. Stamps differ from all that will be
/// used.
struct GridMeansView {
  TaggedValue<float>* sums;   ///< [blocks, k, width + 1], the count behind the features
  TaggedValue<float>* means;  ///< [k, width]
  TaggedValue<double>* facts; ///< [2, blocks]
};

/// The memory behind it.
class GridMeansBuffers {
public:
  GridMeansBuffers() = default;
  /// Throws std::runtime_error.
  GridMeansBuffers(std::size_t k, std::size_t width, std::size_t blocks)
      : d_sums_(blocks * k * (width + 1)), d_means_(k * width), d_facts_(2 * blocks) {
    d_sums_.zero(); // tags begin with 1
    d_means_.zero();
    d_facts_.zero();
  }
  GridMeansView view() { return {d_sums_.data(), d_means_.data(), d_facts_.data()}; }

private:
  DeviceBuffer<TaggedValue<float>> d_sums_, d_means_;
  DeviceBuffer<TaggedValue<double>> d_facts_;
};

/// All blocks must be resident (a cooperative launch) and take part in every pass.
template <unsigned kThreads>
class GridMeans {
public:
  static constexpr unsigned kWarps = kThreads / 32;
  static constexpr unsigned kScratchBytes = kThreads * sizeof(double2);
  static constexpr unsigned kLanes = kWarps <= 16 ? 16 : 32; ///< that add up what the warps have
  static_assert(kWarps <= kLanes);

  /// s_scratch: kScratchBytes, and no less than [k, width] floats; free during finish() and for
  /// mean().
  __device__ GridMeans(const GridMeansView& view, unsigned k, unsigned width, void* s_scratch)
      : view_(view), s_scratch_(static_cast<double2*>(s_scratch)), k_(k), width_(width) {}

  /// Begins a pass, with a tag that no word has.
  __device__ void begin(unsigned tag) { tag_ = tag; }
  /// Any thread: of this block's sums [k, width + 1], the count behind the features, number v.
  __device__ void set(unsigned v, float sum) const {
    store_tagged(sum_of(blockIdx.x, v), sum, tag_);
  }
  /// One thread a block.
  __device__ void set_fact(double fact) const { store_tagged(fact_of(blockIdx.x), fact, tag_); }

  /// All threads: makes mean_of(j, f, sum, size) of the sums over all blocks, and returns when
  /// those of all j and f are there.
  template <typename MeanOf>
  __device__ void finish(MeanOf mean_of) const {
    // Means that a block makes at a time: neighbours, which a warp reads as whole sectors.
    const unsigned wide = values() <= 8 * gridDim.x ? 8 : values() <= 16 * gridDim.x ? 16 : 32;
    for (unsigned first = blockIdx.x * wide; first < values(); first += gridDim.x * wide) {
      __syncthreads(); // the scratch is free
      add_up_blocks(first, wide);
      __syncthreads(); // those of all warps are there
      for (unsigned u = threadIdx.x; u < wide * kLanes; u += kThreads) {
        const unsigned of_warp = u % kLanes, at = first + u / kLanes;
        const double2 part =
            of_warp < kWarps ? s_scratch_[of_warp * wide + u / kLanes] : make_double2(0.0, 0.0);
        const double sum = over_lanes<kLanes>(part.x), size = over_lanes<kLanes>(part.y);
        if (of_warp == 0 && at < values()) {
          store_tagged(view_.means + at, mean_of(at / width_, at % width_, sum, size), tag_);
        }
      }
    }
    __syncthreads(); // the scratch is free
    float* s_means = reinterpret_cast<float*>(s_scratch_);
    constexpr unsigned kBatch = 4;
    for (unsigned first = threadIdx.x; first < values(); first += kBatch * kThreads) {
      float mean[kBatch];
      await(mean, [&](unsigned b) {
        const unsigned at = first + b * kThreads;
        return at < values() ? view_.means + at : nullptr;
      });
#pragma unroll
      for (unsigned b = 0; b < kBatch; ++b) {
        if (first + b * kThreads < values()) {
          s_means[first + b * kThreads] = mean[b];
        }
      }
    }
    __syncthreads(); // all means are there
  }
  /// A mean of the pass that has ended.
  __device__ float mean(unsigned j, unsigned f) const {
    return reinterpret_cast<const float*>(s_scratch_)[j * width_ + f];
  }
  /// The sum of all facts. All threads; a barrier must come before the next time. One warp reads
  /// them for the block: where all warps of a launch read the same few words, these come one after
  /// another from the L2 cache.
  __device__ double fact() const {
    __shared__ double s_fact;
    if (threadIdx.x < 32) {
      const double fact = sum_of_facts();
      if (threadIdx.x == 0) {
        s_fact = fact;
      }
    }
    __syncthreads(); // the sum is there
    return s_fact;
  }

private:
  __device__ unsigned values() const {
    return k_ * width_;
  }
  /// A whole warp; all lanes get it.
  __device__ double sum_of_facts() const {
    double sum = 0.0;
    constexpr unsigned kBatch = 5; // 132 blocks at once
    for (unsigned first = threadIdx.x % 32; first < gridDim.x; first += kBatch * 32) {
      double facts[kBatch];
      await(facts, [&](unsigned b) {
        const unsigned block = first + b * 32;
        return block < gridDim.x ? fact_of(block) : nullptr;
      });
#pragma unroll
      for (unsigned b = 0; b < kBatch; ++b) {
        sum += facts[b];
      }
    }
    return over_lanes<32>(sum);
  }
  __device__ TaggedValue<float>* sum_of(unsigned block, unsigned v) const {
    return view_.sums + std::size_t{block} * k_ * (width_ + 1) + v;
  }
  __device__ TaggedValue<double>*
  fact_of(unsigned block) const { // two sets: some read, others go on
    return view_.facts + tag_ % 2 * gridDim.x + block;
  }
  /// Waits for the words at place(0), ..., place(N - 1); zero where that is null. Their loads do
  /// not wait for one another.
  template <typename Value, unsigned N, typename Place>
  __device__ void await(Value (&value)[N], Place place) const {
    bool all = false;
    while (!all) {
      TaggedValue<Value> word[N];
#pragma unroll
      for (unsigned b = 0; b < N; ++b) {
        const TaggedValue<Value>* from = place(b);
        word[b] = from != nullptr ? load_tagged(from) : TaggedValue<Value>{Value{}, tag_};
      }
      all = true;
#pragma unroll
      for (unsigned b = 0; b < N; ++b) {
        all = all && word[b].tag == tag_;
        value[b] = word[b].value;
      }
    }
  }
  /// Each warp's part of the sums and sizes of `wide` means.
  __device__ void add_up_blocks(unsigned first, unsigned wide) const {
    constexpr unsigned kBatch = 6; // blocks at once
    const unsigned lane = threadIdx.x % 32, slots = kThreads / wide;
    const unsigned e = min(first + lane % wide, values() - 1), j = e / width_;
    const unsigned place[2] = {e + j, j * (width_ + 1) + width_}; // of the sum and of the size
    double sum = 0.0, size = 0.0;
    for (unsigned block = threadIdx.x / wide; block < gridDim.x; block += kBatch * slots) {
      float parts[2 * kBatch];
      await(parts, [&](unsigned b) {
        const unsigned of = block + b / 2 * slots;
        return of < gridDim.x ? sum_of(of, place[b % 2]) : nullptr;
      });
#pragma unroll
      for (unsigned b = 0; b < kBatch; ++b) {
        sum += static_cast<double>(parts[2 * b]);
        size += static_cast<double>(parts[2 * b + 1]);
      }
    }
    for (unsigned offset = 16; offset >= wide; offset /= 2) {
      sum += __shfl_xor_sync(kAllLanes, sum, static_cast<int>(offset));
      size += __shfl_xor_sync(kAllLanes, size, static_cast<int>(offset));
    }
    if (lane < wide) {
      s_scratch_[threadIdx.x / 32 * wide + lane] = make_double2(sum, size);
    }
  }

  GridMeansView view_;
  double2* s_scratch_;
  unsigned k_, width_, tag_ = 0;
};

} // namespace clusterbench::cuda

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
  static_assert(GridMeans<kThreads>::kScratchBytes <= S::kPartBytes);
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
