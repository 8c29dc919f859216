// K-means with few features: points stay where they are, and those that change cluster are moved.
//
// Changed since kmeans_cuda_persistent: the sums are updated incrementally. Every block keeps those
//   of its points from pass to pass, in fixed point, so that nothing drifts. A sweep notes the
//   points whose label has changed; then all threads of the block move them, a value each. So no
//   lane has sums of its own: shared memory holds more points, and more warps compare.
// Where more points move than can be noted, as in the first pass, the block adds up all of them.
// Source: kmeans_cuda_persistent; MacQueen, 1967, moved a mean with each point, here in passes.
// Cost per iteration: bytes of the points that do not fit; n k (2 d + 3) instructions, 2 flops of
//   them useful a coordinate; 30 a coordinate that moves; about 2 us of latency.
// Limits: float; d <= 16, k <= 64, k (d + 1) <= 260, n < 2^31, 2^23 a multiprocessor, else refused.
//   d is padded to the next size that was compiled. Same bits in every run.
#include "impls/contract.hpp"
#include "impls/cuda/common/columns.cuh"
#include "impls/cuda/common/magnitudes.hpp"
#include "impls/cuda/common/one_launch.cuh"
#include "impls/cuda/few_features/column_points.cuh"
#include "impls/cuda/few_features/counted_sums.cuh"
#include "impls/cuda/few_features/moved_points.cuh"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

namespace clusterbench {
namespace {

using namespace cuda;

constexpr unsigned kMaxFeatures = 16, kMaxClusters = 64;
constexpr unsigned kMaxValues = 260; // sums and counts
constexpr std::size_t kMaxOfBlock = std::size_t{1}
                                    << 23; // points: half of what Moves can tell apart

struct Task {
  RunTask<> run;
  const float* points; // [D, n]
  unsigned n, d, k;
  unsigned resident, stride;     // points of a block that are in shared memory, and with padding
  ToWords<kMaxFeatures> to_word; // see MovedPoints
  float next;
  SumUnits<kMaxFeatures> units;
  std::uint64_t* words; // of CountedSums
};

/// Compares C points, a step apart, of which `left` steps are real: keeps the labels that change,
/// and notes them. Returns the sum of the distances, if kLoss.
template <unsigned D, unsigned C, unsigned kThreads, bool kLoss, typename Label>
__device__ double label_points(const Task& task, const float (&x)[C][D], unsigned left,
                               const float* s_centroids, Label* labels, unsigned point,
                               const Moves& moves) {
  unsigned before[C];
#pragma unroll
  for (unsigned p = 0; p < C; ++p) {
    before[p] = p < left ? static_cast<std::uint8_t>(labels[p * kThreads]) : 0;
  }
  float nearest[C];
  unsigned label[C];
  compare<D, C>(x, s_centroids, task.k, nearest, label);
  double loss = 0.0;
#pragma unroll
  for (unsigned p = 0; p < C; ++p) {
    if (p < left && label[p] != before[p]) {
      labels[p * kThreads] = static_cast<Label>(label[p]);
      moves.note({point + p * kThreads, before[p]});
    }
    if (kLoss && p < left) {
      loss += static_cast<double>(sqrtf(nearest[p]));
    }
  }
  return loss;
}

/// The same of `count` points of this block, of which `first` is the first.
template <unsigned D, unsigned C, unsigned kThreads, bool kAhead, bool kLoss, typename Label>
__device__ double sweep(const Task& task, const float* points, std::size_t stride, unsigned first,
                        unsigned count, const float* s_centroids, Label* labels,
                        const Moves& moves) {
  double loss = 0.0;
  for_columns<D, C, kThreads, kAhead>(
      points, stride, count, [&](const auto& x, unsigned i, unsigned left) {
        constexpr unsigned kAtOnce = sizeof(x) / sizeof(x[0]);
        loss += label_points<D, kAtOnce, kThreads, kLoss>(task, x, left, s_centroids, labels + i,
                                                          first + i, moves);
      });
  return loss;
}

/// Adds `count` points to the sums of their clusters.
template <unsigned D, unsigned kThreads, typename Label>
__device__ void add_points(const MovedPoints<D>& kept, const float* points, std::size_t stride,
                           unsigned count, const Label* labels) {
  for (unsigned i = threadIdx.x; i < count; i += kThreads) {
    float x[1][D];
    fetch<D, 1, kThreads>(points, stride, i, count, x);
    kept.add(x[0], static_cast<unsigned>(labels[i]));
  }
}

/// The whole run. One block a multiprocessor, all of them resident. Dynamic shared memory: points
/// [D, stride], words of sums [k, copies, kWords], labels [resident] bytes.
template <unsigned D, unsigned kThreads, unsigned C>
__global__ void __launch_bounds__(kThreads, 1) cluster_points(const Task task) {
  extern __shared__ __align__(16) float s_points[];
  __shared__ __align__(16) float s_centroids[2 * kMaxValues];
  __shared__ double s_totals[kMaxValues + 1];
  __shared__ typename CountedSums<D>::Units s_units_of_sums;
  static_assert(kMaxValues + 1 <= kThreads); // an owner each
  __shared__ double s_losses[kThreads / 32];
  __shared__ long long s_rests[kMaxValues];
  __shared__ float s_to_word[D + 1];
  __shared__ double s_units[D + 1];
  __shared__ unsigned s_moves[Moves::kMost], s_moved;

  const unsigned values = task.k * (D + 1); // and one more for the stop rule
  int* s_words = reinterpret_cast<int*>(s_points + D * task.stride);
  const MovedPoints<D> kept(s_words, s_rests, s_to_word, s_units, task.next, task.k);
  std::uint8_t* s_labels =
      reinterpret_cast<std::uint8_t*>(s_words + task.k * kept.kCopies * kept.kWords);
  CountedSums<D> sums(task.run, task.k, task.d, task.words, task.units, s_units_of_sums, s_totals);
  const Moves moves{s_moves, &s_moved};

  const unsigned share = (task.n + gridDim.x - 1) / gridDim.x;
  const unsigned first = min(blockIdx.x * share, task.n);
  const unsigned count = min(share, task.n - first), resident = min(count, task.resident);
  for (unsigned f = 0; f < D; ++f) {
    for (unsigned i = threadIdx.x; i < resident; i += kThreads) {
      s_points[f * task.stride + i] = task.points[std::size_t{f} * task.n + first + i];
    }
  }
  for (unsigned i = threadIdx.x; i < resident; i += kThreads) {
    s_labels[i] = kept.kNowhere;
  }
  load_centroids<D, kThreads>(task.run.initial, task.k, task.d, s_centroids);
  kept.clear();
  set_units<D>(task.to_word, task.next, s_to_word, s_units);
  if (threadIdx.x == 0) {
    s_moved = 0;
  }
  const bool wants_loss = task.run.rule == StopRule::Kind::loss;
  const auto value_of = [&](unsigned i, unsigned f) { // or one, which the count adds up
    return f == D         ? 1.0f
           : i < resident ? s_points[f * task.stride + i]
                          : task.points[std::size_t{f} * task.n + first + i];
  };
  const auto label_of = [&](unsigned i) {
    return i < resident ? s_labels[i] : static_cast<unsigned>(task.run.labels[first + i]);
  };
  double previous = INFINITY;
  std::size_t pass = 0;
  bool last = false;
  __syncthreads(); // all of this is there
  task.run.note_time(0);

  while (!last) {
    const auto sweep_all = [&](auto loss) {
      constexpr bool kLoss = decltype(loss)::value;
      return sweep<D, C, kThreads, false, kLoss>(task, s_points, task.stride, 0, resident,
                                                 s_centroids, s_labels, moves) +
             sweep<D, C, kThreads, true, kLoss>(task, task.points + first + resident, task.n,
                                                resident, count - resident, s_centroids,
                                                task.run.labels + first + resident, moves);
    };
    if (wants_loss) {
      const double loss = over_lanes<32>(sweep_all(std::true_type{}));
      if (threadIdx.x % 32 == 0) {
        s_losses[threadIdx.x / 32] = loss;
      }
    } else {
      sweep_all(std::false_type{});
    }
    __syncthreads(); // all labels are there, and what moves is known
    const unsigned moved = s_moved;
    if (pass > 0 && moved <= Moves::kMost) {
      for (unsigned u = threadIdx.x; u < moved * (D + 1); u += kThreads) { // a value each
        const unsigned f = u % (D + 1);
        const auto [point, from] = moves.at(u / (D + 1));
        kept.move(u / (D + 1), f, value_of(point, f), from, label_of(point));
      }
    } else {
      kept.clear();
      __syncthreads(); // the sums are empty
      add_points<D, kThreads>(kept, s_points, task.stride, resident, s_labels);
      add_points<D, kThreads>(kept, task.points + first + resident, task.n, count - resident,
                              task.run.labels + first + resident);
    }
    __syncthreads(); // the sums are there
    sums.send([&](unsigned v) {
      if (v < values) {
        return kept.sum(v);
      }
      double fact = wants_loss ? 0.0 : static_cast<double>(moved);
      for (unsigned w = 0; wants_loss && w < kThreads / 32; ++w) {
        fact += s_losses[w];
      }
      s_moved = 0;
      return fact;
    });
    sums.finish();

    const Totals totals{s_totals, task.k, D + 1};
    last = end_pass<kThreads, D>(
        task.run, totals, task.k, task.d,
        [&](unsigned j, unsigned f, float old) { return totals.mean(j, f, old); }, s_centroids,
        [](unsigned j, unsigned f) { return j * kStride<D> + f; }, pass, previous);
  }
  sums.leave();
  for (unsigned i = threadIdx.x; i < resident; i += kThreads) { // others have theirs
    task.run.labels[first + i] = s_labels[i];
  }
}

/// A compiled size of the kernel: a thread compares C points at a time, so that it reads a centroid
/// once for all of them.
struct Size {
  unsigned d;
  std::size_t n; // so many points, or more
  unsigned threads, chunk;
  void (*kernel)(const Task);
};
template <unsigned D, std::size_t n, unsigned C, unsigned kThreads = 512>
constexpr Size kSize{D, n, kThreads, C, cluster_points<D, kThreads, C>};
constexpr std::size_t kMany = 400000;
constexpr std::array kSizes{// the first that is large enough, and not too large, is taken
                            kSize<1, kMany, 4>, kSize<1, 0, 2>, kSize<2, kMany, 4>, kSize<2, 0, 2>,
                            kSize<3, kMany, 4>, kSize<3, 0, 2>, kSize<4, kMany, 4>, kSize<4, 0, 2>,
                            kSize<6, 0, 2>,     kSize<8, 0, 2>, kSize<9, 0, 2>,     kSize<12, 0, 2>,
                            kSize<16, 0, 2>};

const Size& size_for(std::size_t n, std::size_t d) {
  return *std::ranges::find_if(kSizes,
                               [=](const Size& size) { return size.d >= d && n >= size.n; });
}

class KmeansCudaMoves final : public Variant<float> {
public:
  std::string refuse(const Shape& shape) const override {
    const std::string reason = refuse_clustered(shape, kMaxFeatures, kMaxClusters);
    if (!reason.empty()) {
      return reason;
    }
    if (const std::string many = refuse_rows(shape.n, kMaxOfBlock); !many.empty()) {
      return many;
    }
    if (shape.k * (size_for(shape.n, shape.d).d + 1) > kMaxValues) {
      return "k = " + std::to_string(shape.k) + " clusters of " + std::to_string(shape.d) +
             " features: shared memory holds the sums of k (d + 1) <= " +
             std::to_string(kMaxValues);
    }
    return {};
  }

  void prepare(const Shape& shape, const Points<float>& points) override {
    size_ = &size_for(shape.n, shape.d);
    launch_.prepare(shape);
    d_points_ = make_columns(points.rows, shape.n, shape.d, nullptr, size_->d);
    grid_ = one_block_per_multiprocessor(size_->kernel, shape.n, size_->threads * size_->chunk,
                                         size_->threads, CountedWord::kMostParts);
    const std::size_t sums = shape.k * MovedPoints<1>::kCopies * (2 * size_->d + 3) * sizeof(int);
    const std::size_t share = ceil_div(shape.n, grid_.blocks);
    const auto resident = ResidentPoints::apart(share, std::size_t{size_->chunk} * size_->threads,
                                                size_->d, grid_.shared_bytes - sums);
    labels_before_ = share <= resident.count ? LabelsBefore::kept : LabelsBefore::always_in_memory;
    d_words_ = DeviceBuffer<std::uint64_t>(CountedWords::size(shape.k * (size_->d + 1) + 1));
    d_words_.zero();
    const int bits = moved_bits(share);
    const Magnitudes of_rows = device_magnitudes(points.rows, shape.d);
    task_ = {.run = {},
             .points = d_points_.data(),
             .n = static_cast<unsigned>(shape.n),
             .d = static_cast<unsigned>(shape.d),
             .k = static_cast<unsigned>(shape.k),
             .resident = static_cast<unsigned>(resident.count),
             .stride = static_cast<unsigned>(resident.stride),
             .to_word = ToWords<kMaxFeatures>::of(of_rows, bits),
             .next = std::ldexp(1.0f, bits),
             .units = SumUnits<kMaxFeatures>::of(of_rows, share),
             .words = d_words_.data()};
  }

  void run(const Start<float>& start, Answer<float>& answer, Observer<float>& observer) override {
    launch_.run(start, answer, observer, size_->kernel, task_, grid_, labels_before_);
  }

private:
  const Size* size_ = nullptr;
  Task task_{};
  ClusterLaunch grid_{};
  LabelsBefore labels_before_ = LabelsBefore::always_in_memory;
  OneLaunch<> launch_;
  DeviceBuffer<float> d_points_;        // [D, n]
  DeviceBuffer<std::uint64_t> d_words_; // of CountedSums
};

const Registration registration({.name = "kmeans_cuda_moves",
                                 .idea = "sums change by points that change their cluster",
                                 .source = "kmeans_cuda_persistent",
                                 .device = Device::gpu,
                                 .max_d = kMaxFeatures,
                                 .max_k = kMaxClusters,
                                 .previous = "kmeans_cuda_persistent"},
                                f32_only<KmeansCudaMoves>());

} // namespace
} // namespace clusterbench
