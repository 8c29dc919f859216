// Whether sums may be kept while rows come and go, and which of them must be made anew. Plain C++ without CUDA.
//
// Sums that products have made are rounded. A row that leaves one takes exactly its value with it, and leaves behind
// what adding it up has been rounded by. That shows where the rows that stay have next to nothing in that feature, and
// most where they have nothing at all: a mean of zero leaves no room for rounding. Sums of words (moved_sums.cuh) are
// exact, but for what lies beneath both words of a value.
#pragma once

#include "impls/cuda/support/certified_bound.hpp"
#include "impls/cuda/support/magnitudes.hpp"

#include <cmath>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace clusterbench::cuda {

/// Adding up takes no more than this of the largest value of a feature, for each row: a test emulates it.
inline constexpr double kSumRounding = 8.0 * 0x1p-24;
/// A sum of less than so many times the largest value is in doubt, if its cluster has a fourth of the rows that were
/// added up, or more: it may be nothing but rounding. In a larger one that is less than 2^-24 of the sum for each row,
/// which is what any rounded sum may be off by.
inline constexpr double kDoubtful = 4.0 * kSumRounding * 0x1p24;

/// Why sums of [n, d] rows are not kept; empty if they may be. Zeros do not count: see Zeros.
inline std::string refuse_to_keep(std::span<const float> rows, std::size_t d) {
  constexpr double kSmall = 0x1p-14;       // of the feature's largest value
  constexpr std::size_t kRowsForOne = 256; // one such row of so many is taken
  const Magnitudes of_rows = Magnitudes::of(rows, d);
  const std::size_t n = rows.size() / d;
  std::vector<std::size_t> small(d, 0);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t f = 0; f < d; ++f) {
      const double size = std::abs(static_cast<double>(rows[i * d + f]));
      small[f] += size > 0.0 && size < kSmall * of_rows.largest[f];
    }
  }
  for (std::size_t f = 0; f < d; ++f) {
    if (small[f] > n / kRowsForOne) {
      return "feature " + std::to_string(f) + " is beneath 2^-14 of its largest value in " +
             std::to_string(small[f]) + " of " + std::to_string(n) +
             " rows (one of 256 at most, zeros aside): sums that are kept would show what they were"
             " rounded by";
    }
  }
  return {};
}

/// In how many rows each feature is zero: a small sum is in doubt only where these may be a cluster.
template <std::size_t kMost>
struct Zeros {
  bool any;           ///< in some rows, and not in all: sums of nothing are not rounded
  double rows[kMost]; ///< 0 if in all

  /// Of [n, d] rows; d <= kMost.
  static Zeros of(std::span<const float> values, std::size_t d) {
    std::size_t found[kMost] = {};
    for (std::size_t first = 0; first < values.size(); first += d) {
      for (std::size_t f = 0; f < d; ++f) {
        found[f] += values[first + f] == 0.0f;
      }
    }
    Zeros zeros{};
    for (std::size_t f = 0; f < d; ++f) {
      zeros.rows[f] = found[f] * d < values.size() ? static_cast<double>(found[f]) : 0.0;
      zeros.any = zeros.any || zeros.rows[f] > 0.0;
    }
    return zeros;
  }
  /// Whether a cluster's rows, but one of nine, may be among so many that are zero in a feature. inverse: one over
  /// their number; 0 of an empty cluster.
  CLUSTERBENCH_HOST_DEVICE static bool may_fill(double zeros, double inverse) {
    return zeros * inverse >= 8.0 / 9.0;
  }
};

} // namespace clusterbench::cuda
