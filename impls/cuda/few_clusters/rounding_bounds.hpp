// How far rounding can move the products of this family, and for which data that is little enough.
// Plain C++ without CUDA.
#pragma once

#include "impls/cuda/common/certified_bound.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <span>
#include <string>

namespace clusterbench::cuda {

// ---- ranges of incremental runs
//
// Whether sums may be kept while rows come and go, and which of them must be made anew. Plain C++
// without CUDA.
//
// Sums that products have made are rounded. A row that leaves one takes exactly its value with it,
// and leaves behind what adding it up has been rounded by. That shows where the rows that stay have
// next to nothing in that feature, and most where they have nothing at all: a mean of zero leaves
// no room for rounding. Sums of words (incremental_state.cuh) are exact, but for what lies beneath
// both words of a value.

inline constexpr float kSmallValue = 0x1p-14f; ///< of the feature's largest value

/// How many rows have in a feature a value that is zero, or beneath kSmallValue and not zero.
struct ValueCounts {
  std::uint32_t zero, small;
};

/// Why sums of n rows, less than 2^32, are not kept; empty if they may be. Zeros do not count: see
/// most_zeros(). counts: [d]
inline std::string refuse_incremental(std::span<const ValueCounts> counts, std::size_t n) {
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

// ---- ranges of split rows
//
// Whether rows can be split into two float16 parts of one scale without losing digits, and the
// scale. Plain C++ without CUDA.

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
  /// Of rows: whether all values are finite; the length of the shortest that is not zero and of the
  /// longest; the magnitude of every feature.
  SplitRange(bool finite, double shortest, double longest, std::span<const float> largest)
      : finite_(finite), shortest_(static_cast<float>(shortest)),
        longest_(1.001f * static_cast<float>(longest)) { // which is rounded
    for (const float value : largest) {
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

// ---- bounds of rounded rows
//
// What a row loses where only the first of its two float16 parts is read, and what scores made of
// that part still prove; and which centroids they leave. Plain C++ without CUDA, which a test on
// the host attacks.
//
// Let y be the rounded row, e no less than |x - y|, and a the centroid nearest to y. If b is the
// nearest to x, then |y - b| <= |x - b| + e <= |x - a| + e <= |y - a| + 2 e; so its score,
// |b|^2 / 2 - y.b, exceeds that of a by no more than
// ((|y - a| + 2 e)^2 - |y - a|^2) / 2 = 2 e (|y - a| + e).

/// Of a row, times the scale of its parts, in the two halves of a word: |y|^2 and e, each the upper
/// bits of a float that is no less.
struct RoundedRow {
  std::uint32_t word = 0;

  CLUSTERBENCH_HOST_DEVICE static RoundedRow of(float squared, float lost) {
    return {upper_bits(squared) | upper_bits(lost) >> 16};
  }
  /// No less than e.
  CLUSTERBENCH_HOST_DEVICE float lost() const { return as_float(word << 16); }
  /// By how much a score may exceed the least one of the row and belong to the nearest centroid all
  /// the same. certain: twice the error of a score.
  CLUSTERBENCH_HOST_DEVICE float slack(float least, float certain) const {
    const float squared = as_float(word & 0xffff0000);
    const float away = root(fmaxf(squared + 2.0f * least, 0.0f) + certain); // no less than |y - a|
    return certain + 2.001f * lost() * (away + lost());
  }

private:
  /// Of a float that is a thousandth more, for what the value was computed in, or no less than
  /// that.
  CLUSTERBENCH_HOST_DEVICE static std::uint32_t upper_bits(float value) {
    const float more = 1.001f * value;
    std::uint32_t bits = 0;
    memcpy(&bits, &more, sizeof bits);
    return (bits + 0xffff) & 0xffff0000;
  }
  CLUSTERBENCH_HOST_DEVICE static float as_float(std::uint32_t bits) {
    float value = 0.0f;
    memcpy(&value, &bits, sizeof value);
    return value;
  }
  CLUSTERBENCH_HOST_DEVICE static float root(float value) {
#ifdef __CUDA_ARCH__
    // Off by a few units in the last place, where slack() allows a thousandth, or by what is too
    // small to be normal.
    asm("sqrt.approx.ftz.f32 %0, %0;" : "+f"(value));
    return value;
#else
    return sqrtf(value);
#endif
  }
};

/// A power of two that takes scores |c|^2 / 2 - y.c to what float16 holds, and back. A constant
/// ("shift") is added to them, of any size up to half the square of a centroid of this or an
/// earlier pass: it brings them near zero, where float16 loses least.
struct HalfUnit {
  float to = 1.0f, from = 1.0f;

  /// All scores are less than 2^15 then. Means are no longer than the longest row, nor are empty
  /// clusters than the centroids of the start.
  static HalfUnit of(float longest_row, float longest_of_start) {
    const float c = fmaxf(longest_row, longest_of_start), largest = c * (c + longest_row);
    const int exponent = largest > 0.0f ? 14 - ilogbf(largest) : 0;
    return {ldexpf(1.0f, exponent), ldexpf(1.0f, -exponent)};
  }
  /// Scores that round to no more than this one, rounded, may belong to the nearest centroid.
  /// least: the least score, rounded; slack(least): by how much a score may exceed it, both in
  /// their own unit and without the shift. Never less than the float16 next to the least one.
  template <typename Slack>
  CLUSTERBENCH_HOST_DEVICE float limit(float least, float shift, Slack slack) const {
    const float before = before_rounding(least);
    return before + slack(before * from - shift) * to;
  }
  /// No less than any score that rounds to this float16.
  CLUSTERBENCH_HOST_DEVICE static float before_rounding(float rounded) {
    std::uint32_t bits = 0;
    memcpy(&bits, &rounded, sizeof bits);
    bits &= 0x7f800000; // the power of two beneath it, of which half a step is 2^-11
    float power = 0.0f;
    memcpy(&power, &bits, sizeof power);
    return rounded + (0x1.002p-11f * power + 0x1p-25f);
  }
  /// The error of such a score, of d features, from tensor cores, see split_error_small_first():
  /// the row is in one part and exact; the centroid, in two, is off by 2^-22 of it or half of
  /// float16's smallest step. What is added to -y.c is in two parts, too, and its 16 products come
  /// last. Of lengths: of the longest row, and of the longest centroid or, if that is more,
  /// length_of(shift). (Half a smallest step of what is added is less than the same of a centroid
  /// times the longest row, which SplitRange keeps above 4.)
  PlainError error(std::size_t d) const {
    const double products = static_cast<double>((d + 15) / 16 * 16) + 2.0 * 16.0;
    const double cut = kCutPerProduct * products * (1.0 + 0x1p-9 + 0x1p-10);
    const double smallest = 0x1p-25 * static_cast<double>(from);
    return {static_cast<float>(1.01 * (0x1p-20 + 0x1p-20 + cut)),
            static_cast<float>(1.01 * smallest * std::sqrt(static_cast<double>(d)))};
  }
  /// Of a centroid that has this half square, or a little more.
  CLUSTERBENCH_HOST_DEVICE static float length_of(float half_square) {
    return 1.001f * sqrtf(2.0f * half_square);
  }
};

/// Which of up to 64 centroids may be nearest to a row, a bit each. Of four lanes, lane t knows of
/// numbers 8 i + 2 t + b, b < 2, as products lie in registers: its bits 8 b + i of 16.
struct CandidateSet {
  std::uint32_t even; ///< of lane 0, and of lane 2 in the upper half
  std::uint32_t odd;  ///< of lanes 1 and 3

  CLUSTERBENCH_HOST_DEVICE static CandidateSet only(unsigned j) {
    const std::uint32_t one = 1u << (j / 4 % 2 * 16 + j % 2 * 8 + j / 8);
    return j / 2 % 2 == 0 ? CandidateSet{one, 0} : CandidateSet{0, one};
  }
  CLUSTERBENCH_HOST_DEVICE bool operator==(const CandidateSet& other) const {
    return even == other.even && odd == other.odd;
  }
  CLUSTERBENCH_HOST_DEVICE bool empty() const { return (even | odd) == 0; }
  /// Takes one away, and says which. There must be one.
  CLUSTERBENCH_HOST_DEVICE unsigned take() {
    const bool of_even = even != 0;
    const std::uint32_t word = of_even ? even : odd, rest = word & (word - 1);
    even = of_even ? rest : even;
    odd = of_even ? odd : rest;
    const unsigned bit = lowest(word);
    return bit % 8 * 8 + bit / 16 * 4 + (of_even ? 0 : 2) + bit / 8 % 2;
  }

private:
  CLUSTERBENCH_HOST_DEVICE static unsigned lowest(std::uint32_t word) {
#ifdef __CUDA_ARCH__
    return static_cast<unsigned>(__ffs(static_cast<int>(word))) - 1;
#else
    return static_cast<unsigned>(std::countr_zero(word));
#endif
  }
};

} // namespace clusterbench::cuda
