// A whole run in one launch: the barrier of the grid, the stop rule, and the end of a pass.
#pragma once

#include "impls/contract.hpp"
#include "impls/cuda/common/runtime.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cuda_runtime.h>
#include <span>
#include <string>
#include <vector>

namespace clusterbench::cuda {

// ---- the launch
//
// What a kernel of a whole run needs to know of it, the stop rule on the device, the host's side.

// Cooperative launches: blocks that are all resident, in clusters or each for itself.

/// Whether there is a device and it has no clusters of blocks. Does not create a context.
inline bool lacks_clusters() {
  int device = 0, clusters = 0;
  if (cudaGetDevice(&device) != cudaSuccess ||
      cudaDeviceGetAttribute(&clusters, cudaDevAttrClusterLaunch, device) != cudaSuccess) {
    static_cast<void>(cudaGetLastError()); // no device is an answer here, not a fault
    return false;
  }
  return clusters == 0;
}

/// Size and shared memory of a launch.
struct ClusterLaunch {
  unsigned blocks, threads, cluster;
  std::size_t shared_bytes;
  bool cooperative = true; ///< else whoever launches sees to it that all blocks find their places
};

/// The attributes of a cooperative launch in clusters; they point into `attributes`. For counting,
/// CLUSTERBENCH_COUNTED leaves "cooperative" out: Nsight Compute 2025.3 ends such a launch with
/// LaunchFailed if blocks write to each other's shared memory. As many blocks as are resident find
/// their places without, too, if nothing else runs on the device.
inline cudaLaunchConfig_t configure(const ClusterLaunch& launch,
                                    cudaLaunchAttribute (&attributes)[2]) {
  attributes[0].id = cudaLaunchAttributeClusterDimension;
  attributes[0].val.clusterDim = {launch.cluster, 1, 1};
  attributes[1].id = cudaLaunchAttributeCooperative;
  attributes[1].val.cooperative = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = launch.blocks;
  config.blockDim = launch.threads;
  config.dynamicSmemBytes = launch.shared_bytes;
  config.attrs = attributes;
  const bool counted = std::getenv("CLUSTERBENCH_COUNTED") != nullptr;
  config.numAttrs = counted || !launch.cooperative ? 1 : 2;
  return config;
}

/// Blocks that are resident at once, whole clusters of them, at least one cluster. Lets the kernel
/// have clusters of this size and the shared memory first. Throws std::runtime_error.
template <typename Task>
unsigned resident_in_clusters(void (*kernel)(const Task), ClusterLaunch launch) {
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(launch.shared_bytes)),
        "cudaFuncSetAttribute for " + std::to_string(launch.shared_bytes) +
            " bytes of shared memory");
  launch.blocks = launch.cluster;
  cudaLaunchAttribute attributes[2];
  const cudaLaunchConfig_t config = configure(launch, attributes);
  int clusters = 0;
  check(cudaOccupancyMaxActiveClusters(&clusters, kernel, &config),
        "cudaOccupancyMaxActiveClusters");
  return static_cast<unsigned>(std::max(1, clusters)) * launch.cluster;
}

/// Starts the kernel; does not wait for it. Throws std::runtime_error.
template <typename Task>
void launch_clusters(void (*kernel)(const Task), const Task& task, const ClusterLaunch& launch) {
  cudaLaunchAttribute attributes[2];
  const cudaLaunchConfig_t config = configure(launch, attributes);
  check(cudaLaunchKernelEx(&config, kernel, task), "cudaLaunchKernelEx of a cooperative launch");
}

/// Fewer than these, so that the tags of two runs in a row differ: each takes up to twice as
/// many.
inline constexpr std::size_t kMostIterations = std::size_t{1} << 30;

/// The part of a kernel's argument that is about the run and not about the data, of type T.
template <typename T = float>
struct RunTask {
  const T* initial;               // [k, d], or null
  T* centroids;                   // [k, d]
  T* entering;                    // [k, d]; see leave_centroid()
  std::int32_t* labels;           // [n]
  T* history;                     // [max_iterations, k, d] in recording runs, else null
  long long* times;               // [max_iterations + 1] nanoseconds in recording runs, else null
  unsigned long long* iterations; // in page-locked memory of the host, written once
  StopRule::Kind rule;
  double threshold;
  std::size_t max_iterations;
  unsigned first_stamp; // of the words that blocks exchange: two runs in a row share none

  /// The tag of a pass (from 0).
  __device__ unsigned tag(std::size_t pass) const {
    return first_stamp + static_cast<unsigned>(pass);
  }
  /// Notes the time of the start (0) or of the end of a pass (counted from 1), if it is recorded.
  __device__ void note_time(std::size_t pass) const {
    if (times != nullptr && blockIdx.x == 0 && threadIdx.x == 0) {
      asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(times[pass]));
    }
  }
  /// Whether the rule asks for a sum over the points: their loss, or how many labels change.
  __device__ bool wants_fact() const {
    return rule == StopRule::Kind::loss || rule == StopRule::Kind::labels;
  }
  /// Whether a pass (from 0) has to leave labels: it is the last, or might be.
  __device__ bool keeps_labels(std::size_t pass) const {
    return rule != StopRule::Kind::iterations || pass + 1 == max_iterations;
  }
  /// One thread for each of the `size` values of the centroids, in every pass: leaves value `at`,
  /// and what it was when it entered the pass. From memberships none enters the first one.
  __device__ void leave_centroid(std::size_t pass, unsigned at, unsigned size, T entered,
                                 T now) const {
    if (keeps_labels(pass)) {
      centroids[at] = now;
      if (initial != nullptr || pass > 0) {
        entering[at] = entered;
      }
    }
    if (history != nullptr) {
      history[pass * size + at] = now;
    }
  }
  /// StopTest::after_pass() for the device.
  __device__ bool is_last(std::size_t passes, double fact, double previous_fact,
                          double squared_shift) const {
    return passes >= max_iterations ||
           (rule == StopRule::Kind::loss && fabs(fact - previous_fact) < threshold) ||
           (rule == StopRule::Kind::labels && fact == 0.0) ||
           (rule == StopRule::Kind::shift && squared_shift <= threshold);
  }
};

/// Why a kernel for up to so many features and clusters does not take the shape; empty if it does.
inline std::string refuse_size(const Shape& shape, unsigned max_d, unsigned max_k) {
  if (shape.n > 0x7fffffff || shape.stop.max_iterations >= kMostIterations) {
    return "more than 2^31 - 1 points or 2^30 - 1 iterations";
  }
  if (shape.d > max_d || shape.k > max_k) {
    return "k = " + std::to_string(shape.k) + ", d = " + std::to_string(shape.d) + ": at most " +
           std::to_string(max_k) + " clusters of " + std::to_string(max_d) + " features";
  }
  return {};
}

/// The same of a kernel whose launch asks for clusters of blocks, if only of one.
inline std::string refuse_clustered(const Shape& shape, unsigned max_d, unsigned max_k) {
  return lacks_clusters() ? "the device has no clusters of blocks (compute capability 9.0)"
                          : refuse_size(shape, max_d, max_k);
}

/// Why a kernel that gives each multiprocessor a block does not take so many rows; or empty.
inline std::string refuse_rows(std::size_t n, std::size_t most_of_a_block) {
  const std::size_t count = multiprocessors();
  return count == 0 || n <= count * most_of_a_block
             ? ""
             : std::to_string(n) + " points, at most " + std::to_string(most_of_a_block) +
                   " for each of " + std::to_string(count) + " multiprocessors";
}

/// Why a block does not get so many bytes of shared memory; empty if it does.
inline std::string refuse_shared(std::size_t needed) {
  const std::size_t there = shared_memory_limit();
  return needed <= there ? ""
                         : "needs " + std::to_string(needed) +
                               " bytes of shared memory, there are " + std::to_string(there);
}

/// Where a kernel finds a point's label of the pass before: under the rule `labels` alone in
/// RunTask::labels, -1 in the first pass; there under every rule, as it stores only those that
/// change; or in a place of its own.
enum class LabelsBefore { in_memory, always_in_memory, kept };

/// What is behind a RunTask, and the launch.
template <typename T = float>
class OneLaunch {
public:
  /// Throws std::runtime_error.
  void prepare(const Shape& shape) {
    rule_ = shape.stop;
    iterations_ = PinnedBuffer<unsigned long long>(1);
    next_stamp_ = 1;
  }

  /// Runs `kernel(task)` to its end; sets task.run first. Kernels read the start and write the
  /// answer where they lie. `after` may launch more. Tells a recording observer of every pass.
  /// Throws std::runtime_error.
  template <typename Task, typename After = void (*)()>
  void run(
      const Start<T>& start, Answer<T>& answer, Observer<T>& observer, void (*kernel)(const Task),
      Task task, const ClusterLaunch& launch, LabelsBefore before = LabelsBefore::in_memory,
      After after = [] {}) {
    const std::size_t size = answer.centroids.size();
    const std::size_t recorded = observer.recording() ? rule_.max_iterations : 0; // passes
    DeviceBuffer<T> history(recorded * size);
    DeviceBuffer<long long> times(recorded > 0 ? recorded + 1 : 0);
    if (before == LabelsBefore::always_in_memory ||
        (before == LabelsBefore::in_memory && rule_.kind == StopRule::Kind::labels)) {
      // -1: every label changes in the first pass
      fill_bytes(answer.labels, 0xFF);
    }
    task.run = {.initial = start.centroids.data(),
                .centroids = answer.centroids.data(),
                .entering = answer.entering.data(),
                .labels = answer.labels.data(),
                .history = history.data(),
                .times = times.data(),
                .iterations = iterations_.data(),
                .rule = rule_.kind,
                .threshold = rule_.threshold,
                .max_iterations = rule_.max_iterations,
                .first_stamp = next_stamp_};
    // FCM may sweep once more, and again in every pass.
    next_stamp_ += 2 * (static_cast<unsigned>(rule_.max_iterations) + 1);
    launch_clusters(kernel, task, launch);
    after();
    check(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize after the run");
    answer.iterations = iterations_[0];
    if (recorded > 0) {
      std::vector<long long> noted(answer.iterations + 1);
      times.download(noted);
      for (std::size_t pass = 0; pass < answer.iterations; ++pass) {
        observer.phase("pass", 1e-9 * static_cast<double>(noted[pass + 1] - noted[pass]));
        observer.pass(history.span().subspan(pass * size, size));
      }
    }
  }

private:
  StopRule rule_;
  unsigned next_stamp_ = 1;
  // Written where the host reads it: a copy would be one more thing to wait for.
  PinnedBuffer<unsigned long long> iterations_;
};

// ---- the end of a pass
//
// Sums over all blocks become centroids, and the stop rule decides.

/// Sums [k, width] over all blocks, counts last, and what the stop rule asks for behind them.
struct Totals {
  const double* s_totals;
  unsigned k, width;

  __device__ double fact() const { return s_totals[k * width]; }
  /// Or `old`, if the cluster is empty.
  template <typename T>
  __device__ T mean(unsigned j, unsigned f, T old) const {
    const double size = s_totals[j * width + width - 1];
    return size > 0.0 ? static_cast<T>(s_totals[j * width + f] / size) : old;
  }
};

/// Adds up what the stop rule asks for over the block, and gives it to `sums`. All threads.
template <unsigned kThreads, typename T, typename Sums>
__device__ void share_fact(const RunTask<T>& run, const Sums& sums, double wanted) {
  __shared__ double s_wanted[kThreads / 32];
  if (run.wants_fact()) {
    wanted = over_lanes<32>(wanted);
    if (threadIdx.x % 32 == 0) {
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
}

/// Ends a pass whose sums over all blocks are there: makes the means the centroids, in shared
/// memory where place_of(j, f) says and in the run's answer, and says whether it was the last. All
/// threads. mean_of(j, f, old): the mean, or the old centroid of a cluster without points; asked
/// for by thread e % kThreads where e = j width + f. The centroids are there when it returns.
/// kWidth: if the compiler is to know it, the features that centroids have in shared memory, of
/// which those behind d are not in the answer: it divides by a constant then, and few values wait
/// for little else.
template <unsigned kThreads, unsigned kWidth = 0, typename T, typename Sums, typename MeanOf,
          typename PlaceOf>
__device__ bool end_pass(const RunTask<T>& run, const Sums& sums, unsigned k, unsigned d,
                         MeanOf mean_of, T* s_centroids, PlaceOf place_of, std::size_t& pass,
                         double& previous) {
  __shared__ double s_shifts[kThreads / 32];
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const unsigned width = kWidth > 0 ? kWidth : d;
  double shift = 0.0;
  // Loads of a batch do not wait for the stores of one another.
  constexpr unsigned kBatch = kWidth > 0 ? 1 : 4;
  for (unsigned first = threadIdx.x; first < k * width; first += kBatch * kThreads) {
    T next[kBatch];
#pragma unroll
    for (unsigned b = 0; b < kBatch; ++b) {
      const unsigned e = first + b * kThreads, j = e / width, f = e % width;
      next[b] = e < k * width ? mean_of(j, f, s_centroids[place_of(j, f)]) : T{0};
    }
#pragma unroll
    for (unsigned b = 0; b < kBatch; ++b) {
      const unsigned e = first + b * kThreads, j = e / width, f = e % width;
      if (e < k * width) {
        T& centroid = s_centroids[place_of(j, f)];
        const T old = centroid;
        const double moved = static_cast<double>(next[b]) - static_cast<double>(old);
        shift += moved * moved;
        centroid = next[b];
        if (blockIdx.x == 0 && (kWidth == 0 || f < d)) {
          run.leave_centroid(pass, kWidth > 0 ? j * d + f : e, k * d, old, next[b]);
        }
      }
    }
  }
  const double fact = run.wants_fact() ? sums.fact() : 0.0;
  const bool wants_shift = run.rule == StopRule::Kind::shift;
  if (wants_shift) {
    shift = over_lanes<32>(shift);
    if (lane == 0) {
      s_shifts[warp] = shift;
    }
  }
  __syncthreads(); // the centroids and the shifts are there
  if (wants_shift) {
    shift = 0.0;
    for (unsigned w = 0; w < kThreads / 32; ++w) {
      shift += s_shifts[w];
    }
  }
  // All threads of all blocks have the same bits, so they take the same decision.
  ++pass;
  run.note_time(pass);
  const bool last = run.is_last(pass, fact, previous, shift);
  previous = fact;
  if (last && blockIdx.x == 0 && threadIdx.x == 0) {
    *run.iterations = pass;
  }
  return last;
}

} // namespace clusterbench::cuda
