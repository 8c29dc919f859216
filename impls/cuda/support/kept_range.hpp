// Whether sums may be kept while rows come and go, and which of them must be made anew. Plain C++ without CUDA.
//
// Sums that products have made are rounded. A row that leaves one takes exactly its value with it, and leaves behind
// what adding it up has been rounded by. That shows where the rows that stay have next to nothing in that feature, and
// most where they have nothing at all: a mean of zero leaves no room for rounding. Sums of words (moved_sums.cuh) are
// exact, but for what lies beneath both words of a value.
#pragma once

#include "impls/cuda/support/magnitudes.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace clusterbench::cuda {

/// Why sums of [n, d] rows are not kept; empty if they may be. Zeros do not count: see most_zeros().
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

/// Of [n, d] rows, in how many the feature is zero that is so most often, but not in all: sums of nothing are not
/// rounded. Of a cluster with less than 4/3 as many rows, less than a fourth may have anything in that feature.
inline std::size_t most_zeros(std::span<const float> rows, std::size_t d) {
  std::vector<std::size_t> zeros(d, 0);
  for (std::size_t first = 0; first < rows.size(); first += d) {
    for (std::size_t f = 0; f < d; ++f) {
      zeros[f] += rows[first + f] == 0.0f;
    }
  }
  std::size_t most = 0;
  for (const std::size_t count : zeros) {
    most = count * d < rows.size() ? std::max(most, count) : most;
  }
  return most;
}

} // namespace clusterbench::cuda
