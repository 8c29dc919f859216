// Whether rows can be split into two float16 parts of one scale without losing digits, and the scale.
// Plain C++ without CUDA.
#pragma once

#include "impls/cuda/support/certified_bound.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <span>
#include <string>
#include <vector>

namespace clusterbench::cuda {

/// A power of two that takes |largest| to between 2^14 and 2^15; 1 for 0. Both it and its inverse are
/// normal numbers.
CLUSTERBENCH_HOST_DEVICE inline float split_scale(float largest) {
  if (!(largest > 0.0f)) {
    return 1.0f;
  }
  const int exponent = 14 - ilogbf(largest);
  return ldexpf(1.0f, exponent < -126 ? -126 : exponent > 126 ? 126 : exponent);
}

/// The sizes that decide whether one scale serves all values of [n, d] rows.
class SplitRange {
public:
  SplitRange() = default;
  SplitRange(std::span<const float> rows, std::size_t n, std::size_t d) : largest_of_(d, 0.0f) {
    float shortest = INFINITY; // squared, of the rows that are not zero
    for (std::size_t i = 0; i < n; ++i) {
      float squared = 0.0f;
      for (std::size_t f = 0; f < d; ++f) {
        const float x = rows[i * d + f];
        finite_ = finite_ && std::isfinite(x);
        largest_of_[f] = std::max(largest_of_[f], std::abs(x));
        squared += x * x;
      }
      shortest = squared > 0.0f ? std::min(shortest, squared) : shortest;
      longest_ = std::max(longest_, squared);
    }
    for (const float value : largest_of_) {
      largest_ = std::max(largest_, value);
      smallest_feature_ = value > 0.0f ? std::min(smallest_feature_, value) : smallest_feature_;
    }
    shortest_ = std::sqrt(shortest);
    longest_ = 1.001f * std::sqrt(longest_); // sums of squares in float are rounded
  }
  /// The scale has to suit these, too, [k, d].
  void include(std::span<const float> centroids) {
    for (const float c : centroids) {
      finite_ = finite_ && std::isfinite(c);
      largest_ = std::max(largest_, std::abs(c));
    }
  }
  float scale() const { return split_scale(largest_); }
  /// The largest magnitude of every feature of the rows, [d].
  const std::vector<float>& largest() const { return largest_of_; }
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

  std::vector<float> largest_of_; // of a feature of the rows
  bool finite_ = true;
  float largest_ = 0.0f, shortest_ = 0.0f, longest_ = 0.0f, smallest_feature_ = INFINITY;
};

} // namespace clusterbench::cuda
