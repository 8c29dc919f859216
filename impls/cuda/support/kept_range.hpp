// Whether sums may be kept while rows come and go, and which of them must be made anew. Plain C++ without CUDA.
//
// Sums that products have made are rounded. A row that leaves one takes exactly its value with it, and leaves behind
// what adding it up has been rounded by. That shows where the rows that stay have next to nothing in that feature, and
// most where they have nothing at all: a mean of zero leaves no room for rounding. Sums of words (moved_sums.cuh) are
// exact, but for what lies beneath both words of a value.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace clusterbench::cuda {

/// Why sums of [n, d] rows, less than 2^32, are not kept; empty if they may be. Zeros do not count: see Zeros.
/// largest: [d] magnitudes of the features.
inline std::string refuse_to_keep(std::span<const float> rows, std::size_t d,
                                  std::span<const float> largest) {
  constexpr float kSmall = 0x1p-14f;       // of the feature's largest value
  constexpr std::size_t kRowsForOne = 256; // one such row of so many is taken
  const std::size_t n = rows.size() / d;
  // Counts no wider than a float, and no branches: so compilers make vectors of it.
  std::vector<std::uint32_t> small(d, 0);
  std::vector<float> limits(d);
  std::ranges::transform(largest, limits.begin(), [=](float of) { return kSmall * of; });
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t f = 0; f < d; ++f) {
      const float size = std::abs(rows[i * d + f]);
      small[f] +=
          static_cast<std::uint32_t>(size > 0.0f) & static_cast<std::uint32_t>(size < limits[f]);
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

/// The zeros of [n, d] rows, less than 2^32, but for features that are zero in all of them: sums of nothing are not rounded.
///
/// Of a cluster, less than a fourth of the rows may have anything in some feature only if the cluster has less than
/// 4/3 of `most` rows, and if less than a fourth of its rows have no zeros at all.
struct Zeros {
  std::size_t most = 0;            ///< rows, of the feature that is zero most often
  std::vector<std::uint8_t> there; ///< [n] 1 for a row with zeros

  static Zeros of(std::span<const float> rows, std::size_t d) {
    const std::size_t n = rows.size() / d;
    std::vector<std::uint32_t> counts(d, 0), of_rows(n, 0);
    for (std::size_t i = 0; i < n; ++i) {
      std::uint32_t of_row = 0;
      for (std::size_t f = 0; f < d; ++f) {
        const auto zero = static_cast<std::uint32_t>(rows[i * d + f] == 0.0f);
        counts[f] += zero;
        of_row += zero;
      }
      of_rows[i] = of_row;
    }
    Zeros zeros;
    for (const std::size_t count : counts) {
      zeros.most = count < n ? std::max(zeros.most, count) : zeros.most;
    }
    const auto nothing = static_cast<std::size_t>(std::ranges::count(counts, n)); // features
    zeros.there.resize(n);
    std::ranges::transform(of_rows, zeros.there.begin(), [=](std::uint32_t of_row) {
      return static_cast<std::uint8_t>(of_row > nothing);
    });
    return zeros;
  }
};

} // namespace clusterbench::cuda
