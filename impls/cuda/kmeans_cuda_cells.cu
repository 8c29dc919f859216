// K-means with few features and more clusters: sums in integer cells, the nearest by groups of four.
//
// Changed since kmeans_cuda_persistent: warps share a block's sums instead of having one each, so that
//   k (d + 1) may be ten times as large: a value is two integers, and additions of integers have no
//   order, so atomics give the same bits in every run. Every lane adds to cells of its own: no two
//   lanes of a warp meet in a bank. What lies beneath both words is rare, and added exactly as well.
// A point's scores, |c|^2 / 2 - x c + M, are one instruction a feature instead of two, and positive:
//   compared as integers, of four at a time, the group's number in the last bits. If no other group
//   comes close to the best, the label is the nearest of its four by squared differences; else of all.
// Source: kmeans_cuda_persistent; the sums as in support/exact_sums.cuh, in words of 23 bits.
// Cost per iteration: 4 n d bytes from L2; n k (d + 1.5) + n (19 d + 20) instructions, 2 flops of them
//   useful a coordinate; a few us of latency.
// Limits: float; d <= 16, k <= 256, what shared memory holds, else refused; n < 2^31. d is padded to
//   the next size that was compiled. Far from the origin all points are compared with all. Same bits.
#include "impls/contract.hpp"
#include "impls/cuda/support/column_points.cuh"
#include "impls/cuda/support/columns.cuh"
#include "impls/cuda/support/integer_sums.cuh"
#include "impls/cuda/support/one_launch.cuh"
#include "impls/cuda/support/stream.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

namespace clusterbench {
namespace {

using namespace cuda;

constexpr unsigned kMaxFeatures = 16, kMaxClusters = 256;
constexpr int kWordBits = 22;              // of a value's magnitude in its first word
constexpr unsigned kPointsPerCell = 511;   // of 2^22 each, so that a cell holds their sum
constexpr int kFarAway = 0x7f000000;       // 1.7e38, as a float

struct Task {
  RunTask run;
  const float* points; // [D, n]
  unsigned n, d, k;
  unsigned groups, keep; // of four centroids; the bits of a score that are not its group's number
  unsigned copies;       // of every cell, a power of two: lane l adds to copy l % copies
  float shift;            // M
  float certain, of_bits; // scores further apart than certain + of_bits * the larger: the true order
  float to_word[kMaxFeatures]; // powers of two
  long long* words; // of GridSums
};

/// Words of a cluster's cells: the first and the second of every feature, and the count. Odd, so that
/// the copies of all lanes lie in different banks.
template <unsigned D>
constexpr unsigned kWords = 2 * D + 1;
/// 16-byte rows of a group of centroids: a feature of all four, ..., |c|^2 / 2 + M of all four. Odd, so
/// that lanes that read different groups do not meet in one bank.
template <unsigned D>
constexpr unsigned kRows = (D + 1) | 1;

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
__device__ void find_nearest(const Task& task, const float (&x)[C][D], const float4* s_groups,
                             float (&nearest)[C], unsigned (&label)[C]) {
  int best[C], second[C]; // the least scores of two groups
#pragma unroll
  for (unsigned p = 0; p < C; ++p) {
    best[p] = second[p] = kFarAway;
  }
#pragma unroll 2
  for (unsigned g = 0; g < task.groups; ++g) {
    const float4* group = s_groups + g * kRows<D>;
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
      const int marked = static_cast<int>((static_cast<unsigned>(least) & task.keep) | g);
      second[p] = min(second[p], max(best[p], marked));
      best[p] = min(best[p], marked);
    }
  }
#pragma unroll
  for (unsigned p = 0; p < C; ++p) {
    // Both without their groups' numbers; written so that what is no number is not certain.
    const unsigned of_best = static_cast<unsigned>(best[p]) & ~task.keep;
    const float first = __uint_as_float(static_cast<unsigned>(best[p]) & task.keep);
    const float other = __uint_as_float(static_cast<unsigned>(second[p]) & task.keep);
    const bool certain = other - first > fmaf(other, task.of_bits, task.certain);
    nearest[p] = INFINITY;
    label[p] = 0;
    compare_exactly<D>(x[p], s_groups + of_best * kRows<D>, 4 * of_best, nearest[p], label[p]);
    if (!certain) { // few points of most data
      nearest[p] = INFINITY;
#pragma unroll 1
      for (unsigned g = 0; g < task.groups; ++g) {
        compare_exactly<D>(x[p], s_groups + g * kRows<D>, 4 * g, nearest[p], label[p]);
      }
    }
  }
}

/// Adds a point to its lane's copy of its cluster's cells, and to s_rests, [D], what lies beneath.
template <unsigned D>
__device__ void add_point(const Task& task, const float (&x)[D], int* cells, long long* s_rests) {
  bool whole = true;
  float beneath[D];
#pragma unroll
  for (unsigned f = 0; f < D; ++f) {
    const auto words = Words<kWordBits>::of(x[f], task.to_word[f]);
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
        add_integer(&s_rests[f], __float2ll_rn(beneath[f] * kBeneath));
      }
    }
  }
}

/// Adds the block's sums and counts, [k, D + 1], to those of all blocks, and clears the cells. Four lanes
/// a value, each a quarter of the copies.
template <unsigned D, unsigned kThreads>
__device__ void drain_cells(const Task& task, int* s_cells, long long* s_rests,
                            const GridSums& sums) {
  const unsigned lanes = task.k * (D + 1) * 4, copies = task.copies / 4;
  for (unsigned u = threadIdx.x; u - threadIdx.x % 32 < lanes; u += kThreads) {
    const unsigned e = min(u, lanes - 1) / 4, j = e / (D + 1), f = e % (D + 1);
    int* cell = s_cells + (j * 4 + u % 4) * copies * kWords<D> + (f < D ? f : 2 * D);
    const bool real = u < lanes;
    long long sum = 0;
    for (unsigned c = 0; real && c < copies; c += 2, cell += 2 * kWords<D>) { // loads before stores
      const int first[2] = {cell[0], cell[kWords<D>]};
      const int second[2] = {f < D ? cell[D] : 0, f < D ? cell[kWords<D> + D] : 0};
      sum += (static_cast<long long>(first[0]) + first[1]) * (f < D ? 1 << kWordBits : 1);
      sum += static_cast<long long>(second[0]) + second[1];
      cell[0] = cell[kWords<D>] = 0;
      if (f < D) {
        cell[D] = cell[kWords<D> + D] = 0;
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

/// The whole run. One block a multiprocessor, all of them resident. Dynamic shared memory: see below.
template <unsigned D, unsigned kThreads, unsigned C>
__global__ void __launch_bounds__(kThreads, 1) cluster_points(const Task task) {
  constexpr unsigned kStep = C * kThreads;
  extern __shared__ __align__(16) float4 s_groups[]; // [groups, kRows], then:
  const unsigned lane = threadIdx.x % 32, places = task.groups * 4;
  long long* s_rests = reinterpret_cast<long long*>(s_groups + task.groups * kRows<D>); // [k, D]
  int* s_cells = reinterpret_cast<int*>(s_rests + task.k * D); // [k, copies, kWords]
  __shared__ double s_wanted[kThreads / 32], s_shifts[kThreads / 32];
  const bool wants_fact = task.run.wants_fact();
  GridSums sums(task.words, task.k * (D + 1));

  const unsigned share = (task.n + gridDim.x - 1) / gridDim.x;
  const unsigned begin = min(blockIdx.x * share, task.n), end = begin + min(share, task.n - begin);
  float* s_centroids = reinterpret_cast<float*>(s_groups);
  const auto place_of = [](unsigned j, unsigned f) {
    return (j / 4 * kRows<D> + f) * 4 + j % 4;
  };
  for (unsigned e = threadIdx.x; e < places * D; e += kThreads) {
    const unsigned j = e / D, f = e % D; // features behind d are zero everywhere
    s_centroids[place_of(j, f)] =
        f < task.d ? task.run.initial[min(j, task.k - 1) * task.d + f] : 0.0f;
  }
  for (unsigned e = threadIdx.x; e < task.k * task.copies * kWords<D>; e += kThreads) {
    s_cells[e] = 0;
  }
  for (unsigned e = threadIdx.x; e < task.k * D; e += kThreads) {
    s_rests[e] = 0;
  }
  double previous = INFINITY;
  std::size_t pass = 0;
  bool last = false;
  __syncthreads(); // all of this is there
  task.run.note_time(0);

  while (!last) {
    for (unsigned j = threadIdx.x; j < places; j += kThreads) {
      double squared = 0.0;
      for (unsigned f = 0; f < D; ++f) {
        const double c = static_cast<double>(s_centroids[place_of(j, f)]);
        squared += c * c;
      }
      s_centroids[place_of(j, D)] = static_cast<float>(0.5 * squared + task.shift);
    }
    __syncthreads(); // the centroids are complete
    const bool keep_labels =
        task.run.rule != StopRule::Kind::iterations || pass + 1 == task.run.max_iterations;
    double wanted = 0.0;
    const auto add_points = [&](const auto& x, unsigned first, unsigned left) {
      constexpr unsigned kPoints = sizeof(x) / sizeof(x[0]);
      float nearest[kPoints];
      unsigned label[kPoints];
      find_nearest(task, x, s_groups, nearest, label);
#pragma unroll
      for (unsigned p = 0; p < kPoints; ++p) {
        if (p >= left) {
          break;
        }
        add_point(task, x[p],
                  s_cells + (label[p] * task.copies + (lane & (task.copies - 1))) * kWords<D>,
                  s_rests + label[p] * D);
        if (keep_labels) {
          std::int32_t& kept = task.run.labels[first + p * kThreads];
          const auto now = static_cast<std::int32_t>(label[p]);
          if (task.run.rule == StopRule::Kind::loss) {
            wanted += static_cast<double>(sqrtf(nearest[p]));
          } else if (task.run.rule == StopRule::Kind::labels) {
            wanted += kept != now ? 1.0 : 0.0;
          }
          kept = now;
        }
      }
    };
    unsigned stop = begin;
    do { // rounds, after which the cells could be full
      const unsigned first = stop;
      stop += min(end - first, task.copies * kPointsPerCell / kStep * kStep);
      // What is no whole step comes first: while some warps work on it, the others go on.
      const unsigned rest = (stop - first) % kStep;
      unsigned i = first + threadIdx.x;
      float x[C][D];
      if (rest > kThreads) {
        fetch<D, C, kThreads>(task.points, task.n, i, first + rest, x);
        add_points(x, i, (first + rest - i + kThreads - 1) / kThreads);
      } else if (threadIdx.x < rest) {
        float one[1][D];
        fetch<D, 1, kThreads>(task.points, task.n, i, stop, one);
        add_points(one, i, 1);
      }
      i += rest;
#pragma unroll 1
      for (; i < stop; i += kStep) {
        fetch<D, C, kThreads>(task.points, task.n, i, stop, x);
        add_points(x, i, C);
      }
      __syncthreads(); // the cells have the points of all warps
      drain_cells<D, kThreads>(task, s_cells, s_rests, sums);
      if (stop < end) {
        __syncthreads(); // the cells are empty again
      }
    } while (stop < end);
    if (wants_fact) {
      wanted = over_lanes<32>(wanted);
      if (lane == 0) {
        s_wanted[threadIdx.x / 32] = wanted;
      }
      __syncthreads(); // those of all warps are there
      if (threadIdx.x == 0) {
        for (unsigned w = 1; w < kThreads / 32; ++w) {
          wanted += s_wanted[w];
        }
        sums.set_fact(wanted);
      }
    }
    sums.finish();

    // All threads of all blocks get the same bits, so they take the same decision.
    double shift = 0.0;
    for (unsigned e = threadIdx.x; e < places * D; e += kThreads) {
      const unsigned j = min(e / D, task.k - 1), f = e % D;
      float& centroid = s_centroids[place_of(e / D, f)];
      const double size = sums.sum(j * (D + 1) + D), old = static_cast<double>(centroid);
      if (size > 0.0) { // an empty cluster stays
        const double unit = static_cast<double>(task.to_word[f]) * static_cast<double>(1 << kWordBits);
        centroid = static_cast<float>(sums.sum(j * (D + 1) + f) / (unit * size));
      }
      const double moved = static_cast<double>(centroid) - old;
      if (e < task.k * D) {
        shift += moved * moved;
        if (blockIdx.x == 0 && f < task.d) {
          task.run.centroids[j * task.d + f] = centroid;
          if (task.run.history != nullptr) {
            task.run.history[(pass * task.k + j) * task.d + f] = centroid;
          }
        }
      }
    }
    shift = over_lanes<32>(shift);
    if (lane == 0) {
      s_shifts[threadIdx.x / 32] = shift;
    }
    const double fact = wants_fact ? sums.fact() : 0.0;
    __syncthreads(); // the centroids and shifts are there
    shift = 0.0;
    for (unsigned w = 0; w < kThreads / 32; ++w) {
      shift += s_shifts[w];
    }
    ++pass;
    task.run.note_time(pass);
    last = task.run.is_last(pass, fact, previous, shift);
    previous = fact;
  }
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    *task.run.iterations = pass;
  }
}

/// A compiled size of the kernel: a thread compares C points at a time, so that it reads a centroid
/// once for all of them.
struct Size {
  unsigned d, threads, rows, words;
  void (*kernel)(const Task);
};
template <unsigned D, unsigned kThreads, unsigned C>
constexpr Size kSize{D, kThreads, kRows<D>, kWords<D>, cluster_points<D, kThreads, C>};
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
  std::string refuse(const Problem<float>& problem) const override {
    if (problem.n > 0x7fffffff || problem.stop.max_iterations >= kMostIterations) {
      return "more than 2^31 - 1 points or 2^30 - 1 iterations";
    }
    if (lacks_clusters()) {
      return "the device has no clusters of blocks (compute capability 9.0)";
    }
    if (problem.d > kMaxFeatures || problem.k > kMaxClusters) {
      return "k = " + std::to_string(problem.k) + ", d = " + std::to_string(problem.d) +
             ": at most " + std::to_string(kMaxClusters) + " clusters of " +
             std::to_string(kMaxFeatures) + " features";
    }
    const Size& size = size_for(problem.d);
    const std::size_t needed = bytes_beside(size, problem.k) + kCopies * bytes_of_copy(size, problem.k);
    if (needed + kStatic > shared_memory_limit()) {
      return "needs " + std::to_string(needed + kStatic) + " bytes of shared memory, there are " +
             std::to_string(shared_memory_limit());
    }
    return {};
  }

  void prepare(const Problem<float>& problem) override {
    const Size& size = size_for(problem.d);
    kernel_ = size.kernel;
    stream_ = Stream::create();
    launch_.prepare(problem, stream_);
    d_points_ = upload_columns(problem.points, problem.n, problem.d, stream_, size.d);
    const std::size_t room = shared_memory_limit() - kStatic;
    const std::size_t copies = std::bit_floor(std::min<std::size_t>(
        32, (room - bytes_beside(size, problem.k)) / bytes_of_copy(size, problem.k)));
    // A block that takes all shared memory is alone on its multiprocessor.
    shape_ = {.blocks = 0,   .threads = size.threads, .cluster = 1, .shared_bytes = room};
    shape_.blocks = static_cast<unsigned>(std::min<std::size_t>(
        resident_in_clusters(kernel_, shape_), ceil_div(problem.n, size.threads)));
    d_words_ = DeviceBuffer<long long>(GridSums::words(problem.k * (size.d + 1), shape_.blocks));
    const unsigned groups = static_cast<unsigned>(ceil_div(problem.k, 4));
    task_ = {.run = {},
             .points = d_points_.data(),
             .n = static_cast<unsigned>(problem.n),
             .d = static_cast<unsigned>(problem.d),
             .k = static_cast<unsigned>(problem.k),
             .groups = groups,
             .keep = ~(std::bit_ceil(groups) - 1),
             .copies = static_cast<unsigned>(copies),
             .shift = 0.0f,
             .certain = 0.0f,
             .of_bits = 0.0f,
             .to_word = {},
             .words = d_words_.data()};
    set_scales(problem, size.d);
    stream_.synchronize();
  }

  void run(Observer<float>& observer) override {
    d_words_.zero(stream_);
    launch_.run(observer, kernel_, task_, shape_, stream_);
  }

  void fetch(Result<float>& result) override { launch_.fetch(result, stream_); }

private:
  /// What follows from the magnitudes of the data.
  void set_scales(const Problem<float>& problem, std::size_t padded_d) {
    std::array<double, kMaxFeatures> largest{};
    const auto longest = [&](std::span<const float> rows) {
      double most = 0.0;
      for (std::size_t i = 0; i < rows.size(); i += problem.d) {
        double squared = 0.0;
        for (std::size_t f = 0; f < problem.d; ++f) {
          const double value = static_cast<double>(rows[i + f]);
          squared += value * value;
          largest[f] = std::max(largest[f], std::abs(value));
        }
        most = std::max(most, squared);
      }
      return std::sqrt(most);
    };
    // Means are no longer than the longest point, nor are empty clusters than the initial centroids.
    const double initial = longest(problem.centroids);
    largest = {};
    const double x = longest(problem.points), c = std::max(initial, x);
    const double shift = 1.001 * x * c; // so that rounding makes no score negative
    // Each of two scores is rounded at the start and once a feature, relative to no more than this.
    const double bound = 0.5 * c * c + 2.0 * shift;
    const double certain = 2.0 * 1.01 * static_cast<double>(padded_d + 1) * 0x1p-24 * bound + 1e-36;
    const bool fits = bound < 1e37; // else no order is certain
    task_.shift = fits ? static_cast<float>(shift) : 0.0f;
    task_.certain = fits ? static_cast<float>(certain) : INFINITY;
    task_.of_bits = 1.01f * 0x1p-23f * static_cast<float>(~task_.keep + 1); // the lesser has lost them
    for (std::size_t f = 0; f < kMaxFeatures; ++f) {
      // Tiny features have a unit of 2^-122, which is finite; what they lose is beneath, and kept.
      const int exponent = largest[f] > 0.0 ? std::ilogb(largest[f]) + 1 : 0;
      task_.to_word[f] = std::ldexp(1.0f, kWordBits - std::max(exponent, -100));
    }
  }

  void (*kernel_)(const Task) = nullptr;
  Task task_{};
  ClusterLaunch shape_{};
  Stream stream_;
  OneLaunch launch_;
  DeviceBuffer<float> d_points_; // [D, n]
  DeviceBuffer<long long> d_words_;
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
