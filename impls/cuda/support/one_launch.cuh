// A whole run in one cooperative launch: what its kernel needs to know of the run, the stop rule on
// the device, and the host's side of it. Float only.
#pragma once

#include "impls/contract.hpp"
#include "impls/cuda/support/buffer.hpp"
#include "impls/cuda/support/phase_timer.hpp"

#include <cuda_runtime.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace clusterbench::cuda {

/// The part of a kernel's argument that is about the run and not about the data.
struct RunTask {
  const float* initial; // [k, d], or null
  float* centroids;     // [k, d]
  std::int32_t* labels; // [n]
  float* history;       // [max_iterations, k, d] in recording runs, else null
  unsigned long long* iterations;
  StopRule::Kind rule;
  double threshold;
  std::size_t max_iterations;
  unsigned first_stamp; // of the words that blocks exchange: no stamp is ever used twice

  /// Whether the rule asks for a sum over the points: their loss, or how many labels change.
  __device__ bool wants_fact() const {
    return rule == StopRule::Kind::loss || rule == StopRule::Kind::labels;
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

/// The buffers behind a RunTask, and the launch.
class OneLaunch {
public:
  /// Allocates and uploads the initial centroids, if there are any. Throws std::runtime_error.
  void prepare(const Problem<float>& problem, cudaStream_t stream) {
    rule_ = problem.stop;
    d_initial_ = DeviceBuffer<float>(problem.centroids.size());
    if (d_initial_.size() > 0) {
      d_initial_.upload(problem.centroids, stream);
    }
    d_centroids_ = DeviceBuffer<float>(problem.k * problem.d);
    d_labels_ = DeviceBuffer<std::int32_t>(problem.n);
    d_iterations_ = DeviceBuffer<unsigned long long>(1);
    next_stamp_ = 1;
  }

  /// Runs `kernel(task)` to its end; sets task.run first, and tells a recording observer of every
  /// pass. Throws std::runtime_error.
  template <typename Task>
  void run(Observer<float>& observer, void (*kernel)(const Task), Task task, unsigned blocks,
           unsigned threads, std::size_t shared_bytes, cudaStream_t stream) {
    const std::size_t size = d_centroids_.size();
    DeviceBuffer<float> history(observer.recording() ? rule_.max_iterations * size : 0);
    d_labels_.fill_bytes(0xFF, stream); // -1: every label changes in the first pass
    task.run = {d_initial_.data(), d_centroids_.data(),  d_labels_.data(),
                history.data(),    d_iterations_.data(), rule_.kind,
                rule_.threshold,   rule_.max_iterations, next_stamp_};
    next_stamp_ += static_cast<unsigned>(rule_.max_iterations) + 1; // FCM may sweep once more
    PhaseTimer<float> timer(observer, stream);
    timer.measure("all passes", [&] {
      void* arguments[] = {&task};
      check(cudaLaunchCooperativeKernel(reinterpret_cast<const void*>(kernel), blocks, threads,
                                        arguments, shared_bytes, stream),
            "cudaLaunchCooperativeKernel");
    });
    check(cudaStreamSynchronize(stream), "cudaStreamSynchronize after the run");
    if (observer.recording()) {
      std::vector<float> recorded(iterations(stream) * size);
      history.download(recorded, stream);
      for (std::size_t first = 0; first < recorded.size(); first += size) {
        observer.pass(std::span<const float>(recorded).subspan(first, size));
      }
    }
  }

  /// Labels, centroids and iterations of the last run. Throws std::runtime_error.
  void fetch(Result<float>& result, cudaStream_t stream) const {
    d_labels_.download(result.labels, stream);
    d_centroids_.download(result.centroids, stream);
    result.iterations = iterations(stream);
  }

private:
  std::size_t iterations(cudaStream_t stream) const {
    unsigned long long count = 0;
    d_iterations_.download(std::span(&count, 1), stream);
    return count;
  }

  StopRule rule_;
  unsigned next_stamp_ = 1;
  DeviceBuffer<float> d_initial_, d_centroids_; // [k, d]
  DeviceBuffer<std::int32_t> d_labels_;         // [n]
  DeviceBuffer<unsigned long long> d_iterations_;
};

} // namespace clusterbench::cuda
