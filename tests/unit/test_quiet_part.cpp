// Which samples count as quiet, and what that does to a comparison under load.
#include "harness/machine/fixed_work.hpp"
#include "harness/report/compare/process_test.hpp"
#include "harness/report/compare/quiet_part.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace clusterbench {
namespace {

// Rounds of 20 samples. A busy machine makes the variant take 1.4 times as long, in so many samples of
// each round.
Costs campaign(std::mt19937_64& random, std::size_t rounds, double share_busy,
               double slower = 1.0) {
  std::normal_distribution<double> normal(0.0, 0.005);
  std::bernoulli_distribution is_busy(share_busy);
  Costs costs;
  for (std::size_t r = 0; r < rounds; ++r) {
    Costs::Round& round = costs.rounds.emplace_back();
    for (int i = 0; i < 20; ++i) {
      const bool busy = is_busy(random);
      round.ms.push_back((busy ? 1.4 : 1.0) * slower * std::exp(normal(random)));
      // Half of the busy samples show in the fixed work, the others in what else ran.
      const double others = busy && i % 2 == 0 ? 1.0 : 0.0;
      const double longer = busy && i % 2 == 1 ? 1.2 : 1.0;
      round.around.push_back({100.0 * longer * (1.0 + std::abs(normal(random))), others});
    }
  }
  return costs;
}

Costs without_busyness(Costs costs) {
  for (Costs::Round& round : costs.rounds) {
    round.around.clear();
  }
  return costs;
}

TEST(QuietPart, LeavesOutWhatMetABusyMachine) {
  std::mt19937_64 random(1);
  const QuietPart part(campaign(random, 8, 0.2), campaign(random, 8, 0.6));
  EXPECT_EQ(part.samples, (std::array<std::size_t, 2>{160, 160}));
  EXPECT_NEAR(static_cast<double>(part.quiet[0]), 128.0, 20.0);
  EXPECT_NEAR(static_cast<double>(part.quiet[1]), 64.0, 20.0);
  for (const Costs& costs : part.costs) {
    for (const Costs::Round& round : costs.rounds) {
      EXPECT_LT(std::ranges::max(round.ms), 1.1);
      EXPECT_EQ(round.ms.size(), round.around.size());
    }
  }
}

TEST(QuietPart, ARoundWithHardlyAQuietSampleIsLeftOut) {
  Costs::Round busy{
      {1.4, 1.4, 1.4, 1.0, 1.0}, {}, {{120}, {100, 0.5}, {100, 0.06}, {100}, {100, 0.05}}};
  Costs::Round quiet{busy.ms, {}, std::vector<Busyness>(5, {100})};
  const QuietPart part({"", {quiet, busy, quiet}}, {"", {quiet}});
  EXPECT_EQ(part.costs[0].rounds.size(), 2U);
  EXPECT_EQ(part.quiet, (std::array<std::size_t, 2>{12, 5}));
}

TEST(QuietPart, WhereNothingWasMeasuredAroundThemAllSamplesCount) {
  std::mt19937_64 random(2);
  const Costs base = campaign(random, 3, 0.5), fresh = without_busyness(campaign(random, 3, 0.5));
  const QuietPart part(base, fresh);
  EXPECT_EQ(part.quiet, part.samples);
  EXPECT_EQ(part.costs[0].rounds[0].ms, base.rounds[0].ms);
}

// Two campaigns of one build, of which one met a busier machine: no alarm. A slowdown is found.
TEST(QuietPart, AnotherLoadIsNoSlowdown) {
  std::mt19937_64 random(3);
  for (int trial = 0; trial < 100; ++trial) {
    const Costs base = campaign(random, 8, 0.1), fresh = campaign(random, 8, 0.7);
    EXPECT_GT(ProcessTest::of(base, fresh)->p_slower(), 0.001);
    EXPECT_LT(ProcessTest::of(base, campaign(random, 8, 0.7, 1.05))->p_slower(), 0.001);
  }
  const Costs base = without_busyness(campaign(random, 8, 0.1));
  const Costs fresh = without_busyness(campaign(random, 8, 0.7));
  EXPECT_LT(ProcessTest::of(base, fresh)->p_slower(), 0.001); // so it would be without
}

TEST(QuietPart, ACampaignThatWasNeverQuietTellsNothing) {
  std::mt19937_64 random(4);
  EXPECT_FALSE(ProcessTest::of(campaign(random, 8, 0.0), campaign(random, 8, 1.0)));
}

// The same starts on both sides: what a start costs is taken off before, by the starts of all samples.
TEST(QuietPart, StartsInCommonAreTakenOffFirst) {
  std::mt19937_64 random(5);
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
  const auto test = ProcessTest::of(with_starts(campaign(random, 8, 0.0)),
                                    with_starts(campaign(random, 8, 0.05)));
  ASSERT_TRUE(test);
  EXPECT_NEAR(test->log_ratio(), 0.0, 0.03);
  EXPECT_LT(test->standard_error(), 0.03);
}

TEST(FixedWork, TakesTimeOnAnyNumberOfThreads) {
  for (const int threads : {1, 2, 1000}) {
    FixedWork work(threads);
    for (int i = 0; i < 3; ++i) {
      EXPECT_GT(work.microseconds(), 1.0);
    }
  }
}

} // namespace
} // namespace clusterbench
