// What a row loses where only the first of its two float16 parts is read, and what scores made of that part
// still prove; and which centroids they leave. Plain C++ without CUDA, which a test on the host attacks.
//
// Let y be the rounded row, e no less than |x - y|, and a the centroid nearest to y. If b is the nearest to x,
// then |y - b| <= |x - b| + e <= |x - a| + e <= |y - a| + 2 e; so its score |b|^2 / 2 - y.b exceeds that of a
// by no more than ((|y - a| + 2 e)^2 - |y - a|^2) / 2 = 2 e (|y - a| + e).
#pragma once

#include "impls/cuda/support/certified_bound.hpp"

#include <cmath>
#include <cstdint>
#include <cstring>

namespace clusterbench::cuda {

/// Of a row, times the scale of its parts, in the two halves of a word: |y|^2 and e, each the upper bits of a
/// float that is no less.
struct RoundedRow {
  std::uint32_t word = 0;

  CLUSTERBENCH_HOST_DEVICE static RoundedRow of(float squared, float lost) {
    return {upper_bits(squared) | upper_bits(lost) >> 16};
  }
  /// No less than e.
  CLUSTERBENCH_HOST_DEVICE float lost() const { return as_float(word << 16); }
  /// By how much a score may exceed the least one of the row and belong to the nearest centroid all the same.
  /// certain: twice the error of a score.
  CLUSTERBENCH_HOST_DEVICE float slack(float least, float certain) const {
    const float squared = as_float(word & 0xffff0000);
    const float away = root(fmaxf(squared + 2.0f * least, 0.0f) + certain); // no less than |y - a|
    return certain + 2.001f * lost() * (away + lost());
  }

private:
  /// Of a float that is a thousandth more, for what the value was computed in, or no less than that.
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
    asm("sqrt.approx.f32 %0, %0;"
        : "+f"(value)); // a few units in the last place: slack() allows a thousandth
    return value;
#else
    return sqrtf(value);
#endif
  }
};

/// Which centroids may be nearest to a row, if they are one or two: sums that are made without knowing how many
/// there are.
class NearOnes {
public:
  /// What a centroid of number j < 64 adds.
  CLUSTERBENCH_HOST_DEVICE static constexpr std::uint32_t one(unsigned j) {
    return 1u << 21 | j << 14 | j * j;
  }
  /// The sum for numbers that are each 2 t more, t < 4.
  CLUSTERBENCH_HOST_DEVICE static std::uint32_t shifted(std::uint32_t sum, unsigned t) {
    const unsigned count = sum >> 21, numbers = sum >> 14 & 127;
    return sum + (2 * t * count << 14) + 4 * t * (numbers + t * count);
  }

  CLUSTERBENCH_HOST_DEVICE explicit NearOnes(std::uint32_t sum) : sum_(sum) {}
  /// 3 or more if they are neither one nor two.
  CLUSTERBENCH_HOST_DEVICE unsigned count() const { return sum_ >> 21; }
  /// The number of one, or both numbers of two added up.
  CLUSTERBENCH_HOST_DEVICE unsigned numbers() const { return sum_ >> 14 & 127; }
  /// Of two, the larger number less the smaller one.
  CLUSTERBENCH_HOST_DEVICE unsigned apart() const {
    const unsigned squares = sum_ & 0x3fff;
    return static_cast<unsigned>(sqrtf(static_cast<float>(2 * squares - numbers() * numbers())) +
                                 0.5f);
  }

private:
  std::uint32_t sum_; // their count, the sum of their numbers and that of the squares of these
};

} // namespace clusterbench::cuda
