// Rows on the device in two float16 parts and as they came, for kernels of one launch that multiply by
// wgmma: what they take, the uploads, and what a kernel needs to know of them. Float only.
#pragma once

#include "impls/cuda/support/certified_bound.hpp"
#include "impls/cuda/support/one_launch.cuh"
#include "impls/cuda/support/padded_rows.hpp"
#include "impls/cuda/support/split_columns.cuh"
#include "impls/cuda/support/split_range.hpp"
#include "impls/cuda/support/split_teams.cuh"

#include <cmath>
#include <cstddef>
#include <string>

namespace clusterbench::cuda {

class SplitData {
public:
  /// Why no problem of this size is taken here; empty if one may be.
  static std::string refuse_shape(const Problem<float>& problem, unsigned max_d, unsigned max_k) {
    if (const int capability = compute_capability(); capability != 0 && capability != 90) {
      return "compute capability 9.0 is needed, and no other"; // 0: no device, which others report
    }
    return refuse_size(problem, max_d, max_k);
  }
  /// Why the problem is not taken; empty if it is.
  static std::string refuse(const Problem<float>& problem, unsigned max_d, unsigned max_k) {
    const std::string reason = refuse_shape(problem, max_d, max_k);
    return reason.empty() ? range_of(problem).refuse() : reason;
  }
  /// Reads all rows.
  static SplitRange range_of(const Problem<float>& problem) {
    SplitRange range(problem.points, problem.n, problem.d);
    range.include(problem.centroids);
    return range;
  }

  SplitData() = default;
  /// Uploads. Throws std::runtime_error.
  SplitData(const Problem<float>& problem, cudaStream_t stream) {
    const std::size_t n = problem.n, d = problem.d;
    range_ = range_of(problem);
    const float scale = range_.scale();
    d_tiles_ = upload_split_columns(problem.points, n, d, scale, stream);
    d_rows_ = upload_padded(problem.points, n, d, n, stream);
    const double longest = static_cast<double>(scale) * static_cast<double>(range_.longest());
    run_ = {.exact = {.rows = d_rows_.data(),
                      .n = static_cast<unsigned>(n),
                      .width = static_cast<unsigned>(padded_width(d)),
                      .k = static_cast<unsigned>(problem.k),
                      .s_centroids = nullptr},
            .tiles = d_tiles_.data(),
            .d = static_cast<unsigned>(d),
            .tiles_count = static_cast<unsigned>(ceil_div(n, SplitTile<1>::kRows)),
            .scale = scale,
            .longest = static_cast<float>(longest),
            // 2^-23 of a value, or half of float16's smallest step.
            .lost = static_cast<float>(0x1p-23 * longest + 0x1p-25 * std::sqrt(d)),
            .of_scores = split_error_small_first(d)};
  }
  /// Valid as long as this object.
  const SplitRun& run() const { return run_; }
  const SplitRange& range() const { return range_; }

private:
  SplitRange range_;
  DeviceBuffer<float> d_tiles_, d_rows_; // [tiles, tile], [n, width]
  SplitRun run_{};
};

} // namespace clusterbench::cuda
