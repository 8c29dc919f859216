// Points with weights: the oracle against runs of which nothing is weighted, and what the verifier
// says of answers to weighted problems.
#include "harness/judge/oracle.hpp"
#include "harness/problem/problem_key.hpp"
#include "tests/verify/run_variant.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace clusterbench {
namespace {

using planted::Bug;

/// Clouds whose points have these weights in turn.
template <typename T>
OwnedProblem<T> weighted_clouds(std::vector<T> pattern, std::size_t n = 600,
                                std::size_t passes = 5) {
  OwnedProblem<T> problem = clouds<T>(n, 3, 4, passes);
  for (std::size_t i = 0; i < n; ++i) {
    problem.weights.push_back(pattern[i % pattern.size()]);
  }
  return problem;
}

/// The same points, each as often as its weight says, without weights.
template <typename T>
OwnedProblem<T> with_repeated_rows(const OwnedProblem<T>& problem) {
  OwnedProblem<T> repeated = problem;
  repeated.points.clear();
  repeated.weights.clear();
  repeated.n = 0;
  for (std::size_t i = 0; i < problem.n; ++i) {
    for (T copies = 0; copies < problem.weights[i]; copies += 1) {
      const T* const row = &problem.points[i * problem.d];
      repeated.points.insert(repeated.points.end(), row, row + problem.d);
      ++repeated.n;
    }
  }
  return repeated;
}

void expect_equal_runs(const OracleRun& got, const OracleRun& expected) {
  ASSERT_EQ(got.iterations, expected.iterations);
  const auto near = [](double a, double b) { EXPECT_NEAR(a, b, 1e-13 * std::abs(b)); };
  for (std::size_t i = 0; i < expected.returned().size(); ++i) {
    near(got.returned()[i], expected.returned()[i]);
  }
  for (std::size_t pass = 1; pass <= expected.iterations; ++pass) {
    near(got.loss_of(pass), expected.loss_of(pass));
    near(got.inertia_of(pass), expected.inertia_of(pass));
  }
  near(got.final_objective, expected.final_objective);
  EXPECT_EQ(got.empty_at, expected.empty_at);
  EXPECT_EQ(got.stood_still_at, expected.stood_still_at);
}

template <typename T>
class Weights : public testing::Test {};
using Precisions = testing::Types<float, double>;
TYPED_TEST_SUITE(Weights, Precisions);

TYPED_TEST(Weights, WholeOnesAreRepeatedRows) {
  for (StopRule rule :
       {StopRule{StopRule::Kind::iterations, 0.0, 5}, StopRule{StopRule::Kind::labels, 0.0, 100},
        StopRule{StopRule::Kind::loss, 1.0, 100}, StopRule{StopRule::Kind::shift, 1e-3, 100}}) {
    OwnedProblem<TypeParam> problem = weighted_clouds<TypeParam>({1, 3, 2, 5, 1});
    problem.stop = rule;
    const OwnedProblem<TypeParam> repeated = with_repeated_rows(problem);
    ASSERT_EQ(repeated.n, problem.n / 5 * 12);
    expect_equal_runs(run_oracle(Family::kmeans, problem.view()),
                      run_oracle(Family::kmeans, repeated.view()));
  }
}

TYPED_TEST(Weights, RowsOfWeightZeroAreLeftOut) {
  const OwnedProblem<TypeParam> problem = weighted_clouds<TypeParam>({1, 0, 2, 0, 0, 1});
  expect_equal_runs(run_oracle(Family::kmeans, problem.view()),
                    run_oracle(Family::kmeans, with_repeated_rows(problem).view()));
}

TYPED_TEST(Weights, AFactorOfAllOnlyScalesTheObjective) {
  const OwnedProblem<TypeParam> problem = weighted_clouds<TypeParam>({1, 3, 2, 5, 1});
  OwnedProblem<TypeParam> scaled = problem;
  for (TypeParam& weight : scaled.weights) {
    weight *= TypeParam(0.25);
  }
  const OracleRun run = run_oracle(Family::kmeans, problem.view());
  const OracleRun other = run_oracle(Family::kmeans, scaled.view());
  EXPECT_EQ(other.returned(), run.returned());
  EXPECT_EQ(other.final_objective, 0.25 * run.final_objective);
}

TYPED_TEST(Weights, OnesAreNone) {
  OwnedProblem<TypeParam> problem = weighted_clouds<TypeParam>({1});
  const OracleRun with = run_oracle(Family::kmeans, problem.view());
  problem.weights.clear();
  const OracleRun without = run_oracle(Family::kmeans, problem.view());
  EXPECT_EQ(with.returned(), without.returned());
  EXPECT_EQ(with.loss, without.loss);
  EXPECT_EQ(with.inertia, without.inertia);
}

/// One feature, by hand: the points 0, 1 and 10 with the weights 1, 3 and 0.
TEST(WeightsByHand, AClusterWithoutWeightKeepsItsCentroid) {
  const std::vector<double> points = {0.0, 1.0, 10.0}, weights = {1.0, 3.0, 0.0};
  const std::vector<double> centroids = {-1.0, 9.0};
  Problem<double> problem;
  problem.n = 3;
  problem.d = 1;
  problem.k = 2;
  problem.points = points;
  problem.weights = weights;
  problem.centroids = centroids;
  problem.stop = {StopRule::Kind::iterations, 0.0, 1};
  const OracleRun run = run_oracle(Family::kmeans, problem);
  EXPECT_EQ(run.returned(), (std::vector<double>{0.75, 9.0}));
  EXPECT_EQ(run.loss.front(), 1.0 + 3.0 * 2.0);
  EXPECT_EQ(run.inertia.front(), 1.0 + 3.0 * 4.0);
  EXPECT_EQ(run.final_objective, 0.5625 + 3.0 * 0.0625);
  EXPECT_EQ(run.empty_at, 1U);
}

// ---- the key of the oracle's cache

TEST(WeightsKey, OtherWeightsAreAnotherProblem) {
  OwnedProblem<float> problem = weighted_clouds<float>({1, 2});
  const std::string key = problem_key(Family::kmeans, problem.view());
  problem.weights[7] += 1.0F;
  const std::string other = problem_key(Family::kmeans, problem.view());
  problem.weights.assign(problem.n, 1.0F);
  const std::string ones = problem_key(Family::kmeans, problem.view());
  problem.weights.clear();
  const std::string none = problem_key(Family::kmeans, problem.view());
  EXPECT_EQ((std::set<std::string>{key, other, ones, none}).size(), 4U);
}

// ---- the verifier

template <typename T>
Verdict verdict_of(Bug bug, const OwnedProblem<T>& owned, bool with_recording = true) {
  const Problem<T> problem = owned.view();
  const auto variant = make<T>(Family::kmeans, bug);
  prepare(*variant, problem);
  OwnedAnswer<T> answer = run_once(*variant, Family::kmeans, problem);
  if (!with_recording) {
    answer.recorded.clear();
  }
  return verify_answer(meta_of(Family::kmeans), problem, answer.view(),
                       run_oracle(Family::kmeans, problem));
}

TYPED_TEST(Weights, ARightAnswerIsRight) {
  const std::vector<std::vector<TypeParam>> patterns = {
      {1, 3, 2, 5, 1}, {1, 0, 2, 0, 0, 1}, {TypeParam(0.1)}, {TypeParam(1e-6), TypeParam(1e6)}};
  for (const auto& pattern : patterns) {
    for (const std::size_t n : {600, 30'000}) {
      const Verdict verdict = verdict_of(Bug::none, weighted_clouds<TypeParam>(pattern, n));
      EXPECT_TRUE(verdict.right()) << verdict.message();
      EXPECT_NEAR(verdict.relative_difference, 0.0, 1e-4);
    }
  }
}

TYPED_TEST(Weights, WhoIgnoresThemIsWrong) {
  for (const std::size_t n : {600, 30'000}) {
    const auto problem = weighted_clouds<TypeParam>({1, 3, 2, 5, 1}, n, 1);
    EXPECT_TRUE(finds(verdict_of(Bug::ignores_weights, problem), "means"));
    EXPECT_TRUE(finds(verdict_of(Bug::ignores_weights, problem, false), "means"));
  }
}

TYPED_TEST(Weights, ALostRowIsFoundIfItHasWeight) {
  for (const Bug bug :
       {Bug::drops_one_row, Bug::drops_tail_block, Bug::every_second_row, Bug::racy_sums}) {
    EXPECT_FALSE(verdict_of(bug, weighted_clouds<TypeParam>({1, 3, 0, 5, 1}, 611)).right())
        << static_cast<int>(bug);
  }
}

TYPED_TEST(Weights, TheLossOfTheRuleIsWeighted) {
  OwnedProblem<TypeParam> problem = weighted_clouds<TypeParam>({1, 3, 2, 5, 1});
  problem.stop = {StopRule::Kind::loss, 2.0, 100};
  EXPECT_TRUE(verdict_of(Bug::none, problem).right());
  // As many passes as the rule asks for without weights are not as many as with them.
  const std::size_t passes = run_oracle(Family::kmeans, problem.view()).iterations;
  OwnedProblem<TypeParam> without = problem;
  without.weights.clear();
  EXPECT_NE(run_oracle(Family::kmeans, without.view()).iterations, passes);
}

/// Those of runs that are too large for the oracle, of other samples, and of approximate variants.
TYPED_TEST(Weights, OtherChecksWeighToo) {
  OwnedProblem<TypeParam> owned = weighted_clouds<TypeParam>({1}, 30'000);
  for (std::size_t i = 0; i < owned.n; ++i) { // what has weight lies on one side
    owned.weights[i] = owned.points[i * owned.d] > 0 ? TypeParam(5) : TypeParam(0.5);
  }
  const Problem<TypeParam> problem = owned.view();
  for (const Bug bug : {Bug::none, Bug::ignores_weights}) {
    const auto variant = make<TypeParam>(Family::kmeans, bug);
    prepare(*variant, problem);
    const auto answer = run_once(*variant, Family::kmeans, problem);
    const bool right = bug == Bug::none;
    const Meta meta = meta_of(Family::kmeans);
    EXPECT_EQ(verify_consistency(meta, problem, answer.view()).right(), right);
    EXPECT_EQ(verify_cheaply(meta, problem, answer.view()).right(), right);
    Meta approximate = meta;
    approximate.approximate_within = 1e-4;
    const OracleRun oracle = run_oracle(Family::kmeans, problem);
    EXPECT_EQ(verify_answer(approximate, problem, answer.view(), oracle).right(), right);
  }
}

} // namespace
} // namespace clusterbench
