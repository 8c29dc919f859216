// How large data is, which decides the units of sums in integers. Float only; plain C++ without
// CUDA: device_magnitudes.cuh measures rows in device memory.
#pragma once

#include "impls/cuda/support/certified_bound.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

namespace clusterbench::cuda {

/// Of rows. What is no number is left out of all but `finite`.
struct Magnitudes {
  bool finite = true;                                        ///< all values
  double longest = 0.0;                                      ///< length of the longest row
  double shortest = std::numeric_limits<double>::infinity(); ///< of those that are not zero
  std::vector<float> largest;                                ///< magnitude of every feature

  /// The power of two that makes a feature's values less than 2^bits. Tiny features get no more
  /// than 2^(100 + bits), which is finite; what they lose lies beneath, and is kept.
  float to_word(std::size_t f, int bits) const {
    const bool zero = f >= largest.size() || largest[f] == 0.0f;
    return std::ldexp(1.0f, bits - std::max(zero ? 0 : std::ilogb(largest[f]) + 1, -100));
  }
};

/// The length of the longest of [., d] rows on the host, which should be few.
inline double longest_row(std::span<const float> rows, std::size_t d) {
  double longest = 0.0; // squared
  for (std::size_t i = 0; i < rows.size(); i += d) {
    double squared = 0.0;
    for (const float x : rows.subspan(i, d)) {
      squared += static_cast<double>(x) * static_cast<double>(x);
    }
    longest = std::max(longest, squared); // leaves out what is no number
  }
  return std::sqrt(longest);
}

/// Bits of a word such that those of so many rows fit an int.
constexpr int moved_bits(std::size_t rows) {
  return std::min(20, 31 - static_cast<int>(std::bit_width(rows)));
}

/// Magnitudes::to_word() of every feature, as a kernel takes it.
template <std::size_t kMost>
struct ToWords {
  float factor[kMost];

  /// scale: what the kernel's values have been multiplied by, a power of two.
  static ToWords of(const Magnitudes& rows, int bits, float scale = 1.0f) {
    ToWords words{};
    for (std::size_t f = 0; f < kMost; ++f) {
      words.factor[f] = rows.to_word(f, bits) / scale;
    }
    return words;
  }
};

/// Powers of two that take the sums of a block's rows to less than 2^45, or hardly more if they are
/// rounded.
template <unsigned kMost>
struct SumUnits {
  double features[kMost];
  double counts;        ///< of rows, or of labels that change
  double longest, rows; ///< length of the longest row; rows of a block, at most

  static SumUnits of(const Magnitudes& of_rows, std::size_t rows_of_block) {
    const double rows = static_cast<double>(rows_of_block);
    SumUnits units{{}, unit(rows), of_rows.longest, rows};
    for (std::size_t f = 0; f < kMost; ++f) {
      const float largest = f < of_rows.largest.size() ? of_rows.largest[f] : 0.0f;
      units.features[f] = unit(rows * static_cast<double>(largest));
    }
    return units;
  }
  /// Of distances, in float, to the centroids of a run. longest_of_start: length of a centroid.
  /// Means are no longer than the longest row.
  CLUSTERBENCH_HOST_DEVICE double distances(double longest_of_start) const {
    constexpr double kLongest = 0x1p64; // more than the root of a float
    return unit(rows * fmin(1.001 * (longest + fmax(longest, longest_of_start)), kLongest));
  }

private:
  CLUSTERBENCH_HOST_DEVICE static double unit(double largest_sum) {
    return largest_sum > 0.0 ? ldexp(1.0, 44 - ilogb(largest_sum)) : 1.0;
  }
};

} // namespace clusterbench::cuda
