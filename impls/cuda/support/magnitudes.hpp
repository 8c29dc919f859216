// How large the data is, which decides the units of sums in integers. Float only; plain C++ without CUDA: rows in
// device memory are for device_magnitudes.cuh.
#pragma once

#include "impls/cuda/support/certified_bound.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

namespace clusterbench::cuda {

/// By four sums side by side, none of which waits for the one before.
/// Squares of floats are exact in double: whether they are added by fused operations makes no difference.
CLUSTERBENCH_HOST_DEVICE inline double squared_length(const float* row, std::size_t d) {
  double sums[4] = {};
  const auto square = [&](std::size_t f) {
    return static_cast<double>(row[f]) * static_cast<double>(row[f]);
  };
  const std::size_t whole = d / 4 * 4;
  for (std::size_t f = 0; f < whole; f += 4) {
    for (std::size_t t = 0; t < 4; ++t) {
      sums[t] += square(f + t);
    }
  }
  for (std::size_t f = whole; f < d; ++f) {
    sums[0] += square(f);
  }
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}
inline double squared_length(std::span<const float> row) {
  return squared_length(row.data(), row.size());
}

/// Of rows, [., d]: the length of the longest, and the largest magnitude of every feature.
struct Magnitudes {
  double longest = 0.0;
  std::vector<double> largest;

  static Magnitudes of(std::span<const float> rows, std::size_t d) {
    Magnitudes found{0.0, std::vector<double>(d)};
    for (std::size_t i = 0; i < rows.size(); i += d) {
      for (std::size_t f = 0; f < d; ++f) {
        const double value = std::abs(static_cast<double>(rows[i + f]));
        found.largest[f] = std::max(found.largest[f], value);
      }
      found.longest = std::max(found.longest, squared_length(rows.subspan(i, d)));
    }
    found.longest = std::sqrt(found.longest);
    return found;
  }

  /// The power of two that makes a feature's values less than 2^bits. Tiny features get no more than
  /// 2^(100 + bits), which is finite; what they lose lies beneath, and is kept.
  float to_word(std::size_t f, int bits) const {
    const bool zero = f >= largest.size() || largest[f] == 0.0;
    return std::ldexp(1.0f, bits - std::max(zero ? 0 : std::ilogb(largest[f]) + 1, -100));
  }
};

/// Bits of a word such that those of so many rows fit an int.
constexpr int moved_bits(std::size_t rows) {
  return std::min(20, 31 - static_cast<int>(std::bit_width(rows)));
}

/// Magnitudes::to_word() of every feature, as a kernel takes it.
template <std::size_t kMost>
struct ToWords {
  float factor[kMost];

  /// largest: the magnitude of every feature, of kMost at most. scale: what the kernel's values have been multiplied by,
  /// a power of two.
  static ToWords of_largest(std::span<const float> largest, int bits, float scale) {
    return of(Magnitudes{0.0, {largest.begin(), largest.end()}}, bits, scale);
  }
  static ToWords of(const Magnitudes& rows, int bits, float scale = 1.0f) {
    ToWords words{};
    for (std::size_t f = 0; f < kMost; ++f) {
      words.factor[f] = rows.to_word(f, bits) / scale;
    }
    return words;
  }
};

/// Powers of two that take a block's sums to less than 2^45, or hardly more if they are rounded.
template <unsigned kMost>
struct SumUnits {
  double features[kMost], counts;
  double fact; ///< how many labels change, or, by the rule `loss`, a sum of distances in float

  /// Of rows, no more than so many of a block, and the start, which matters only if `of_distances`. Means are no
  /// longer than the longest row.
  static SumUnits of(const Magnitudes& rows, const Magnitudes& initial, std::size_t rows_of_block,
                     bool of_distances) {
    constexpr double kLongest = 0x1p64; // more than the root of a float
    const double reach = 1.001 * (rows.longest + std::max(rows.longest, initial.longest));
    const auto unit = [=](double largest) {
      const double most = largest * static_cast<double>(rows_of_block);
      return most > 0.0 ? std::ldexp(1.0, 44 - std::ilogb(most)) : 1.0;
    };
    SumUnits units{{}, unit(1.0), unit(of_distances ? std::min(reach, kLongest) : 1.0)};
    for (std::size_t f = 0; f < kMost; ++f) {
      units.features[f] = unit(f < rows.largest.size() ? rows.largest[f] : 0.0);
    }
    return units;
  }
};

} // namespace clusterbench::cuda
