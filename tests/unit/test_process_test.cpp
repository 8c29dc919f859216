// Whether two campaigns' processes differ: what the t-test says of made-up times.
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
  EXPECT_THROW(ProcessTest::of(processes({1.0, 0.0, 1.0}), processes({1.0, 1.0, 1.0})), std::invalid_argument);
  EXPECT_THROW(ProcessTest::of(processes({1.0, 1.0, 1.0}), Costs{"", std::vector<Costs::Round>(3)}), std::invalid_argument);
}

TEST(ProcessTest, TheTwoTailsAreTheSameTurnedRound) {
  const Costs base = processes({1.0, 1.02, 0.99, 1.01}), fresh = processes({1.05, 1.03, 1.06, 1.04});
  const auto test = ProcessTest::of(base, fresh), turned = ProcessTest::of(fresh, base);
  ASSERT_TRUE(test && turned);
  EXPECT_NEAR(test->p_slower(), turned->p_faster(), 1e-15);
  EXPECT_NEAR(test->p_slower() + test->p_faster(), 1.0, 1e-12);
  EXPECT_NEAR(test->interval(0.95).low, 1.0 / turned->interval(0.95).high, 1e-12);
  EXPECT_LT(test->p_slower(), 0.02);
}

// The smallest and the largest sixth are cut off.
TEST(ProcessTest, ADisturbedProcessOnEachSideChangesLittle) {
  const std::vector<double> calm = {1.0, 1.004, 0.996, 1.002, 0.998, 1.001};
  std::vector<double> disturbed = calm;
  disturbed[2] = 0.5;
  disturbed[4] = 4.0;
  const auto test = ProcessTest::of(processes(calm), processes(disturbed));
  ASSERT_TRUE(test);
  EXPECT_NEAR(test->log_ratio(), 0.0, 0.002);
  EXPECT_LT(test->standard_error(), 0.01);
}

// Without starts in common, the starts that each side drew are a part of the scatter; with them, none.
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
  for (const auto& [count, scatter] : {std::pair{8, 0.02}, std::pair{3, 0.02}, std::pair{8, 0.1}}) {
    int alarms = 0, covered = 0;
    constexpr int kTrials = 3000;
    for (int trial = 0; trial < kTrials; ++trial) {
      const auto test = ProcessTest::of(drawn(random, count, scatter), drawn(random, count, scatter));
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
  const auto few = test->rounds_for(0.05, 0.95), many = test->rounds_for(0.025, 0.95);
  ASSERT_TRUE(few && many);
  EXPECT_GT(*many, *few);
  EXPECT_FALSE(test->rounds_for(kCampaignScatter, 0.95)); // whatever the number
  // So many do: the interval's half width is about what was asked for.
  double reach = 0.0;
  for (int trial = 0; trial < 50; ++trial) {
    const auto more = ProcessTest::of(drawn(random, *few, 0.05), drawn(random, *few, 0.05));
    reach += (std::log(more->interval(0.95).high) - more->log_ratio()) / 50.0;
  }
  EXPECT_NEAR(reach, 0.05, 0.02);
}

} // namespace
} // namespace clusterbench
