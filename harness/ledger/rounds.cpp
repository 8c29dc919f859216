#include "harness/ledger/rounds.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace clusterbench {
namespace {

double middle_of(std::vector<double>& values) {
  const auto half = static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, values.begin() + half);
  if (values.size() % 2 == 1) {
    return values[static_cast<std::size_t>(half)];
  }
  return std::midpoint(*std::max_element(values.begin(), values.begin() + half),
                       values[static_cast<std::size_t>(half)]);
}

} // namespace

std::vector<double> medians_of_rounds(const Rounds& rounds) {
  std::vector<double> medians;
  for (const std::vector<double>& round : rounds) {
    medians.push_back(median(round));
  }
  return medians;
}

double median_of_rounds(const Rounds& rounds) {
  return median(medians_of_rounds(rounds));
}

double deviation_of_rounds(const Rounds& rounds) {
  const double centre = median_of_rounds(rounds);
  std::vector<double> deviations;
  for (const std::vector<double>& round : rounds) {
    for (const double sample : round) {
      deviations.push_back(std::abs(sample - centre));
    }
  }
  return middle_of(deviations);
}

bool enough_for_interval(const Rounds& rounds) {
  return rounds.size() == 1 ? rounds.front().size() >= kLeastForInterval
                            : rounds.size() >= kLeastRoundsForInterval;
}

Interval range_of_rounds(const Rounds& rounds) {
  const auto [least, greatest] =
      std::ranges::minmax(rounds.size() == 1 ? rounds.front() : medians_of_rounds(rounds));
  return {least, greatest};
}

RoundsResampler::RoundsResampler(const Rounds& rounds, std::mt19937_64& random)
    : rounds_(rounds), random_(random), centre_(std::log(median_of_rounds(rounds))) {
  const auto count = static_cast<double>(rounds.size());
  stretch_ = rounds.size() > 1 ? std::sqrt(count / (count - 1.0)) : 1.0;
}

double RoundsResampler::draw() {
  medians_.clear();
  for (std::size_t r = 0; r < rounds_.size(); ++r) {
    const std::vector<double>& round = rounds_[random_() % rounds_.size()];
    drawn_.resize(round.size());
    for (double& value : drawn_) {
      value = round[random_() % round.size()];
    }
    medians_.push_back(middle_of(drawn_));
  }
  return centre_ + stretch_ * (std::log(middle_of(medians_)) - centre_);
}

PooledRounds pool_rounds(const Rounds& rounds, std::uint64_t seed) {
  PooledRounds pooled;
  pooled.median = median_of_rounds(rounds);
  pooled.mad = deviation_of_rounds(rounds);
  if (!enough_for_interval(rounds)) {
    pooled.interval = range_of_rounds(rounds);
    pooled.is_range = true;
    return pooled;
  }
  if (rounds.size() == 1) {
    pooled.interval = bootstrap_median_interval(rounds.front(), 0.95, 2000, seed);
    return pooled;
  }
  constexpr std::size_t kResamples = 2000;
  std::mt19937_64 random(seed);
  RoundsResampler resampler(rounds, random);
  std::vector<double> draws;
  for (std::size_t i = 0; i < kResamples; ++i) {
    draws.push_back(resampler.draw());
  }
  pooled.interval = {std::exp(quantile(draws, 0.025)), std::exp(quantile(draws, 0.975))};
  return pooled;
}

} // namespace clusterbench
