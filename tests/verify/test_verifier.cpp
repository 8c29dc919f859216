// The verifier accepts what is right (correct variants in both precisions and distance forms, on
// every qualification problem and every one-step state), and keeps its own promises: early stops,
// sampling, odd input.
#include "harness/judge/one_step_states.hpp"
#include "harness/judge/qualification.hpp"
#include "harness/judge/verifier.hpp"
#include "tests/verify/run_variant.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

namespace clusterbench {
namespace {

template <typename T>
class Verifier : public testing::Test {};
using Precisions = testing::Types<float, double>;
TYPED_TEST_SUITE(Verifier, Precisions);

template <typename T>
void expect_control_passes(Family family, DistanceForm form) {
  const Meta meta = meta_of(family, form);
  // At an offset of 1e4 the expanded form has too few digits left in float; the program is right.
  const VerifyOptions options{.judges_precision = form == DistanceForm::difference};
  for (const auto& owned : qualification_problems<T>(family)) {
    const Problem<T> problem = owned.view();
    const OracleRun oracle = run_oracle(family, problem);
    const auto answer = solve(meta, problem);
    const Verdict verdict = verify_answer(meta, problem, answer.view(), oracle, options);
    EXPECT_TRUE(verdict.right()) << owned.name << "\n" << verdict.message();
    EXPECT_FALSE(verdict.sampled);
    for (const auto& state : one_step_states(family, problem, oracle)) {
      const Problem<T> one_pass = one_pass_problem(problem, state);
      const auto step = solve(meta, one_pass);
      const Verdict one = verify_one_step(meta, one_pass, step.view(), options);
      EXPECT_TRUE(one.right()) << owned.name << ", " << state.name << "\n" << one.message();
    }
  }
}

TYPED_TEST(Verifier, acceptsKMeans) {
  expect_control_passes<TypeParam>(Family::kmeans, DistanceForm::difference);
}
TYPED_TEST(Verifier, acceptsKMeansInExpandedForm) {
  expect_control_passes<TypeParam>(Family::kmeans, DistanceForm::expanded);
}
TYPED_TEST(Verifier, acceptsFcm) {
  expect_control_passes<TypeParam>(Family::fcm, DistanceForm::difference);
}
TYPED_TEST(Verifier, acceptsFcmInExpandedForm) {
  expect_control_passes<TypeParam>(Family::fcm, DistanceForm::expanded);
}

// --- the end of a run --------------------------------------------------------------------------

TYPED_TEST(Verifier, knowsAnEarlyStopAtTheFixedPoint) {
  for (const Family family : {Family::kmeans, Family::fcm}) {
    const Meta meta = meta_of(family);
    auto owned = clouds<TypeParam>(200, 2, 2, 150);
    const auto settled = solve(meta, owned.view());
    const auto moving = [&] {
      auto shorter = owned;
      shorter.stop.max_iterations = 2;
      return solve(meta, shorter.view());
    }();
    owned.stop.max_iterations = 151;
    const Problem<TypeParam> problem = owned.view();
    const OracleRun oracle = run_oracle(family, problem);
    const Verdict verdict = verify_answer(meta, problem, settled.view(), oracle);
    EXPECT_TRUE(verdict.right()) << verdict.message();
    EXPECT_TRUE(verdict.early_stop);
    const Verdict early = verify_answer(meta, problem, moving.view(), oracle);
    EXPECT_TRUE(finds(early, "stop rule")) << early.message();
    EXPECT_FALSE(early.early_stop);
  }
}

TEST(StopRule, isNotCalledCheckedWhereRoundingExceedsItsThreshold) {
  const auto checked = [](double threshold) {
    auto owned = clouds<float>(4000, 4, 3, 100);
    owned.stop = {StopRule::Kind::loss, threshold, 100};
    const Problem<float> problem = owned.view();
    const Meta meta = meta_of(Family::kmeans);
    const Verdict verdict = verify_answer(meta, problem, solve(meta, problem).view(),
                                          run_oracle(Family::kmeans, problem));
    EXPECT_TRUE(verdict.right()) << verdict.message();
    return std::count(verdict.checks.begin(), verdict.checks.end(), "stop rule") == 1;
  };
  EXPECT_TRUE(checked(10.0)); // the loss is 7000, its rounding about 1
  EXPECT_FALSE(checked(0.01));
}

// --- the cost ----------------------------------------------------------------------------------

TYPED_TEST(Verifier, samplesBeyondItsBudget) {
  for (const Family family : {Family::kmeans, Family::fcm}) {
    const Meta meta = meta_of(family);
    const auto owned = clouds<TypeParam>(6000, 4, 3, 6);
    const Problem<TypeParam> problem = owned.view();
    const OracleRun oracle = run_oracle(family, problem);
    auto answer = solve(meta, problem);
    EXPECT_FALSE(verify_answer(meta, problem, answer.view(), oracle).sampled);
    EXPECT_EQ(verify_answer(meta, problem, answer.view(), oracle).trace.loss.size(), 6U);
    for (const double budget : {1e4, 6e5, 1.2e6}) {
      const VerifyOptions options{budget, 500, 1};
      const Verdict verdict = verify_answer(meta, problem, answer.view(), oracle, options);
      EXPECT_TRUE(verdict.right()) << verdict.message();
      EXPECT_TRUE(verdict.sampled);
      EXPECT_TRUE(verdict.trace.loss.empty());
      EXPECT_NEAR(verdict.relative_difference, 0.0, 1e-5);
    }
    for (auto& label : answer.labels) {
      label = (label + 1) % 3;
    }
    EXPECT_TRUE(
        finds(verify_answer(meta, problem, answer.view(), oracle, {1e4, 500, 1}), "labels"));
  }
}

TYPED_TEST(Verifier, judgesAStepFarBeyondItsBudgetByASample) {
  for (const Family family : {Family::kmeans, Family::fcm}) {
    const Meta meta = meta_of(family);
    const auto owned = clouds<TypeParam>(6000, 4, 3, 1);
    const Problem<TypeParam> problem = owned.view();
    const auto right = solve(meta, problem);
    const VerifyOptions options{1e3, 500, 1};
    const Verdict verdict = verify_one_step(meta, problem, right.view(), options);
    EXPECT_TRUE(verdict.right()) << verdict.message();
    EXPECT_TRUE(verdict.sampled);
    EXPECT_TRUE(std::isnan(verdict.objective)); // nobody compares it, so no point is looked at
    auto wrong = right;
    for (auto& label : wrong.labels) {
      label = (label + 1) % 3;
    }
    EXPECT_TRUE(finds(verify_one_step(meta, problem, wrong.view(), options), "labels"));
    wrong = right;
    wrong.centroids[5] += TypeParam(0.01);
    EXPECT_FALSE(verify_one_step(meta, problem, wrong.view(), options).right());
  }
}

TYPED_TEST(Verifier, judgesAnAnswerByItself) {
  for (const Family family : {Family::kmeans, Family::fcm}) {
    const Meta meta = meta_of(family);
    const auto owned = clouds<TypeParam>(6000, 4, 3, 5);
    const Problem<TypeParam> problem = owned.view();
    const auto right = solve(meta, problem);
    EXPECT_TRUE(verify_consistency(meta, problem, right.view()).right());
    auto wrong = right;
    wrong.centroids[5] += TypeParam(0.01);
    const char* check = family == Family::fcm ? "centres" : "means";
    EXPECT_TRUE(finds(verify_consistency(meta, problem, wrong.view()), check));
    wrong = right;
    wrong.labels[17] = 3;
    EXPECT_TRUE(finds(verify_consistency(meta, problem, wrong.view()), "label range"));
  }
}

// --- odd input ---------------------------------------------------------------------------------

TYPED_TEST(Verifier, survivesAnswersOfTheWrongForm) {
  using T = TypeParam;
  for (const Family family : {Family::kmeans, Family::fcm}) {
    const Meta meta = meta_of(family);
    const auto owned = clouds<T>(100, 3, 2, 3);
    const Problem<T> problem = owned.view();
    const OracleRun oracle = run_oracle(family, problem);
    const auto good = solve(meta, problem);
    const auto expect = [&](const char* check, const auto& spoil) {
      auto answer = good;
      spoil(answer);
      EXPECT_TRUE(finds(verify_answer(meta, problem, answer.view(), oracle), check)) << check;
    };
    const T nan = std::numeric_limits<T>::quiet_NaN();
    const T infinity = std::numeric_limits<T>::infinity();
    expect("shapes", [](auto& answer) { answer.labels.pop_back(); });
    expect("shapes", [](auto& answer) { answer.centroids.clear(); });
    expect("shapes", [](auto& answer) { answer.memberships.push_back(0); });
    expect("iterations", [](auto& answer) { answer.iterations = 0; });
    expect("iterations", [](auto& answer) { answer.iterations = 4; });
    expect("iterations", [](auto& answer) { answer.recorded.pop_back(); });
    expect("label range", [](auto& answer) { answer.labels[99] = 2; });
    expect("label range", [](auto& answer) { answer.labels[0] = -2; });
    expect("shapes", [](auto& answer) { answer.entering.pop_back(); });
    expect("written", [](auto& answer) { answer.labels[0] = -1; });
    expect("written", [](auto& answer) { answer.centroids[5] = poison<T>(1)[0]; });
    expect("written", [](auto& answer) { answer.entering[0] = poison<T>(1)[0]; });
    expect("finite", [&](auto& answer) { answer.centroids[5] = nan; });
    expect("finite", [&](auto& answer) { answer.entering[5] = infinity; });
    expect("finite", [&](auto& answer) { answer.recorded[0] = infinity; });
    if (family == Family::fcm) {
      expect("finite", [&](auto& answer) { answer.memberships[199] = nan; });
      expect("written", [](auto& answer) { answer.memberships[3] = poison<T>(1)[0]; });
      expect("row sums", [](auto& answer) { answer.memberships[7] += T(1e-3); });
    }
    expect("recording", [](auto& answer) { answer.centroids[2] += T(0.5); });
  }
}

TEST(Misuse, throws) {
  const auto owned = clouds<float>(100, 3, 2, 3);
  const Problem<float> problem = owned.view();
  const Meta meta = meta_of(Family::kmeans);
  const auto answer = solve(meta, problem);
  EXPECT_THROW(verify_one_step(meta, problem, answer.view()), std::invalid_argument);
  EXPECT_THROW(verify_answer(meta, problem, answer.view(), OracleRun{}), std::invalid_argument);
}

TEST(Message, namesCheckAndPlace) {
  Verdict verdict;
  EXPECT_FALSE(verdict.right()) << "nothing was checked";
  verdict.checks = {"labels"};
  EXPECT_TRUE(verdict.right());
  verdict.findings = {{"labels", "point 3"}, {"means", "cluster 1"}};
  EXPECT_FALSE(verdict.right());
  EXPECT_EQ(verdict.message(), "labels: point 3\nmeans: cluster 1");
}

} // namespace
} // namespace clusterbench
