// K-means in passes of separate launches: the initial state, the centroids and labels, the facts of a pass and the
// answer. What a pass launches, and all that it keeps besides, is the variant's.
#pragma once

#include "impls/contract.hpp"
#include "impls/cuda/support/buffer.hpp"
#include "impls/cuda/support/check.hpp"
#include "impls/cuda/support/pass_facts.cuh"
#include "impls/cuda/support/phase_timer.hpp"

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace clusterbench::cuda {

template <typename T>
class LloydPasses {
public:
  /// Allocates, and uploads the initial centroids; the points and their layout are the variant's. The stream must stay
  /// open until the last run() and fetch(). Throws std::runtime_error.
  void prepare(const Problem<T>& problem, cudaStream_t stream) {
    rule_ = problem.stop;
    stream_ = stream;
    d_initial_ = DeviceBuffer<T>(problem.k * problem.d);
    d_initial_.upload(problem.centroids, stream);
    d_centroids_ = DeviceBuffer<T>(problem.k * problem.d);
    d_labels_ = DeviceBuffer<std::int32_t>(problem.n);
    facts_ = FactsBuffer::create();
  }

  /// Calls start() once: it clears what passes add to. Then pass(timer) until the stop rule is met: it launches one pass,
  /// each phase in timer.measure(). Both put their work into the stream, or make it wait for what they put into
  /// others. Throws std::runtime_error.
  template <typename Start, typename Pass>
  void run(Observer<T>& observer, Start start, Pass pass) {
    StopTest stop(rule_);
    // Back to the initial state: a run may have been broken off, so nothing is taken for granted.
    d_centroids_.copy_from(d_initial_, stream_);
    start();
    if (stop.wants_labels_changed()) {
      d_labels_.fill_bytes(0xFF, stream_); // -1: every label changes in the first pass
    }
    facts_.start(stop, stream_);
    PhaseTimer<T> timer(observer, stream_);
    std::vector<T> recorded(observer.recording() ? d_centroids_.size() : 0);
    do {
      pass(timer);
      if (observer.recording()) {
        d_centroids_.download(recorded, stream_);
        observer.pass(recorded);
      }
    } while (!stop.after_pass(facts_.finish_pass(stream_)));
    check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize after the run");
    iterations_ = stop.passes();
  }

  /// The answer of the last run. Throws std::runtime_error.
  void fetch(Result<T>& result) const {
    d_labels_.download(result.labels, stream_);
    d_centroids_.download(result.centroids, stream_);
    result.iterations = iterations_;
  }

  T* centroids() { return d_centroids_.data(); } ///< [k, d]
  /// [n]; before the first pass -1 if the stop rule asks whether a label changed, else whatever was there.
  std::int32_t* labels() { return d_labels_.data(); }
  /// Where the kernels of this pass add what the stop rule asks for, and what the last of them must clear: to be asked
  /// anew in every pass.
  WantedFacts wanted() { return facts_.wanted(); }
  DeviceFacts* to_clear() { return facts_.to_clear(); }

private:
  StopRule rule_;
  cudaStream_t stream_ = nullptr;
  DeviceBuffer<T> d_initial_, d_centroids_; // [k, d]
  DeviceBuffer<std::int32_t> d_labels_;     // [n]
  FactsBuffer facts_;
  std::size_t iterations_ = 0;
};

} // namespace clusterbench::cuda
