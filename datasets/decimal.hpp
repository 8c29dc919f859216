// Decimal text to the nearest double, quickly: half of a .csv reader's time goes here.
//
// Up to 19 digits fit in 64 bits, and so do the powers of ten up to 10^27 in the 64-bit significand
// of x87's long double. One product or quotient then rounds the exact value to 64 bits, and the
// conversion to double rounds once more. Rounding twice goes wrong only when the first result lies
// exactly between two doubles; that case, and all longer or larger numbers, go to std::from_chars.
// Digits are taken eight at a time. Source: D. Lemire, "Number parsing at a gigabyte per second",
// Software: Practice and Experience 51(8), 2021 (the eight digits).
#pragma once

#include <array>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <limits>

namespace clusterbench::datasets {

/// Parses a decimal number at the beginning of [begin, end), as std::from_chars does, to the same
/// bits. Returns where it ends, or nullptr when there is none or it is out of range.
inline const char* parse_decimal(const char* begin, const char* end, double& value) {
  constexpr int kMostPower = 27; // 5^27 < 2^64 < 5^28
  static constexpr auto kPowers = [] {
    std::array<long double, kMostPower + 1> powers{};
    long double power = 1;
    for (long double& entry : powers) {
      entry = power;
      power *= 10;
    }
    return powers;
  }();

  const char* at = begin;
  const auto is_digit = [&] { return at < end && *at >= '0' && *at <= '9'; };
  std::uint64_t digits = 0; // overflows beyond 19 digits, and is not used then
  const auto take_digits = [&] {
    const char* const first = at;
    std::uint64_t eight = 0;
    for (; end - at >= 8; at += 8) {
      std::memcpy(&eight, at, 8);
      const std::uint64_t low = eight - 0x3030303030303030u; // '0' becomes 0
      if (((low | (eight + 0x4646464646464646u)) & 0x8080808080808080u) != 0)
        break;                       // a byte below '0' or above '9'
      eight = low * 10 + (low >> 8); // neighbours to pairs, and pairs to the sum of all
      eight = ((eight & 0x000000ff000000ffu) * 0x000f424000000064u +
               (eight >> 16 & 0x000000ff000000ffu) * 0x0000271000000001u) >>
              32;
      digits = digits * 100000000 + eight;
    }
    for (; is_digit(); ++at)
      digits = digits * 10 + static_cast<std::uint64_t>(*at - '0');
    return at - first;
  };

  const bool negative = at < end && *at == '-';
  at += negative ? 1 : 0;
  auto count = take_digits();
  std::ptrdiff_t exponent = 0;
  if (at < end && *at == '.') {
    ++at;
    exponent = -take_digits();
    count -= exponent;
  }
  bool simple = count > 0 && count <= 19 && std::numeric_limits<long double>::digits == 64;
  if (at < end && (*at == 'e' || *at == 'E')) {
    ++at;
    const bool minus = at < end && *at == '-';
    at += at < end && (*at == '-' || *at == '+') ? 1 : 0;
    const char* const first = at;
    std::ptrdiff_t given = 0;
    for (; is_digit() && at - first < 4; ++at)
      given = given * 10 + (*at - '0');
    simple = simple && at > first && !is_digit();
    exponent += minus ? -given : given;
  }
  if (simple && exponent >= -kMostPower && exponent <= kMostPower) {
    const auto exact = static_cast<long double>(digits);
    const long double rounded = exponent < 0 ? exact / kPowers[static_cast<std::size_t>(-exponent)]
                                             : exact * kPowers[static_cast<std::size_t>(exponent)];
    std::uint64_t significand = 0;
    std::memcpy(&significand, &rounded, sizeof significand);
    if ((significand & 0x7ff) != 0x400) { // not between two doubles
      const auto result = static_cast<double>(rounded);
      value = negative ? -result : result;
      return at;
    }
  }
  const auto [stop, error] = std::from_chars(begin, end, value);
  return error == std::errc() ? stop : nullptr;
}

} // namespace clusterbench::datasets
