// Whether rounded sums may be kept while rows come and go. Plain C++ without CUDA.
//
// A row that leaves a sum takes exactly its value with it, and leaves behind what adding it up had been rounded
// by: some 2^-24 of it. That matters where the rows that stay have next to nothing in that feature, and most
// where they have nothing at all: a mean of zero leaves no room for rounding. So data is not taken in which a
// feature is zero in some rows, or that small in many.
#pragma once

#include "impls/cuda/support/magnitudes.hpp"

#include <cmath>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace clusterbench::cuda {

/// Why sums of [n, d] rows are not kept; empty if they may be. A feature that is zero everywhere is fine.
inline std::string refuse_to_keep(std::span<const float> rows, std::size_t d) {
  constexpr double kSmall = 0x1p-14;       // of the feature's largest value
  constexpr std::size_t kRowsForOne = 256; // one such row of so many is taken
  const Magnitudes of_rows = Magnitudes::of(rows, d);
  const std::size_t n = rows.size() / d;
  std::vector<std::size_t> zero(d, 0), small(d, 0);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t f = 0; f < d; ++f) {
      const double size = std::abs(static_cast<double>(rows[i * d + f]));
      zero[f] += size == 0.0;
      small[f] += size < kSmall * of_rows.largest[f]; // less than nothing is none
    }
  }
  for (std::size_t f = 0; f < d; ++f) {
    const auto in_rows = [&](std::size_t count) {
      return std::to_string(count) + " of " + std::to_string(n) + " rows";
    };
    const std::string feature = "feature " + std::to_string(f);
    if (zero[f] > 0 && zero[f] < n) {
      return feature + " is zero in " + in_rows(zero[f]) +
             ": a mean of zero would show what sums that are kept were rounded by";
    }
    if (small[f] > n / kRowsForOne) {
      return feature + " is beneath 2^-14 of its largest value in " + in_rows(small[f]) +
             " (one of 256 at most): sums that are kept would show what they were rounded by";
    }
  }
  return {};
}

} // namespace clusterbench::cuda
