// Whether rows can be split into two float16 parts of one scale without losing digits, and the
// scale. Plain C++ without CUDA.
#pragma once

#include "impls/cuda/support/certified_bound.hpp"
#include "impls/cuda/support/magnitudes.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <span>
#include <string>

namespace clusterbench::cuda {

/// A power of two that takes |largest| to between 2^14 and 2^15; 1 for 0. Both it and its inverse
/// are normal numbers.
CLUSTERBENCH_HOST_DEVICE inline float split_scale(float largest) {
  if (!(largest > 0.0f)) {
    return 1.0f;
  }
  const int exponent = 14 - ilogbf(largest);
  return ldexpf(1.0f, exponent < -126 ? -126 : exponent > 126 ? 126 : exponent);
}

/// The sizes that decide whether one scale serves all values of some rows.
class SplitRange {
public:
  SplitRange() = default;
  explicit SplitRange(const Magnitudes& rows)
      : finite_(rows.finite), shortest_(static_cast<float>(rows.shortest)),
        longest_(1.001f * static_cast<float>(rows.longest)) { // which is rounded
    for (const float value : rows.largest) {
      largest_ = std::max(largest_, value);
      smallest_feature_ = value > 0.0f ? std::min(smallest_feature_, value) : smallest_feature_;
    }
  }
  /// The scale has to suit these, too, [k, d].
  void include(std::span<const float> centroids) {
    for (const float c : centroids) {
      finite_ = finite_ && std::isfinite(c);
      largest_ = std::max(largest_, std::abs(c));
    }
  }
  float scale() const { return split_scale(largest_); }
  /// No less than the length of the longest row.
  float longest() const { return longest_; }
  /// Why float16 parts would lose digits of some row or feature; empty if they do not.
  std::string refuse() const {
    constexpr float kShortestRow = 0x1p-12f, kSmallestFeature = 0x1p-16f;
    // Squares must not overflow, nor may the inverse of two scales underflow.
    constexpr float kLargest = 0x1p58f, kSmallest = 0x1p-48f;
    if (!finite_) {
      return "values that are not finite";
    }
    if (largest_ > kLargest || (largest_ > 0.0f && largest_ < kSmallest)) {
      return "the largest value is " + in_words(largest_) +
             "; float16 parts and their squares want it between " + in_words(kSmallest) + " and " +
             in_words(kLargest);
    }
    if (shortest_ < kShortestRow * largest_ || smallest_feature_ < kSmallestFeature * largest_) {
      return "values too far apart for float16 parts of one scale: the largest is " +
             in_words(largest_) + ", the shortest row " + in_words(shortest_) +
             " (2^-12 of it at least), the largest of the smallest feature " +
             in_words(smallest_feature_) + " (2^-16)";
    }
    return {};
  }

private:
  static std::string in_words(float value) {
    char text[32];
    std::snprintf(text, sizeof text, "%.3g", static_cast<double>(value));
    return text;
  }

  bool finite_ = true;
  float largest_ = 0.0f, shortest_ = 0.0f, longest_ = 0.0f, smallest_feature_ = INFINITY;
};

} // namespace clusterbench::cuda
