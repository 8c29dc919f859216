// NumPy's legacy generator, numpy.random.RandomState: the same seed gives the same bits.
// Source: M. Matsumoto, T. Nishimura, "Mersenne Twister", ACM TOMACS 8(1), 1998 (MT19937), and
// NumPy's frozen legacy API. Normal deviates call libm's log(), as NumPy does: the same machine and
// libm give the same bits.
#pragma once

#include "datasets/mersenne_jump.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace clusterbench::datasets {

class RandomState {
public:
  /// numpy.random.RandomState(seed) of one integer.
  explicit RandomState(std::uint32_t seed);

  /// numpy.random.RandomState([key...]) of a sequence of integers, at least one.
  explicit RandomState(std::span<const std::uint32_t> key);

  /// The next 32 bits of the stream.
  std::uint32_t next_uint32() {
    if (next_ == kWords)
      refill();
    return words_[next_++];
  }

  /// The next 64 bits: the earlier word is the upper half.
  std::uint64_t next_uint64() {
    const std::uint64_t upper = next_uint32();
    return upper << 32 | next_uint32();
  }

  /// Leaves out the next `count` words, and a normal deviate that was kept. However many they are,
  /// it takes no longer than drawing a few million.
  void discard(std::uint64_t count);

  /// Uniform in [0, 1): 53 bits of two words.
  double random_sample() {
    const std::uint32_t high = next_uint32() >> 5;
    const std::uint32_t low = next_uint32() >> 6;
    return (high * 67108864.0 + low) / 9007199254740992.0; // (high 2^26 + low) / 2^53
  }

  /// Uniform in [low, high).
  double uniform(double low, double high) { return low + (high - low) * random_sample(); }

  /// Normal of mean 0 and deviation 1, by Marsaglia's polar method; draws two, keeps one for later.
  double standard_normal();

  /// Fills `out` with the deviates that as many single calls give.
  void random_sample(std::span<double> out);
  void uniform(double low, double high, std::span<double> out);
  void standard_normal(std::span<double> out);

  /// rand(count) and randn(count): the same deviates as a vector.
  std::vector<double> rand(std::size_t count);
  std::vector<double> randn(std::size_t count);

  /// Integers in [low, high). Throws InputError when that is empty.
  std::int64_t randint(std::int64_t low, std::int64_t high);
  std::vector<std::int64_t> randint(std::int64_t low, std::int64_t high, std::size_t count);

  /// Shuffles in place, from the last element down.
  template <class T>
  void shuffle(std::span<T> values) {
    for (std::size_t i = values.size(); i-- > 1;)
      std::swap(values[i], values[interval(i)]);
  }

  /// 0 ... count-1, shuffled.
  std::vector<std::int64_t> permutation(std::size_t count);

  /// `count` of 0 ... population-1, with probabilities `p` [population] when given.
  /// Throws InputError when there are not enough to choose from or `p` is no distribution.
  std::vector<std::int64_t> choice(std::size_t population, std::size_t count, bool replace = true,
                                   std::span<const double> p = {});

private:
  static constexpr std::size_t kWords = mersenne::kWords;

  void seed(std::uint32_t seed);
  void refill();

  /// Uniform in [0, max], both included, by masking and rejecting.
  std::uint64_t interval(std::uint64_t max);

  mersenne::State state_;
  std::array<std::uint32_t, kWords> words_; // the state, tempered: the next 624 outputs
  std::size_t next_ = kWords;
  double spare_normal_ = 0;
  bool has_spare_normal_ = false;
};

} // namespace clusterbench::datasets
