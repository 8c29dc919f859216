// How large the data is, which decides the units of sums in integers. Float only.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

namespace clusterbench::cuda {

/// Of rows, [., d]: the length of the longest, and the largest magnitude of every feature.
struct Magnitudes {
  double longest = 0.0;
  std::vector<double> largest;

  static Magnitudes of(std::span<const float> rows, std::size_t d) {
    Magnitudes found{0.0, std::vector<double>(d)};
    for (std::size_t i = 0; i < rows.size(); i += d) {
      double squared = 0.0;
      for (std::size_t f = 0; f < d; ++f) {
        const double value = std::abs(static_cast<double>(rows[i + f]));
        squared += value * value;
        found.largest[f] = std::max(found.largest[f], value);
      }
      found.longest = std::max(found.longest, squared);
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

} // namespace clusterbench::cuda
