#include "datasets/random_state.hpp"

#include "datasets/errors.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <fmt/core.h>
#include <numeric>
#include <set>

namespace clusterbench::datasets {

RandomState::RandomState(std::uint32_t seed) {
  this->seed(seed);
}

void RandomState::seed(std::uint32_t seed) {
  for (std::size_t i = 0; i < kWords; ++i) {
    state_[i] = seed;
    seed = 1812433253u * (seed ^ seed >> 30) + static_cast<std::uint32_t>(i) + 1;
  }
}

RandomState::RandomState(std::span<const std::uint32_t> key) {
  if (key.empty())
    throw InputError("RandomState: an empty sequence is no seed");
  seed(19650218u);
  std::size_t i = 1;
  const auto step = [&](std::uint32_t factor) {
    const std::uint32_t before = state_[i - 1];
    return state_[i] ^ (before ^ before >> 30) * factor;
  };
  const auto advance = [&] {
    if (++i == kWords) {
      state_[0] = state_[kWords - 1];
      i = 1;
    }
  };
  for (std::size_t n = 0, j = 0; n < std::max(kWords, key.size()); ++n, ++j, advance()) {
    j = j == key.size() ? 0 : j;
    state_[i] = step(1664525u) + key[j] + static_cast<std::uint32_t>(j);
  }
  for (std::size_t n = 0; n < kWords - 1; ++n, advance())
    state_[i] = step(1566083941u) - static_cast<std::uint32_t>(i);
  state_[0] = 0x80000000u;
}

void RandomState::refill() {
  using mersenne::kShift;
  const auto twist = [this](std::size_t i, std::size_t next, std::size_t shifted) {
    state_[i] = mersenne::later_word(state_[i], state_[next], state_[shifted]);
  };
  for (std::size_t i = 0; i < kWords - kShift; ++i)
    twist(i, i + 1, i + kShift);
  for (std::size_t i = kWords - kShift; i < kWords - 1; ++i)
    twist(i, i + 1, i + kShift - kWords);
  twist(kWords - 1, 0, kShift - 1);

  for (std::size_t i = 0; i < kWords; ++i) { // temper
    std::uint32_t y = state_[i];
    y ^= y >> 11;
    y ^= (y << 7) & 0x9d2c5680u;
    y ^= (y << 15) & 0xefc60000u;
    words_[i] = y ^ y >> 18;
  }
  next_ = 0;
}

void RandomState::discard(std::uint64_t count) {
  constexpr std::uint64_t kWorthALeap = 1u << 20; // words; a leap is not free
  has_spare_normal_ = false;
  while (count > kWords - next_ && count <= kWorthALeap) {
    count -= kWords - next_;
    refill();
  }
  if (count <= kWords - next_) {
    next_ += static_cast<std::size_t>(count);
    return;
  }
  // The next word is `next_` places into the window of the state, and the one wanted must follow
  // the new window.
  state_ = mersenne::jumped(state_, count - (kWords - next_));
  next_ = kWords;
}

double RandomState::standard_normal() {
  if (has_spare_normal_) {
    has_spare_normal_ = false;
    return spare_normal_;
  }
  double x1 = 0;
  double x2 = 0;
  double r2 = 0;
  do {
    x1 = 2.0 * random_sample() - 1.0;
    x2 = 2.0 * random_sample() - 1.0;
    r2 = x1 * x1 + x2 * x2;
  } while (r2 >= 1.0 || r2 == 0.0);
  const double f = std::sqrt(-2.0 * std::log(r2) / r2);
  spare_normal_ = f * x1;
  has_spare_normal_ = true;
  return f * x2;
}

void RandomState::random_sample(std::span<double> out) {
  for (double& value : out)
    value = random_sample();
}

void RandomState::uniform(double low, double high, std::span<double> out) {
  for (double& value : out)
    value = uniform(low, high);
}

void RandomState::standard_normal(std::span<double> out) {
  for (double& value : out)
    value = standard_normal();
}

std::vector<double> RandomState::rand(std::size_t count) {
  std::vector<double> out(count);
  random_sample(out);
  return out;
}

std::vector<double> RandomState::randn(std::size_t count) {
  std::vector<double> out(count);
  standard_normal(out);
  return out;
}

std::uint64_t RandomState::interval(std::uint64_t max) {
  if (max == 0)
    return 0; // NumPy draws nothing here
  const std::uint64_t mask = ~std::uint64_t{0} >> std::countl_zero(max);
  std::uint64_t value = 0;
  do
    value = (max <= 0xffffffffu ? next_uint32() : next_uint64()) & mask;
  while (value > max);
  return value;
}

std::int64_t RandomState::randint(std::int64_t low, std::int64_t high) {
  if (low >= high)
    throw InputError(fmt::format("randint: [{}, {}) is empty", low, high));
  // Unsigned, since high - low may exceed the signed range.
  const std::uint64_t max = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low) - 1;
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(low) + interval(max));
}

std::vector<std::int64_t> RandomState::randint(std::int64_t low, std::int64_t high,
                                               std::size_t count) {
  std::vector<std::int64_t> out(count);
  for (std::int64_t& value : out)
    value = randint(low, high);
  return out;
}

std::vector<std::int64_t> RandomState::permutation(std::size_t count) {
  std::vector<std::int64_t> out(count);
  std::iota(out.begin(), out.end(), 0);
  shuffle(std::span(out));
  return out;
}

namespace {

/// Cumulative sums of p, divided by their last.
std::vector<double> distribution(std::span<const double> p) {
  std::vector<double> sums(p.size());
  std::partial_sum(p.begin(), p.end(), sums.begin());
  for (double& sum : sums)
    sum /= sums.back();
  return sums;
}

std::int64_t bin_of(std::span<const double> sums, double value) {
  return std::upper_bound(sums.begin(), sums.end(), value) - sums.begin();
}

} // namespace

std::vector<std::int64_t> RandomState::choice(std::size_t population, std::size_t count,
                                              bool replace, std::span<const double> p) {
  if ((population == 0 && count > 0) || (!replace && count > population))
    throw InputError(fmt::format("choice: {} of {} cannot be chosen", count, population));
  if (p.empty() && replace)
    return count == 0 ? std::vector<std::int64_t>()
                      : randint(0, static_cast<std::int64_t>(population), count);
  if (p.empty()) {
    std::vector<std::int64_t> all = permutation(population);
    all.resize(count);
    return all;
  }

  const bool negative = std::any_of(p.begin(), p.end(), [](double x) { return !(x >= 0); });
  const double sum = std::accumulate(p.begin(), p.end(), 0.0);
  if (p.size() != population || negative || !(std::abs(sum - 1) < 1e-8))
    throw InputError("choice: p must be one probability per element and sum to 1");
  if (!replace && static_cast<std::size_t>(
                      std::count_if(p.begin(), p.end(), [](double x) { return x > 0; })) < count)
    throw InputError("choice: fewer non-zero probabilities than elements to choose");

  std::vector<std::int64_t> out;
  if (replace) {
    const std::vector<double> sums = distribution(p);
    for (std::size_t i = 0; i < count; ++i)
      out.push_back(bin_of(sums, random_sample()));
    return out;
  }
  // Without replacement NumPy draws all that are missing, keeps the first of each, and tries again
  // with the found ones made impossible.
  std::vector<double> left(p.begin(), p.end());
  while (out.size() < count) {
    const std::vector<double> draws = rand(count - out.size());
    for (const std::int64_t found : out)
      left[static_cast<std::size_t>(found)] = 0;
    const std::vector<double> sums = distribution(left);
    std::set<std::int64_t> seen;
    for (const double draw : draws)
      if (const std::int64_t bin = bin_of(sums, draw); seen.insert(bin).second)
        out.push_back(bin);
  }
  return out;
}

} // namespace clusterbench::datasets
