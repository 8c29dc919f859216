// The gate's decision on synthetic pairs: heavy-tailed noise as it is met on a loaded virtual
// machine, one pair in eight wild. Rates over seeded simulations, no clock.
#include "harness/gate/sequential_test.hpp"

#include <cmath>
#include <gtest/gtest.h>
#include <random>

namespace clusterbench {
namespace {

struct Noise {
  double sd = 0.01;
  double wild_share = 0.125;
  double wild_sd = 0.3;
};

struct Rates {
  double slower = 0, same = 0, undecided = 0, mean_pairs = 0;
  double first_alarms = 0;
  double too_high = 0, too_low = 0; ///< the range, of the batch that decided
};

// Gates of one cell with the confirmation of alarms, as Gate::run does it.
Rates simulate(double slowdown, const Noise& noise, int gates, std::size_t cells = 1) {
  std::mt19937_64 random(1);
  std::normal_distribution<double> tame(std::log1p(slowdown), noise.sd);
  std::normal_distribution<double> wild(0.0, noise.wild_sd);
  std::uniform_real_distribution<double> share(0.0, 1.0);
  const SequentialOptions first;
  Rates rates;
  std::vector<double> pairs;
  bool last = false;
  const auto batch = [&](const SequentialOptions& options) {
    pairs.clear();
    for (;;) {
      pairs.push_back(tame(random) + (share(random) < noise.wild_share ? wild(random) : 0.0));
      last = pairs.size() == options.most_pairs;
      if (last || is_look(pairs.size(), options)) {
        if (const GateDecision decision = decide(pairs, options, last);
            decision != GateDecision::more) {
          rates.mean_pairs += static_cast<double>(pairs.size()) / gates;
          return decision;
        }
      }
    }
  };
  for (int gate = 0; gate < gates; ++gate) {
    SequentialOptions options = first;
    GateDecision decision = batch(options);
    if (decision == GateDecision::slower) {
      rates.first_alarms += 1.0 / gates;
      options = confirming(first, cells);
      decision = batch(options);
    }
    const Bounds range = bounds_of(estimate_pairs(pairs), pairs.size(), options, last);
    rates.too_high += range.low > std::log1p(slowdown) ? 1.0 / gates : 0.0;
    rates.too_low += range.high < std::log1p(slowdown) ? 1.0 / gates : 0.0;
    (decision == GateDecision::slower ? rates.slower
     : decision == GateDecision::same ? rates.same
                                      : rates.undecided) += 1.0 / gates;
  }
  return rates;
}

TEST(SequentialTest, NoSlowdownNoAlarm) {
  for (const double sd : {0.003, 0.01, 0.02}) {
    const Rates rates = simulate(0.0, {sd, 0.125, 0.3}, 2000);
    EXPECT_LE(rates.slower, 0.002) << sd; // five cells: 1 %
    EXPECT_LE(rates.undecided, 0.01) << sd;
  }
}

TEST(SequentialTest, SlowdownsAreFound) {
  for (const double sd : {0.003, 0.01, 0.02}) {
    const Noise noise{sd, 0.125, 0.3};
    EXPECT_GE(simulate(0.03, noise, 1000).slower, 0.70) << sd;
    EXPECT_GE(simulate(0.05, noise, 1000).slower, 0.95) << sd;
    EXPECT_GE(simulate(0.10, noise, 1000).slower, 0.99) << sd;
  }
}

// The slowdown that must be found is the one that is missed most often.
TEST(SequentialTest, ErrorsOfAllLooksTogetherAreThoseStated) {
  for (const double wild_share : {0.0, 0.125}) {
    for (const double sd : {0.01, 0.02, 0.03, 0.05, 0.1}) {
      const Rates rates = simulate(0.02, {sd, wild_share, 0.3}, 1500);
      constexpr double kAllowed = 0.05 + 0.01; // two deviations of a share of 1500
      EXPECT_LE(rates.same, kAllowed) << sd << ", wild " << wild_share;
      EXPECT_LE(rates.too_low, kAllowed) << sd << ", wild " << wild_share;
      EXPECT_LE(rates.too_high, kAllowed) << sd << ", wild " << wild_share;
    }
  }
  for (const double sd : {0.02, 0.05, 0.1}) {
    EXPECT_LE(simulate(0.0, {sd, 0.0, 0.0}, 1500).first_alarms, 0.04) << sd;
  }
}

// No decision ends a batch here: every look may err.
TEST(SequentialTest, RangesOfAllLooksHoldTheTrueValueTogether) {
  std::mt19937_64 random(1);
  std::normal_distribution<double> noise(0.0, 0.05);
  constexpr int kBatches = 4000;
  const SequentialOptions first;
  for (const SequentialOptions& options : {first, confirming(first, 1)}) {
    int too_high = 0, too_low = 0;
    for (int batch = 0; batch < kBatches; ++batch) {
      std::vector<double> pairs;
      bool high = false, low = false;
      while (pairs.size() < options.most_pairs) {
        pairs.push_back(noise(random));
        if (is_look(pairs.size(), options)) {
          const bool last = pairs.size() == options.most_pairs;
          const Bounds range = bounds_of(estimate_pairs(pairs), pairs.size(), options, last);
          high = high || range.low > 0.0;
          low = low || range.high < 0.0;
        }
      }
      too_high += high ? 1 : 0;
      too_low += low ? 1 : 0;
    }
    const double allowed = options.error + 2.0 * std::sqrt(options.error / kBatches);
    EXPECT_LE(too_high, allowed * kBatches) << options.error;
    EXPECT_LE(too_low, allowed * kBatches) << options.error;
  }
}

TEST(SequentialTest, TheMoreCellsTheSurerAConfirmation) {
  const SequentialOptions first;
  EXPECT_DOUBLE_EQ(confirming(first, 71).alarm_error * 71, confirming(first, 1).alarm_error);
  EXPECT_DOUBLE_EQ(confirming(first, 71).error, confirming(first, 1).error);
  EXPECT_EQ(simulate(0.0, {0.1, 0.0, 0.0}, 1500, 71).slower, 0.0);
  EXPECT_GE(simulate(0.05, {0.03, 0.0, 0.0}, 300, 71).slower, 0.99);
  const std::vector<double> pairs = {0.027, 0.036, 0.021, 0.042, 0.030, 0.033,
                                     0.024, 0.039, 0.031, 0.029, 0.028, 0.032};
  EXPECT_EQ(decide(pairs, confirming(first, 1), false), GateDecision::slower);
  EXPECT_EQ(decide(pairs, confirming(first, 10000), false), GateDecision::more);
}

// Tables of the distribution; a batch's last look takes half of the error.
TEST(SequentialTest, RangesAreStudents) {
  SequentialOptions options;
  options.noise_floor = 0.0;
  for (const auto& [error, degrees, quantile] : {std::tuple{0.2, 1, 3.077684},
                                                 {0.2, 2, 1.885618},
                                                 {0.2, 3, 1.637744},
                                                 {0.02, 3, 4.540703},
                                                 {0.02, 60, 2.390119}}) {
    options.error = error;
    const PairEstimate estimate{0.0, 1.0, static_cast<std::size_t>(degrees)};
    EXPECT_NEAR(bounds_of(estimate, 6, options, true).high, quantile, 1e-6) << degrees;
  }
}

TEST(SequentialTest, AFasterBuildPasses) {
  const Rates rates = simulate(-0.1, {}, 500);
  EXPECT_EQ(rates.slower, 0.0);
  EXPECT_DOUBLE_EQ(rates.undecided, 0.0);
}

TEST(SequentialTest, AClearCaseIsShort) {
  EXPECT_LT(simulate(0.0, {0.003, 0.0, 0.0}, 300).mean_pairs, 7.0);
  EXPECT_GT(simulate(0.0, {0.03, 0.125, 0.3}, 300).mean_pairs, 12.0);
}

TEST(SequentialTest, PairsThatAgreeByLuckDecideNothing) {
  const std::vector<double> pairs(6, 0.003);
  SequentialOptions options;
  EXPECT_EQ(decide(pairs, options, false), GateDecision::same);
  options.noise_floor = 0.03;
  EXPECT_EQ(decide(pairs, options, false), GateDecision::more);
  EXPECT_EQ(decide(pairs, options, true), GateDecision::undecided);
}

TEST(SequentialTest, EstimateIsTheTrimmedMean) {
  // scipy.stats.trim_mean and scipy.stats.mstats.trimmed_stde of the same numbers.
  const std::vector<double> pairs = {1.0, 2.0, 3.0, 4.0, 10.0};
  const PairEstimate estimate = estimate_pairs(pairs);
  EXPECT_DOUBLE_EQ(estimate.log_ratio, 3.0);
  EXPECT_NEAR(estimate.standard_error, 0.74535599, 1e-8);
  EXPECT_EQ(estimate.degrees, 2u);
  EXPECT_THROW(estimate_pairs(std::vector<double>{1.0}), std::invalid_argument);
}

TEST(SequentialTest, Looks) {
  const SequentialOptions options;
  std::vector<std::size_t> looks;
  for (std::size_t count = 1; count <= 160; ++count) {
    if (is_look(count, options)) {
      looks.push_back(count);
    }
  }
  EXPECT_EQ(looks,
            (std::vector<std::size_t>{6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 80, 96, 128, 160}));
}

} // namespace
} // namespace clusterbench
