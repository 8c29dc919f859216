// Timed answers come with the centroids that entered their last pass and without a recording. Each
// planted bug is found in one of 100,000 points, and where the exact step takes more than its
// budget as well.
#include "harness/judge/verifier.hpp"
#include "tests/verify/run_variant.hpp"

#include <gtest/gtest.h>

#include <string>

namespace clusterbench {
namespace {

using planted::Bug;

constexpr std::size_t kPoints = 100000;

/// Overlapping clouds, whose initial centroids all come from one of them: all passes move.
template <typename T>
const OwnedProblem<T>& large_problem() {
  static const OwnedProblem<T> problem = [] {
    auto owned = clouds<T>(kPoints, 6, 5, 6);
    for (std::size_t j = 0; j < owned.k; ++j) {
      for (std::size_t f = 0; f < owned.d; ++f) {
        owned.centroids[j * owned.d + f] =
            owned.points[f] + T(0.25) * static_cast<T>((j + f) % owned.k);
      }
    }
    return owned;
  }();
  return problem;
}

template <typename T>
const OracleRun& large_oracle(Family family) {
  static const OracleRun kmeans = run_oracle(Family::kmeans, large_problem<T>().view());
  static const OracleRun fcm = run_oracle(Family::fcm, large_problem<T>().view());
  return family == Family::kmeans ? kmeans : fcm;
}

template <typename T>
OwnedAnswer<T> timed_answer(Family family, Bug bug, const Problem<T>& problem) {
  const auto variant = make<T>(family, bug);
  prepare(*variant, problem);
  auto answer = run_once(*variant, family, problem);
  answer.recorded.clear();
  return answer;
}

template <typename T>
Verdict judge_timed(Family family, Bug bug, const VerifyOptions& options = {}) {
  const Problem<T> problem = large_problem<T>().view();
  const auto answer = timed_answer(family, bug, problem);
  return verify_answer(meta_of(family), problem, answer.view(), large_oracle<T>(family), options);
}

template <typename T>
class TimedAnswer : public testing::Test {};
using Precisions = testing::Types<float, double>;
TYPED_TEST_SUITE(TimedAnswer, Precisions);

TYPED_TEST(TimedAnswer, withoutABugIsRight) {
  for (const Family family : {Family::kmeans, Family::fcm}) {
    const Verdict verdict = judge_timed<TypeParam>(family, Bug::none);
    EXPECT_TRUE(verdict.right()) << verdict.message();
    EXPECT_FALSE(verdict.sampled);
    EXPECT_EQ(verdict.labels_judged, kPoints);
  }
}

TYPED_TEST(TimedAnswer, withABugIsWrong) {
  const auto expect = [](Family family, Bug bug, const char* check) {
    const Verdict verdict = judge_timed<TypeParam>(family, bug);
    EXPECT_TRUE(finds(verdict, check)) << check << " is not among\n" << verdict.message();
  };
  expect(Family::kmeans, Bug::ten_wrong_labels, "labels");
  expect(Family::kmeans, Bug::every_second_row, "means");
  expect(Family::kmeans, Bug::makes_fewer_passes, "passes");
  expect(Family::kmeans, Bug::stops_early, "passes");
  expect(Family::kmeans, Bug::stale_entering, "labels");
  expect(Family::kmeans, Bug::centroids_of_pass_before, "means");
  expect(Family::kmeans, Bug::leaves_poison, "written");
  expect(Family::fcm, Bug::ten_wrong_labels, "labels");
  expect(Family::fcm, Bug::every_second_row, "centres");
  expect(Family::fcm, Bug::makes_fewer_passes, "passes");
  expect(Family::fcm, Bug::stops_early, "passes");
  expect(Family::fcm, Bug::stale_entering, "memberships");
  expect(Family::fcm, Bug::centroids_of_pass_before, "centres");
  expect(Family::fcm, Bug::leaves_poison, "written");
}

TEST(TenWrongLabels, areCounted) {
  const Verdict verdict = judge_timed<float>(Family::kmeans, Bug::ten_wrong_labels);
  EXPECT_NE(verdict.message().find("; 10 of 100000 points"), std::string::npos)
      << verdict.message();
}

TEST(OneWrongLabel, ofOneHundredThousandIsWrong) {
  const auto& owned = large_problem<float>();
  const Problem<float> problem = owned.view();
  auto answer = timed_answer(Family::kmeans, Bug::none, problem);
  answer.labels[77777] = (answer.labels[77777] + 1) % 5;
  EXPECT_TRUE(finds(verify_answer(meta_of(Family::kmeans), problem, answer.view(),
                                  large_oracle<float>(Family::kmeans)),
                    "labels"));
}

TEST(StepBeyondItsBudget, isJudgedOnASecretSample) {
  const VerifyOptions small{.sampled_points = 1000, .seed = 99, .step_budget = 3.0 * 5 * 6 * 4000};
  const Verdict right = judge_timed<float>(Family::kmeans, Bug::none, small);
  EXPECT_TRUE(right.right()) << right.message();
  EXPECT_TRUE(right.sampled);
  EXPECT_EQ(right.labels_judged, 4000U);
  EXPECT_TRUE(
      finds(judge_timed<float>(Family::kmeans, Bug::wrong_labels_in_range, small), "labels"));
  EXPECT_TRUE(finds(judge_timed<float>(Family::kmeans, Bug::every_second_row, small), "means"));
  EXPECT_TRUE(finds(judge_timed<float>(Family::fcm, Bug::every_second_row, small), "centres"));
}

TEST(FirstPass, beginsWithTheStart) {
  auto owned = clouds<float>(1000, 3, 4, 1);
  const auto other = clouds<float>(1000, 3, 4, 1, 0.5);
  for (const Family family : {Family::kmeans, Family::fcm}) {
    auto shifted = owned;
    shifted.centroids = other.centroids;
    const auto answer = timed_answer<float>(family, Bug::none, shifted.view());
    const Problem<float> problem = owned.view();
    const Verdict verdict =
        verify_answer(meta_of(family), problem, answer.view(), run_oracle(family, problem));
    ASSERT_TRUE(finds(verdict, "entering"));
    EXPECT_NE(verdict.message().find("but the start says"), std::string::npos);
  }
}

TEST(LabelsOfReturnedCentroids, areJudgedAllTheSame) {
  // Labels one exact step from the returned centroids, which are the means of a step from entering.
  const Problem<float> problem = large_problem<float>().view();
  Meta meta = meta_of(Family::kmeans);
  meta.labels = LabelsFrom::returned_centroids;
  auto answer = timed_answer(Family::kmeans, Bug::none, problem);
  Problem<float> next = problem;
  next.centroids = answer.centroids;
  next.stop.max_iterations = 1;
  answer.labels = timed_answer(Family::kmeans, Bug::none, next).labels;
  const auto& oracle = large_oracle<float>(Family::kmeans);
  const Verdict right = verify_answer(meta, problem, answer.view(), oracle);
  EXPECT_TRUE(right.right()) << right.message();
  auto wrong = answer;
  wrong.labels[12345] = (wrong.labels[12345] + 1) % 5;
  EXPECT_TRUE(finds(verify_answer(meta, problem, wrong.view(), oracle), "labels"));
  wrong = answer;
  wrong.centroids[3] += 0.01F;
  EXPECT_TRUE(finds(verify_answer(meta, problem, wrong.view(), oracle), "means"));
}

TEST(FromMemberships, centresFollowFromTheEnteringOnes) {
  auto owned = clouds<float>(20000, 4, 3, 4);
  owned.centroids.clear();
  for (std::size_t i = 0; i < owned.n; ++i) {
    const std::size_t own = i % owned.k;
    for (std::size_t j = 0; j < owned.k; ++j) {
      owned.memberships.push_back(j == own ? 0.5F : 0.25F);
    }
  }
  const Meta meta = meta_of(Family::fcm);
  for (const std::size_t passes : {1U, 2U, 4U}) {
    owned.stop.max_iterations = passes;
    const Problem<float> problem = owned.view();
    const OracleRun oracle = run_oracle(Family::fcm, problem);
    const auto answer = timed_answer(Family::fcm, Bug::none, problem);
    const Verdict right = verify_answer(meta, problem, answer.view(), oracle);
    EXPECT_TRUE(right.right()) << right.message();
    EXPECT_TRUE(verify_cheaply(meta, problem, answer.view()).right());
    const auto lost = timed_answer(Family::fcm, Bug::every_second_row, problem);
    EXPECT_TRUE(finds(verify_answer(meta, problem, lost.view(), oracle), "centres")) << passes;
    if (passes > 1) {
      const auto stale = timed_answer(Family::fcm, Bug::stale_entering, problem);
      EXPECT_FALSE(verify_answer(meta, problem, stale.view(), oracle).right()) << passes;
    }
  }
}

} // namespace
} // namespace clusterbench
