#include "harness/report/compare/process_test.hpp"

#include <algorithm>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <map>
#include <numeric>
#include <random>
#include <stdexcept>
#include <vector>

namespace clusterbench {
namespace {

using boost::math::students_t;

// The logarithms of a side's samples, in order, with the process that each is of.
class SortedSamples {
public:
  explicit SortedSamples(const Rounds& rounds) {
    for (const std::vector<double>& round : rounds) {
      if (round.empty() || !std::ranges::all_of(round, [](double ms) { return ms > 0.0; })) {
        throw std::invalid_argument("a ratio of times that are not positive");
      }
      for (const double ms : round) {
        samples_.push_back({std::log(ms), sizes_.size()});
      }
      sizes_.push_back(round.size());
    }
    std::ranges::sort(samples_, {}, &Sample::log);
  }

  std::size_t processes() const { return sizes_.size(); }

  /// The quantile of the samples, where process r counts so many times. The second one at least:
  /// the first may be a clock's mistake.
  double fastest(const std::vector<std::size_t>& times) const {
    std::size_t count = 0;
    for (std::size_t r = 0; r < sizes_.size(); ++r) {
      count += times[r] * sizes_[r];
    }
    const auto share =
        static_cast<std::size_t>(std::ceil(kFastestShare * static_cast<double>(count)));
    const std::size_t wanted = std::min(std::max<std::size_t>(share, 2), count);
    auto sample = samples_.begin();
    for (std::size_t seen = times[sample->process]; seen < wanted; seen += times[sample->process]) {
      ++sample;
    }
    return sample->log;
  }

private:
  struct Sample {
    double log;
    std::size_t process;
  };
  std::vector<Sample> samples_;
  std::vector<std::size_t> sizes_; // of the processes
};

double variance(const std::vector<double>& values) {
  const auto count = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
  double sum = 0.0;
  for (const double value : values) {
    sum += (value - mean) * (value - mean);
  }
  return sum / (count - 1.0);
}

struct Side {
  double log = 0.0;
  double variance = 0.0;
};

// Draws from R processes scatter by R - 1 parts of R only, and those of a low quantile by less than
// that: they know no process that is faster than the fastest they have seen. Their scatter is that
// of the middle nine in ten: a few draws have disturbed processes alone.
Side side_of(const Costs& costs) {
  constexpr int kDraws = 400;
  const SortedSamples samples(costs.ms());
  const std::size_t processes = samples.processes();
  std::mt19937_64 random(1); // the same answer for the same campaigns
  std::uniform_int_distribution<std::size_t> any(0, processes - 1);
  std::vector<double> draws;
  for (int i = 0; i < kDraws; ++i) {
    std::vector<std::size_t> times(processes);
    for (std::size_t r = 0; r < processes; ++r) {
      ++times[any(random)];
    }
    draws.push_back(samples.fastest(times));
  }
  constexpr double kNineInTen = 2.0 * 1.644854; // standard deviations of a normal distribution
  const double scatter =
      kUnseenScatter * (quantile(draws, 0.95) - quantile(draws, 0.05)) / kNineInTen;
  const auto count = static_cast<double>(processes);
  return {samples.fastest(std::vector<std::size_t>(processes, 1)),
          scatter * scatter * count / (count - 1.0)};
}

// Of the side: how far it moves with the starts that were drawn. Where a start costs more than
// another, all processes of the side have met the same ones.
double variance_of_starts(const Costs& costs) {
  std::map<std::size_t, double> least;
  for (const Costs::Round& round : costs.rounds) {
    for (std::size_t i = 0; i < round.starts.size(); ++i) {
      const double log = std::log(round.ms[i]);
      const auto [known, is_new] = least.try_emplace(round.starts[i], log);
      known->second = std::min(known->second, log);
    }
  }
  std::vector<double> effects;
  for (const auto& [start, log] : least) {
    effects.push_back(log);
  }
  return effects.size() < kLeastPairs ? 0.0
                                      : variance(effects) / static_cast<double>(effects.size());
}

// Of so many processes a side: half of the processes' own, because the faster half decides.
double degrees_of(double processes, double variance_of_processes, double variance_of_all) {
  constexpr double kMost = 1e6; // no scatter at all
  const double share = variance_of_processes / variance_of_all;
  return (processes - 1.0) * std::min(1.0 / (share * share), kMost);
}

} // namespace

std::optional<ProcessTest> ProcessTest::of(const Costs& base, const Costs& fresh,
                                           double campaign_scatter) {
  if (std::min(base.rounds.size(), fresh.rounds.size()) < kLeastProcesses) {
    return std::nullopt;
  }
  const auto free = free_of_starts(base, fresh);
  const Side before = side_of(free ? (*free)[0] : base);
  const Side after = side_of(free ? (*free)[1] : fresh);
  const auto base_rounds = static_cast<double>(base.rounds.size());
  const auto fresh_rounds = static_cast<double>(fresh.rounds.size());
  ProcessTest test;
  test.campaign_scatter_ = campaign_scatter;
  test.log_ratio_ = after.log - before.log;
  test.process_variance_ = (before.variance * base_rounds + after.variance * fresh_rounds) / 2.0;
  const double of_starts = free ? 0.0 : variance_of_starts(base) + variance_of_starts(fresh);
  const double of_processes = before.variance + after.variance;
  const double of_all = of_processes + of_starts + campaign_scatter * campaign_scatter;
  test.degrees_ = degrees_of((base_rounds + fresh_rounds) / 2.0, of_processes, of_all);
  test.standard_error_ = std::sqrt(of_all);
  return test;
}

Interval ProcessTest::interval(double confidence) const {
  const double reach =
      standard_error_ * boost::math::quantile(students_t(degrees_), 0.5 + confidence / 2.0);
  return {std::exp(log_ratio_ - reach), std::exp(log_ratio_ + reach)};
}

double ProcessTest::p_slower() const {
  return boost::math::cdf(
      boost::math::complement(students_t(degrees_), log_ratio_ / standard_error_));
}

double ProcessTest::p_faster() const {
  return boost::math::cdf(students_t(degrees_), log_ratio_ / standard_error_);
}

std::optional<std::size_t> ProcessTest::rounds_for(double reach, double confidence,
                                                   std::size_t least, std::size_t most) const {
  for (std::size_t rounds = std::max(least, kLeastProcesses); rounds <= most; ++rounds) {
    const auto count = static_cast<double>(rounds);
    const double of_processes = 2.0 * process_variance_ / count;
    const double of_all = of_processes + campaign_scatter_ * campaign_scatter_;
    const students_t distribution(degrees_of(count, of_processes, of_all));
    if (std::sqrt(of_all) * boost::math::quantile(distribution, 0.5 + confidence / 2.0) <= reach) {
      return rounds;
    }
  }
  return std::nullopt;
}

} // namespace clusterbench
