// Words of the stream are a linear recurrence over the field of two elements. With its
// characteristic polynomial p, and t^count mod p = a_0 + a_1 t + ..., word count + j is the sum
// (exclusive or) of those words i + j whose a_i is 1: of the next 19937 words, however far the
// leap.
#include "datasets/mersenne_jump.hpp"

#include <algorithm>
#include <bit>
#include <vector>

namespace clusterbench::datasets::mersenne {
namespace {

constexpr std::size_t kDegree = 19937;
constexpr std::size_t kBits = 64;

/// The exponents of p below kDegree, whose own coefficient is 1. Of M. Matsumoto, T. Nishimura,
/// "Mersenne Twister", ACM TOMACS 8(1), 1998, section 3.4, with w = 32 and r = 31:
///     p = P Q^31 + a_0 P Q^30 + ... + a_30 P + a_31,   P = t^624 + t^397,  Q = t^623 + t^396
std::vector<std::size_t> characteristic_exponents() {
  constexpr std::uint32_t a = 0x9908b0dfu;
  std::vector<bool> coefficients(kDegree + 1);
  const auto add = [&](std::size_t exponent) { coefficients[exponent] = !coefficients[exponent]; };
  for (std::size_t power = 0; power <= 31; ++power) {
    if (power < 31 && (a >> (30 - power) & 1) == 0)
      continue;
    for (std::size_t s = 0; s <= power; ++s)
      if ((s & ~power) == 0) { // the binomial coefficient (power over s) is odd
        const std::size_t q = (kWords - 1) * s + (kShift - 1) * (power - s);
        add(q + kWords);
        add(q + kShift);
      }
  }
  if ((a >> 31 & 1) == 1)
    add(0);
  std::vector<std::size_t> exponents;
  for (std::size_t exponent = 0; exponent < kDegree; ++exponent)
    if (coefficients[exponent])
      exponents.push_back(exponent);
  return exponents;
}

/// A polynomial of a degree below 2 kDegree: bit i is the coefficient of t^i.
class Polynomial {
public:
  static Polynomial one() {
    Polynomial result;
    result.words_[0] = 1;
    return result;
  }

  bool has(std::size_t exponent) const { return words_[exponent / kBits] >> exponent % kBits & 1; }

  /// Needs a degree below kDegree.
  void square() {
    std::array<std::uint64_t, kCount> squared{};
    for (std::size_t i = 0; 2 * i + 1 < kCount; ++i) {
      squared[2 * i] = spread(static_cast<std::uint32_t>(words_[i]));
      squared[2 * i + 1] = spread(static_cast<std::uint32_t>(words_[i] >> 32));
    }
    words_ = squared;
    reduce();
  }

  /// Needs a degree below kDegree.
  void multiply_by_t() {
    for (std::size_t i = kCount; i-- > 0;)
      words_[i] = words_[i] << 1 | (i > 0 ? words_[i - 1] >> (kBits - 1) : 0);
    reduce();
  }

private:
  static constexpr std::size_t kCount = 2 * (kDegree / kBits + 1);

  /// Bit i becomes bit 2 i.
  static std::uint64_t spread(std::uint32_t bits) {
    std::uint64_t x = bits;
    x = (x | x << 16) & 0x0000ffff0000ffffu;
    x = (x | x << 8) & 0x00ff00ff00ff00ffu;
    x = (x | x << 4) & 0x0f0f0f0f0f0f0f0fu;
    x = (x | x << 2) & 0x3333333333333333u;
    return (x | x << 1) & 0x5555555555555555u;
  }

  void add(std::uint64_t bits, std::size_t exponent) {
    const std::size_t word = exponent / kBits, shift = exponent % kBits;
    words_[word] ^= bits << shift;
    if (shift > 0 && word + 1 < kCount)
      words_[word + 1] ^= bits >> (kBits - shift);
  }

  /// Modulo p, kBits coefficients at a time: the next exponent of p is further below its first than
  /// that.
  void reduce() {
    static const std::vector<std::size_t> exponents = characteristic_exponents();
    for (std::size_t chunk = (kDegree + kBits - 1) / kBits; chunk-- > 0;) {
      const std::size_t at = kDegree + chunk * kBits, word = at / kBits, shift = at % kBits;
      if (word >= kCount)
        continue;
      std::uint64_t bits = words_[word] >> shift;
      if (shift > 0 && word + 1 < kCount)
        bits |= words_[word + 1] << (kBits - shift);
      if (bits == 0)
        continue;
      add(bits, at);
      for (const std::size_t exponent : exponents)
        add(bits, exponent + chunk * kBits);
    }
  }

  std::array<std::uint64_t, kCount> words_{};
};

Polynomial power_of_t(std::uint64_t exponent) {
  Polynomial power = Polynomial::one();
  for (auto bit = std::bit_width(exponent); bit-- > 0;) {
    power.square();
    if (exponent >> bit & 1)
      power.multiply_by_t();
  }
  return power;
}

} // namespace

State jumped(const State& state, std::uint64_t count) {
  std::vector<std::uint32_t> words(state.begin(), state.end()); // the next kDegree windows
  words.resize(kDegree + kWords);
  for (std::size_t i = 0; i + kWords < words.size(); ++i)
    words[i + kWords] = later_word(words[i], words[i + 1], words[i + kShift]);
  const Polynomial power = power_of_t(count);
  State result{};
  for (std::size_t i = 0; i < kDegree; ++i)
    if (power.has(i))
      for (std::size_t j = 0; j < kWords; ++j)
        result[j] ^= words[i + j];
  return result;
}

} // namespace clusterbench::datasets::mersenne
