// Fuzzy c-means in passes of separate launches, one for the centres and one for the memberships: the buffers, the
// order of a pass, the objective (added up by CUB) and the labels. What the two launches do is the variant's.
#pragma once

#include "impls/contract.hpp"
#include "impls/cuda/support/buffer.hpp"
#include "impls/cuda/support/check.hpp"
#include "impls/cuda/support/columns.cuh"
#include "impls/cuda/support/grid.hpp"
#include "impls/cuda/support/pass_facts.cuh"
#include "impls/cuda/support/phase_timer.hpp"

#include <cub/device/device_reduce.cuh>
#include <cuda/std/functional>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace clusterbench::cuda {

/// The label of a sample is its largest membership. memberships: [k, n], labels: [n]
template <typename T>
__global__ void label_samples(const T* __restrict__ memberships, std::size_t n, std::size_t k,
                              std::int32_t* labels, unsigned* changed_flag) {
  const std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  bool changed = false;
  if (i < n) {
    std::size_t largest = 0;
    for (std::size_t j = 1; j < k; ++j) { // strictly larger: ties go to the lowest index
      largest = memberships[j * n + i] > memberships[largest * n + i] ? j : largest;
    }
    changed = labels[i] != static_cast<std::int32_t>(largest);
    labels[i] = static_cast<std::int32_t>(largest);
  }
  flag_block(changed, changed_flag);
}

/// Why a problem is not taken by blocks that keep the distances of `samples` samples each in shared memory; empty
/// if it is.
template <typename T>
std::string refuse_fcm(const Problem<T>& problem, unsigned samples) {
  if (!(problem.fuzzifier > 1.0)) {
    return "the fuzzifier must be greater than 1";
  }
  const std::size_t room = shared_memory_limit() / (samples * sizeof(T));
  return problem.k <= room ? ""
                           : "k = " + std::to_string(problem.k) +
                                 " centres: a block's shared memory holds the distances to " +
                                 std::to_string(room);
}

template <typename T>
class FcmPasses {
public:
  /// Allocates and uploads. The problem's spans and the stream must outlive this. Throws std::runtime_error.
  void prepare(const Problem<T>& problem, cudaStream_t stream) {
    problem_ = problem;
    stream_ = stream;
    d_points_ = DeviceBuffer<T>(problem.n * problem.d);
    d_points_.upload(problem.points, stream);
    d_features_ = upload_columns(problem.points, problem.n, problem.d, stream);
    if (from_memberships()) {
      d_initial_memberships_ = upload_columns(problem.memberships, problem.n, problem.k, stream);
    }
    d_memberships_ = DeviceBuffer<T>(problem.n * problem.k);
    d_centres_ = DeviceBuffer<T>(problem.k * problem.d);
    d_labels_ = DeviceBuffer<std::int32_t>(problem.n);
    facts_ = FactsBuffer::create();
    if (StopTest(problem.stop).wants_loss()) {
      d_contributions_ = DeviceBuffer<T>(problem.n * problem.k);
      std::size_t bytes = 0; // CUB's first call only says how much storage it needs
      reduce_objective(nullptr, bytes, nullptr);
      d_storage_ = DeviceBuffer<unsigned char>(bytes);
    }
  }

  /// Until the stop rule is met: update_centres(memberships [k, n]) and update_memberships(), which launch, in
  /// the order that the initial state asks for. Throws std::runtime_error.
  template <typename UpdateCentres, typename UpdateMemberships>
  void run(Observer<T>& observer, UpdateCentres update_centres,
           UpdateMemberships update_memberships) {
    StopTest stop(problem_.stop);
    facts_.start(stop, stream_);
    d_labels_.fill_bytes(0xFF, stream_); // -1: every label changes in the first pass
    d_centres_.zero(stream_);
    if (!from_memberships()) {
      d_centres_.upload(problem_.centroids, stream_);
    }
    PhaseTimer<T> timer(observer, stream_);
    std::vector<T> recorded(observer.recording() ? d_centres_.size() : 0);
    PassFacts found;
    do {
      const bool first = stop.passes() == 0;
      const WantedFacts wanted = facts_.wanted();
      if (from_memberships()) {
        const auto& source = first ? d_initial_memberships_ : d_memberships_;
        timer.measure("update", [&] { update_centres(source.data()); });
      }
      timer.measure("assign", [&] { update_memberships(); });
      if (!from_memberships()) {
        timer.measure("update", [&] { update_centres(d_memberships_.data()); });
      }
      if (wanted.loss != nullptr) {
        std::size_t bytes = d_storage_.size();
        timer.measure("check", [&] { reduce_objective(d_storage_.data(), bytes, wanted.loss); });
      }
      if (wanted.labels_changed != nullptr) {
        timer.measure("check", [&] { label(wanted.labels_changed); });
      }
      if (observer.recording()) {
        d_centres_.download(recorded, stream_);
        observer.pass(recorded);
      }
      found = facts_.finish_pass(stream_);
      if (first && from_memberships()) { // there were no centres to move
        found.squared_shift = std::numeric_limits<double>::infinity();
      }
    } while (!stop.after_pass(found));
    check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize after the run");
    iterations_ = stop.passes();
  }

  /// The answer of the last run. Throws std::runtime_error.
  void fetch(Result<T>& result) {
    label(nullptr);
    d_labels_.download(result.labels, stream_);
    d_centres_.download(result.centroids, stream_);
    std::vector<T> columns(d_memberships_.size());
    d_memberships_.download(columns, stream_);
    for (std::size_t i = 0; i < problem_.n; ++i) {
      for (std::size_t j = 0; j < problem_.k; ++j) {
        result.memberships[i * problem_.k + j] = columns[j * problem_.n + i];
      }
    }
    result.iterations = iterations_;
  }

  const T* points() const { return d_points_.data(); }     ///< [n, d]
  const T* features() const { return d_features_.data(); } ///< [d, n]
  T* memberships() { return d_memberships_.data(); }       ///< [k, n]
  T* centres() { return d_centres_.data(); }               ///< [k, d]
  /// [n, k] to the objective; null unless the stop rule wants it.
  T* contributions() { return d_contributions_.data(); }
  /// Where the kernels of this pass add what the stop rule asks for, and what the last of them must clear.
  WantedFacts wanted() { return facts_.wanted(); }
  DeviceFacts* to_clear() { return facts_.to_clear(); }

private:
  static constexpr unsigned kThreads = 256; // a block, of label_samples

  bool from_memberships() const { return !problem_.memberships.empty(); }

  void label(unsigned* changed_flag) {
    label_samples<<<blocks_for(problem_.n, kThreads), kThreads, 0, stream_>>>(
        d_memberships_.data(), problem_.n, problem_.k, d_labels_.data(), changed_flag);
    check_launch("label_samples");
  }

  /// Sums the contributions in double. Without storage it only sets `bytes` to what it needs.
  void reduce_objective(void* storage, std::size_t& bytes, double* objective) {
    check(cub::DeviceReduce::Reduce(storage, bytes, d_contributions_.data(), objective,
                                    d_contributions_.size(), ::cuda::std::plus<>{}, 0.0, stream_),
          "cub::DeviceReduce::Reduce");
  }

  Problem<T> problem_;
  cudaStream_t stream_ = nullptr;
  DeviceBuffer<T> d_points_, d_features_, d_initial_memberships_, d_memberships_, d_centres_;
  DeviceBuffer<T> d_contributions_;
  DeviceBuffer<std::int32_t> d_labels_;   // [n]
  DeviceBuffer<unsigned char> d_storage_; // CUB's
  FactsBuffer facts_;
  std::size_t iterations_ = 0;
};

} // namespace clusterbench::cuda
