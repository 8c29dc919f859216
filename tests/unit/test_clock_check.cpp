// Whether a worker's clock is believed, and what is recorded if it is not.
#include "harness/worker/clock_check.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

namespace clusterbench {
namespace {

constexpr bool kProgram = true, kRunner = false;
constexpr int kAnyThreads = 0;

/// What is recorded of a request of which the worker claims `inside` seconds.
double judged(ClockCheck& clock, double inside, double outside, double untimed = 0.0) {
  return clock.judge({.inside = inside,
                      .outside = outside,
                      .untimed = untimed,
                      .waited = 0.0,
                      .waited_here = 0.0,
                      .cpu = 0.0,
                      .of_cpu = 0.0});
}

std::size_t off(const ClockCheck& clock) {
  return clock.report().at("clock_off");
}

// ---- both

TEST(ClockCheck, AnHonestClockIsRecorded) {
  for (const bool is_program : {kProgram, kRunner}) {
    ClockCheck clock(is_program, kAnyThreads);
    clock.round_trip(2e-5);
    EXPECT_EQ(judged(clock, 0.1, 0.1001), 0.1);
    EXPECT_EQ(judged(clock, 0.01, 0.01011), 0.01); // the overhead of a request
    EXPECT_EQ(judged(clock, 10.0, 10.4), 10.0);    // freeing memory takes its share
    EXPECT_EQ(judged(clock, 3.0, 3.0), 3.0);
    EXPECT_EQ(clock.finding(), "");
    EXPECT_EQ(off(clock), 0U);
  }
}

TEST(ClockCheck, ALieGainsNothing) {
  for (const bool is_program : {kProgram, kRunner}) {
    ClockCheck clock(is_program, kAnyThreads);
    for (int run = 0; run < 3; ++run) {
      EXPECT_EQ(judged(clock, 0.04, 0.1), 0.1); // less than half of what passed
      EXPECT_EQ(judged(clock, 0.2, 0.1), 0.1);  // more than passed
      EXPECT_EQ(judged(clock, -1.0, 0.1), 0.1); // before it began
      EXPECT_EQ(judged(clock, std::nan(""), 0.1), 0.1);
      EXPECT_EQ(judged(clock, std::numeric_limits<double>::infinity(), 0.1), 0.1);
    }
    EXPECT_NE(clock.finding().find("in 15 of 15 runs"), std::string::npos) << clock.finding();
    EXPECT_NE(clock.finding().find("100 ms passed"), std::string::npos) << clock.finding();
    EXPECT_EQ(off(clock), 15U);
    EXPECT_EQ(clock.report().at("finding"), clock.finding());
  }
}

TEST(ClockCheck, MoreThanPassedIsNeverAnInterruption) {
  for (const bool is_program : {kProgram, kRunner}) {
    ClockCheck boasts(is_program, kAnyThreads);
    ClockCheck drifts(is_program, kAnyThreads);
    for (int run = 0; run < 2; ++run) {
      EXPECT_EQ(judged(boasts, 10.0, 0.1), 0.1);
      judged(drifts, 0.10005, 0.1);
    }
    EXPECT_NE(boasts.finding().find("in 2 of 2 runs"), std::string::npos) << boasts.finding();
    EXPECT_EQ(drifts.finding(), "");
  }
}

/// A run of 20 ms by the worker's clock and of 100 ms by the parent's.
TimedRequest with_waiting(double waited, double waited_here) {
  return {.inside = 0.02,
          .outside = 0.1,
          .untimed = 0.0,
          .waited = waited,
          .waited_here = waited_here,
          .cpu = 0.02,
          .of_cpu = 0.0};
}

TEST(ClockCheck, WaitingForAProcessorIsNoLieAndTheWorkersIsNoExcuse) {
  for (const bool is_program : {kProgram, kRunner}) {
    ClockCheck here(is_program, kAnyThreads);
    ClockCheck there(is_program, kAnyThreads);
    ClockCheck too_little(is_program, kAnyThreads);
    for (int run = 0; run < 9; ++run) {
      EXPECT_EQ(here.judge(with_waiting(0.079, 0.079)), is_program ? 0.1 : 0.02);
      EXPECT_EQ(there.judge(with_waiting(0.079, 0.0)), 0.1);
      EXPECT_EQ(too_little.judge(with_waiting(0.04, 0.0)), 0.1);
    }
    EXPECT_EQ(here.finding(), "");
    EXPECT_EQ(off(here), 0U);
    EXPECT_EQ(there.finding(), "");
    EXPECT_EQ(off(there), 9U);
    EXPECT_NE(too_little.finding(), "");
    EXPECT_EQ(off(too_little), 9U);
  }
}

TEST(ClockCheck, NothingIsNoTime) {
  for (const bool is_program : {kProgram, kRunner}) {
    for (const double round_trip : {1e-6, 1e-2}) {
      ClockCheck clock(is_program, kAnyThreads);
      clock.round_trip(round_trip);
      for (int run = 0; run < 5; ++run) {
        EXPECT_EQ(judged(clock, run % 2 == 0 ? 0.0 : -1e-5, 1e-4), 1e-4);
      }
      EXPECT_NE(clock.finding(), "");
    }
  }
}

TEST(ClockCheck, MoreThanPassedIsALieHoweverShort) {
  for (const bool is_program : {kProgram, kRunner}) {
    ClockCheck clock(is_program, kAnyThreads);
    clock.round_trip(2e-4);
    for (int run = 0; run < 5; ++run) {
      EXPECT_EQ(judged(clock, 1e-4, 5e-5), 5e-5);
    }
    EXPECT_NE(clock.finding(), "");
  }
}

TEST(ClockCheck, ReadingALargeStartIsExplained) {
  ClockCheck clock(kProgram, kAnyThreads);
  EXPECT_EQ(judged(clock, 0.4, 0.55, 0.2), 0.4);
  EXPECT_EQ(judged(clock, 0.4, 0.55), 0.55);
  EXPECT_EQ(judged(clock, 0.1, 0.25, 0.2), 0.25); // how much of it was reading nobody can tell
}

TEST(ClockCheck, OfRoundTripsTheMedianCountsAndAMillisecondAtMost) {
  ClockCheck one_is_slow(kRunner, kAnyThreads);
  ClockCheck all_are_slow(kRunner, kAnyThreads);
  for (const double seconds : {1e-5, 0.05, 2e-5}) {
    one_is_slow.round_trip(seconds);
    all_are_slow.round_trip(0.05);
  }
  EXPECT_EQ(one_is_slow.report().at("round_trip_ms"), 2e-2);
  EXPECT_EQ(all_are_slow.report().at("round_trip_ms"), 1.0);
  EXPECT_EQ(judged(one_is_slow, 0.009, 0.0097), 0.0097); // .12 ms of round trip and overhead, 5 %
  EXPECT_EQ(judged(all_are_slow, 0.009, 0.0097), 0.009);
  EXPECT_EQ(judged(all_are_slow, 0.1, 0.15), 0.15);
}

TEST(ClockCheck, WhatHandingOverTakesTooLongBelongsToTheRun) {
  ClockCheck clock(kRunner, kAnyThreads);
  clock.round_trip(1e-5);
  const auto take = [](double outside, double untimed, double waited_here) {
    return TimedRequest{.inside = 0.0,
                        .outside = outside,
                        .untimed = untimed,
                        .waited = waited_here,
                        .waited_here = waited_here,
                        .cpu = 0.0,
                        .of_cpu = 0.0};
  };
  EXPECT_EQ(clock.beyond_handing_over(take(1e-4, 0.0, 0.0)), 0.0);
  EXPECT_EQ(clock.beyond_handing_over(take(5e-3, 5e-3, 0.0)), 0.0); // many bytes
  EXPECT_EQ(clock.beyond_handing_over(take(5e-3, 0.0, 5e-3)), 0.0);
  EXPECT_EQ(clock.report().at("answers_late"), 0U);
  EXPECT_NEAR(clock.beyond_handing_over(take(0.02, 5e-3, 0.0)), 0.02 - 5e-3 - 1.1e-4, 1e-9);
  EXPECT_EQ(clock.report().at("answers_late"), 1U);
  EXPECT_EQ(clock.finding(), "");

  ClockCheck peer(kProgram, kAnyThreads);
  peer.round_trip(1e-5);
  EXPECT_EQ(peer.beyond_handing_over(take(3e-4, 0.0, 0.0)), 0.0);
  EXPECT_NEAR(peer.beyond_handing_over(take(1e-3, 0.0, 0.0)), 1e-3 - 4.1e-4, 1e-9);
}

TEST(ClockCheck, FewRunsProveNothing) {
  ClockCheck clock(kProgram, kAnyThreads);
  for (int run = 0; run < 4; ++run) {
    EXPECT_EQ(judged(clock, 0.04, 0.1), 0.1);
    EXPECT_EQ(clock.finding(), "");
  }
  judged(clock, 0.04, 0.1);
  EXPECT_NE(clock.finding(), "");
}

TEST(ClockCheck, LiesInHalfOfTheRunsProveNothingYet) {
  ClockCheck clock(kProgram, kAnyThreads);
  for (int run = 0; run < 5; ++run) {
    judged(clock, 0.04, 0.1);
    judged(clock, 0.1, 0.1001);
  }
  EXPECT_EQ(clock.finding(), "");
  judged(clock, 0.04, 0.1);
  EXPECT_NE(clock.finding().find("in 6 of 11 runs"), std::string::npos) << clock.finding();
}

TEST(ClockCheck, InterruptionsAreNoLie) {
  ClockCheck program(kProgram, kAnyThreads), runner(kRunner, kAnyThreads);
  for (int run = 0; run < 9; ++run) {
    EXPECT_EQ(judged(program, 0.1, 0.15), 0.15); // not believed, and not held against the program
    EXPECT_EQ(judged(runner, 0.1, 0.15), 0.15);
  }
  EXPECT_EQ(program.finding(), "");
  EXPECT_EQ(runner.finding(), "");
  EXPECT_EQ(off(program), 9U);
  EXPECT_EQ(off(runner), 9U);
}

// ---- short runs: programs' are timed from outside, a runner's are believed

TEST(ClockCheck, OurTimeCountsInAProgramsShortRun) {
  ClockCheck clock(kProgram, kAnyThreads);
  clock.round_trip(2e-4);
  for (int run = 0; run < 5; ++run) {
    EXPECT_EQ(judged(clock, 1e-9, 0.0005), 0.0005); // cannot be told from an honest one
    EXPECT_EQ(judged(clock, 0.0016, 0.0019), 0.0019);
  }
  EXPECT_EQ(clock.finding(), "");
  EXPECT_EQ(off(clock), 0U);
  EXPECT_EQ(judged(clock, 0.0020, 0.0025), 0.0020); // long enough
}

TEST(ClockCheck, TheRunnersTimeCountsInItsShortRun) {
  ClockCheck clock(kRunner, kAnyThreads);
  clock.round_trip(2e-5);
  for (int run = 0; run < 5; ++run) {
    EXPECT_EQ(judged(clock, 1e-6, 8e-5), 1e-6);
    EXPECT_EQ(judged(clock, 2e-5, 2e-4), 2e-5);
  }
  EXPECT_EQ(clock.finding(), "");
  EXPECT_EQ(off(clock), 0U);
}

// A round trip of 5 us: of a runner's run of 0.3 ms no more than 0.12 ms are unseen. What is beyond
// may be a processor that woke up late: it gains nothing, and proves nothing. Of a run of 3 ms it
// proves a lie.
TEST(ClockCheck, ATinyClaimOfARunnerGainsNothing) {
  ClockCheck clock(kRunner, kAnyThreads);
  clock.round_trip(5e-6);
  for (int run = 0; run < 3; ++run) {
    EXPECT_EQ(judged(clock, 1e-9, 3e-4), 3e-4);
    EXPECT_EQ(judged(clock, 1.4e-4, 3e-4), 3e-4);
  }
  EXPECT_EQ(judged(clock, 1.8e-4, 3e-4), 1.8e-4);
  EXPECT_EQ(off(clock), 6U);
  EXPECT_EQ(clock.finding(), "");
  for (int run = 0; run < 8; ++run) {
    EXPECT_EQ(judged(clock, 1e-9, 3e-3), 3e-3);
  }
  EXPECT_NE(clock.finding().find("in 8 of 15 runs"), std::string::npos) << clock.finding();
}

// A program's overhead of a millisecond holds the wake-up: beyond it there is no second one.
TEST(ClockCheck, AProgramIsAllowedAMillisecondOnce) {
  ClockCheck clock(kProgram, kAnyThreads);
  for (int run = 0; run < 5; ++run) {
    EXPECT_EQ(judged(clock, 1e-3, 2.6e-3), 2.6e-3);
  }
  EXPECT_NE(clock.finding().find("in 5 of 5 runs"), std::string::npos) << clock.finding();
}

// ---- processors

/// A request of which the clock is honest, and of `cpu` seconds of processor time.
void used(ClockCheck& clock, double cpu, double outside = 0.1) {
  clock.judge({.inside = outside,
               .outside = outside,
               .untimed = 0.0,
               .waited = 0.0,
               .waited_here = 0.0,
               .cpu = cpu,
               .of_cpu = 0.0});
}

TEST(ClockCheck, TwoThreadsWhereOneIsAllowedAreSeen) {
  ClockCheck clock(kRunner, 1);
  for (int run = 0; run < 4; ++run) {
    used(clock, 0.19);
    EXPECT_EQ(clock.finding(), ""); // few runs
  }
  used(clock, 0.19);
  EXPECT_NE(clock.finding().find("in 5 of 5 runs it used more than the one thread"),
            std::string::npos)
      << clock.finding();
  EXPECT_NE(clock.finding().find("190 ms of processor time"), std::string::npos);
}

TEST(ClockCheck, AllThreadsMayBeUsed) {
  ClockCheck clock(kRunner, 2);
  for (int run = 0; run < 9; ++run) {
    used(clock, 0.22); // and the kernel's accounts are coarse
  }
  EXPECT_EQ(clock.finding(), "");
}

// Between two readings more may pass than the request takes: idle threads spin, and this process
// waits.
TEST(ClockCheck, ProcessorTimeIsThatOfItsReadings) {
  for (const auto& [of_cpu, finds] : {std::pair{0.15, false}, std::pair{0.11, true}}) {
    ClockCheck clock(kRunner, 2);
    for (int i = 0; i < 9; ++i) {
      clock.judge({.inside = 0.1,
                   .outside = 0.1,
                   .untimed = 0.0,
                   .waited = 0.0,
                   .waited_here = 0.0,
                   .cpu = 0.3,
                   .of_cpu = of_cpu});
    }
    EXPECT_EQ(clock.finding().empty(), !finds) << of_cpu << ": " << clock.finding();
  }
}

// On a kernel that counts processor time in ticks of 4 ms, a run of 2.5 ms may be charged with one.
TEST(ClockCheck, ATickMoreIsNoCrowd) {
  constexpr double kTick = 0.004;
  ClockCheck one(kRunner, 1, kTick), two(kRunner, 2, kTick), crowd(kRunner, 1, kTick);
  for (int run = 0; run < 9; ++run) {
    used(one, kTick, 0.00254);
    used(two, 3 * kTick, 0.00254);
    used(crowd, 0.19);
  }
  EXPECT_EQ(one.finding(), "");
  EXPECT_EQ(two.finding(), "");
  EXPECT_NE(crowd.finding(), "");
}

TEST(ClockCheck, AnInterruptionShorterThanATickIsNoLie) {
  ClockCheck ticks(kRunner, 1, 0.004), counts(kRunner, 1);
  for (int run = 0; run < 9; ++run) {
    judged(ticks, 6e-6, 0.0015);
    judged(counts, 6e-6, 0.0015);
  }
  EXPECT_EQ(ticks.finding(), "");
  EXPECT_NE(counts.finding(), ""); // there it would have been seen
  for (int run = 0; run < 20; ++run) {
    judged(ticks, 6e-6, 0.01);
  }
  EXPECT_NE(ticks.finding(), "");
}

TEST(ClockCheck, CrowdsInFewRunsAreNone) {
  ClockCheck clock(kRunner, 1);
  for (int run = 0; run < 5; ++run) {
    used(clock, 0.19);
    used(clock, 0.1);
  }
  EXPECT_EQ(clock.finding(), "");
}

TEST(ClockCheck, ProcessorsAreNotCountedInShortRunsOrWhereNobodyAsks) {
  ClockCheck short_runs(kRunner, 1), not_asked(kProgram, kAnyThreads);
  for (int run = 0; run < 9; ++run) {
    used(short_runs, 0.01, 0.0019);
    used(not_asked, 0.5);
  }
  EXPECT_EQ(short_runs.finding(), "");
  EXPECT_EQ(not_asked.finding(), "");
}

} // namespace
} // namespace clusterbench
