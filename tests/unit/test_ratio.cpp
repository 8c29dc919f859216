// Ratios of two cells' times: start by start where both had the same starts.
#include "tests/unit/ledger_rows.hpp"

#include "harness/ledger/ratio.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace clusterbench {
namespace {

using nlohmann::json;

Costs costs(const std::vector<Costs::Round>& rounds, const std::string& starts = "the same") {
  return {starts, rounds};
}

Measured cell_of(const std::vector<json>& lines, const json& head = made_up::header()) {
  return measurements_of(made_up::rows_of(lines, head)).cells.at(0);
}

json line(const std::vector<double>& samples, std::size_t passes = 10, int round = 1) {
  json row = made_up::row("t", "v", "ok", made_up::problem({}), round);
  made_up::put_times(row, samples, passes);
  return row;
}

TEST(Ratio, OfOnePassAndOfWholeAnswers) {
  const Measured cell = cell_of({line({10.0, 20.0, 30.0}), line({1.0, 2.0, 3.0}, 2, 2)});
  const Costs passes = pass_costs(cell);
  EXPECT_EQ(passes.ms(), (Rounds{{1.0, 2.0, 3.0}, {0.5, 1.0, 1.5}}));
  EXPECT_EQ(passes.rounds[0].starts, (std::vector<std::size_t>{0, 1, 2}));
  EXPECT_EQ(whole_costs(cell).ms().front(), std::vector<double>(5, 21.0));
  json without = line({1.0});
  without.erase("whole");
  EXPECT_TRUE(whole_costs(cell_of({without})).rounds.empty());
}

TEST(Ratio, StartsAreTheSameOnlyOfOneSeedPlanAndProblem) {
  const std::string mine = pass_costs(cell_of({line({1.0})})).starts_of;
  EXPECT_NE(mine, "");
  EXPECT_EQ(pass_costs(cell_of({line({2.0})}, made_up::header("another processor"))).starts_of,
            mine);
  EXPECT_NE(pass_costs(cell_of({line({1.0})}, made_up::header("a processor", 8))).starts_of, mine);
  EXPECT_EQ(pass_costs(cell_of({line({1.0})}, made_up::header("a processor", {}))).starts_of, "");
  json other = line({1.0});
  other["problem"]["hash"] = "of another";
  EXPECT_NE(pass_costs(cell_of({other})).starts_of, mine);
  json plan = made_up::header();
  plan["sampling"]["samples"] = 3; // puts the own start elsewhere
  EXPECT_NE(pass_costs(cell_of({line({1.0})}, plan)).starts_of, mine);
}

TEST(Ratio, IsTheMedianOfThoseByStart) {
  const Costs base = costs({{{10.0, 100.0, 1000.0, 7.0}, {0, 1, 2, 3}}});
  const Costs fresh = costs({{{1200.0, 110.0, 10.0, 1.0}, {2, 1, 0, 9}}});
  const Ratio ratio = ratio_of(base, fresh);
  EXPECT_TRUE(ratio.paired);
  EXPECT_NEAR(ratio.ratio, 1.1, 1e-12); // of 1.0, 1.1 and 1.2
  EXPECT_TRUE(ratio.is_range);          // of three pairs
  EXPECT_NEAR(ratio.interval.low, 1.0, 1e-12);
  EXPECT_NEAR(ratio.interval.high, 1.2, 1e-12);
  EXPECT_EQ(point_ratio(base, fresh), ratio.ratio);
}

TEST(Ratio, WithoutTheSameStartsIsOfTheMedians) {
  const Costs base = costs({{{10.0, 100.0, 1000.0}, {0, 1, 2}}});
  for (const Costs& fresh : {costs({{{20.0, 200.0, 1.0}, {0, 1, 2}}}, "others"),
                             costs({{{20.0, 200.0, 1.0}, {0, 1, 2}}}, ""),
                             costs({{{20.0, 200.0, 1.0}, {0, 1, 7}}})}) { // two in common
    const Ratio ratio = ratio_of(base, fresh);
    EXPECT_FALSE(ratio.paired);
    EXPECT_DOUBLE_EQ(ratio.ratio, 0.2);
  }
}

TEST(Ratio, OnlyStartsOfAllRoundsCount) {
  const Costs base = costs({{{10, 20, 30, 40}, {0, 1, 2, 3}}, {{10, 20, 30, 5}, {0, 1, 2, 4}}});
  const Costs fresh = costs({{{20, 40, 60, 1}, {0, 1, 2, 3}}, {{20, 40, 60, 1}, {0, 1, 2, 4}}});
  const auto paired = pair_by_start(base, fresh);
  ASSERT_TRUE(paired);
  for (const std::vector<double>& round : (*paired)[0]) {
    EXPECT_EQ(round.size(), 3u);
  }
  EXPECT_NEAR(point_ratio(base, fresh), 2.0, 1e-12);
}

TEST(Ratio, RefusesWhatIsNoTime) {
  const Costs one = costs({{{1.0}, {0}}});
  EXPECT_THROW(ratio_of(one, costs({})), std::invalid_argument);
  EXPECT_THROW(ratio_of(one, costs({{{0.0}, {0}}})), std::invalid_argument);
  EXPECT_THROW(point_ratio(costs({{{std::numeric_limits<double>::quiet_NaN()}, {0}}}), one),
               std::invalid_argument);
}

// Starts that differ by a factor of two, processes by 3 % (rounds) and runs by 1 %.
TEST(Ratio, TheIntervalCoversTheTrueOneAsOftenAsItSays) {
  std::mt19937_64 random(11);
  std::normal_distribution<double> normal;
  constexpr int kTrials = 400;
  for (const std::size_t rounds : {1, 4, 6}) {
    int covered = 0;
    double width = 0.0;
    for (int trial = 0; trial < kTrials; ++trial) {
      std::vector<double> starts(19);
      for (double& start : starts) {
        start = 0.7 * normal(random);
      }
      const auto side = [&] {
        std::vector<Costs::Round> all(rounds);
        for (Costs::Round& round : all) {
          const double process = rounds == 1 ? 0.0 : 0.03 * normal(random);
          for (std::size_t s = 0; s < starts.size(); ++s) {
            round.ms.push_back(std::exp(starts[s] + process + 0.01 * normal(random)));
            round.starts.push_back(s);
          }
        }
        return costs(all);
      };
      const Costs base = side();
      const Ratio ratio = ratio_of(base, side(), 500, static_cast<std::uint64_t>(trial) + 1);
      covered += ratio.interval.low <= 1.0 && 1.0 <= ratio.interval.high ? 1 : 0;
      width += (ratio.interval.high - ratio.interval.low) / kTrials;
    }
    EXPECT_GE(covered, kTrials * 88 / 100) << rounds;
    EXPECT_LE(covered, kTrials * 995 / 1000) << rounds;
    EXPECT_LT(width, 0.15) << rounds; // nothing of the factor of two
  }
}

} // namespace
} // namespace clusterbench
