// K-means with few features: one launch for the whole run, points resident, no barrier of the grid.
//
// Changed since kmeans_cuda_block_sums: a block a multiprocessor keeps its points in shared memory
//   for all passes (what does not fit is read again, from L2 if it can be); a thread sums all k
//   clusters in registers, without a branch: its weight in cluster j is 1 or 0.
// Blocks exchange their sums in words of 16 bytes, three sums and the number of the pass, written
//   and read as one. So data is its own flag: whoever waits for a word has it, and a pass costs one
//   trip through L2 where sums, fence, barrier and reading them back cost three. Then every block
//   adds up all blocks' words in the same order and takes the same decision to stop.
// Source: article 004, "CUDA (3)", for the sums; persistent kernels, after Gupta and others, 2012.
// Cost per iteration: bytes of the points that do not fit (227 KiB of them do, a multiprocessor);
//   n k (3 d + 5) instructions, 2 flops of them useful a coordinate; about 2 us of latency.
// Limits: float; d <= 16 and k (d + 1) <= 170, the sums that a thread can hold, else refused;
//   n < 2^31. k and d are padded to the next size that was compiled. Same bits in every run.
#include "impls/contract.hpp"
#include "impls/cuda/support/columns.cuh"
#include "impls/cuda/support/exchange.cuh"
#include "impls/cuda/support/one_launch.cuh"
#include "impls/cuda/support/stream.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace clusterbench {
namespace {

using namespace cuda;

constexpr unsigned kPerLane = 5; // blocks whose words one lane adds up
constexpr unsigned kMaxBlocks = 32 * kPerLane;

struct Task {
  RunTask run;
  const float* points; // [D, n]
  unsigned n, d, k;
  unsigned resident; // points of a block that are in shared memory
  Word* words;       // [2, K * words of a cluster + 1, kMaxBlocks]
};

/// The sums of all clusters stay in the registers of a thread; many of them leave room for 8 warps.
template <unsigned D, unsigned K>
constexpr unsigned kValuesOf = K*(D + 1);
template <unsigned D, unsigned K>
constexpr unsigned kThreadsFor = kValuesOf<D, K> < 64 ? 512 : 256;
/// Points that a thread compares at a time, so that it reads a centroid once for all of them.
template <unsigned D, unsigned K>
constexpr unsigned kChunkOf = kValuesOf<D, K> <= 100 ? 2 : 1;
template <unsigned D>
constexpr unsigned kWordsOf = (D + 3) / 3; // of a cluster's D sums and its count

/// 1 or 0, in one instruction.
__device__ float one_if_equal(float a, float b) {
  float result;
  asm("set.eq.f32.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
}

/// Compares C points, kThreads apart, with all centroids. smallest[p][j] is the least squared
/// distance to the centroids 0 ... j: it first equals the last one at the nearest centroid, and of
/// equal ones at the lowest index.
template <unsigned D, unsigned K, unsigned C>
__device__ void compare(const float* points, std::size_t stride, const float* centroids,
                        float (&x)[C][D], float (&smallest)[C][K]) {
#pragma unroll
  for (unsigned p = 0; p < C; ++p) {
#pragma unroll
    for (unsigned f = 0; f < D; ++f) {
      x[p][f] = points[f * stride + p * kThreadsFor<D, K>];
    }
  }
#pragma unroll
  for (unsigned j = 0; j < K; ++j) {
#pragma unroll
    for (unsigned p = 0; p < C; ++p) {
      float squared = 0.0f;
#pragma unroll
      for (unsigned f = 0; f < D; ++f) {
        const float difference = x[p][f] - centroids[j * D + f];
        squared += difference * difference;
      }
      smallest[p][j] = j == 0 ? squared : fminf(smallest[p][j - 1], squared);
    }
  }
}

template <unsigned K>
__device__ std::int32_t label_of(const float (&smallest)[K]) {
  std::int32_t label = 0;
#pragma unroll
  for (unsigned j = 0; j + 1 < K; ++j) {
    label += smallest[j] != smallest[K - 1] ? 1 : 0;
  }
  return label;
}

/// Adds C points to the sums of their clusters, and returns what the stop rule wants of them: the
/// distances, or how many labels change. labels: of the first point.
template <unsigned D, unsigned K, unsigned C>
__device__ double take_points(const float* points, std::size_t stride, const float* centroids,
                              StopRule::Kind rule, std::int32_t* labels,
                              float (&sums)[kValuesOf<D, K>]) {
  float x[C][D];
  float smallest[C][K];
  compare<D, K, C>(points, stride, centroids, x, smallest);
  double wanted = 0.0;
#pragma unroll
  for (unsigned p = 0; p < C; ++p) {
    float below = 0.0f; // 1 once the nearest centroid has been passed
#pragma unroll
    for (unsigned j = 0; j < K; ++j) {
      const float reached = j + 1 < K ? one_if_equal(smallest[p][j], smallest[p][K - 1]) : 1.0f;
      const float weight = reached - below;
      below = reached;
#pragma unroll
      for (unsigned f = 0; f < D; ++f) {
        sums[j * (D + 1) + f] += weight * x[p][f];
      }
      sums[j * (D + 1) + D] += weight;
    }
    if (rule == StopRule::Kind::loss) {
      wanted += static_cast<double>(sqrtf(smallest[p][K - 1]));
    } else if (rule == StopRule::Kind::labels) {
      const std::int32_t label = label_of(smallest[p]);
      std::int32_t& slot = labels[p * kThreadsFor<D, K>];
      wanted += slot != label ? 1.0 : 0.0;
      slot = label;
    }
  }
  return wanted;
}

/// The whole run. One block a multiprocessor, all of them resident. Dynamic shared memory:
/// [D, resident] floats.
template <unsigned D, unsigned K>
__global__ void __launch_bounds__(kThreadsFor<D, K>, 1) cluster_points(const Task task) {
  constexpr unsigned kThreads = kThreadsFor<D, K>, kWarps = kThreads / 32;
  constexpr unsigned kValues = kValuesOf<D, K>;
  extern __shared__ float s_points[];
  __shared__ alignas(16) float s_centroids[K * D], s_entering[K * D];
  __shared__ float s_totals[kWarps][kValues | 1]; // odd: a column is read without bank conflicts
  __shared__ double s_wanted[kWarps], s_shift[K], s_fact;

  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const unsigned share = (task.n + gridDim.x - 1) / gridDim.x;
  const unsigned first = min(blockIdx.x * share, task.n); // share * blocks < 2^31 + kMaxBlocks
  const unsigned count = min(share, task.n - first);
  const unsigned resident = min(count, task.resident);
  for (unsigned f = 0; f < D; ++f) {
    for (unsigned i = threadIdx.x; i < resident; i += kThreads) {
      s_points[f * task.resident + i] = task.points[std::size_t{f} * task.n + first + i];
    }
  }
  for (unsigned e = threadIdx.x; e < K * D; e += kThreads) {
    // Clusters behind k are infinitely far, features behind d are zero everywhere.
    const unsigned j = e / D, f = e % D;
    s_centroids[e] = j >= task.k ? INFINITY : f < task.d ? task.run.initial[j * task.d + f] : 0.0f;
  }
  const bool wants_fact = task.run.wants_fact();
  double previous = INFINITY;
  std::size_t pass = 0;
  bool last = false;
  __syncthreads(); // points and centroids are there

  task.run.note_time(0);

  while (!last) {
    float sums[kValues] = {};
    double wanted = 0.0;
#pragma unroll 1
    for (unsigned part = 0; part < 2; ++part) { // the resident points, then the others
      const unsigned end = part == 0 ? resident : count;
      const std::size_t stride = part == 0 ? task.resident : task.n;
      const float* points = part == 0 ? s_points : task.points + first;
      std::int32_t* labels = task.run.labels + first;
      unsigned i = part * resident + threadIdx.x;
#pragma unroll 1
      for (; i + (kChunkOf<D, K> - 1) * kThreads < end; i += kChunkOf<D, K> * kThreads) {
        if constexpr (K * D > 20) {
          asm volatile("" ::: "memory"); // keeps the centroids out of registers: sums need them
        }
        wanted += take_points<D, K, kChunkOf<D, K>>(points + i, stride, s_centroids, task.run.rule,
                                                    labels + i, sums);
      }
      for (; i < end; i += kThreads) {
        wanted +=
            take_points<D, K, 1>(points + i, stride, s_centroids, task.run.rule, labels + i, sums);
      }
    }
    sum_over_warp(sums, lane, s_totals[warp]);
    if (wants_fact) {
      wanted = over_lanes<32>(wanted);
      if (lane == 0) {
        s_wanted[warp] = wanted;
      }
    }
    __syncthreads(); // the totals of all warps are there, and nobody reads the centroids any more

    // Words of odd and even passes lie apart: a block writes a word again two passes later, when it
    // has seen all blocks' words of the pass between, which they wrote after reading this one.
    const unsigned stamp = task.run.first_stamp + static_cast<unsigned>(pass);
    Word* words = task.words + (stamp % 2) * (K * kWordsOf<D> + 1) * kMaxBlocks;
    for (unsigned j = warp; j < K; j += kWarps) {
      float total[3 * kWordsOf<D>] = {};
#pragma unroll
      for (unsigned f = 0; f <= D; ++f) {
        total[f] = over_lanes<kWarps>(s_totals[lane % kWarps][j * (D + 1) + f]);
      }
#pragma unroll
      for (unsigned w = 0; w < kWordsOf<D>; ++w) {
        if (lane == w) {
          publish(&words[(j * kWordsOf<D> + w) * kMaxBlocks + blockIdx.x], total[3 * w],
                  total[3 * w + 1], total[3 * w + 2], stamp);
        }
      }
    }
    if (wants_fact && warp == 0) {
      const double fact = over_lanes<kWarps>(s_wanted[lane % kWarps]);
      if (lane == 0) {
        publish(&words[K * kWordsOf<D> * kMaxBlocks + blockIdx.x], fact, stamp);
      }
    }
    for (unsigned j = warp; j < K; j += kWarps) { // a warp moves a centroid
      float total[3 * kWordsOf<D>];
      gather<kWordsOf<D>, kPerLane>(&words[j * kWordsOf<D> * kMaxBlocks], lane, stamp, total);
      float sum = 0.0f; // of feature `lane`
#pragma unroll
      for (unsigned f = 0; f < D; ++f) {
        sum = lane == f ? total[f] : sum;
      }
      double shift = 0.0;
      if (lane < D) {
        const float old = s_centroids[j * D + lane];
        const float mean = total[D] > 0.0f ? sum / total[D] : old; // an empty cluster stays
        s_entering[j * D + lane] = old;
        s_centroids[j * D + lane] = mean;
        shift = total[D] > 0.0f ? static_cast<double>(mean) - static_cast<double>(old) : 0.0;
        if (task.run.history != nullptr && blockIdx.x == 0 && j < task.k && lane < task.d) {
          task.run.history[(pass * task.k + j) * task.d + lane] = mean;
        }
      }
      if (task.run.rule == StopRule::Kind::shift) {
        shift = over_lanes<32>(shift * shift);
        if (lane == 0) {
          s_shift[j] = shift;
        }
      }
    }
    if (wants_fact && warp == kWarps - 1) { // the warp with the fewest centroids
      const double fact = gather_double(&words[K * kWordsOf<D> * kMaxBlocks], lane, stamp);
      if (lane == 0) {
        s_fact = fact;
      }
    }
    __syncthreads(); // the new centroids and facts are there, and the totals have been read

    // All threads of all blocks hold the same bits, so they agree.
    double squared_shift = 0.0;
    for (unsigned j = 0; task.run.rule == StopRule::Kind::shift && j < K; ++j) {
      squared_shift += s_shift[j];
    }
    const double fact = wants_fact ? s_fact : 0.0;
    ++pass;
    task.run.note_time(pass);
    last = task.run.is_last(pass, fact, previous, squared_shift);
    previous = fact;
  }

  // The labels belong to the centroids that entered the last pass.
  for (unsigned i = threadIdx.x; i < count; i += kThreads) {
    const bool here = i < resident;
    float x[1][D];
    float smallest[1][K];
    compare<D, K, 1>((here ? s_points : task.points + first) + i, here ? task.resident : task.n,
                     s_entering, x, smallest);
    task.run.labels[first + i] = label_of(smallest[0]);
  }
  for (unsigned e = threadIdx.x; blockIdx.x == 0 && e < K * D; e += kThreads) {
    if (e / D < task.k && e % D < task.d) {
      task.run.centroids[e / D * task.d + e % D] = s_centroids[e];
    }
  }
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    *task.run.iterations = pass;
  }
}

/// A compiled size of the kernel.
struct Size {
  unsigned d, k, threads, words;
  void (*kernel)(const Task);
};
template <unsigned D, unsigned K>
constexpr Size kSize{D, K, kThreadsFor<D, K>, 2 * (K * kWordsOf<D> + 1) * kMaxBlocks,
                     cluster_points<D, K>};
constexpr std::array kSizes{// the first that is large enough is taken
                            kSize<1, 2>,  kSize<1, 8>,  kSize<1, 32>, kSize<1, 64>, kSize<2, 2>,
                            kSize<2, 5>,  kSize<2, 8>,  kSize<2, 16>, kSize<2, 32>, kSize<3, 4>,
                            kSize<3, 8>,  kSize<3, 16>, kSize<3, 32>, kSize<4, 8>,  kSize<4, 16>,
                            kSize<4, 32>, kSize<6, 4>,  kSize<6, 8>,  kSize<6, 24>, kSize<9, 4>,
                            kSize<9, 8>,  kSize<9, 16>, kSize<16, 4>, kSize<16, 8>};

const Size* size_for(std::size_t d, std::size_t k) {
  const auto found =
      std::ranges::find_if(kSizes, [=](const Size& size) { return size.d >= d && size.k >= k; });
  return found == kSizes.end() ? nullptr : &*found;
}

class KmeansCudaPersistent final : public Variant<float> {
public:
  std::string refuse(const Problem<float>& problem) const override {
    if (std::max(problem.n, problem.stop.max_iterations) > 0x7fffffff) {
      return "more than 2^31 - 1 points or iterations";
    }
    if (size_for(problem.d, problem.k) == nullptr) {
      return "k = " + std::to_string(problem.k) + " clusters of " + std::to_string(problem.d) +
             " features have " + std::to_string(problem.k * (problem.d + 1)) +
             " sums; the registers of a thread hold up to 170, and d may be up to 16";
    }
    return {};
  }

  void prepare(const Problem<float>& problem) override {
    size_ = size_for(problem.d, problem.k);
    stream_ = Stream::create();
    launch_.prepare(problem, stream_);
    d_points_ = upload_columns(problem.points, problem.n, problem.d, stream_);
    if (size_->d > problem.d) { // features that are zero everywhere
      DeviceBuffer<float> padded(size_->d * problem.n);
      padded.zero(stream_);
      padded.copy_from(d_points_, stream_);
      stream_.synchronize(); // before the narrow columns go
      d_points_ = std::move(padded);
    }
    d_words_ = DeviceBuffer<Word>(size_->words);
    d_words_.zero(stream_); // stamps begin with 1

    cudaFuncAttributes attributes{};
    check(cudaFuncGetAttributes(&attributes, size_->kernel), "cudaFuncGetAttributes");
    const std::size_t room = shared_memory_limit() - attributes.sharedSizeBytes;
    allow_shared_memory(size_->kernel, room);
    // A block that may take all shared memory is alone on its multiprocessor.
    blocks_ = static_cast<unsigned>(
        std::min({resident_blocks(size_->kernel, size_->threads, room), std::size_t{kMaxBlocks},
                  ceil_div(problem.n, size_->threads)}));
    const std::size_t resident =
        std::min(ceil_div(problem.n, blocks_), room / (size_->d * sizeof(float)));
    shared_bytes_ = room;

    task_ = {.run = {},
             .points = d_points_.data(),
             .n = static_cast<unsigned>(problem.n),
             .d = static_cast<unsigned>(problem.d),
             .k = static_cast<unsigned>(problem.k),
             .resident = static_cast<unsigned>(resident),
             .words = d_words_.data()};
  }

  void run(Observer<float>& observer) override {
    launch_.run(observer, size_->kernel, task_, blocks_, size_->threads, shared_bytes_, stream_);
  }

  void fetch(Result<float>& result) override { launch_.fetch(result, stream_); }

private:
  const Size* size_ = nullptr;
  Task task_{};
  unsigned blocks_ = 0;
  std::size_t shared_bytes_ = 0;
  Stream stream_;
  OneLaunch launch_;
  DeviceBuffer<float> d_points_; // [D, n]
  DeviceBuffer<Word> d_words_;
};

const Registration registration({.name = "kmeans_cuda_persistent",
                                 .idea = "one launch, points resident, sums that carry their pass",
                                 .source = "article 004, CUDA (3), as one persistent kernel",
                                 .device = Device::gpu,
                                 .max_d = 16,
                                 .max_k = 64,
                                 .previous = "kmeans_cuda_block_sums"},
                                f32_only<KmeansCudaPersistent>());

} // namespace
} // namespace clusterbench
