// What a row loses where only the first of its two float16 parts is read, and what scores made of
// that part still prove; and which centroids they leave. Plain C++ without CUDA, which a test on
// the host attacks.
//
// Let y be the rounded row, e no less than |x - y|, and a the centroid nearest to y. If b is the
// nearest to x, then |y - b| <= |x - b| + e <= |x - a| + e <= |y - a| + 2 e; so its score,
// |b|^2 / 2 - y.b, exceeds that of a by no more than
// ((|y - a| + 2 e)^2 - |y - a|^2) / 2 = 2 e (|y - a| + e).
#pragma once

#include "impls/cuda/support/certified_bound.hpp"

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace clusterbench::cuda {

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
struct NearOnes {
  std::uint32_t even; ///< of lane 0, and of lane 2 in the upper half
  std::uint32_t odd;  ///< of lanes 1 and 3

  CLUSTERBENCH_HOST_DEVICE static NearOnes only(unsigned j) {
    const std::uint32_t one = 1u << (j / 4 % 2 * 16 + j % 2 * 8 + j / 8);
    return j / 2 % 2 == 0 ? NearOnes{one, 0} : NearOnes{0, one};
  }
  CLUSTERBENCH_HOST_DEVICE bool operator==(const NearOnes& other) const {
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
