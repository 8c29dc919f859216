// Runs that are too large for the oracle are judged by themselves: what is right passes, whether
// all passes can be afforded, some or none, and an answer that was not computed does not.
#include "harness/judge/run_view.hpp"
#include "harness/judge/verifier.hpp"
#include "tests/verify/run_variant.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <span>
#include <string>
#include <vector>

namespace clusterbench {
namespace {

constexpr std::size_t kPasses = 12;

/// Clouds that touch, with rows of two of them as initial centroids: it takes passes to part them.
template <typename T>
OwnedProblem<T> touching_clouds(std::size_t n = 10000) {
  OwnedProblem<T> owned;
  owned.n = n;
  owned.d = 3;
  owned.k = 5;
  owned.stop = {StopRule::Kind::iterations, 0.0, kPasses};
  std::mt19937_64 random(3);
  std::normal_distribution<double> normal;
  for (std::size_t i = 0; i < owned.n; ++i) {
    for (std::size_t f = 0; f < owned.d; ++f) {
      owned.points.push_back(
          static_cast<T>(6.0 * static_cast<double>((i * (f + 1)) % 5) + 1.5 * normal(random)));
    }
  }
  for (const std::size_t row : {0U, 5U, 10U, 1U, 6U}) {
    const auto* const x = owned.points.data() + row * owned.d;
    owned.centroids.insert(owned.centroids.end(), x, x + owned.d);
  }
  return owned;
}

/// Budgets for no look at all points, for two, and for all of them.
template <typename T>
std::vector<VerifyOptions> regimes(Family family, const Problem<T>& problem) {
  const double look = cost_of_look(family, problem);
  std::vector<VerifyOptions> list;
  for (const double budget : {0.5 * look, 2.5 * look, 100.0 * look}) {
    list.push_back({.budget = budget, .sampled_points = 2000});
  }
  return list;
}

/// With all that an answer may tell, without the entering centroids, and with nothing but the end.
template <typename T>
void expect_right(const Meta& meta, const Problem<T>& problem, const OwnedAnswer<T>& right) {
  auto no_entering = right;
  no_entering.entering.clear();
  auto no_recording = right;
  no_recording.recorded.clear();
  auto neither = no_entering;
  neither.recorded.clear();
  for (const auto& answer : {right, no_entering, no_recording, neither}) {
    for (const VerifyOptions& options : regimes(meta.family, problem)) {
      const Verdict verdict = verify_consistency(meta, problem, answer.view(), options);
      EXPECT_TRUE(verdict.right()) << meta.name << ", budget " << options.budget << "\n"
                                   << verdict.message();
      EXPECT_TRUE(verdict.sampled);
    }
  }
}

/// In every regime, with one of these findings.
template <typename T>
void expect_wrong(const Meta& meta, const Problem<T>& problem, const OwnedAnswer<T>& answer,
                  const std::vector<std::string>& checks) {
  for (const VerifyOptions& options : regimes(meta.family, problem)) {
    const Verdict verdict = verify_consistency(meta, problem, answer.view(), options);
    EXPECT_TRUE(std::any_of(checks.begin(), checks.end(),
                            [&](const auto& check) { return finds(verdict, check); }))
        << "budget " << options.budget << ": " << verdict.message();
  }
}

template <typename T>
class LargeRun : public testing::Test {};
using Precisions = testing::Types<float, double>;
TYPED_TEST_SUITE(LargeRun, Precisions);

TYPED_TEST(LargeRun, underEveryStopRuleIsRight) {
  const auto owned = touching_clouds<TypeParam>();
  for (const StopRule& rule :
       {StopRule{StopRule::Kind::iterations, 0.0, kPasses},
        StopRule{StopRule::Kind::labels, 0.0, 300}, StopRule{StopRule::Kind::loss, 0.5, 300}}) {
    Problem<TypeParam> problem = owned.view();
    problem.stop = rule;
    for (const Family family : {Family::kmeans, Family::fcm}) {
      const Meta meta = meta_of(family);
      expect_right(meta, problem, solve(meta, problem));
    }
  }
}

TYPED_TEST(LargeRun, fromMembershipsIsRight) {
  using T = TypeParam;
  auto owned = touching_clouds<T>();
  owned.centroids.clear();
  std::mt19937 random(1);
  for (std::size_t i = 0; i < owned.n; ++i) {
    std::vector<double> row(owned.k);
    double sum = 0.0;
    for (double& value : row) {
      value = 1.0 + static_cast<double>(random() % 100);
      sum += value;
    }
    for (const double value : row) {
      owned.memberships.push_back(static_cast<T>(value / sum));
    }
  }
  const Meta meta = meta_of(Family::fcm);
  expect_right(meta, owned.view(), solve(meta, owned.view()));
}

TYPED_TEST(LargeRun, inExpandedFormIsRight) {
  const auto owned = touching_clouds<TypeParam>();
  for (const Family family : {Family::kmeans, Family::fcm}) {
    const Meta meta = meta_of(family, DistanceForm::expanded);
    expect_right(meta, owned.view(), solve(meta, owned.view()));
  }
}

TYPED_TEST(LargeRun, ofOnePassInsteadOfManyIsWrong) {
  using T = TypeParam;
  auto owned = touching_clouds<T>();
  for (const Family family : {Family::kmeans, Family::fcm}) {
    const Meta meta = meta_of(family);
    owned.stop.max_iterations = 1;
    auto answer = solve(meta, owned.view());
    owned.stop.max_iterations = 300;
    expect_wrong(meta, owned.view(), answer, {"stop rule"});
    auto all_the_same = answer;
    all_the_same.iterations = 300;
    all_the_same.recorded.clear();
    for (std::size_t pass = 0; pass < 300; ++pass) {
      all_the_same.recorded.insert(all_the_same.recorded.end(), answer.centroids.begin(),
                                   answer.centroids.end());
    }
    expect_wrong(meta, owned.view(), all_the_same, {"entering"});
    all_the_same.entering.clear();
    expect_wrong(meta, owned.view(), all_the_same, {"labels", "memberships"});
    all_the_same.entering = answer.centroids;
    expect_wrong(meta, owned.view(), all_the_same, {"labels", "memberships"});
    if (family == Family::kmeans) {
      answer.recorded.clear();
      expect_wrong(meta, owned.view(), answer, {"stop rule"});
    }
  }
}

TYPED_TEST(LargeRun, ofRandomLabelsAndTheirMeansIsWrong) {
  using T = TypeParam;
  auto owned = touching_clouds<T>();
  // Without a recording only the objective tells, if the initial centroids were better: one a
  // cloud.
  owned.centroids.assign(owned.points.begin(), owned.points.begin() + 15);
  const Meta meta = meta_of(Family::kmeans);
  const auto variant = make<T>(Family::kmeans, planted::Bug::random_labels);
  prepare(*variant, owned.view());
  auto answer = run_once(*variant, Family::kmeans, owned.view());
  expect_wrong(meta, owned.view(), answer, {"labels"});
  answer.recorded.clear();
  expect_wrong(meta, owned.view(), answer, {"descent"});
}

TYPED_TEST(LargeRun, whoseCentroidsAreAllTheSameIsWrong) {
  using T = TypeParam;
  const auto owned = touching_clouds<T>();
  Meta meta = meta_of(Family::kmeans);
  meta.labels = LabelsFrom::returned_centroids;
  OwnedAnswer<T> answer;
  answer.iterations = kPasses;
  answer.labels.assign(owned.n, 0);
  answer.centroids.assign(owned.k * owned.d, T(42));
  expect_wrong(meta, owned.view(), answer, {"descent"});
  answer.recorded.assign(kPasses * owned.k * owned.d, T(42));
  expect_wrong(meta, owned.view(), answer, {"descent"});
}

TYPED_TEST(LargeRun, withoutMembershipsIsWrong) {
  using T = TypeParam;
  auto owned = touching_clouds<T>();
  const Meta meta = meta_of(Family::fcm);
  auto answer = solve(meta, owned.view());
  std::fill(answer.memberships.begin(), answer.memberships.end(), T(0));
  owned.memberships.assign(owned.n * owned.k, T(1) / static_cast<T>(owned.k));
  owned.centroids.clear();
  expect_wrong(meta, owned.view(), answer, {"row sums"});
}

TYPED_TEST(LargeRun, whoseLastPassDoesNotFollowIsWrong) {
  using T = TypeParam;
  const auto owned = touching_clouds<T>();
  for (const Family family : {Family::kmeans, Family::fcm}) {
    const Meta meta = meta_of(family);
    auto answer = solve(meta, owned.view());
    const std::size_t size = owned.k * owned.d;
    for (std::size_t i = 0; i < size; ++i) {
      answer.recorded[(kPasses - 2) * size + i] += T(4);
    }
    expect_wrong(meta, owned.view(), answer, {"entering"});
    answer.entering.clear();
    expect_wrong(meta, owned.view(), answer, {"labels", "memberships"});
  }
}

} // namespace
} // namespace clusterbench
