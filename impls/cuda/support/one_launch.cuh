// A whole run in one cooperative launch: what its kernel needs to know of the run, the stop rule on
// the device, and the host's side of it. Float only.
#pragma once

#include "impls/contract.hpp"
#include "impls/cuda/support/buffer.hpp"
#include "impls/cuda/support/grid.hpp"
#include "impls/cuda/support/launch_clusters.hpp"
#include "impls/cuda/support/warp_sums.cuh"

#include <cuda_runtime.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace clusterbench::cuda {

/// Fewer than these, so that the stamps of two runs in a row differ: each takes up to twice as
/// many.
inline constexpr std::size_t kMostIterations = std::size_t{1} << 30;

/// The part of a kernel's argument that is about the run and not about the data.
struct RunTask {
  const float* initial;           // [k, d], or null
  float* centroids;               // [k, d]
  float* entering;                // [k, d]; see leave_centroid()
  std::int32_t* labels;           // [n]
  float* history;                 // [max_iterations, k, d] in recording runs, else null
  long long* times;               // [max_iterations + 1] nanoseconds in recording runs, else null
  unsigned long long* iterations; // in page-locked memory of the host, written once
  StopRule::Kind rule;
  double threshold;
  std::size_t max_iterations;
  unsigned first_stamp; // of the words that blocks exchange: two runs in a row share none

  /// The stamp of a pass (from 0).
  __device__ unsigned stamp(std::size_t pass) const {
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
  __device__ void leave_centroid(std::size_t pass, unsigned at, unsigned size, float entered,
                                 float now) const {
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

/// Makes the means of a pass the centroids: in shared memory and, by one block, in the run's answer
/// and history. A cluster without weight keeps its centroid. All threads must call it, and get the
/// squared shift if the rule asks for it. s_sums, s_centroids: [k, width >= d]; s_weights: [k].
template <unsigned kThreads>
__device__ double adopt_means(const RunTask& run, const float* s_sums, const double* s_weights,
                              float* s_centroids, unsigned k, unsigned d, unsigned width,
                              std::size_t pass) {
  __shared__ double s_shift[kThreads / 32];
  double shift = 0.0;
#pragma unroll 4 // one division need not wait for another
  for (unsigned e = threadIdx.x; e < k * width; e += kThreads) {
    const unsigned j = e / width, f = e % width;
    const float weight = static_cast<float>(s_weights[j]), old = s_centroids[e];
    const float mean = weight > 0.0f ? s_sums[e] / weight : old;
    s_centroids[e] = mean;
    const double moved = static_cast<double>(mean) - static_cast<double>(old);
    shift += moved * moved;
    if (blockIdx.x == 0 && f < d) {
      run.leave_centroid(pass, j * d + f, k * d, old, mean);
    }
  }
  if (run.rule != StopRule::Kind::shift) {
    return 0.0;
  }
  shift = over_lanes<32>(shift);
  if (threadIdx.x % 32 == 0) {
    s_shift[threadIdx.x / 32] = shift;
  }
  __syncthreads(); // the shifts of all warps are there
  double total = 0.0;
  for (unsigned w = 0; w < kThreads / 32; ++w) {
    total += s_shift[w];
  }
  return total;
}

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
class OneLaunch {
public:
  /// Throws std::runtime_error.
  void prepare(const Shape& shape) {
    rule_ = shape.stop;
    iterations_ = PinnedBuffer<unsigned long long>(1);
    next_stamp_ = 1;
  }

  /// Runs `kernel(task)` to its end; sets task.run first. Kernels read the start and write the
  /// answer where they lie. Tells a recording observer of every pass. Throws std::runtime_error.
  template <typename Task>
  void run(const Start<float>& start, Answer<float>& answer, Observer<float>& observer,
           void (*kernel)(const Task), Task task, const ClusterLaunch& launch,
           LabelsBefore before = LabelsBefore::in_memory) {
    const std::size_t size = answer.centroids.size();
    const std::size_t recorded = observer.recording() ? rule_.max_iterations : 0; // passes
    DeviceBuffer<float> history(recorded * size);
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
  // The kernel writes the number where the host reads it: a copy would be one more thing to wait
  // for.
  PinnedBuffer<unsigned long long> iterations_;
};

} // namespace clusterbench::cuda
