// Exact sums of clusters: values become integers in two words, so additions have no order, and a
// point that moves is taken out again without a trace. The same bits in every run; only movers are
// touched.
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <cstddef>
#include <type_traits>

namespace clusterbench::cuda {

/// value = high * 2^-high_bits + low * 2^-(high_bits + low_bits). A value that has bits beneath the
/// high word, because it is 2^18 times smaller than the largest of a million points, uses both.
struct FixedPoint {
  double to_high, to_low; ///< powers of two

  /// For sums of n values of magnitude up to `largest`.
  static FixedPoint of(std::size_t n, double largest) {
    const int growth = std::ilogb(static_cast<double>(n)) + 1;
    const int exponent = largest > 0.0 ? std::ilogb(largest) + 1 : 0;
    return {std::ldexp(1.0, 62 - growth - exponent), std::ldexp(1.0, 62 - growth)};
  }
};

/// The same for floats, which it takes to the same words in fewer instructions. Two factors make
/// to_high, which a float may not hold.
struct FloatPoint {
  float to_high[2], to_low;
  __device__ explicit FloatPoint(const FixedPoint& point)
      : to_low(static_cast<float>(point.to_low)) {
    const int exponent = (__double2hiint(point.to_high) >> 20) - 1023, half = exponent / 2;
    to_high[0] = __int_as_float((half + 127) << 23);
    to_high[1] = __int_as_float((exponent - half + 127) << 23);
  }
};

/// How values of type T become words.
template <typename T>
using PointOf = std::conditional_t<std::is_same_v<T, float>, FloatPoint, FixedPoint>;

struct SumsView {
  FixedPoint point;
  long long* high;     ///< [copies, k, d]
  long long* low;      ///< [copies, k, d]
  unsigned* counts;    ///< [copies, k]
  unsigned copies = 1; ///< that add up to the sums: additions to one cluster meet less often
};

/// A value as the two words, which are exact but for bits beneath the second.
struct FixedWords {
  long long high = 0, low = 0;

  __device__ static FixedWords of(double value, const FixedPoint& point) {
    const double scaled = value * point.to_high;
    FixedWords words{__double2ll_rn(scaled), 0};
    const double rest = scaled - static_cast<double>(words.high);
    if (rest != 0.0) { // rare: a value far smaller than the largest
      words.low = __double2ll_rn(rest * point.to_low);
    }
    return words;
  }
  __device__ static FixedWords of(float value, const FloatPoint& point) {
    const float scaled = value * point.to_high[0] * point.to_high[1];
    const float rest = scaled - rintf(scaled); // exact
    return {__float2ll_rn(scaled), rest != 0.0f ? __float2ll_rn(rest * point.to_low) : 0};
  }
};

__device__ inline void add_word(long long* to, long long value) {
  atomicAdd(reinterpret_cast<unsigned long long*>(to), static_cast<unsigned long long>(value));
}

__device__ inline void add_exactly(const SumsView& sums, std::size_t place,
                                   const FixedWords& words) {
  add_word(sums.high + place, words.high);
  if (words.low != 0) {
    add_word(sums.low + place, words.low);
  }
}

/// *total = the sum of `count` values, always in the same order. One block of 256 threads.
static __global__ void sum_in_order(const double* values, unsigned count, double* total) {
  __shared__ double s_sums[256];
  double sum = 0.0;
  for (unsigned e = threadIdx.x; e < count; e += 256) {
    sum += values[e];
  }
  s_sums[threadIdx.x] = sum;
  for (unsigned half = 128; half > 0; half /= 2) {
    __syncthreads(); // the sums of the last round are there
    if (threadIdx.x < half) {
      s_sums[threadIdx.x] += s_sums[threadIdx.x + half];
    }
  }
  if (threadIdx.x == 0) {
    *total = s_sums[0];
  }
}

} // namespace clusterbench::cuda
