// The gate's decision on synthetic pairs: heavy-tailed noise as it is met on a loaded virtual
// machine, one pair in eight wild. Rates over seeded simulations, no clock.
#include "harness/compare/sequential_test.hpp"

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
};

// Gates of one cell with the confirmation of alarms, as Gate::run does it.
Rates simulate(double slowdown, const Noise& noise, int gates) {
  std::mt19937_64 random(1);
  std::normal_distribution<double> tame(std::log1p(slowdown), noise.sd);
  std::normal_distribution<double> wild(0.0, noise.wild_sd);
  std::uniform_real_distribution<double> share(0.0, 1.0);
  SequentialOptions options;
  Rates rates;
  const auto batch = [&] {
    std::vector<double> pairs;
    for (;;) {
      pairs.push_back(tame(random) + (share(random) < noise.wild_share ? wild(random) : 0.0));
      const bool last = pairs.size() == options.most_pairs;
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
    GateDecision decision = batch();
    if (decision == GateDecision::slower) {
      decision = batch();
    }
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
  const std::vector<double> pairs(6, 0.008);
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
  for (std::size_t count = 1; count <= 48; ++count) {
    if (is_look(count, options)) {
      looks.push_back(count);
    }
  }
  EXPECT_EQ(looks, (std::vector<std::size_t>{6, 8, 10, 12, 16, 20, 24, 32, 40, 48}));
}

} // namespace
} // namespace clusterbench
