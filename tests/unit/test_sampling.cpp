// When a cell has samples enough, in whole cycles of starts, and which of them are warm-up: on
// series made by hand.
#include "harness/campaign/measure.hpp"
#include "harness/campaign/sampling.hpp"
#include "harness/problem/starts.hpp"
#include "harness/worker/replies.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <benchmark/benchmark.h>
#include <chrono>
#include <cmath>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace clusterbench {
namespace {

using Series = std::vector<double>;

/// `count` samples around 10 that differ by up to 2 %, in no order.
Series steady(std::size_t count) {
  const Series pattern = {10.02, 9.94, 10.1, 9.98, 10.06, 9.92, 10.0, 10.08, 9.96, 10.04};
  Series series;
  for (std::size_t i = 0; i < count; ++i) {
    series.push_back(pattern[i % pattern.size()]);
  }
  return series;
}

Series after(Series first, const Series& rest) {
  first.insert(first.end(), rest.begin(), rest.end());
  return first;
}

// ---- warm-up

TEST(WarmUp, NoneInSteadyOrConstantSamples) {
  EXPECT_EQ(warm_up_length(steady(12)), 0U);
  EXPECT_EQ(warm_up_length(Series(12, 3.0)), 0U);
}

TEST(WarmUp, SlowFirstSamplesAre) {
  EXPECT_EQ(warm_up_length(after({14.0}, steady(9))), 1U);
  EXPECT_EQ(warm_up_length(after({30.0, 12.0, 11.0}, steady(9))), 3U);
  EXPECT_EQ(warm_up_length(after({14.0}, Series(9, 10.0))), 1U); // a fence of no width
}

TEST(WarmUp, ItEndsAtTheFirstSampleThatIsNot) {
  EXPECT_EQ(warm_up_length(after({10.0, 14.0}, steady(10))), 0U);
  EXPECT_EQ(warm_up_length(after({14.0, 10.0, 14.0}, steady(10))), 1U);
}

TEST(WarmUp, AtMostAQuarter) {
  const Series step = after(Series(4, 20.0), steady(12)); // 4 of 16
  EXPECT_EQ(warm_up_length(step), 4U);
  const Series longer = after(Series(6, 20.0), steady(12)); // 6 of 18: at most 4 could go
  EXPECT_LE(warm_up_length(longer), 4U);
  const Series half = after(Series(8, 20.0), steady(8)); // which half is warm?
  EXPECT_EQ(warm_up_length(half), 0U);
}

TEST(WarmUp, ADriftIsNone) {
  Series falling;
  Series rising;
  for (int i = 0; i < 20; ++i) {
    falling.push_back(12.0 - 0.1 * i);
    rising.push_back(10.0 + 0.1 * i);
  }
  EXPECT_EQ(warm_up_length(falling), 0U);
  EXPECT_EQ(warm_up_length(rising), 0U);
}

TEST(WarmUp, AFadingOneIsTheStartOnly) {
  Series fading;
  for (int i = 0; i < 24; ++i) {
    fading.push_back(steady(24)[static_cast<std::size_t>(i)] * (1.0 + std::exp(-i)));
  }
  EXPECT_EQ(warm_up_length(fading), 5U); // 1.8 % is left in the fifth, less in the others
}

TEST(WarmUp, AnOutlierLaterOnIsNone) {
  Series series = steady(12);
  series[6] = 25.0;
  EXPECT_EQ(warm_up_length(series), 0U);
}

TEST(WarmUp, FastFirstSamplesAreNone) {
  EXPECT_EQ(warm_up_length(after({5.0, 6.0}, steady(10))), 0U);
}

TEST(WarmUp, LessThanOnePercentIsNone) {
  EXPECT_EQ(warm_up_length(after({10.05}, Series(9, 10.0))), 0U);
}

TEST(WarmUp, TooFewToTell) {
  EXPECT_EQ(warm_up_length(Series{}), 0U);
  EXPECT_EQ(warm_up_length(Series{50.0}), 0U);
  EXPECT_EQ(warm_up_length(Series{50.0, 1.0, 1.0}), 0U);
  EXPECT_EQ(warm_up_length(Series{50.0, 1.0, 1.0, 1.0}), 1U);
}

/// No plan asks for more runs, those of warm-up counted, of which there is a quarter at most.
std::size_t most_runs(const SamplingPlan& plan) {
  const std::size_t kept = std::max(plan.samples, plan.max_samples);
  const std::size_t all = kept + kept / 3 + 1;
  return plan.samples < kStartCycle ? all : (all + kStartCycle - 1) / kStartCycle * kStartCycle;
}

TEST(Sampling, LaterLoadTurnsWarmUpIntoSamplesAgain) {
  SamplingPlan plan;
  plan.samples = 9;
  plan.max_samples = 20;
  plan.min_seconds = 1e9; // never enough
  Series seconds;
  SamplingStep step = next_step(plan, seconds, 0.0);
  for (; step.more > 0; step = next_step(plan, seconds, 0.01)) {
    for (std::size_t i = 0; i < step.more; ++i) {
      const std::size_t run = seconds.size();
      seconds.push_back(run < 2 ? 1.2 : run < 16 ? 1.0 : 1.5); // the machine is busy from then on
    }
  }
  EXPECT_EQ(step.ended_because, "largest number of samples");
  EXPECT_EQ(step.warm_up, 0U);
  EXPECT_GT(seconds.size(), plan.max_samples);
  EXPECT_LE(seconds.size(), most_runs(plan));
}

TEST(Sampling, NeverTakesMoreThanTheMostRuns) {
  for (const std::size_t least : {1, 9, 30}) {
    SamplingPlan plan;
    plan.samples = least;
    plan.max_samples = 20;
    plan.min_seconds = 1e9; // never enough
    Series seconds;
    // As many slow runs at the start as can be warm-up, whatever has been taken.
    for (SamplingStep step = next_step(plan, seconds, 0.0); step.more > 0;
         step = next_step(plan, seconds, 0.01)) {
      for (std::size_t i = 0; i < step.more; ++i) {
        seconds.push_back(seconds.size() < 10
                              ? 1.0
                              : 1e-3 * (1.0 + 1e-3 * static_cast<double>(seconds.size() % 7)));
      }
      ASSERT_LE(seconds.size(), most_runs(plan));
    }
    EXPECT_GE(seconds.size(), std::max(plan.samples, plan.max_samples));
  }
}

// ---- when to stop

const SamplingPlan kPlan{
    .samples = 9, .target = 0.01, .min_seconds = 0.0, .budget_seconds = 100.0, .max_samples = 40};

TEST(Sampling, OneRunFirstThenAsManyAsAreAskedFor) {
  EXPECT_EQ(next_step(kPlan, Series{}, 0.0).more, 1U);
  EXPECT_EQ(next_step(kPlan, steady(1), 1.0).more, 8U);
  EXPECT_EQ(next_step(kPlan, after({20.0}, steady(8)), 1.0).more, 9U); // for that of the warm-up
}

TEST(Sampling, TakesWholeCyclesOfStarts) {
  for (const std::size_t least : {9, 10, 18, 30}) {
    for (const double first : {10.0, 20.0}) { // steady, or with a warm-up
      SamplingPlan plan = kPlan;
      plan.samples = least;
      plan.min_seconds = 1e9; // never enough
      Series seconds;
      std::vector<std::size_t> decisions;
      SamplingStep step = next_step(plan, seconds, 0.0);
      for (; step.more > 0; step = next_step(plan, seconds, 0.01)) {
        for (std::size_t i = 0; i < step.more; ++i) {
          seconds.push_back(seconds.empty() ? first : steady(20)[seconds.size() % 20]);
        }
        decisions.push_back(seconds.size());
      }
      EXPECT_EQ(step.ended_because, "largest number of samples");
      EXPECT_GE(seconds.size() - step.warm_up, plan.max_samples);
      EXPECT_EQ(decisions.front(), 1U);
      for (const std::size_t taken : std::span(decisions).subspan(1)) {
        EXPECT_EQ(taken % kStartCycle, 0U) << least << " " << first;
      }
    }
  }
}

TEST(Sampling, TheLeastNumberIsTakenWithoutACycleThatNobodyCanAfford) {
  EXPECT_EQ(next_step(kPlan, after({20.0}, steady(8)), 99.0).more, 1U);
  EXPECT_EQ(next_step(kPlan, after({20.0}, steady(8)), 1000.0).more, 1U);
  SamplingPlan ten = kPlan;
  ten.samples = 10;
  EXPECT_EQ(next_step(ten, steady(1), 1.0).more, 17U);
  EXPECT_EQ(next_step(ten, steady(1), 20.0).more, 9U);
}

TEST(Sampling, PlansForFewSamplesHaveNoCycles) {
  SamplingPlan plan = kPlan;
  plan.samples = 3;
  EXPECT_EQ(next_step(plan, steady(1), 1.0).more, 2U);
  EXPECT_EQ(next_step(plan, after({20.0}, steady(3)), 1.0).more, 2U); // half as many again
  EXPECT_EQ(next_step(plan, Series{10.0, 15.0, 10.0}, 99.0).more, 1U);
}

TEST(Sampling, EndsWhenTheIntervalIsNarrow) {
  const SamplingStep step = next_step(kPlan, Series(9, 10.0), 1.0);
  EXPECT_EQ(step.more, 0U);
  EXPECT_EQ(step.ended_because, "the interval is narrow");
}

TEST(Sampling, ANarrowIntervalOfTooLittleTimeDoesNot) {
  SamplingPlan plan = kPlan;
  plan.min_seconds = 100.0;
  EXPECT_GT(next_step(plan, Series(9, 10.0), 1.0).more, 0U);
  EXPECT_EQ(next_step(plan, Series(10, 10.0), 1.0).more, 0U);
}

Series noisy(std::size_t count) {
  Series series;
  for (std::size_t i = 0; i < count; ++i) {
    series.push_back(i % 2 == 0 ? 10.0 : 15.0);
  }
  return series;
}

TEST(Sampling, AWideIntervalAsksForMore) {
  const SamplingStep step = next_step(kPlan, noisy(9), 1.0);
  EXPECT_EQ(step.more, 9U); // half as many again, in whole cycles
  EXPECT_EQ(step.ended_because, "");
}

TEST(Sampling, EndsWhenTheBudgetIsSpent) {
  EXPECT_EQ(next_step(kPlan, noisy(9), 100.0).ended_because, "the budget is spent");
  // 9 took 60 s, 40 s are left: most of a cycle
  EXPECT_EQ(next_step(kPlan, noisy(9), 60.0).more, 9U);
  EXPECT_EQ(next_step(kPlan, noisy(9), 81.0).ended_because, "the budget is spent"); // 19 s are not
  EXPECT_EQ(next_step(kPlan, noisy(9), 81.0).more, 0U);
  EXPECT_EQ(next_step(kPlan, noisy(27), 59.0).more, 18U); // 14 would be half as many again
  EXPECT_EQ(next_step(kPlan, noisy(27), 75.0).more, 9U);  // 9 are affordable
  EXPECT_GT(next_step(kPlan, noisy(3), 1000.0).more, 0U); // not below the least number
}

TEST(Sampling, EndsAtTheLargestNumber) {
  EXPECT_EQ(next_step(kPlan, noisy(36), 1.0).more, 9U);
  EXPECT_EQ(next_step(kPlan, noisy(40), 1.0).ended_because, "largest number of samples");
}

// ---- with Google Benchmark as the engine

TEST(TakeSamples, SplitsTheRunsAtTheEndOfTheWarmUp) {
  const Series series = after({30.0, 20.0}, Series(20, 10.0));
  std::size_t run = 0;
  const Samples samples = take_samples("a name", kPlan, [&] { return series.at(run++); });
  EXPECT_EQ(samples.warm_up, (Series{30.0, 20.0}));
  EXPECT_EQ(samples.seconds, Series(16, 10.0)); // of two cycles
  EXPECT_EQ(samples.cpu_ms.size(), 16U);
  EXPECT_EQ(samples.row.at("name"), "a name");
  EXPECT_EQ(samples.row.at("repetitions"), 16);
  EXPECT_DOUBLE_EQ(samples.row.at("real_time").get<double>(), 10e3); // of the first kept one
  EXPECT_EQ(samples.ended_because, "the interval is narrow");
}

TEST(TakeSamples, TimesWithoutADeviationInPercentAreTaken) { // a mean of 0: nobody may divide by it
  const Samples samples = take_samples("a name", kPlan, [] { return 0.0; });
  EXPECT_GE(samples.seconds.size(), 9U);
  EXPECT_EQ(samples.seconds, Series(samples.seconds.size(), 0.0));
}

// Samples that differ for ever, by the plan's clock taken in no time or, in truth, in more than the
// budget.
TEST(TakeSamples, WaitingIsNoSampling) {
  SamplingPlan plan = kPlan;
  plan.budget_seconds = 0.02;
  const auto sampled = [&](const std::function<double()>& wait) {
    std::size_t run = 0;
    const auto timed = [&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(3));
      return run++ % 2 == 0 ? 1.0 : 2.0;
    };
    return take_samples("a name", plan, timed, wait).ended_because;
  };
  EXPECT_EQ(sampled([] { return 0.0; }), "the budget is spent");
  EXPECT_EQ(sampled([] { return 100.0; }), "largest number of samples"); // more than there was
}

TEST(TakeSamples, ABatchWithoutASampleIsAnErrorOfTheCell) {
  take_samples("a name", kPlan, [] { return 1.0; }); // from now on no flag is set
  benchmark::SetBenchmarkFilter("nothing");
  std::string status;
  try {
    take_samples("a name", kPlan, [] { return 1.0; });
  } catch (const WorkerFailure& failure) {
    status = failure.status();
  }
  benchmark::SetBenchmarkFilter(".");
  EXPECT_EQ(status, "error");
}

TEST(TakeSamples, PassesOnWhatARunThrows) {
  std::size_t run = 0;
  const auto third_fails = [&]() -> double {
    return ++run == 3 ? throw std::runtime_error("the third") : 1.0;
  };
  EXPECT_THROW(take_samples("a name", kPlan, third_fails), std::runtime_error);
  EXPECT_EQ(run, 3U);
}

} // namespace
} // namespace clusterbench
