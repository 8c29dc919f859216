// x^exponent of a whole register, for memberships and weights of fuzzy c-means: 0 <= x <= 1 and an
// exponent above 0. pow() of the C library takes one value at a time, and a pass of many centres is
// nothing but powers.
//
// x^e = 2^(e log2 x), in double for floats, too. So a power of floats is as good as its argument. A
// power p of doubles is off by up to about |log2 p| units in the last place, which is little beside
// what the exponent makes of the rounding of x.
#pragma once

#include "impls/simd/support/vector.hpp"

#include <cstdint>

namespace clusterbench::simd {

/// The register's bytes as doubles, and as their bits.
template <class V>
struct WideOf {
  static constexpr std::size_t bytes = sizeof(typename V::Reg);
  static constexpr bool for_floats = sizeof(typename V::Scalar) == sizeof(float);
  typedef double Values __attribute__((vector_size(bytes)));
  typedef std::int64_t Bits __attribute__((vector_size(bytes)));
  typedef std::uint64_t Unsigned __attribute__((vector_size(bytes)));
};

/// Added to a double below 2^51 it leaves that rounded to an integer, in the last bits.
inline constexpr double kRounder = 0x1.8p52;

/// log2 of positive numbers that are not subnormal. x = 2^e m with m near 1, and
/// ln m = 2 atanh(s) with s = (m - 1) / (m + 1), |s| < 0.172: as many terms of its series as the
/// power's digits need.
template <class V>
[[gnu::always_inline]] inline typename WideOf<V>::Values log2_of(typename WideOf<V>::Values x) {
  using Values = typename WideOf<V>::Values;
  using Unsigned = typename WideOf<V>::Unsigned;
  constexpr std::uint64_t kOne = 0x3ff0000000000000, kRootHalf = 0x3fe6a09e667f3bcd;
  const Unsigned bits = reinterpret_cast<Unsigned>(x);
  const Unsigned above = (bits + (kOne - kRootHalf)) >> 52; // e and its bias
  const Values m = reinterpret_cast<Values>(bits - (above << 52) + kOne);
  constexpr auto kRounderBits = std::uint64_t{0x4338000000000000};
  const Values e = reinterpret_cast<Values>(above + kRounderBits) - (kRounder + 1023.0);
  const Values s = (m - 1.0) / (m + 1.0);
  const Values square = s * s;
  constexpr int kLast = WideOf<V>::for_floats ? 11 : 21;
  Values series = 1.0 / kLast - Values{};
#pragma GCC unroll 16
  for (int odd = kLast - 2; odd > 0; odd -= 2) {
    series = series * square + 1.0 / odd;
  }
  constexpr double kTwoOverLn2 = 2.8853900817779268;
  return e + kTwoOverLn2 * s * series;
}

/// 2^y for -1022 <= y <= 0: an integer, and a rest of at most a half.
template <class V>
[[gnu::always_inline]] inline typename WideOf<V>::Values exp2_of(typename WideOf<V>::Values y) {
  using Values = typename WideOf<V>::Values;
  using Bits = typename WideOf<V>::Bits;
  constexpr double kLn2 = 0.69314718055994531;
  const Values shifted = y + kRounder;
  const Values rest = (y - (shifted - kRounder)) * kLn2;
  constexpr double kShares[] = {1.0, // 1 / term! of the series of e^rest
                                1.0,
                                1.0 / 2,
                                1.0 / 6,
                                1.0 / 24,
                                1.0 / 120,
                                1.0 / 720,
                                1.0 / 5040,
                                1.0 / 40320,
                                1.0 / 362880,
                                1.0 / 3628800,
                                1.0 / 39916800,
                                1.0 / 479001600,
                                1.0 / 6227020800};
  constexpr int kLast = WideOf<V>::for_floats ? 8 : 13;
  Values series = kShares[kLast] - Values{};
#pragma GCC unroll 16
  for (int term = kLast - 1; term >= 0; --term) {
    series = series * rest + kShares[term];
  }
  return reinterpret_cast<Values>(reinterpret_cast<Bits>(series) +
                                  (reinterpret_cast<Bits>(shifted) << 52));
}

/// Powers beneath the least normal double are 0.
template <class V>
[[gnu::always_inline]] inline typename WideOf<V>::Values power_of(typename WideOf<V>::Values x,
                                                                  double exponent) {
  using Values = typename WideOf<V>::Values;
  constexpr double kLeast = 0x1p-1022;
  const Values normal = x < kLeast ? kLeast - Values{} : x;
  const Values y = exponent * log2_of<V>(normal);
  const Values power = exp2_of<V>(y < -1022.0 ? -1022.0 - Values{} : y);
  return x < kLeast || y < -1022.0 ? Values{} : power;
}

/// x^exponent; the exponents 1 and 2 of m = 2 need none of it.
template <class V>
[[gnu::always_inline]] inline typename V::Reg power(typename V::Reg x,
                                                    typename V::Scalar exponent) {
  using T = typename V::Scalar;
  if (exponent == 1) {
    return x;
  }
  if (exponent == 2) {
    return x * x;
  }
  if constexpr (sizeof(T) == sizeof(double)) {
    return power_of<V>(x, exponent);
  } else {
    typedef float Half __attribute__((vector_size(sizeof(x) / 2)));
    using Values = typename WideOf<V>::Values;
    Half half[2];
    __builtin_memcpy(half, &x, sizeof x);
#pragma GCC unroll 2
    for (Half& part : half) {
      const Values wide = __builtin_convertvector(part, Values);
      part = __builtin_convertvector(power_of<V>(wide, double{exponent}), Half);
    }
    __builtin_memcpy(&x, half, sizeof x);
    return x;
  }
}

} // namespace clusterbench::simd
