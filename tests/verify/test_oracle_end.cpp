// How the oracle's run ends: where it repeats itself, where its budget ends, or where it is told
// to.
#include "harness/judge/oracle.hpp"
#include "harness/judge/oracle_states.hpp"
#include "harness/judge/verifier.hpp"
#include "harness/machine/usable_processors.hpp"
#include "tests/verify/reference_problem.hpp"
#include "tests/verify/run_variant.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <ctime>
#include <omp.h>
#include <pthread.h>
#include <thread>
#include <vector>

namespace clusterbench {
namespace {

using Kind = StopRule::Kind;
constexpr std::size_t kForEver = 100000000;

OracleRun run_for(Family family, const StopRule& stop, const OracleOptions& options = {}) {
  static const std::vector<double> points = reference_points<double>();
  return run_oracle(family, reference_problem<double>(points, stop), options);
}

TEST(OracleEnd, standsStillForEver) {
  const OracleRun run = run_for(Family::kmeans, {Kind::iterations, 0.0, kForEver});
  const OracleRun plain = run_for(Family::kmeans, {Kind::iterations, 0.0, 21});
  EXPECT_EQ(run.iterations, kForEver);
  EXPECT_TRUE(run.complete);
  EXPECT_EQ(run.repeats, 1U);
  EXPECT_LT(run.loss.size(), 30U);
  EXPECT_LT(run.states.size(), 30U);
  EXPECT_EQ(run.stood_still_at, 20U);
  EXPECT_FALSE(run.still_moving);
  EXPECT_EQ(run.returned(), plain.returned());
  EXPECT_EQ(run.final_objective, plain.final_objective);
  EXPECT_EQ(run.states.back().pass, kForEver);
  EXPECT_EQ(run.states[run.states.size() - 2].pass, kForEver - 1);
  EXPECT_TRUE(run.reaches(kForEver));
  for (const std::size_t pass : {1U, 7U, 20U, 21U}) {
    EXPECT_EQ(run.loss_of(pass), plain.loss_of(pass));
    EXPECT_EQ(run.inertia_of(pass), plain.inertia_of(pass));
  }
  EXPECT_EQ(run.loss_of(12345678), plain.loss_of(21));
  EXPECT_EQ(run.objective_after(12345678, false), plain.final_objective);
}

TEST(OracleEnd, ofRulesIsTheRulesOwn) {
  EXPECT_EQ(run_for(Family::kmeans, {Kind::labels, 0.0, kForEver}).iterations, 20U);
  EXPECT_EQ(run_for(Family::kmeans, {Kind::shift, 0.0, kForEver}).iterations, 20U);
  EXPECT_EQ(run_for(Family::kmeans, {Kind::loss, 1e-300, kForEver}).iterations, 21U);
  // |loss - previous loss| < 0 never holds.
  EXPECT_EQ(run_for(Family::kmeans, {Kind::loss, 0.0, kForEver}).iterations, kForEver);
}

TEST(OracleEnd, repeatsFuzzyPassesForEver) {
  const OracleRun run = run_for(Family::fcm, {Kind::iterations, 0.0, kForEver});
  EXPECT_EQ(run.iterations, kForEver);
  EXPECT_TRUE(run.complete);
  EXPECT_GE(run.repeats, 1U);
  EXPECT_LT(run.loss.size(), 100000U);
  // The same as computed to the end, for several ends within a repetition.
  for (const std::size_t more : {1U, 2U, 3U, 4U, 5U}) {
    const std::size_t end = run.loss.size() + more;
    const OracleRun plain = run_for(Family::fcm, {Kind::iterations, 0.0, end});
    EXPECT_EQ(plain.iterations, end);
    for (std::size_t pass = end - 3; pass <= end; ++pass) {
      EXPECT_EQ(run.loss_of(pass), plain.loss_of(pass)) << "pass " << pass << " of " << end;
    }
  }
}

TEST(OracleEnd, repetitionsGiveTheStateOfTheVeryLastPass) {
  // At two ends that differ by one pass: with a repetition of two, not the same.
  for (const std::size_t end : {kForEver, kForEver - 1}) {
    const OracleRun run = run_for(Family::fcm, {Kind::iterations, 0.0, end});
    const std::size_t same_state =
        run.loss.size() + run.repeats * 4 + (end - run.loss.size()) % run.repeats;
    const OracleRun plain = run_for(Family::fcm, {Kind::iterations, 0.0, same_state});
    EXPECT_EQ(run.returned(), plain.returned());
    EXPECT_EQ(run.final_objective, plain.final_objective);
  }
}

TEST(OracleEnd, isWhereTheBudgetEnds) {
  const double pass = 2.0 * kN * kD * kK;
  const StopRule six{Kind::iterations, 0.0, 6};
  const OracleRun cut = run_for(Family::kmeans, six, {.budget = 3.5 * pass});
  EXPECT_EQ(cut.iterations, 3U);
  EXPECT_FALSE(cut.complete);
  EXPECT_TRUE(cut.reaches(3));
  EXPECT_FALSE(cut.reaches(4));
  const OracleRun none = run_for(Family::kmeans, six, {.budget = 0.5 * pass});
  EXPECT_EQ(none.iterations, 0U);
  EXPECT_FALSE(none.reaches(1));
  EXPECT_TRUE(run_for(Family::kmeans, six, {.budget = 6.0 * pass}).complete);
  // What repeats itself within the budget is complete.
  EXPECT_TRUE(
      run_for(Family::kmeans, {Kind::iterations, 0.0, kForEver}, {.budget = 50.0 * pass}).complete);
}

TEST(OracleEnd, anAnswerBeyondItIsJudgedByItself) {
  const auto owned = clouds<float>(3000, 4, 3, 8);
  const Problem<float> problem = owned.view();
  const Meta meta = meta_of(Family::kmeans);
  const auto answer = solve(meta, problem);
  for (const double passes : {0.5, 3.5}) {
    const OracleRun cut =
        run_oracle(Family::kmeans, problem, {.budget = passes * 2.0 * 3000 * 4 * 3});
    const Verdict verdict = verify_answer(meta, problem, answer.view(), cut);
    EXPECT_TRUE(verdict.right()) << verdict.message();
    EXPECT_TRUE(std::isnan(verdict.oracle_objective));
  }
}

TEST(StateKeeper, keepsTheEndsAndStaysWithinItsBound) {
  std::vector<OracleState> states;
  StateKeeper keeper(states, 20 * (10 + 8));
  for (std::size_t pass = 0; pass < 1000; ++pass) {
    keeper.add(pass, std::vector<double>(10, static_cast<double>(pass)));
    EXPECT_LE(states.size(), 20U);
    EXPECT_EQ(states.front().pass, 0U);
    EXPECT_EQ(states.back().pass, pass);
    if (pass > 0) {
      EXPECT_EQ(states[states.size() - 2].pass, pass - 1);
    }
  }
  EXPECT_GE(states.size(), 10U);
  for (std::size_t i = 0; i < states.size(); ++i) {
    EXPECT_EQ(states[i].centroids[0], static_cast<double>(states[i].pass));
    EXPECT_TRUE(i == 0 || states[i].pass > states[i - 1].pass);
  }
  std::vector<OracleState> few;
  StateKeeper tight(few, 1);
  for (std::size_t pass = 0; pass < 100; ++pass) {
    tight.add(pass, {1.0});
    EXPECT_LE(few.size(), 4U);
  }
}

double seconds_of(clockid_t clock) {
  timespec time{};
  EXPECT_EQ(clock_gettime(clock, &time), 0);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// Within a second between the wish to stop and the exception. That is of processor time, of which
/// others that compute take nothing: of this thread, which also does what no others help it with,
/// and on the average of those that compute.
template <typename Work>
void expect_to_stop_soon(const Work& work) {
  clockid_t this_thread{};
  ASSERT_EQ(pthread_getcpuclockid(pthread_self(), &this_thread), 0);
  std::atomic<bool> stop = false;
  double wish = 0.0, wish_of_all = 0.0;
  std::jthread user([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    stop = true;
    wish = seconds_of(this_thread);
    wish_of_all = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
  });
  EXPECT_THROW(work([&] { return stop.load(); }), Interrupted);
  const double end = seconds_of(this_thread), end_of_all = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
  user.join();
  EXPECT_LT(end - wish, 1.0);
  EXPECT_LT(end_of_all - wish_of_all, 1.0 * within_quota(omp_get_max_threads()));
}

TEST(Interruption, endsOracleAndVerifierWithinASecond) {
  for (const bool wide : {false, true}) {
    auto owned = wide ? clouds<float>(20000, 512, 512, 1000) : clouds<float>(300000, 2, 300, 1000);
    const Problem<float> problem = owned.view();
    for (const Family family : {Family::kmeans, Family::fcm}) {
      expect_to_stop_soon([&](const InterruptTest& interrupted) {
        run_oracle(family, problem, {.budget = 1e18, .interrupted = interrupted});
      });
    }
    OwnedAnswer<float> answer;
    answer.labels.assign(problem.n, 0);
    answer.centroids = answer.entering = owned.centroids;
    answer.iterations = 1000;
    for (int pass = 0; pass < 1000; ++pass) {
      answer.recorded.insert(answer.recorded.end(), owned.centroids.begin(), owned.centroids.end());
      if (wide) {
        break;
      }
    }
    answer.iterations = wide ? 1 : 1000;
    expect_to_stop_soon([&](const InterruptTest& interrupted) {
      for (;;) {
        verify_consistency(meta_of(Family::kmeans), problem, answer.view(),
                           {.budget = 1e18, .interrupted = interrupted});
      }
    });
  }
}

TEST(Interruption, isNotAskedByOthers) {
  // Of one call, and not of the next one on this thread.
  EXPECT_THROW(
      run_for(Family::kmeans, {Kind::iterations, 0.0, 5}, {.interrupted = [] { return true; }}),
      Interrupted);
  EXPECT_EQ(run_for(Family::kmeans, {Kind::iterations, 0.0, 5}).iterations, 5U);
}

} // namespace
} // namespace clusterbench
