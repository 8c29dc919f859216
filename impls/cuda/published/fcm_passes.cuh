// Fuzzy c-means in passes of separate launches, one for the centres and one for the memberships:
// the buffers, the order of a pass, the objective (added up by CUB) and the labels. What the two
// launches do is the variant's.
#pragma once

#include "impls/contract.hpp"
#include "impls/cuda/common/columns.cuh"
#include "impls/cuda/common/runtime.hpp"
#include "impls/cuda/published/pass_facts.cuh"

#include <cub/device/device_reduce.cuh>
#include <cuda/std/functional>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>

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

/// Why a shape is not taken by blocks that keep the distances of `samples` samples each in shared
/// memory; empty if it is.
template <typename T>
std::string refuse_fcm(const Shape& shape, unsigned samples) {
  if (!(shape.fuzzifier > 1.0)) {
    return "the fuzzifier must be greater than 1";
  }
  const std::size_t room = shared_memory_limit() / (samples * sizeof(T));
  return shape.k <= room ? ""
                         : "k = " + std::to_string(shape.k) +
                               " centres: a block's shared memory holds the distances to " +
                               std::to_string(room);
}

template <typename T>
class FcmPasses {
public:
  /// Allocates, and keeps the points [n, d] feature by feature as well; does not block.
  /// The points must outlive this. Throws std::runtime_error.
  void prepare(const Shape& shape, std::span<const T> d_points) {
    shape_ = shape;
    points_ = d_points.data();
    d_features_ = make_columns(d_points, shape.n, shape.d);
    d_memberships_ = DeviceBuffer<T>(shape.n * shape.k);
    facts_ = FactsBuffer::create();
    if (StopTest(shape.stop).wants_loss()) {
      d_contributions_ = DeviceBuffer<T>(shape.n * shape.k);
      std::size_t bytes = 0; // CUB's first call only says how much storage it needs
      reduce_objective(nullptr, bytes, nullptr);
      d_storage_ = DeviceBuffer<unsigned char>(bytes);
    }
  }

  /// Until the stop rule is met: update_centres(before), which makes centres() from memberships()
  /// and leaves in `before`, unless it is null, what they were; and update_memberships(). Both
  /// launch, in the order that the start asks for. Writes all of the answer. Throws
  /// std::runtime_error.
  template <typename UpdateCentres, typename UpdateMemberships>
  void run(const Start<T>& start, Answer<T>& answer, Observer<T>& observer,
           UpdateCentres update_centres, UpdateMemberships update_memberships) {
    const bool centres_first = shape_.starts_from_memberships;
    StopTest stop(shape_.stop);
    facts_.start(stop);
    centres_ = answer.centroids.data();
    if (centres_first) {
      fill_bytes(answer.centroids, 0);
      transpose(start.memberships.data(), shape_.n, shape_.k, d_memberships_.data());
    } else {
      copy_values(start.centroids, centres_);
    }
    fill_bytes(answer.labels, 0xFF); // -1: every label changes in the first pass
    const auto update = [&] {
      const Phase phase(observer, "update", cudaStreamLegacy);
      const bool none = centres_first && stop.passes() == 0; // entered this pass
      update_centres(none ? nullptr : answer.entering.data());
    };
    PassFacts found;
    do {
      const WantedFacts wanted = facts_.wanted();
      if (centres_first) {
        update();
      }
      {
        const Phase phase(observer, "assign", cudaStreamLegacy);
        update_memberships();
      }
      if (!centres_first) {
        update();
      }
      if (wanted.loss != nullptr) {
        const Phase phase(observer, "check", cudaStreamLegacy);
        std::size_t bytes = d_storage_.size();
        reduce_objective(d_storage_.data(), bytes, wanted.loss);
      }
      if (wanted.labels_changed != nullptr) {
        const Phase phase(observer, "check", cudaStreamLegacy);
        label(answer.labels.data(), wanted.labels_changed);
      }
      observer.pass(answer.centroids);
      found = facts_.finish_pass();
      if (stop.passes() == 0 && centres_first) { // there were no centres to move
        found.squared_shift = std::numeric_limits<double>::infinity();
      }
    } while (!stop.after_pass(found));
    if (!stop.wants_labels_changed()) { // else they are there
      label(answer.labels.data(), nullptr);
    }
    transpose(d_memberships_.data(), shape_.k, shape_.n, answer.memberships.data());
    answer.iterations = stop.passes();
  }

  const T* points() const { return points_; }              ///< [n, d]
  const T* features() const { return d_features_.data(); } ///< [d, n]
  T* memberships() { return d_memberships_.data(); }       ///< [k, n]
  T* centres() { return centres_; }                        ///< [k, d], of the answer
  /// [n, k] to the objective; null unless the stop rule wants it.
  T* contributions() { return d_contributions_.data(); }
  /// Where the kernels of this pass add what the stop rule asks for, and what the last of them must
  /// clear.
  const WantedFacts& wanted() const { return facts_.wanted(); }
  DeviceFacts* to_clear() { return facts_.to_clear(); }

private:
  static constexpr unsigned kThreads = 256; // a block, of label_samples

  void label(std::int32_t* labels, unsigned* changed_flag) {
    label_samples<<<blocks_for(shape_.n, kThreads), kThreads>>>(d_memberships_.data(), shape_.n,
                                                                shape_.k, labels, changed_flag);
    check_launch("label_samples");
  }

  /// Sums the contributions in double. Without storage it only sets `bytes` to what it needs.
  void reduce_objective(void* storage, std::size_t& bytes, double* objective) {
    check(cub::DeviceReduce::Reduce(storage, bytes, d_contributions_.data(), objective,
                                    d_contributions_.size(), ::cuda::std::plus<>{}, 0.0),
          "cub::DeviceReduce::Reduce");
  }

  Shape shape_;
  const T* points_ = nullptr;
  DeviceBuffer<T> d_features_, d_memberships_, d_contributions_;
  T* centres_ = nullptr;
  DeviceBuffer<unsigned char> d_storage_; // CUB's
  FactsBuffer facts_;
};

} // namespace clusterbench::cuda
