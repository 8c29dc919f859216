// The host's side of a run in which every block keeps the sums of its rows (incremental_run.cuh).
// Float only.
#pragma once

#include "impls/contract.hpp"
#include "impls/cuda/common/integer_sums.cuh"
#include "impls/cuda/common/magnitudes.hpp"
#include "impls/cuda/common/runtime.hpp"
#include "impls/cuda/few_clusters/incremental_state.cuh"
#include "impls/cuda/few_clusters/rounding_bounds.hpp"
#include "impls/cuda/few_clusters/split_data.cuh"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace clusterbench::cuda {

inline constexpr std::size_t kMostOfBlock = std::size_t{1}
                                            << 17; ///< rows: twelve bits a word or more

/// A compiled shape.
template <typename Task>
struct IncrementalKernel {
  unsigned features; ///< with the padding
  unsigned clusters; ///< at most
  unsigned teams;    ///< of a block
  std::size_t bytes; ///< of shared memory, beside what the compiler places
  void (*run)(const Task);
};
/// The shape S.
template <typename Task, typename S>
constexpr IncrementalKernel<Task> incremental_kernel(void (*run)(const Task)) {
  return {S::D, S::K, S::kTeams, IncrementalShared<S>::dynamic_bytes(), run};
}
/// kernels: of few clusters first, of kMostIncremental last; each of up to 8, 16, ...
/// kMostIncremental features.
template <typename Kernels>
const auto& kernel_for(const Kernels& kernels, std::size_t d, std::size_t k) {
  std::size_t of = 0;
  while (kernels[of].front().clusters < k) {
    ++of;
  }
  return kernels[of][(d - 1) / 8];
}

/// What is small in a feature.
struct SmallValues {
  float below[kMostIncremental];
};

/// Counts the values of every feature that are zero or small, and notes which rows have zeros, but
/// for features that are `nothing` in all rows: so many of them. rows: [n, d]; counts: [d], zero
/// before; clusters: [n], see IncrementalTask.
static __global__ void count_values(const float* rows, std::size_t n, unsigned d, unsigned lanes,
                                    const SmallValues limits, unsigned nothing, ValueCounts* counts,
                                    std::uint8_t* clusters) {
  constexpr unsigned kAtOnce = 4;
  __shared__ ValueCounts s_counts[kMostIncremental];
  __shared__ float s_limits[kMostIncremental];
  for (unsigned f = threadIdx.x; f < d; f += blockDim.x) {
    s_counts[f] = {0, 0};
    s_limits[f] = limits.below[f];
  }
  __syncthreads(); // the counts are zero
  unsigned zeros[kAtOnce] = {};
  sweep_rows<kAtOnce>(
      rows, n, d, lanes, NAN, // neither zero nor small
      [&](unsigned f, const float(&x)[kAtOnce]) {
        unsigned zero = 0, small = 0;
#pragma unroll
        for (unsigned r = 0; r < kAtOnce; ++r) {
          zero += x[r] == 0.0f ? 1 : 0;
          zeros[r] += x[r] == 0.0f ? 1 : 0;
          small += x[r] != 0.0f && fabsf(x[r]) < s_limits[f] ? 1 : 0;
        }
        if (zero > 0) {
          atomicAdd(&s_counts[f].zero, zero);
        }
        if (small > 0) {
          atomicAdd(&s_counts[f].small, small);
        }
      },
      [&](std::size_t i, std::size_t step) {
#pragma unroll
        for (unsigned r = 0; r < kAtOnce; ++r) {
          for (unsigned offset = 1; offset < lanes; offset *= 2) {
            zeros[r] += __shfl_xor_sync(kAllLanes, zeros[r], static_cast<int>(offset));
          }
          if (threadIdx.x % lanes == 0 && i + r * step < n) {
            clusters[i + r * step] = zeros[r] > nothing ? kWithZeros : 0;
          }
          zeros[r] = 0;
        }
      });
  __syncthreads(); // the block's counts are there
  for (unsigned f = threadIdx.x; f < d; f += blockDim.x) {
    atomicAdd(&counts[f].zero, s_counts[f].zero);
    atomicAdd(&counts[f].small, s_counts[f].small);
  }
}

class IncrementalLaunch {
public:
  /// Why the shape is not taken; empty if it is.
  static std::string refuse(const Shape& shape) {
    const std::string reason = SplitData::refuse(shape, kMostIncremental, kMostIncremental);
    return reason.empty() ? refuse_rows(shape.n, kMostOfBlock) : reason;
  }

  /// Makes what depends on the points, and finds the kernel's grid. Throws Refusal or
  /// std::runtime_error.
  template <typename Task>
  void prepare(const Shape& shape, std::span<const float> d_points,
               const IncrementalKernel<Task>& kernel) {
    launch_.prepare(shape);
    data_ = SplitData(shape, d_points);
    d_clusters_ = DeviceBuffer<std::uint8_t>(shape.n);
    const std::vector<ValueCounts> counts = count_values(shape, d_points);
    if (const std::string reason = refuse_incremental(counts, shape.n); !reason.empty()) {
      throw Refusal(reason);
    }
    const std::size_t tiles = data_.run().tiles_count;
    shape_ = {
        .blocks = 0, .threads = kernel.teams * 128, .cluster = 1, .shared_bytes = kernel.bytes};
    shape_.blocks = static_cast<unsigned>(std::min<std::size_t>(
        resident_in_clusters(kernel.run, shape_), ceil_div(tiles, kernel.teams)));
    d_words_ = DeviceBuffer<long long>(
        GridSums::words(incremental_sums(data_.run().exact.k, kernel.features), shape_.blocks));
    d_words_.zero();
    const std::size_t of_team = ceil_div(tiles, kernel.teams * shape_.blocks);
    bits_ = moved_bits(of_team * kernel.teams * SplitTile<1>::kRows);
    task = {.run = {},
            .split = data_.run(),
            .clusters = d_clusters_.data(),
            .words = d_words_.data(),
            .to_word = to_words(),
            .next = std::ldexp(1.0f, bits_),
            .least_rows = 4.0f / 3.0f * static_cast<float>(most_zeros(counts, shape.n))};
  }
  /// Before run(): sets what of `task` depends on the start's centroids, too; see SplitData::fit().
  bool fit(std::span<const float> d_start) {
    const bool again = data_.fit(d_start);
    if (again) {
      task.split = data_.run();
      task.to_word = to_words();
    }
    return again;
  }
  /// Those centroids on the host.
  std::span<const float> start() const { return data_.start(); }
  /// Runs a kernel on what fit() has left in `task`, or more than that. Throws std::runtime_error.
  template <typename Task>
  void run(const Start<float>& start, Answer<float>& answer, Observer<float>& observer,
           const IncrementalKernel<Task>& kernel, const Task& with) {
    launch_.run(start, answer, observer, kernel.run, with, shape_, LabelsBefore::kept);
  }

  IncrementalTask task{};

private:
  ToWords<kMostIncremental> to_words() const {
    return ToWords<kMostIncremental>::of(data_.magnitudes(), bits_, data_.run().scale);
  }
  std::vector<ValueCounts> count_values(const Shape& shape, std::span<const float> d_points) {
    const std::span<const float> largest = data_.magnitudes().largest;
    SmallValues limits{};
    std::ranges::transform(largest, limits.below, [](float of) { return kSmallValue * of; });
    DeviceBuffer<ValueCounts> d_counts(shape.d);
    d_counts.zero();
    cuda::count_values<<<sweep_blocks(shape.n, shape.d), kSweepThreads>>>(
        d_points.data(), shape.n, static_cast<unsigned>(shape.d), lanes_of_row(shape.d), limits,
        static_cast<unsigned>(std::ranges::count(largest, 0.0f)), d_counts.data(),
        d_clusters_.data());
    check_launch("count_values");
    std::vector<ValueCounts> counts(shape.d);
    d_counts.download(counts);
    return counts;
  }

  int bits_ = 0; // of a word
  ClusterLaunch shape_{};
  OneLaunch<> launch_;
  SplitData data_;
  DeviceBuffer<long long> d_words_;       // of GridSums
  DeviceBuffer<std::uint8_t> d_clusters_; // see IncrementalTask
};

} // namespace clusterbench::cuda
