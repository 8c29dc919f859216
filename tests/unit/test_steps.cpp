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

int found_in(std::size_t count, double deviation, double correlation) {
  std::mt19937_64 random(1);
  int found = 0;
  for (int i = 0; i < 1000; ++i) {
    const auto logs = series(random, count, deviation, correlation);
    found += clearest_step(logs, kScatter, kEffect, kLevel).has_value() ? 1 : 0;
  }
  return found;
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

TEST(Steps, AreNoneInNoise) {
  for (const std::size_t count : {6U, 12U, 40U}) {
    EXPECT_LE(found_in(count, 0.03, 0.0), 20) << count; // of 1000, at a level of 1 %
  }
}

TEST(Steps, NeighboursThatAreAlikeAreFewerCampaigns) {
  // Without the allowance more than these have a step.
  EXPECT_LE(found_in(20, 0.03, 0.5), 80);
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
