// Whether sums may be kept while rows come and go, and which of them must be made anew. Plain C++
// without CUDA.
//
// Sums that products have made are rounded. A row that leaves one takes exactly its value with it,
// and leaves behind what adding it up has been rounded by. That shows where the rows that stay have
// next to nothing in that feature, and most where they have nothing at all: a mean of zero leaves
// no room for rounding. Sums of words (moved_sums.cuh) are exact, but for what lies beneath both
// words of a value.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace clusterbench::cuda {

inline constexpr float kSmallValue = 0x1p-14f; ///< of the feature's largest value

/// How many rows have in a feature a value that is zero, or beneath kSmallValue and not zero.
struct ValueCounts {
  std::uint32_t zero, small;
};

/// Why sums of n rows, less than 2^32, are not kept; empty if they may be. Zeros do not count: see
/// most_zeros(). counts: [d]
inline std::string refuse_to_keep(std::span<const ValueCounts> counts, std::size_t n) {
  constexpr std::size_t kRowsForOne = 256; // one such row of so many is taken
  for (std::size_t f = 0; f < counts.size(); ++f) {
    if (counts[f].small > n / kRowsForOne) {
      return "feature " + std::to_string(f) + " is beneath 2^-14 of its largest value in " +
             std::to_string(counts[f].small) + " of " + std::to_string(n) +
             " rows (one of 256 at most, zeros aside): sums that are kept would show what they were"
             " rounded by";
    }
  }
  return {};
}

/// Zeros of the feature that is zero most often, but not in all of n rows: sums of nothing are not
/// rounded.
///
/// Of a cluster, less than a fourth of the rows may have anything in some feature only if the
/// cluster has less than 4/3 of so many rows, and if less than a fourth of its rows have no zeros
/// at all.
inline std::size_t most_zeros(std::span<const ValueCounts> counts, std::size_t n) {
  std::size_t most = 0;
  for (const ValueCounts& count : counts) {
    most = count.zero < n ? std::max<std::size_t>(most, count.zero) : most;
  }
  return most;
}

} // namespace clusterbench::cuda
