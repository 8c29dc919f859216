#include "harness/report/compare/steps.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <random>
#include <vector>

namespace clusterbench {
namespace {

constexpr double kScatter = 0.012, kEffect = 0.02, kLevel = 0.01;

// Normal noise whose neighbours are correlated, with a step at a place.
std::vector<double> series(std::mt19937_64& random, std::size_t count, double deviation,
                           double correlation = 0.0, std::size_t at = 0, double step = 0.0) {
  std::normal_distribution<double> normal;
  std::vector<double> logs;
  double noise = normal(random);
  for (std::size_t i = 0; i < count; ++i) {
    logs.push_back(deviation * noise + (i >= at ? step : 0.0));
    noise = correlation * noise + std::sqrt(1.0 - correlation * correlation) * normal(random);
  }
  return logs;
}

// As history asks: again with each campaign that the series gains.
bool is_told(const std::vector<double>& all, double scatter, double level) {
  for (std::size_t count = 1; count <= all.size(); ++count) {
    const std::vector<double> logs(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count));
    if (clearest_step(logs, scatter, kEffect, level)) {
      return true;
    }
  }
  return false;
}

// Of 1000 series.
int told_in(std::size_t count, double deviation, double correlation, std::size_t at = 0,
            double step = 0.0, double level = kLevel) {
  std::mt19937_64 random(1);
  int told = 0;
  for (int i = 0; i < 1000; ++i) {
    told += is_told(series(random, count, deviation, correlation, at, step), kScatter, level);
  }
  return told;
}

TEST(Steps, AreFoundWhereTheyAre) {
  std::mt19937_64 random(2);
  for (const double step : {0.05, -0.05}) {
    const auto found =
        clearest_step(series(random, 24, 0.004, 0.0, 10, step), kScatter, kEffect, kLevel);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->at, 10U);
    EXPECT_NEAR(found->ratio, std::exp(step), 0.01);
    EXPECT_LT(found->interval.low, found->ratio);
    EXPECT_GT(found->interval.high, found->ratio);
    EXPECT_EQ(found->interval.low > 1.0, step > 0.0);
  }
}

TEST(Steps, AreAsRareInNoiseAsTheLevelSaysWhateverIsAsked) {
  for (const double deviation : {0.012, 0.018, 0.03, 0.09}) {
    EXPECT_LE(told_in(40, deviation, 0.0), 10) << deviation; // at a level of 1 %
  }
}

TEST(Steps, NeighboursThatAreAlikeAreFewerCampaigns) {
  // More than the level says, as docs/history.md does; without the allowance, more than these.
  EXPECT_LE(told_in(40, 0.012, 0.5), 30);
  EXPECT_LE(told_in(40, 0.012, 0.8), 80);
  EXPECT_LE(told_in(40, 0.03, 0.5), 100);
}

TEST(Steps, AreToldByLaterCampaigns) {
  constexpr double kThird = kLevel / 3.0; // what history gives them
  EXPECT_GE(told_in(24, 0.01, 0.0, 12, 0.03, kThird), 600);
  EXPECT_GE(told_in(40, 0.004, 0.0, 12, 0.03, kThird), 990);
  // What campaigns are assumed to differ by is no estimate, so neighbours that are alike do not
  // stretch it.
  EXPECT_GE(told_in(24, 0.004, 0.5, 12, 0.05, kThird), 900);
}

TEST(Steps, NeedThreeCampaignsOnEachSide) {
  EXPECT_FALSE(clearest_step({0.0, 0.0, 1.0, 1.0, 1.0}, kScatter, kEffect, kLevel));
  EXPECT_TRUE(clearest_step({0.0, 0.0, 0.0, 1.0, 1.0, 1.0}, kScatter, kEffect, kLevel));
  EXPECT_FALSE(clearest_step({0.0, 0.0, 0.0, 1.0, 1.0, 1.0}, 0.0, kEffect, kLevel)); // not known
}

TEST(Steps, BelowTheLeastEffectAreNone) {
  std::vector<double> logs;
  for (int i = 0; i < 400; ++i) {
    logs.push_back((i % 2 == 0 ? 0.001 : -0.001) + (i < 200 ? 0.0 : 0.015));
  }
  EXPECT_FALSE(clearest_step(logs, kScatter, kEffect, kLevel));
  EXPECT_TRUE(clearest_step(logs, kScatter, 0.01, kLevel));
}

} // namespace
} // namespace clusterbench
