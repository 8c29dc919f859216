// Whether two campaigns' processes differ: what the test says of made-up times.
#include "harness/report/compare/process_test.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace clusterbench {
namespace {

// One sample in each of several processes: nothing is known of the starts.
Costs processes(const std::vector<double>& ms) {
  Costs costs;
  for (const double value : ms) {
    costs.rounds.push_back({{value}, {}});
  }
  return costs;
}

// As many processes, whose logarithms scatter so.
Costs drawn(std::mt19937_64& random, std::size_t count, double scatter, double shift = 0.0) {
  std::normal_distribution<double> normal(shift, scatter);
  std::vector<double> ms(count);
  for (double& value : ms) {
    value = 5.0 * std::exp(normal(random));
  }
  return processes(ms);
}

TEST(ProcessTest, KnowsNothingOfOneProcessOrTwo) {
  const Costs three = processes({1.0, 1.1, 1.2});
  EXPECT_FALSE(ProcessTest::of(processes({1.0}), three));
  EXPECT_FALSE(ProcessTest::of(three, processes({1.0, 1.1})));
  EXPECT_TRUE(ProcessTest::of(three, three));
}

TEST(ProcessTest, RefusesWhatIsNoTime) {
  EXPECT_THROW(ProcessTest::of(processes({1.0, 0.0, 1.0}), processes({1.0, 1.0, 1.0})),
               std::invalid_argument);
  EXPECT_THROW(ProcessTest::of(processes({1.0, 1.0, 1.0}), Costs{"", std::vector<Costs::Round>(3)}),
               std::invalid_argument);
}

TEST(ProcessTest, TheTwoTailsAreTheSameTurnedRound) {
  const Costs base = processes({1.0, 1.02, 0.99, 1.01}),
              fresh = processes({1.08, 1.06, 1.09, 1.07});
  const auto test = ProcessTest::of(base, fresh), turned = ProcessTest::of(fresh, base);
  ASSERT_TRUE(test && turned);
  EXPECT_NEAR(test->p_slower(), turned->p_faster(), 1e-15);
  EXPECT_NEAR(test->p_slower() + test->p_faster(), 1.0, 1e-12);
  EXPECT_NEAR(test->interval(0.95).low, 1.0 / turned->interval(0.95).high, 1e-12);
  EXPECT_LT(test->p_slower(), 0.02);
}

// Eight processes of 20 samples each. So many of them met a busy machine all the time, the others
// half of it.
Costs campaign(std::mt19937_64& random, int busy_processes, double slower = 1.0) {
  std::normal_distribution<double> normal(0.0, 0.01);
  std::uniform_real_distribution<double> longer(1.1, 2.0);
  std::bernoulli_distribution half(0.5);
  Costs costs;
  for (int r = 0; r < 8; ++r) {
    Costs::Round& round = costs.rounds.emplace_back();
    for (int i = 0; i < 20; ++i) {
      const bool busy = r < busy_processes || half(random);
      round.ms.push_back(slower * std::exp(normal(random)) * (busy ? longer(random) : 1.0));
    }
  }
  return costs;
}

TEST(ProcessTest, WhatElseRunsIsNoSlowdown) {
  std::mt19937_64 random(7);
  for (int trial = 0; trial < 100; ++trial) {
    const auto test = ProcessTest::of(campaign(random, 0), campaign(random, 2));
    ASSERT_TRUE(test);
    EXPECT_GT(test->p_slower(), 0.001);
    EXPECT_LT(test->standard_error(), 0.02);
    const auto slower = ProcessTest::of(campaign(random, 2), campaign(random, 0, 1.08));
    EXPECT_LT(slower->p_slower(), 0.001);
  }
}

TEST(ProcessTest, OneSampleAloneIsNotBelieved) {
  std::mt19937_64 random(8);
  Costs odd = campaign(random, 0);
  odd.rounds[3].ms[5] = 0.5; // a clock that went wrong
  EXPECT_NEAR(ProcessTest::of(campaign(random, 0), odd)->log_ratio(), 0.0, 0.01);
}

// The starts in common are taken off first.
TEST(ProcessTest, ComparesStartByStartWhereItCan) {
  std::mt19937_64 random(9);
  const auto with_starts = [](Costs costs) {
    costs.starts_of = "seed 1";
    for (Costs::Round& round : costs.rounds) {
      for (std::size_t i = 0; i < round.ms.size(); ++i) {
        round.starts.push_back(i);
        round.ms[i] *= 1.0 + static_cast<double>(i % 4);
      }
    }
    return costs;
  };
  const auto test =
      ProcessTest::of(with_starts(campaign(random, 0)), with_starts(campaign(random, 0)));
  ASSERT_TRUE(test);
  EXPECT_NEAR(test->log_ratio(), 0.0, 0.03);
  EXPECT_LT(test->standard_error(), 0.03);
}

TEST(ProcessTest, TheSameCampaignsGetTheSameAnswer) {
  std::mt19937_64 random(10);
  const Costs base = campaign(random, 2), fresh = campaign(random, 2);
  EXPECT_EQ(ProcessTest::of(base, fresh)->standard_error(),
            ProcessTest::of(base, fresh)->standard_error());
}

// Without starts in common, the starts that each side drew are a part of the scatter; with them,
// none.
TEST(ProcessTest, StartsThatCostMoreWidenTheScatterUnlessBothSidesHaveThem) {
  const auto side = [](const std::string& starts_of) {
    Costs costs{starts_of, {}};
    for (int round = 0; round < 4; ++round) {
      costs.rounds.push_back({{1.0, 2.0, 4.0, 8.0, 16.0}, {0, 1, 2, 3, 4}});
    }
    return costs;
  };
  EXPECT_LT(ProcessTest::of(side("seed 1"), side("seed 1"))->standard_error(), 0.02);
  EXPECT_GT(ProcessTest::of(side("seed 1"), side("seed 2"))->standard_error(), 0.5);
}

TEST(ProcessTest, FalseAlarmsAreAsRareAsTheySay) {
  std::mt19937_64 random(5);
  std::normal_distribution<double> within(0.0, 0.02);
  for (const auto& [count, scatter] :
       {std::pair{8, 0.02}, std::pair{4, 0.02}, std::pair{8, 0.05}, std::pair{8, 0.1}}) {
    const auto side = [&, count = count, scatter = scatter] {
      Costs costs = drawn(random, count, scatter);
      for (Costs::Round& round : costs.rounds) {
        const double own = round.ms[0];
        for (int i = 0; i < 9; ++i) {
          round.ms.push_back(own * std::exp(within(random)));
        }
      }
      return costs;
    };
    int alarms = 0, covered = 0;
    constexpr int kTrials = 3000;
    for (int trial = 0; trial < kTrials; ++trial) {
      const auto test = ProcessTest::of(side(), side());
      alarms += test->p_slower() <= 0.01 ? 1 : 0;
      const Interval interval = test->interval(0.95);
      covered += interval.low <= 1.0 && 1.0 <= interval.high ? 1 : 0;
    }
    EXPECT_LE(alarms, kTrials * 2 / 100) << count << " " << scatter;
    EXPECT_GE(covered, kTrials * 92 / 100) << count << " " << scatter;
  }
}

TEST(ProcessTest, SaysHowManyRoundsItWouldTake) {
  std::mt19937_64 random(6);
  const auto test = ProcessTest::of(drawn(random, 8, 0.05), drawn(random, 8, 0.05));
  ASSERT_TRUE(test);
  const auto few = test->rounds_for(0.08, 0.95, 3, 64), many = test->rounds_for(0.05, 0.95, 3, 64);
  ASSERT_TRUE(few && many);
  EXPECT_GT(*many, *few);
  EXPECT_FALSE(test->rounds_for(kCampaignScatter, 0.95, 3, 1000)); // whatever the number
  EXPECT_EQ(test->rounds_for(0.08, 0.95, *few + 5, 64), *few + 5);
  EXPECT_FALSE(test->rounds_for(0.05, 0.95, 3, *many - 1));
}

// Three processes know badly how far they scatter; as many as are asked for will know it better.
TEST(ProcessTest, FewRoundsSayHowManyItWouldTake) {
  std::mt19937_64 random(7);
  for (int trial = 0; trial < 20; ++trial) {
    const auto test = ProcessTest::of(drawn(random, 3, 0.03), drawn(random, 3, 0.03));
    ASSERT_TRUE(test);
    const auto rounds = test->rounds_for(0.1, 0.95, 8, 64);
    ASSERT_TRUE(rounds) << trial;
    EXPECT_LE(*rounds, 40U) << trial;
  }
}

} // namespace
} // namespace clusterbench
