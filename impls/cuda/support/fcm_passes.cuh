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
#include <span>
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

/// Why a shape is not taken by blocks that keep the distances of `samples` samples each in shared memory; empty
/// if it is.
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

/// to[c, r] = from[r, c], by square tiles in shared memory, so that neighbouring threads both read
/// and write neighbouring addresses. block: (32, 8). from: [rows, columns]
template <typename T>
__global__ void transpose(const T* __restrict__ from, std::size_t rows, std::size_t columns,
                          T* to) {
  __shared__ T s_tile[32][33]; // the odd width keeps a column's values in different banks
  const std::size_t across = (columns + 31) / 32, tiles = (rows + 31) / 32 * across;
  for (std::size_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const std::size_t first_row = tile / across * 32, first_column = tile % across * 32;
    for (unsigned r = threadIdx.y; r < 32; r += blockDim.y) {
      if (first_row + r < rows && first_column + threadIdx.x < columns) {
        s_tile[r][threadIdx.x] = from[(first_row + r) * columns + first_column + threadIdx.x];
      }
    }
    __syncthreads(); // the tile is there
    for (unsigned c = threadIdx.y; c < 32; c += blockDim.y) {
      if (first_column + c < columns && first_row + threadIdx.x < rows) {
        to[(first_column + c) * rows + first_row + threadIdx.x] = s_tile[threadIdx.x][c];
      }
    }
    __syncthreads(); // the next one takes its place
  }
}

template <typename T>
class FcmPasses {
public:
  /// Allocates, and keeps the points [n, d] feature by feature as well. The points and the stream
  /// must outlive this. Throws std::runtime_error.
  void prepare(const Shape& shape, std::span<const T> points, cudaStream_t stream) {
    shape_ = shape;
    stream_ = stream;
    points_ = points.data();
    d_features_ = make_columns(points, shape.n, shape.d, stream);
    d_memberships_ = DeviceBuffer<T>(shape.n * shape.k);
    d_centres_ = DeviceBuffer<T>(shape.k * shape.d);
    facts_ = FactsBuffer::create();
    if (StopTest(shape.stop).wants_loss()) {
      d_contributions_ = DeviceBuffer<T>(shape.n * shape.k);
      std::size_t bytes = 0; // CUB's first call only says how much storage it needs
      reduce_objective(nullptr, bytes, nullptr);
      d_storage_ = DeviceBuffer<unsigned char>(bytes);
    }
  }

  /// Until the stop rule is met: update_centres() and update_memberships(), which launch, in the order that
  /// the start asks for; then the answer. Throws std::runtime_error.
  template <typename UpdateCentres, typename UpdateMemberships>
  void run(const Start<T>& start, Result<T>& answer, Observer<T>& observer,
           UpdateCentres update_centres, UpdateMemberships update_memberships) {
    StopTest stop(shape_.stop);
    facts_.start(stop, stream_);
    std::int32_t* labels = answer.labels.data();
    if (stop.wants_labels_changed()) { // -1: every label changes in the first pass
      check(cudaMemsetAsync(labels, 0xFF, answer.labels.size_bytes(), stream_),
            "cudaMemsetAsync of the labels");
    }
    if (shape_.starts_from_memberships) {
      d_centres_.zero(stream_);
      transpose(start.memberships.data(), shape_.n, shape_.k, d_memberships_.data());
    } else {
      d_centres_.copy_from(start.centroids, stream_);
    }
    PhaseTimer<T> timer(observer, stream_);
    std::vector<T> recorded(observer.recording() ? d_centres_.size() : 0);
    PassFacts found;
    do {
      const bool first = stop.passes() == 0;
      const WantedFacts wanted = facts_.wanted();
      if (shape_.starts_from_memberships) {
        timer.measure("update", [&] { update_centres(); });
      }
      timer.measure("assign", [&] { update_memberships(); });
      if (!shape_.starts_from_memberships) {
        timer.measure("update", [&] { update_centres(); });
      }
      if (wanted.loss != nullptr) {
        std::size_t bytes = d_storage_.size();
        timer.measure("check", [&] { reduce_objective(d_storage_.data(), bytes, wanted.loss); });
      }
      if (wanted.labels_changed != nullptr) {
        timer.measure("check", [&] { label(labels, wanted.labels_changed); });
      }
      if (observer.recording()) {
        d_centres_.download(recorded, stream_);
        observer.pass(recorded);
      }
      found = facts_.finish_pass(stream_);
      if (first && shape_.starts_from_memberships) { // there were no centres to move
        found.squared_shift = std::numeric_limits<double>::infinity();
      }
    } while (!stop.after_pass(found));
    if (!stop.wants_labels_changed()) { // else they are there
      label(labels, nullptr);
    }
    d_centres_.copy_to(answer.centroids, stream_);
    transpose(d_memberships_.data(), shape_.k, shape_.n, answer.memberships.data());
    answer.iterations = stop.passes();
  }

  const T* points() const { return points_; }              ///< [n, d]
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

  void label(std::int32_t* labels, unsigned* changed_flag) {
    label_samples<<<blocks_for(shape_.n, kThreads), kThreads, 0, stream_>>>(
        d_memberships_.data(), shape_.n, shape_.k, labels, changed_flag);
    check_launch("label_samples");
  }

  void transpose(const T* from, std::size_t rows, std::size_t columns, T* to) {
    const std::size_t tiles = ceil_div(rows, 32) * ceil_div(columns, 32);
    cuda::transpose<<<blocks_at_most(tiles, 1, kMaxGridX), dim3(32, 8), 0, stream_>>>(from, rows,
                                                                                      columns, to);
    check_launch("transpose");
  }

  /// Sums the contributions in double. Without storage it only sets `bytes` to what it needs.
  void reduce_objective(void* storage, std::size_t& bytes, double* objective) {
    check(cub::DeviceReduce::Reduce(storage, bytes, d_contributions_.data(), objective,
                                    d_contributions_.size(), ::cuda::std::plus<>{}, 0.0, stream_),
          "cub::DeviceReduce::Reduce");
  }

  Shape shape_;
  cudaStream_t stream_ = nullptr;
  const T* points_ = nullptr;
  DeviceBuffer<T> d_features_, d_memberships_, d_centres_, d_contributions_;
  DeviceBuffer<unsigned char> d_storage_; // CUB's
  FactsBuffer facts_;
};

} // namespace clusterbench::cuda
