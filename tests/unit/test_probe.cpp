// Nothing here depends on how fast the machine is, only on the structure of what is measured. That
// the probe really reads and multiplies is checked by the probe itself, whose sums are known.
#include "harness/machine/disturbance.hpp"
#include "harness/machine/probe.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <latch>
#include <stdexcept>
#include <thread>
#include <vector>

namespace clusterbench {
namespace {

constexpr double kSeconds = 0.0005;
constexpr std::size_t kLargest = std::size_t{2} << 20;

void expect_sane(const CpuLimits& limits, int threads) {
  EXPECT_EQ(limits.threads, threads);
  EXPECT_TRUE(limits.vector_bits == 128 || limits.vector_bits == 256 || limits.vector_bits == 512);
  EXPECT_GT(limits.cpu_share, 0.0);
  EXPECT_LE(limits.cpu_share, 1.0);
  for (const double rate : {limits.read_gbs, limits.fma_f32_gflops, limits.fma_f64_gflops,
                            limits.compare_f32_gpairs, limits.compare_f64_gpairs}) {
    EXPECT_TRUE(std::isfinite(rate) && rate > 0.0) << rate;
  }
  ASSERT_GE(limits.read_by_size.size(), 2U);
  for (std::size_t i = 0; i < limits.read_by_size.size(); ++i) {
    const ReadLimit& limit = limits.read_by_size[i];
    EXPECT_TRUE(std::isfinite(limit.gbs) && limit.gbs > 0.0) << limit.gbs;
    EXPECT_GT(limit.bytes, i == 0 ? 0 : limits.read_by_size[i - 1].bytes);
  }
  EXPECT_LE(limits.read_by_size.back().bytes, kLargest);
  EXPECT_GT(limits.read_by_size.back().bytes, kLargest * 9 / 10);
  EXPECT_EQ(limits.read_gbs, limits.read_by_size.back().gbs);
}

TEST(Probe, OneThread) {
  expect_sane(probe_cpu(1, kSeconds, kLargest), 1);
}

TEST(Probe, MoreThreadsThanMostMachinesHaveSpare) {
  expect_sane(probe_cpu(3, kSeconds, kLargest), 3);
}

TEST(Probe, SmallestWorkingSetAllowed) {
  const CpuLimits limits = probe_cpu(2, kSeconds, 2 * 16 * 1024);
  ASSERT_EQ(limits.read_by_size.size(), 1U);
  EXPECT_GT(limits.read_gbs, 0.0);
}

TEST(Probe, ScalingDoublesAndEndsAtTheLastCount) {
  const std::vector<CpuLimits> limits = probe_cpu_scaling(3, kSeconds, kLargest);
  ASSERT_EQ(limits.size(), 3U);
  EXPECT_EQ(limits[0].threads, 1);
  EXPECT_EQ(limits[1].threads, 2);
  EXPECT_EQ(limits[2].threads, 3);
}

TEST(Probe, RefusesNonsense) {
  EXPECT_THROW(probe_cpu(0, kSeconds, kLargest), std::invalid_argument);
  EXPECT_THROW(probe_cpu(-1, kSeconds, kLargest), std::invalid_argument);
  EXPECT_THROW(probe_cpu(1, 0.0, kLargest), std::invalid_argument);
  EXPECT_THROW(probe_cpu(1, std::nan(""), kLargest), std::invalid_argument);
  EXPECT_THROW(probe_cpu(2, kSeconds, 16 * 1024), std::invalid_argument);
  EXPECT_THROW(probe_cpu_scaling(0, kSeconds, kLargest), std::invalid_argument);
}

TEST(Probe, WorkingSetForMemoryIsLargeAndAffordable) {
  EXPECT_GT(memory_working_set(), std::size_t{16} << 20);
}

TEST(Probe, JsonRoundTrip) {
  const CpuLimits limits = probe_cpu(1, kSeconds, kLargest);
  const nlohmann::json json = limits;
  const CpuLimits again = nlohmann::json::parse(json.dump()).get<CpuLimits>();
  EXPECT_EQ(nlohmann::json(again), json);
  EXPECT_EQ(again.fma_f32_gflops, limits.fma_f32_gflops);
  EXPECT_EQ(again.read_by_size.back().bytes, limits.read_by_size.back().bytes);

  nlohmann::json incomplete = json;
  incomplete.erase("compare_f64_gpairs");
  EXPECT_THROW(incomplete.get<CpuLimits>(), nlohmann::json::exception);
}

TEST(Probe, LimitOfASizeIsInterpolatedBetweenTheMeasuredOnes) {
  CpuLimits limits;
  EXPECT_THROW(read_limit_gbs(limits, 1), std::invalid_argument);
  limits.read_by_size = {{1000, 400.0}, {100000, 100.0}, {200000, 50.0}};
  EXPECT_DOUBLE_EQ(read_limit_gbs(limits, 1), 400.0);
  EXPECT_DOUBLE_EQ(read_limit_gbs(limits, 1000), 400.0);
  EXPECT_DOUBLE_EQ(read_limit_gbs(limits, 10000), 250.0); // half way in the logarithm
  EXPECT_DOUBLE_EQ(read_limit_gbs(limits, 100000), 100.0);
  EXPECT_DOUBLE_EQ(read_limit_gbs(limits, 200000), 50.0);
  EXPECT_DOUBLE_EQ(read_limit_gbs(limits, std::size_t{1} << 50), 50.0);
}

TEST(Disturbance, WatchMeasuresTheTimeBetween) {
  const DisturbanceWatch watch;
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const Disturbance between = watch.since();
  EXPECT_GE(between.seconds, 0.02);
  EXPECT_GE(between.involuntary_switches, 0);
  if (between.stolen) {
    EXPECT_GE(*between.stolen, 0.0);
  }
  const nlohmann::json json = between;
  for (const char* key : {"seconds", "stolen_seconds", "involuntary_switches", "mhz_before",
                          "mhz_after", "disturbed"}) {
    EXPECT_TRUE(json.contains(key)) << key;
  }
}

TEST(Disturbance, StolenTimeAndAMovedClockDisturb) {
  Disturbance quiet;
  quiet.seconds = 1.0;
  EXPECT_FALSE(quiet.disturbed());
  Disturbance stolen = quiet;
  stolen.stolen = 0.0;
  EXPECT_FALSE(stolen.disturbed());
  stolen.stolen = 0.2;
  EXPECT_TRUE(stolen.disturbed());
  Disturbance clock = quiet;
  clock.mhz_before = 3000.0;
  clock.mhz_after = 2950.0;
  EXPECT_FALSE(clock.disturbed());
  clock.mhz_after = 2500.0;
  EXPECT_TRUE(clock.disturbed());
  clock.mhz_after.reset();
  EXPECT_FALSE(clock.disturbed());
}

TEST(Disturbance, WaitingAndThrottlingDisturb) {
  Disturbance quiet;
  quiet.seconds = 0.1;
  quiet.waited = 0.0009;
  quiet.throttles = 0;
  EXPECT_FALSE(quiet.disturbed());
  Disturbance waited = quiet;
  waited.waited = 0.0011;
  EXPECT_TRUE(waited.disturbed());
  waited.seconds = 1e-3;
  waited.waited = 0.4e-3; // a thread woke up
  EXPECT_FALSE(waited.disturbed());
  Disturbance hot = quiet;
  hot.throttles = 1;
  EXPECT_TRUE(hot.disturbed());
}

TEST(Disturbance, AGpuThatIsSlowedDownOrChangesItsClockDisturbs) {
  Disturbance quiet;
  quiet.seconds = 0.1;
  quiet.gpu_before.sm_mhz = 1980;
  quiet.gpu_after.sm_mhz = 1965;
  EXPECT_FALSE(quiet.disturbed());
  EXPECT_TRUE(nlohmann::json(quiet).at("gpu_slowed_by").empty());
  Disturbance slower = quiet;
  slower.gpu_after.sm_mhz = 1600;
  EXPECT_TRUE(slower.disturbed());
  Disturbance capped = quiet;
  capped.gpu_before.slowed_by = {"power cap"};
  EXPECT_TRUE(capped.disturbed());
  capped.gpu_after.slowed_by = {"power cap", "hardware thermal slowdown"};
  EXPECT_EQ(nlohmann::json(capped).at("gpu_slowed_by").size(), 2U);
}

TEST(UseOfGpus, WhatHasJustEndedIsWaitedForAndWhatGoesOnIsOthers) {
  using Seconds = std::chrono::duration<double>;
  int asked = 0;
  const auto falls = [&]() -> std::optional<double> { return ++asked < 3 ? 0.5 : 0.0; };
  EXPECT_EQ(settled_use(falls, Seconds(30)), 0.0);
  EXPECT_EQ(asked, 3);
  EXPECT_EQ(settled_use([] { return std::optional(0.97); }, Seconds(0.05)), 0.97);
  // ours, perhaps
  EXPECT_EQ(settled_use([] { return std::optional(0.97); }, Seconds(0)), std::nullopt);
  EXPECT_EQ(settled_use([] { return std::optional(0.0); }, Seconds(0)), 0.0);
  EXPECT_EQ(settled_use([] { return std::optional<double>(); }, Seconds(30)), std::nullopt);
}

TEST(Disturbance, ABusyMachineMakesUsWait) {
  if (!waited_seconds(getpid())) {
    GTEST_SKIP() << "this kernel keeps no account of waiting";
  }
  // More busy threads than CPUs: some of them must wait, whatever else runs.
  const DisturbanceWatch watch;
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(200);
  const unsigned count = 2 * std::max(1U, std::thread::hardware_concurrency());
  std::latch all_done(count);
  std::latch measured(1); // a thread that has ended is in nobody's account
  std::vector<std::jthread> threads;
  for (unsigned i = 0; i < count; ++i) {
    threads.emplace_back([&] {
      while (std::chrono::steady_clock::now() < end) {
      }
      all_done.count_down();
      measured.wait();
    });
  }
  all_done.wait();
  const Disturbance between = watch.since();
  measured.count_down();
  EXPECT_GT(between.waited.value_or(0.0), 0.0);
  EXPECT_TRUE(between.disturbed());
}

TEST(Disturbance, ClockOfNoSuchCpuIsUnknown) {
  EXPECT_FALSE(cpu_mhz(1 << 20));
}

} // namespace
} // namespace clusterbench
