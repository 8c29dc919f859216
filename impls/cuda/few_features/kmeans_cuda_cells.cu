// K-means with few features, more clusters: sums in integer cells, the nearest by groups of four.
//
// Changed since kmeans_cuda_persistent: warps share a block's sums instead of having one each, so
//   that k (d + 1) may be ten times as large: values are integers in two words, and additions of
//   integers have no order, so atomics give the same bits in every run. Blocks add theirs up the
//   same way, between barriers of the grid.
// The nearest centroid is looked for by scores of one instruction a feature, in groups of four; the
//   winning four, or all where rounding could matter, are compared by squared differences.
// Source: kmeans_cuda_persistent; integer_sums.cuh, after exact_sums.cuh of many_clusters.
// Cost per iteration: 4 n d bytes from L2; n k (d + 1.5) + n (19 d + 40) instructions, a fourth
//   more by counters, 2 flops of them useful a coordinate; about 5 us between blocks.
// Limits: float; d <= 16, k <= 256, what shared memory holds, else refused; n < 2^31. d is padded
//   to the next size that was compiled. Far from the origin all points are compared with all.
#include "impls/contract.hpp"
#include "impls/cuda/common/columns.cuh"
#include "impls/cuda/common/integer_sums.cuh"
#include "impls/cuda/common/magnitudes.hpp"
#include "impls/cuda/common/one_launch.cuh"
#include "impls/cuda/few_features/column_points.cuh"

#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

namespace clusterbench::cuda {

/// A block's sums of [k, D] and counts, in shared memory: k x copies x kWords cells, copies a power
/// of two, and k x D rests. Lane l adds to copy l % copies, so that with 32 no two lanes of a warp
/// meet.
template <unsigned D>
struct IntegerCells {
  static constexpr int kBits = 21;
  /// Points a copy holds: 1023 words of 2^21 are an int.
  static constexpr unsigned kPoints = 1023;
  /// The first and the second word of every feature, and the count; odd, so that the copies of all
  /// lanes lie in different banks.
  static constexpr unsigned kWords = 2 * D + 1;

  int* s_cells;
  long long* s_rests;
  unsigned k, copies;

  template <unsigned kThreads>
  __device__ void clear() const {
    for (unsigned e = threadIdx.x; e < k * copies * kWords; e += kThreads) {
      s_cells[e] = 0;
    }
    for (unsigned e = threadIdx.x; e < k * D; e += kThreads) {
      s_rests[e] = 0;
    }
  }

  /// to_word: powers of two that make all values less than 2^kBits.
  __device__ void add(const float (&x)[D], unsigned label, const float* to_word) const {
    int* cells = s_cells + (label * copies + (threadIdx.x & (copies - 1))) * kWords;
    bool whole = true;
    float beneath[D];
#pragma unroll
    for (unsigned f = 0; f < D; ++f) {
      const auto words = Words::of(x[f], to_word[f], 1 << kBits);
      beneath[f] = words.beneath;
      whole = whole && beneath[f] == 0.0f;
      atomicAdd(&cells[f], words.first); // warps share the cells
      atomicAdd(&cells[D + f], words.second);
    }
    atomicAdd(&cells[2 * D], 1);
    if (!whole) {
#pragma unroll
      for (unsigned f = 0; f < D; ++f) {
        if (beneath[f] != 0.0f) {
          add_integer(&s_rests[label * D + f], __float2ll_rn(beneath[f] * kBeneath));
        }
      }
    }
  }

  /// Adds the sums and counts, [k, D + 1], to those of all blocks, and clears them. Four lanes a
  /// value, each a quarter of the copies, of which there are at least eight.
  template <unsigned kThreads>
  __device__ void drain(const GridSums& sums) const {
    const unsigned lanes = k * (D + 1) * 4, quarter = copies / 4;
    for (unsigned u = threadIdx.x; u - threadIdx.x % 32 < lanes; u += kThreads) {
      const unsigned e = min(u, lanes - 1) / 4, j = e / (D + 1), f = e % (D + 1);
      int* cell = s_cells + (j * 4 + u % 4) * quarter * kWords + (f < D ? f : 2 * D);
      const bool real = u < lanes;
      long long sum = 0;
      for (unsigned c = 0; real && c < quarter; c += 2, cell += 2 * kWords) { // loads before stores
        const int first[2] = {cell[0], cell[kWords]};
        const int second[2] = {f < D ? cell[D] : 0, f < D ? cell[kWords + D] : 0};
        sum += (static_cast<long long>(first[0]) + first[1]) * (f < D ? 1 << kBits : 1);
        sum += static_cast<long long>(second[0]) + second[1];
        cell[0] = cell[kWords] = 0;
        if (f < D) {
          cell[D] = cell[kWords + D] = 0;
        }
      }
      sum = over_lanes<4>(sum);
      if (real && u % 4 == 0) {
        long long rest = 0;
        if (f < D) {
          rest = s_rests[j * D + f];
          s_rests[j * D + f] = 0;
        }
        sums.add(e, sum, rest);
      }
    }
  }
};

// The nearest of few centroids to points of few features: scores in float, groups of four centroids
// compete, and the winner is exact.
//
// A score |c|^2 / 2 - x c + M is one instruction a feature where a squared difference takes two,
// and is positive, so that it is compared as an integer: the least of four in two instructions, the
// group's number in its last bits. If no other group comes as close to the best as rounding allows,
// the nearest centroid is one of its four, and squared differences say which; else all are compared
// that way.

inline constexpr int kFarAwayBits = 0x7f000000; ///< 1.7e38, as a float

/// What the search needs to know. Scores further apart than certain + of_bits * the larger are in
/// the true order; `keep` are the bits of a score that are not its group's number.
struct GroupSearch {
  unsigned groups, keep;
  float shift; ///< M
  float certain, of_bits;

  /// For k centroids no longer than c and points no longer than x, of `features` with the padding.
  static GroupSearch of(std::size_t k, std::size_t features, double x, double c) {
    const unsigned groups = static_cast<unsigned>((k + 3) / 4), numbers = std::bit_ceil(groups);
    const double shift = 1.001 * x * c; // so that rounding makes no score negative
    // Each of two scores is rounded at the start and once a feature, relative to no more than this;
    // the least has lost the bits of the number besides.
    const double bound = 0.5 * c * c + 2.0 * shift;
    const double certain = 2.02 * static_cast<double>(features + 1) * 0x1p-24 * bound + 1e-36;
    const bool fits = bound < 1e37; // else no order is certain
    return {groups, ~(numbers - 1), fits ? static_cast<float>(shift) : 0.0f,
            fits ? static_cast<float>(certain) : INFINITY,
            1.01f * 0x1p-23f * static_cast<float>(numbers)};
  }
};

/// 16-byte rows of a group of centroids: a feature of all four, ..., |c|^2 / 2 + M of all four.
/// Odd, so that lanes that read different groups do not meet in one bank.
template <unsigned D>
constexpr unsigned kGroupRows = (D + 1) | 1;

/// The nearest of four centroids joins the competition: squared differences, ties to the lowest.
template <unsigned D>
__device__ void compare_exactly(const float (&x)[D], const float4* group, unsigned first,
                                float& nearest, unsigned& label) {
  float squared[4] = {};
#pragma unroll
  for (unsigned f = 0; f < D; ++f) {
    const float4 row = group[f];
    const float c[4] = {row.x, row.y, row.z, row.w};
#pragma unroll
    for (unsigned e = 0; e < 4; ++e) {
      squared[e] += (x[f] - c[e]) * (x[f] - c[e]);
    }
  }
#pragma unroll
  for (unsigned e = 0; e < 4; ++e) { // behind k the last centroid is repeated: it never wins
    label = squared[e] < nearest ? first + e : label;
    nearest = fminf(nearest, squared[e]);
  }
}

/// Labels of C points and their squared distances.
template <unsigned D, unsigned C>
__device__ void find_nearest(const GroupSearch& search, const float (&x)[C][D],
                             const float4* s_groups, float (&nearest)[C], unsigned (&label)[C]) {
  int best[C], second[C]; // the least scores of two groups
#pragma unroll
  for (unsigned p = 0; p < C; ++p) {
    best[p] = second[p] = kFarAwayBits;
  }
#pragma unroll 2
  for (unsigned g = 0; g < search.groups; ++g) {
    const float4* group = s_groups + g * kGroupRows<D>;
    const float4 start = group[D];
    float score[C][4];
#pragma unroll
    for (unsigned p = 0; p < C; ++p) {
      score[p][0] = start.x, score[p][1] = start.y, score[p][2] = start.z, score[p][3] = start.w;
    }
#pragma unroll
    for (unsigned f = 0; f < D; ++f) {
      const float4 c = group[f];
#pragma unroll
      for (unsigned p = 0; p < C; ++p) {
        score[p][0] = fmaf(-x[p][f], c.x, score[p][0]);
        score[p][1] = fmaf(-x[p][f], c.y, score[p][1]);
        score[p][2] = fmaf(-x[p][f], c.z, score[p][2]);
        score[p][3] = fmaf(-x[p][f], c.w, score[p][3]);
      }
    }
#pragma unroll
    for (unsigned p = 0; p < C; ++p) {
      const int least = __vimin3_s32(__float_as_int(score[p][0]), __float_as_int(score[p][1]),
                                     min(__float_as_int(score[p][2]), __float_as_int(score[p][3])));
      const int marked = static_cast<int>((static_cast<unsigned>(least) & search.keep) | g);
      second[p] = min(second[p], max(best[p], marked));
      best[p] = min(best[p], marked);
    }
  }
#pragma unroll
  for (unsigned p = 0; p < C; ++p) {
    // Both without their groups' numbers; written so that what is no number is not certain.
    const unsigned of_best = static_cast<unsigned>(best[p]) & ~search.keep;
    const float first = __uint_as_float(static_cast<unsigned>(best[p]) & search.keep);
    const float other = __uint_as_float(static_cast<unsigned>(second[p]) & search.keep);
    const bool certain = other - first > fmaf(other, search.of_bits, search.certain);
    nearest[p] = INFINITY;
    label[p] = 0;
    compare_exactly<D>(x[p], s_groups + of_best * kGroupRows<D>, 4 * of_best, nearest[p], label[p]);
    if (!certain) { // few points of most data
      nearest[p] = INFINITY;
#pragma unroll 1
      for (unsigned g = 0; g < search.groups; ++g) {
        compare_exactly<D>(x[p], s_groups + g * kGroupRows<D>, 4 * g, nearest[p], label[p]);
      }
    }
  }
}

} // namespace clusterbench::cuda

namespace clusterbench {
namespace {

using namespace cuda;

constexpr unsigned kMaxFeatures = 16, kMaxClusters = 256;

struct Task {
  RunTask<> run;
  const float* points; // [D, n]
  unsigned n, d, k;
  unsigned copies; // of a block's sums
  GroupSearch search;
  ToWords<kMaxFeatures> to_word;
  long long* words; // of GridSums
};

/// The whole run. One block a multiprocessor, all of them resident. Dynamic shared memory: see
/// below.
template <unsigned D, unsigned kThreads, unsigned C>
__global__ void __launch_bounds__(kThreads, 1) cluster_points(const Task task) {
  constexpr unsigned kStep = C * kThreads;
  extern __shared__ __align__(16) float4 s_groups[]; // [groups, kRows], then:
  const unsigned places = task.search.groups * 4;
  long long* s_rests =
      reinterpret_cast<long long*>(s_groups + task.search.groups * kGroupRows<D>); // [k, D]
  int* s_cells = reinterpret_cast<int*>(s_rests + task.k * D); // [k, copies, kWords]
  const IntegerCells<D> cells{s_cells, s_rests, task.k, task.copies};
  constexpr int kBits = IntegerCells<D>::kBits,
                kSpare = 62 - 2 * kBits; // bits of n that leave a sum below 2^62
  GridSums sums(task.words, task.k * (D + 1), task.n >> kSpare > 0);

  const unsigned share = (task.n + gridDim.x - 1) / gridDim.x;
  const unsigned begin = min(blockIdx.x * share, task.n), end = begin + min(share, task.n - begin);
  float* s_centroids = reinterpret_cast<float*>(s_groups);
  const auto place_of = [](unsigned j, unsigned f) {
    return (j / 4 * kGroupRows<D> + f) * 4 + j % 4;
  };
  for (unsigned e = threadIdx.x; e < places * D; e += kThreads) {
    const unsigned j = e / D, f = e % D; // features behind d are zero everywhere
    s_centroids[place_of(j, f)] =
        f < task.d ? task.run.initial[min(j, task.k - 1) * task.d + f] : 0.0f;
  }
  cells.template clear<kThreads>();
  const bool wants_changes = task.run.rule == StopRule::Kind::labels;
  double previous = INFINITY;
  std::size_t pass = 0;
  bool last = false;
  __syncthreads(); // all of this is there
  task.run.note_time(0);

  while (!last) {
    for (unsigned j = threadIdx.x; j < places; j += kThreads) {
      double squared = 0.0;
      for (unsigned f = 0; f < D; ++f) {
        const float centroid = s_centroids[place_of(min(j, task.k - 1), f)];
        if (j >= task.k) { // behind k, the last is repeated: it never wins against itself
          s_centroids[place_of(j, f)] = centroid;
        }
        const double c = static_cast<double>(centroid);
        squared += c * c;
      }
      s_centroids[place_of(j, D)] = static_cast<float>(0.5 * squared + task.search.shift);
    }
    __syncthreads(); // the centroids are complete
    double wanted = 0.0;
    unsigned changes = 0;
    const auto add_points = [&](auto keep, const auto& x, unsigned first, unsigned left) {
      constexpr bool kKeep = decltype(keep)::value; // the labels, or only add up
      constexpr unsigned kPoints = sizeof(x) / sizeof(x[0]);
      float nearest[kPoints];
      unsigned label[kPoints];
      std::int32_t before[kPoints]; // on their way during the search
#pragma unroll
      for (unsigned p = 0; kKeep && p < kPoints; ++p) {
        before[p] = wants_changes && p < left ? task.run.labels[first + p * kThreads] : -1;
      }
      find_nearest(task.search, x, s_groups, nearest, label);
#pragma unroll
      for (unsigned p = 0; p < kPoints; ++p) {
        if (p >= left) {
          break;
        }
        cells.add(x[p], label[p], task.to_word.factor);
        if constexpr (kKeep) {
          if (task.run.rule == StopRule::Kind::loss) {
            wanted += static_cast<double>(sqrtf(nearest[p]));
          }
          if (const auto now = static_cast<std::int32_t>(label[p]); before[p] != now) {
            task.run.labels[first + p * kThreads] = now;
            ++changes;
          }
        }
      }
    };
    const auto sweep = [&](auto keep, unsigned first, unsigned stop) {
      // What is no whole step comes first: while some warps work on it, the others go on.
      const unsigned rest = (stop - first) % kStep;
      unsigned i = first + threadIdx.x;
      float x[C][D];
      if (rest > kThreads) {
        fetch<D, C, kThreads>(task.points, task.n, i, first + rest, x);
        add_points(keep, x, i, (first + rest - i + kThreads - 1) / kThreads);
      } else if (threadIdx.x < rest) {
        float one[1][D];
        fetch<D, 1, kThreads>(task.points, task.n, i, stop, one);
        add_points(keep, one, i, 1);
      }
      i += rest;
#pragma unroll 1
      for (; i < stop; i += kStep) {
        fetch<D, C, kThreads>(task.points, task.n, i, stop, x);
        add_points(keep, x, i, C);
      }
    };
    unsigned stop = begin;
    do { // rounds, after which the cells could be full
      const unsigned first = stop;
      stop += min(end - first, task.copies * IntegerCells<D>::kPoints / kStep * kStep);
      if (task.run.keeps_labels(pass)) {
        sweep(std::true_type{}, first, stop);
      } else {
        sweep(std::false_type{}, first, stop);
      }
      __syncthreads(); // the cells have the points of all warps
      cells.template drain<kThreads>(sums);
      if (stop < end) {
        __syncthreads(); // the cells are empty again
      }
    } while (stop < end);
    share_fact<kThreads>(task.run, sums, wants_changes ? static_cast<double>(changes) : wanted);
    sums.finish();
    const auto mean_of = [&](unsigned j, unsigned f, float old) {
      return sums.mean(j, f, D + 1, static_cast<double>(task.to_word.factor[f]) * (1 << kBits),
                       old);
    };
    last = end_pass<kThreads>(task.run, sums, task.k, task.d, mean_of, s_centroids, place_of, pass,
                              previous);
  }
}

/// A compiled size of the kernel: a thread compares C points at a time, so that it reads a centroid
/// once for all of them.
struct Size {
  unsigned d, threads, rows, words;
  void (*kernel)(const Task);
};
template <unsigned D, unsigned kThreads, unsigned C>
constexpr Size kSize{D, kThreads, kGroupRows<D>, IntegerCells<D>::kWords,
                     cluster_points<D, kThreads, C>};
constexpr std::array kSizes{kSize<1, 512, 5>, kSize<2, 512, 5>,  kSize<3, 512, 5>,
                            kSize<4, 512, 5>, kSize<6, 512, 4>,  kSize<8, 512, 4>,
                            kSize<9, 512, 3>, kSize<12, 512, 2>, kSize<16, 512, 2>};
constexpr std::size_t kStatic = 1024; // of shared memory, at most
constexpr std::size_t kCopies = 8;    // at least: as many points as a step has fit the cells

const Size& size_for(std::size_t d) {
  return *std::ranges::find_if(kSizes, [=](const Size& size) { return size.d >= d; });
}

/// Bytes of shared memory beside the cells, and of one copy of them.
std::size_t bytes_beside(const Size& size, std::size_t k) {
  return ceil_div(k, 4) * size.rows * sizeof(float4) + k * size.d * sizeof(long long);
}
std::size_t bytes_of_copy(const Size& size, std::size_t k) {
  return k * size.words * sizeof(int);
}

class KmeansCudaCells final : public Variant<float> {
public:
  std::string refuse(const Shape& shape) const override {
    const std::string reason = refuse_clustered(shape, kMaxFeatures, kMaxClusters);
    if (!reason.empty()) {
      return reason;
    }
    const Size& size = size_for(shape.d);
    return refuse_shared(bytes_beside(size, shape.k) + kCopies * bytes_of_copy(size, shape.k) +
                         kStatic);
  }

  void prepare(const Shape& shape, const Points<float>& points) override {
    const Size& size = size_for(shape.d);
    kernel_ = size.kernel;
    launch_.prepare(shape);
    d_points_ = make_columns(points.rows, shape.n, shape.d, nullptr, size.d);
    const std::size_t room = shared_memory_limit() - kStatic;
    const std::size_t copies = std::bit_floor(std::min<std::size_t>(
        32, (room - bytes_beside(size, shape.k)) / bytes_of_copy(size, shape.k)));
    // A block that takes all shared memory is alone on its multiprocessor.
    grid_ = {.blocks = 0, .threads = size.threads, .cluster = 1, .shared_bytes = room};
    grid_.blocks = static_cast<unsigned>(std::min<std::size_t>(resident_in_clusters(kernel_, grid_),
                                                               ceil_div(shape.n, size.threads)));
    d_words_ = DeviceBuffer<long long>(GridSums::words(shape.k * (size.d + 1), grid_.blocks));
    d_words_.zero();
    const Magnitudes of_points = device_magnitudes(points.rows, shape.d);
    longest_ = of_points.longest;
    task_ = {.run = {},
             .points = d_points_.data(),
             .n = static_cast<unsigned>(shape.n),
             .d = static_cast<unsigned>(shape.d),
             .k = static_cast<unsigned>(shape.k),
             .copies = static_cast<unsigned>(copies),
             .search = {},
             .to_word = ToWords<kMaxFeatures>::of(of_points, IntegerCells<1>::kBits),
             .words = d_words_.data()};
    padded_d_ = size.d;
    start_ = PinnedBuffer<float>(shape.k * shape.d);
  }

  void run(const Start<float>& start, Answer<float>& answer, Observer<float>& observer) override {
    // Means are no longer than the longest point, nor are empty clusters than the start.
    const auto centroids = start_on_host(start.centroids, start_);
    const double longest = std::max(longest_row(centroids, task_.d), longest_);
    task_.search = GroupSearch::of(task_.k, padded_d_, longest_, longest);
    launch_.run(start, answer, observer, kernel_, task_, grid_);
  }

private:
  void (*kernel_)(const Task) = nullptr;
  Task task_{};
  ClusterLaunch grid_{};
  OneLaunch<> launch_;
  DeviceBuffer<float> d_points_; // [D, n]
  DeviceBuffer<long long> d_words_;
  std::size_t padded_d_ = 0;
  double longest_ = 0.0;      // point
  PinnedBuffer<float> start_; // [k, d]
};

const Registration registration({.name = "kmeans_cuda_cells",
                                 .idea = "sums in integer cells, the nearest by groups of four",
                                 .source = "kmeans_cuda_persistent, with sums that warps share",
                                 .device = Device::gpu,
                                 .max_d = kMaxFeatures,
                                 .max_k = kMaxClusters,
                                 .previous = "kmeans_cuda_persistent"},
                                f32_only<KmeansCudaCells>());

} // namespace
} // namespace clusterbench
