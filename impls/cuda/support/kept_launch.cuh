// The host's side of a run in which every block keeps the sums of its rows (kept_run.cuh). Float only.
#pragma once

#include "impls/contract.hpp"
#include "impls/cuda/support/buffer.hpp"
#include "impls/cuda/support/grid.hpp"
#include "impls/cuda/support/host_points.hpp"
#include "impls/cuda/support/integer_sums.cuh"
#include "impls/cuda/support/kept_range.hpp"
#include "impls/cuda/support/kept_state.cuh"
#include "impls/cuda/support/magnitudes.hpp"
#include "impls/cuda/support/split_data.cuh"
#include "impls/cuda/support/stream.hpp"

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
struct KeptKernel {
  unsigned features; ///< with the padding
  unsigned clusters; ///< at most
  unsigned teams;    ///< of a block
  std::size_t bytes; ///< of shared memory, beside what the compiler places
  void (*run)(const Task);
};
/// The shape S.
template <typename Task, typename S>
constexpr KeptKernel<Task> kept_kernel(void (*run)(const Task)) {
  return {S::D, S::K, S::kTeams, KeptShared<S>::dynamic_bytes(), run};
}
/// kernels: of few clusters first, of kMostKept last; each of up to 8, 16, ... kMostKept features.
template <typename Kernels>
const auto& kernel_for(const Kernels& kernels, std::size_t d, std::size_t k) {
  std::size_t of = 0;
  while (kernels[of].front().clusters < k) {
    ++of;
  }
  return kernels[of][(d - 1) / 8];
}

class KeptLaunch {
public:
  /// Why the shape is not taken; empty if it is.
  static std::string refuse(const Shape& shape) {
    const std::string reason = SplitData::refuse(shape, kMostKept, kMostKept);
    return reason.empty() ? refuse_rows(shape.n, kMostOfBlock) : reason;
  }

  /// Makes what depends on the points, and finds the kernel's grid. Throws Refusal or std::runtime_error.
  template <typename Task>
  void prepare(const Shape& shape, std::span<const float> d_points,
               const KeptKernel<Task>& kernel) {
    const std::vector<float> points = points_on_host(d_points);
    stream = Stream::create();
    launch_.prepare(shape);
    data_ = SplitData(shape, d_points, points, stream);
    if (const std::string reason = refuse_to_keep(points, shape.d, data_.range().largest());
        !reason.empty()) {
      throw Refusal(reason);
    }
    const std::size_t tiles = data_.run().tiles_count;
    shape_ = {
        .blocks = 0, .threads = kernel.teams * 128, .cluster = 1, .shared_bytes = kernel.bytes};
    shape_.blocks = static_cast<unsigned>(std::min<std::size_t>(
        resident_in_clusters(kernel.run, shape_), ceil_div(tiles, kernel.teams)));
    d_words_ = DeviceBuffer<long long>(
        GridSums::words(kept_sums(data_.run().exact.k, kernel.features), shape_.blocks));
    d_words_.zero(stream);
    Zeros zeros = Zeros::of(points, shape.d);
    for (std::uint8_t& row : zeros.there) {
      row *= kWithZeros;
    }
    d_clusters_ = DeviceBuffer<std::uint8_t>(shape.n);
    d_clusters_.upload(zeros.there, stream);
    const std::size_t of_team = ceil_div(tiles, kernel.teams * shape_.blocks);
    bits_ = moved_bits(of_team * kernel.teams * SplitTile<1>::kRows);
    task = {.run = {},
            .split = data_.run(),
            .clusters = d_clusters_.data(),
            .words = d_words_.data(),
            .to_word = to_words(),
            .next = std::ldexp(1.0f, bits_),
            .least_rows = 4.0f / 3.0f * static_cast<float>(zeros.most)};
  }
  /// Before run(): sets what of `task` depends on the start's centroids, too; see SplitData::fit().
  bool fit(std::span<const float> d_start) {
    const bool again = data_.fit(d_start, stream);
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
  void run(const Start<float>& start, Result<float>& answer, Observer<float>& observer,
           const KeptKernel<Task>& kernel, const Task& with) {
    launch_.run(start, answer, observer, kernel.run, with, shape_, stream, LabelsBefore::kept);
  }

  Stream stream;
  KeptTask task{};

private:
  ToWords<kMostKept> to_words() const {
    return ToWords<kMostKept>::of_largest(data_.range().largest(), bits_, data_.run().scale);
  }

  int bits_ = 0; // of a word
  ClusterLaunch shape_{};
  OneLaunch launch_;
  SplitData data_;
  DeviceBuffer<long long> d_words_;       // of GridSums
  DeviceBuffer<std::uint8_t> d_clusters_; // see KeptTask
};

} // namespace clusterbench::cuda
