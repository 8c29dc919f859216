#include "harness/ledger/rounds.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <stdexcept>

namespace clusterbench {
namespace {

/// Times around `centre` that differ by up to 1 %.
std::vector<double> round_at(double centre, std::size_t count = 9) {
  std::vector<double> samples;
  for (std::size_t i = 0; i < count; ++i) {
    samples.push_back(centre * (1.0 + 0.0025 * (static_cast<double>(i % 9) - 4.0)));
  }
  return samples;
}

TEST(Rounds, TheMedianIsThatOfTheRoundsMedians) {
  EXPECT_DOUBLE_EQ(median_of_rounds({round_at(10), round_at(30), round_at(11)}), 11.0);
  // Not that of all samples: a long round counts as one.
  EXPECT_DOUBLE_EQ(pool_rounds({round_at(10), round_at(11), round_at(20, 90)}).median, 11.0);
}

TEST(Rounds, OneIsItsOwnSummary) {
  const Summary alone = summarize(round_at(10));
  const PooledRounds pooled = pool_rounds({round_at(10)});
  EXPECT_EQ(pooled.median, alone.median);
  EXPECT_NEAR(pooled.mad, alone.mad, 1e-15);
  EXPECT_EQ(pooled.interval.low, alone.interval.low);
  EXPECT_EQ(pooled.interval.high, alone.interval.high);
}

TEST(Rounds, WhatDiffersBetweenThemWidensTheInterval) {
  const PooledRounds alike = pool_rounds({round_at(10), round_at(10), round_at(10)});
  const PooledRounds apart = pool_rounds({round_at(9), round_at(10), round_at(11)});
  EXPECT_LT(alike.interval.high - alike.interval.low, 0.2);
  EXPECT_LT(apart.interval.low, 9.1); // no round's own interval reaches so far
  EXPECT_GT(apart.interval.high, 10.9);
  EXPECT_GT(apart.mad, 5 * alike.mad);
}

TEST(Rounds, AlikeOnesNarrowIt) {
  const PooledRounds one = pool_rounds({round_at(10)});
  const PooledRounds many = pool_rounds(Rounds(20, round_at(10)));
  EXPECT_LT(many.interval.high - many.interval.low, one.interval.high - one.interval.low);
}

TEST(Rounds, TheIntervalCoversTheTrueMedianAsOftenAsItSays) {
  // Processes whose medians are log-normal around 1, and samples that are log-normal around those.
  std::mt19937_64 random(5);
  std::normal_distribution<double> normal;
  constexpr int kCampaigns = 800;
  for (const std::size_t count : {4, 5, 8}) {
    int covered = 0;
    for (int campaign = 0; campaign < kCampaigns; ++campaign) {
      Rounds rounds(count);
      for (std::vector<double>& round : rounds) {
        const double process = 0.03 * normal(random);
        for (int i = 0; i < 9; ++i) {
          round.push_back(std::exp(process + 0.01 * normal(random)));
        }
      }
      const Interval interval = pool_rounds(rounds).interval;
      covered += interval.low <= 1.0 && 1.0 <= interval.high ? 1 : 0;
    }
    EXPECT_GE(covered, kCampaigns * 90 / 100) << count;
    EXPECT_LE(covered, kCampaigns);
  }
}

TEST(Rounds, FewOfThemHaveARangeAndNoInterval) {
  for (const Rounds& rounds :
       {Rounds{round_at(11), round_at(10)}, Rounds{round_at(10.5), round_at(11), round_at(10)}}) {
    const PooledRounds few = pool_rounds(rounds);
    EXPECT_TRUE(few.is_range);
    EXPECT_DOUBLE_EQ(few.interval.low, 10.0);
    EXPECT_DOUBLE_EQ(few.interval.high, 11.0);
  }
  const PooledRounds samples = pool_rounds({{4.0, 1.0, 3.0, 2.0}});
  EXPECT_TRUE(samples.is_range);
  EXPECT_EQ(samples.interval.low, 1.0);
  EXPECT_EQ(samples.interval.high, 4.0);
  EXPECT_FALSE(pool_rounds({round_at(10)}).is_range);
  EXPECT_FALSE(pool_rounds(Rounds(4, round_at(10))).is_range);
}

TEST(Rounds, SeededAndRefusingWhatIsNoTime) {
  const Rounds rounds = {round_at(9), round_at(10), round_at(11), round_at(12)};
  EXPECT_EQ(pool_rounds(rounds, 3).interval.low, pool_rounds(rounds, 3).interval.low);
  EXPECT_THROW(pool_rounds({}), std::invalid_argument);
  EXPECT_THROW(pool_rounds({{1.0}, {}}), std::invalid_argument);
  EXPECT_THROW(pool_rounds({{1.0}, {std::numeric_limits<double>::quiet_NaN()}}),
               std::invalid_argument);
}

} // namespace
} // namespace clusterbench
