// A run with few features in one launch, its points resident: the kernel, its sizes and its launch,
// for one device or for one of several. Float only.
#pragma once

#include "impls/contract.hpp"
#include "impls/cuda/common/columns.cuh"
#include "impls/cuda/common/magnitudes.hpp"
#include "impls/cuda/common/one_launch.cuh"
#include "impls/cuda/common/runtime.hpp"
#include "impls/cuda/few_features/column_points.cuh"
#include "impls/cuda/few_features/counted_sums.cuh"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

namespace clusterbench::cuda {

inline constexpr unsigned kMaxFeatures = 16, kMaxClusters = 64;
inline constexpr unsigned kMaxValues = 208; // sums and counts

/// The totals of a run on one device: those of its blocks are all.
struct OwnTotals {
  __device__ void add_ranks(double*, unsigned, unsigned) const {}
};

/// The points are all points of a run.
struct WholeRun {
  using Totals = OwnTotals;
  static bool has_points() { return true; }
  static unsigned share_device() { return 1; }
  static Totals totals() { return {}; }
};

template <typename Totals>
struct PersistentTask {
  RunTask<> run;
  const float* points; // [D, n]
  unsigned n, d, k;
  unsigned resident; // points of a block that are in shared memory
  SumUnits<kMaxFeatures> units;
  std::uint64_t* words; // of CountedSums
  Totals totals;        // see below
};

/// Adds up each of N values (a power of two, at most 32) over groups of N lanes; lane l gets the
/// sum of value l % N of its group. Each step halves the values that a lane carries, so that 32
/// values take 31 shuffles instead of 160.
template <unsigned N>
__device__ float transposing_sum(const float (&value)[N], unsigned lane) {
  if constexpr (N == 1) {
    return value[0];
  } else {
    float half[N / 2];
    const bool upper = (lane & (N / 2)) != 0;
#pragma unroll
    for (unsigned v = 0; v < N / 2; ++v) {
      const float given = upper ? value[v] : value[v + N / 2];
      const float kept = upper ? value[v + N / 2] : value[v];
      half[v] = kept + __shfl_xor_sync(kAllLanes, given, static_cast<int>(N / 2));
    }
    return transposing_sum(half, lane);
  }
}

/// Makes the block's sums, s_totals [values], and clears those of its lanes: a warp adds up four
/// values at a time over the lanes of all warps. A barrier must come before, and another one
/// follow.
template <unsigned kThreads>
__device__ void add_up_lanes(float* s_sums, unsigned values, double* s_totals) {
  constexpr unsigned kWarps = kThreads / 32, kSteps = kWarps / 4, kAtOnce = 4;
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  for (unsigned first = warp; first < values; first += kAtOnce * kWarps) {
    // Eight lanes read the 32 sums of one warp, 16 bytes each; all loads before the first store.
    float4* from = reinterpret_cast<float4*>(s_sums) + lane / 8 * values * 8 + lane % 8;
    float4 part[kAtOnce][kSteps];
#pragma unroll
    for (unsigned e = 0; e < kAtOnce * kSteps; ++e) {
      const unsigned own = first + e / kSteps * kWarps, v = own < values ? own : first;
      part[e / kSteps][e % kSteps] = from[(e % kSteps * 4 * values + v) * 8];
    }
    float total[kAtOnce] = {};
#pragma unroll
    for (unsigned e = 0; e < kAtOnce * kSteps; ++e) {
      const float4& four = part[e / kSteps][e % kSteps];
      total[e / kSteps] += four.x + four.y + (four.z + four.w);
    }
    float own = transposing_sum(total, lane); // of value first + lane % kAtOnce * kWarps
#pragma unroll
    for (unsigned offset = kAtOnce; offset < 32; offset *= 2) {
      own += __shfl_xor_sync(kAllLanes, own, static_cast<int>(offset));
    }
#pragma unroll
    for (unsigned e = 0; e < kAtOnce * kSteps; ++e) {
      if (const unsigned v = first + e / kSteps * kWarps; v < values) {
        from[(e % kSteps * 4 * values + v) * 8] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
      }
    }
    if (lane < kAtOnce && first + lane * kWarps < values) {
      s_totals[first + lane * kWarps] = static_cast<double>(own);
    }
  }
}

/// Adds C points, a step apart, of which `left` steps are real, to the lane's sums, [k, D + 1, 32].
/// kKeep: keeps their labels, too, and returns what the rule `loss` wants of them, the distances,
/// or else how many labels change.
template <unsigned D, unsigned C, unsigned kThreads, bool kKeep, typename Task, typename Label>
__device__ double add_points(const Task& task, const float (&x)[C][D], unsigned left,
                             const float* s_centroids, float* s_own, Label* labels) {
  float nearest[C];
  unsigned label[C];
  compare<D, C>(x, s_centroids, task.k, nearest, label);
  double wanted = 0.0;
#pragma unroll
  for (unsigned p = 0; p < C; ++p) {
    if (p < left) {
      float* sums = s_own + label[p] * ((D + 1) * 32);
#pragma unroll
      for (unsigned f = 0; f < D; ++f) {
        sums[f * 32] += x[p][f];
      }
      sums[D * 32] += 1.0f;
      if constexpr (kKeep) {
        const Label now = static_cast<Label>(label[p]);
        if (task.run.rule == StopRule::Kind::loss) {
          wanted += static_cast<double>(sqrtf(nearest[p]));
        } else {
          wanted += labels[p * kThreads] != now ? 1.0 : 0.0;
        }
        labels[p * kThreads] = now;
      }
    }
  }
  return wanted;
}

/// The same of `count` points of this block.
template <unsigned D, unsigned C, unsigned kThreads, bool kAhead, bool kKeep, typename Task,
          typename Label>
__device__ double sweep(const Task& task, const float* points, std::size_t stride, unsigned count,
                        const float* s_centroids, float* s_own, Label* labels) {
  double wanted = 0.0;
  for_columns<D, C, kThreads, kAhead>(
      points, stride, count, [&](const auto& x, unsigned i, unsigned left) {
        constexpr unsigned kAtOnce = sizeof(x) / sizeof(x[0]);
        wanted +=
            add_points<D, kAtOnce, kThreads, kKeep>(task, x, left, s_centroids, s_own, labels + i);
      });
  return wanted;
}

/// The whole run. Totals: makes those of this device, in shared memory, those of all (add_ranks()).
/// One block a multiprocessor, all of them resident. kLastSweep: points are swept once more for
/// their labels, as passes that may keep them would take a little longer. Dynamic shared memory:
/// sums [kThreads / 32, k, D + 1, 32], points [D, resident], labels [resident] bytes.
template <unsigned D, unsigned kThreads, unsigned C, bool kLastSweep, typename Totals>
__global__ void __launch_bounds__(kThreads, 1) cluster_points(const PersistentTask<Totals> task) {
  extern __shared__ __align__(16) float s_sums[];
  __shared__ __align__(16) float s_centroids[2 * kMaxValues], s_entering[2 * kMaxValues];
  __shared__ double s_totals[kMaxValues + 1];
  __shared__ typename CountedSums<D>::Units s_units_of_sums;
  static_assert(kMaxValues + 1 <= kThreads); // an owner each
  __shared__ double s_wanted[kThreads / 32], s_shift;

  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const unsigned values = task.k * (D + 1); // and one more for the stop rule
  float* s_points = s_sums + kThreads * values;
  std::uint8_t* s_labels = reinterpret_cast<std::uint8_t*>(s_points + D * task.resident);
  CountedSums<D> sums(task.run, task.k, task.d, task.words, task.units, s_units_of_sums, s_totals);

  const unsigned share = (task.n + gridDim.x - 1) / gridDim.x;
  const unsigned first = min(blockIdx.x * share, task.n);
  const unsigned count = min(share, task.n - first), resident = min(count, task.resident);
  for (unsigned f = 0; f < D; ++f) {
    for (unsigned i = threadIdx.x; i < resident; i += kThreads) {
      s_points[f * task.resident + i] = task.points[std::size_t{f} * task.n + first + i];
    }
  }
  for (unsigned i = threadIdx.x; i < resident; i += kThreads) {
    s_labels[i] = 0xFF; // every label changes in the first pass
  }
  load_centroids<D, kThreads>(task.run.initial, task.k, task.d, s_centroids);
  for (unsigned e = threadIdx.x; e < kThreads * values; e += kThreads) {
    s_sums[e] = 0.0f;
  }
  const bool wants_fact = task.run.wants_fact();
  double previous = INFINITY;
  std::size_t pass = 0;
  bool last = false;
  __syncthreads(); // all of this is there
  task.run.note_time(0);

  while (!last) {
    const auto sweep_all = [&](auto keep) {
      constexpr bool kKeep = decltype(keep)::value;
      float* own = s_sums + warp * values * 32 + lane;
      return sweep<D, C, kThreads, false, kKeep>(task, s_points, task.resident, resident,
                                                 s_centroids, own, s_labels) +
             sweep<D, C, kThreads, true, kKeep>(task, task.points + first + resident, task.n,
                                                count - resident, s_centroids, own,
                                                task.run.labels + first + resident);
    };
    if (kLastSweep ? wants_fact : task.run.keeps_labels(pass)) {
      const double wanted = over_lanes<32>(sweep_all(std::true_type{}));
      if (lane == 0) {
        s_wanted[warp] = wanted;
      }
    } else {
      sweep_all(std::false_type{});
    }
    __syncthreads(); // the sums of all warps are there
    add_up_lanes<kThreads>(s_sums, values, s_totals);
    __syncthreads(); // the block's sums are there
    sums.send([&](unsigned v) {
      double fact = 0.0;
      for (unsigned w = 0; wants_fact && v == values && w < kThreads / 32; ++w) {
        fact += s_wanted[w];
      }
      return v < values ? s_totals[v] : fact;
    });
    sums.finish();
    task.totals.add_ranks(s_totals, values + 1, task.run.tag(pass));

    for (unsigned e = threadIdx.x; e < task.k * D; e += kThreads) {
      const unsigned j = e / D, f = e % D;
      const float old = s_centroids[j * kStride<D> + f];
      const float size = static_cast<float>(s_totals[j * (D + 1) + D]);
      const float sum = static_cast<float>(s_totals[j * (D + 1) + f]);
      const float mean = size > 0.0f ? sum / size : old; // an empty cluster stays
      s_entering[j * kStride<D> + f] = old;
      s_centroids[j * kStride<D> + f] = mean;
      if (blockIdx.x == 0 && f < task.d) {
        task.run.leave_centroid(pass, j * task.d + f, task.k * task.d, old, mean);
      }
    }
    const double fact = s_totals[values];
    __syncthreads(); // the new centroids are there, and the totals have been read
    if (task.run.rule == StopRule::Kind::shift) {
      double shift = 0.0;
      for (unsigned e = lane; warp == 0 && e < task.k * D; e += 32) {
        const unsigned at = e / D * kStride<D> + e % D;
        const double moved =
            static_cast<double>(s_centroids[at]) - static_cast<double>(s_entering[at]);
        shift += moved * moved;
      }
      shift = over_lanes<32>(shift);
      if (threadIdx.x == 0) {
        s_shift = shift;
      }
      __syncthreads(); // the shift is there for all
    }
    // All threads of all blocks hold the same bits, so they agree.
    ++pass;
    task.run.note_time(pass);
    last = task.run.is_last(pass, fact, previous,
                            task.run.rule == StopRule::Kind::shift ? s_shift : 0.0);
    previous = fact;
  }

  sums.leave();
  for (unsigned i = threadIdx.x; kLastSweep && i < count; i += kThreads) {
    const bool here = i < resident;
    float x[1][D], nearest[1];
    unsigned label[1]; // of the centroids that entered the last pass
    fetch<D, 1, kThreads>(here ? s_points : task.points + first, here ? task.resident : task.n, i,
                          count, x);
    compare<D, 1>(x, s_entering, task.k, nearest, label);
    task.run.labels[first + i] = static_cast<std::int32_t>(label[0]);
  }
  for (unsigned i = threadIdx.x; !kLastSweep && i < resident; i += kThreads) { // others have theirs
    task.run.labels[first + i] = s_labels[i];
  }
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    *task.run.iterations = pass;
  }
}

/// A compiled size of the kernel: a thread compares C points at a time, so that it reads a centroid
/// once for all of them.
template <typename Totals>
struct PersistentSize {
  unsigned d, threads, chunk;
  void (*kernel)(const PersistentTask<Totals>);
};
template <typename Totals, unsigned D, unsigned kThreads, unsigned C, bool kLastSweep = false>
constexpr PersistentSize<Totals> kSize{D, kThreads, C,
                                       cluster_points<D, kThreads, C, kLastSweep, Totals>};
template <typename Totals>
inline constexpr std::array kPersistentSizes{
    // of two sizes for d, the one for many points last
    kSize<Totals, 1, 256, 4, true>, kSize<Totals, 1, 256, 8>,       kSize<Totals, 2, 256, 4, true>,
    kSize<Totals, 2, 256, 8>,       kSize<Totals, 3, 256, 4, true>, kSize<Totals, 3, 512, 4>,
    kSize<Totals, 4, 256, 4, true>, kSize<Totals, 4, 512, 4>,       kSize<Totals, 6, 256, 4>,
    kSize<Totals, 6, 512, 2>,       kSize<Totals, 8, 256, 4>,       kSize<Totals, 8, 512, 2>,
    kSize<Totals, 9, 256, 4>,       kSize<Totals, 9, 512, 2>,       kSize<Totals, 12, 256, 3>,
    kSize<Totals, 12, 512, 2>,      kSize<Totals, 16, 256, 3>,      kSize<Totals, 16, 512, 2>};
inline constexpr std::size_t kManyPoints = 400000; // fewer are quicker with fewer threads
inline constexpr std::size_t kManySums =
    96 * 512; // of all threads, which leave room for some points

inline constexpr std::size_t kStatic = 16 * 1024; // of shared memory, at most

template <typename Totals>
const PersistentSize<Totals>& size_for(std::size_t n, std::size_t d, std::size_t k) {
  const PersistentSize<Totals>* few = std::ranges::find_if(
      kPersistentSizes<Totals>, [=](const PersistentSize<Totals>& size) { return size.d >= d; });
  const std::size_t sums = few[1].threads * k * (few->d + 1);
  return n >= kManyPoints && sums <= kManySums ? few[1] : few[0];
}

/// Of shared memory.
template <typename Totals>
std::size_t bytes_of_sums(const PersistentSize<Totals>& size, std::size_t k) {
  return size.threads * k * (size.d + 1) * sizeof(float);
}

/// Ranks, where the points are one device's share, has: Totals; has_points(), else the points that
/// it is given count nowhere; share_device(), how many runs are on the device at a time, with as
/// many of its multiprocessors each; totals(), before every run.
template <typename Ranks = WholeRun>
class PersistentRun final : public Variant<float> {
public:
  using Totals = typename Ranks::Totals;
  explicit PersistentRun(Ranks ranks = {}) : ranks_(std::move(ranks)) {}

  std::string refuse(const Shape& shape) const override {
    const std::string reason = refuse_clustered(shape, kMaxFeatures, kMaxClusters);
    if (!reason.empty()) {
      return reason;
    }
    const auto& size = size_for<Totals>(shape.n, shape.d, shape.k);
    if (shape.k * (size.d + 1) > kMaxValues) {
      return "k = " + std::to_string(shape.k) + " clusters of " + std::to_string(shape.d) +
             " features: shared memory holds the sums of k (d + 1) <= " +
             std::to_string(kMaxValues);
    }
    return refuse_shared(bytes_of_sums(size, shape.k) + kStatic);
  }

  void prepare(const Shape& shape, const Points<float>& points) override {
    size_ = &size_for<Totals>(shape.n, shape.d, shape.k);
    launch_.prepare(shape);
    d_points_ = make_columns(points.rows, shape.n, shape.d, nullptr, size_->d);
    grid_ = one_block_per_multiprocessor(
        size_->kernel, shape.n, size_->threads * size_->chunk, size_->threads,
        ranks_.share_device() == 1
            ? CountedWord::kMostParts
            : static_cast<unsigned>(multiprocessors()) / ranks_.share_device());
    grid_.cooperative = ranks_.share_device() == 1; // two such launches might not run side by side
    const std::size_t share = ceil_div(shape.n, grid_.blocks);
    const auto resident =
        ResidentPoints::of(share, std::size_t{size_->chunk} * size_->threads, size_->d,
                           grid_.shared_bytes - bytes_of_sums(*size_, shape.k));
    d_words_ = DeviceBuffer<std::uint64_t>(CountedWords::size(shape.k * (size_->d + 1) + 1));
    d_words_.zero();
    task_ = {.run = {},
             .points = d_points_.data(),
             .n = ranks_.has_points() ? static_cast<unsigned>(shape.n) : 0,
             .d = static_cast<unsigned>(shape.d),
             .k = static_cast<unsigned>(shape.k),
             .resident = static_cast<unsigned>(resident.count),
             .units = SumUnits<kMaxFeatures>::of(device_magnitudes(points.rows, shape.d), share),
             .words = d_words_.data(),
             .totals = {}};
  }

  void run(const Start<float>& start, Answer<float>& answer, Observer<float>& observer) override {
    task_.totals = ranks_.totals();
    launch_.run(start, answer, observer, size_->kernel, task_, grid_);
  }

private:
  Ranks ranks_;
  const PersistentSize<Totals>* size_ = nullptr;
  PersistentTask<Totals> task_{};
  ClusterLaunch grid_{};
  OneLaunch<> launch_;
  DeviceBuffer<float> d_points_;        // [D, n]
  DeviceBuffer<std::uint64_t> d_words_; // of CountedSums
};

} // namespace clusterbench::cuda
