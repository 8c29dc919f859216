// The host's side of a run in which every block keeps the sums of its rows (kept_run.cuh). Float only.
#pragma once

#include "impls/cuda/support/grid.hpp"
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
#include <string>

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
  /// Why the problem is not taken; empty if it is.
  static std::string refuse(const Problem<float>& problem) {
    for (const std::string& reason : {SplitData::refuse_shape(problem, kMostKept, kMostKept),
                                      refuse_rows(problem.n, kMostOfBlock)}) {
      if (!reason.empty()) {
        return reason;
      }
    }
    const SplitRange range = SplitData::range_of(problem);
    const std::string reason = range.refuse();
    return reason.empty() ? refuse_to_keep(problem.points, problem.d, range.largest()) : reason;
  }

  /// Uploads, and finds the kernel's grid. Throws std::runtime_error.
  template <typename Task>
  void prepare(const Problem<float>& problem, const KeptKernel<Task>& kernel) {
    stream = Stream::create();
    launch_.prepare(problem, stream);
    data_ = SplitData(problem, stream);
    const std::size_t tiles = data_.run().tiles_count;
    shape_ = {
        .blocks = 0, .threads = kernel.teams * 128, .cluster = 1, .shared_bytes = kernel.bytes};
    shape_.blocks = static_cast<unsigned>(std::min<std::size_t>(
        resident_in_clusters(kernel.run, shape_), ceil_div(tiles, kernel.teams)));
    d_words_ = DeviceBuffer<long long>(
        GridSums::words(kept_sums(data_.run().exact.k, kernel.features), shape_.blocks));
    d_words_.zero(stream);
    Zeros zeros = Zeros::of(problem.points, problem.d);
    for (std::uint8_t& row : zeros.there) {
      row *= kWithZeros;
    }
    d_clusters_ = DeviceBuffer<std::uint8_t>(problem.n);
    d_clusters_.upload(zeros.there, stream);
    const std::size_t of_team = ceil_div(tiles, kernel.teams * shape_.blocks);
    const int bits = moved_bits(of_team * kernel.teams * SplitTile<1>::kRows);
    task = {.run = {},
            .split = data_.run(),
            .clusters = d_clusters_.data(),
            .words = d_words_.data(),
            .to_word =
                ToWords<kMostKept>::of_largest(data_.range().largest(), bits, data_.run().scale),
            .next = std::ldexp(1.0f, bits),
            .least_rows = 4.0f / 3.0f * static_cast<float>(zeros.most)};
  }
  /// Runs a kernel on what prepare() has left in `task`, or more than that. Throws std::runtime_error.
  template <typename Task>
  void run(Observer<float>& observer, const KeptKernel<Task>& kernel, const Task& with) {
    launch_.run(observer, kernel.run, with, shape_, stream, LabelsBefore::kept);
  }
  /// Throws std::runtime_error.
  void fetch(Result<float>& result) const { launch_.fetch(result, stream); }

  Stream stream;
  KeptTask task{};

private:
  ClusterLaunch shape_{};
  OneLaunch launch_;
  SplitData data_;
  DeviceBuffer<long long> d_words_;       // of GridSums
  DeviceBuffer<std::uint8_t> d_clusters_; // see KeptTask
};

} // namespace clusterbench::cuda
