// The checks of answers that are not judged in full: what they find at the price of a look at the
// data, and what two answers of one variant have in common.
#include "harness/judge/verifier.hpp"
#include "tests/verify/run_variant.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>
#include <string>

namespace clusterbench {
namespace {

using planted::Bug;

template <typename T>
OwnedAnswer<T> answer_with(Family family, Bug bug, const Problem<T>& problem) {
  const auto variant = make<T>(family, bug);
  prepare(*variant, problem);
  auto answer = run_once(*variant, family, problem);
  answer.recorded.clear();
  return answer;
}

template <typename T>
class CheapCheck : public testing::Test {};
using Precisions = testing::Types<float, double>;
TYPED_TEST_SUITE(CheapCheck, Precisions);

TYPED_TEST(CheapCheck, passesWhatIsRight) {
  for (const double offset : {0.0, 300.0}) {
    const auto owned = clouds<TypeParam>(30000, 12, 5, 4, offset);
    for (const Family family : {Family::kmeans, Family::fcm}) {
      const auto answer = answer_with(family, Bug::none, owned.view());
      const VerifyOptions options{.sampled_points = 256, .seed = 3};
      const Verdict verdict = verify_cheaply(meta_of(family), owned.view(), answer.view(), options);
      EXPECT_TRUE(verdict.right()) << verdict.message();
      EXPECT_TRUE(verdict.sampled);
      EXPECT_EQ(verdict.labels_judged, 256U);
      EXPECT_TRUE(std::isnan(verdict.objective));
    }
  }
}

TYPED_TEST(CheapCheck, takesFewerRowsWhereOneIsExpensive) {
  const auto owned = clouds<TypeParam>(30000, 12, 5, 4);
  const Meta meta = meta_of(Family::kmeans);
  const auto answer = answer_with(Family::kmeans, Bug::none, owned.view());
  const auto judged = [&](double rows) {
    const double of_row = 3.0 * static_cast<double>(owned.d * owned.k);
    const VerifyOptions options{.sampled_points = 5000, .sample_budget = rows * of_row, .seed = 3};
    return verify_cheaply(meta, owned.view(), answer.view(), options).labels_judged;
  };
  EXPECT_EQ(judged(1e6), 5000U);
  EXPECT_EQ(judged(2000), 2000U);
  EXPECT_EQ(judged(1), 1000U);
}

TYPED_TEST(CheapCheck, findsWhatShowsInMeansAndInAFewRows) {
  const auto apart = clouds<TypeParam>(30000, 12, 5, 4);
  auto near = apart; // all initial centroids near one point: labels go on changing
  for (std::size_t e = 0; e < near.centroids.size(); ++e) {
    near.centroids[e] =
        near.points[e % near.d] + TypeParam(0.01) * static_cast<TypeParam>(e * e % 7);
  }
  const auto expect = [&](Family family, Bug bug, const char* check) {
    const auto& owned = family == Family::kmeans ? near : apart;
    const auto answer = answer_with(family, bug, owned.view());
    const VerifyOptions options{.sampled_points = 256, .seed = 3};
    const Verdict verdict = verify_cheaply(meta_of(family), owned.view(), answer.view(), options);
    EXPECT_TRUE(finds(verdict, check)) << check << " is not among\n" << verdict.message();
  };
  expect(Family::kmeans, Bug::every_second_row, "means");
  expect(Family::kmeans, Bug::racy_sums, "means");
  expect(Family::kmeans, Bug::centroids_of_pass_before, "means");
  expect(Family::kmeans, Bug::returns_initial_state, "means");
  expect(Family::kmeans, Bug::stale_entering, "labels");
  expect(Family::kmeans, Bug::wrong_labels_in_range, "labels");
  expect(Family::kmeans, Bug::leaves_poison, "written");
  expect(Family::kmeans, Bug::not_a_number, "finite");
  expect(Family::kmeans, Bug::one_pass_too_many, "iterations");
  expect(Family::fcm, Bug::every_second_row, "centres");
  expect(Family::fcm, Bug::racy_sums, "centres");
  expect(Family::fcm, Bug::unweighted_power, "centres");
  expect(Family::fcm, Bug::centroids_of_pass_before, "centres");
  expect(Family::fcm, Bug::stale_entering, "memberships");
  expect(Family::fcm, Bug::not_normalised, "row sums");
  expect(Family::fcm, Bug::leaves_poison, "written");
}

TYPED_TEST(CheapCheck, findsOneWrongFeatureOfOneCentre) {
  const auto owned = clouds<TypeParam>(30000, 12, 5, 4);
  for (const Family family : {Family::kmeans, Family::fcm}) {
    auto answer = answer_with(family, Bug::none, owned.view());
    answer.centroids[3 * owned.d + 7] += TypeParam(0.01);
    EXPECT_FALSE(verify_cheaply(meta_of(family), owned.view(), answer.view()).right());
  }
}

TEST(CheapCheck, looksAtOtherRowsForAnotherSeed) {
  // 3000 of 30000 labels are wrong: of 40 rows, some samples hold none of them and most hold some.
  const auto owned = clouds<float>(30000, 4, 3, 1);
  auto answer = answer_with(Family::kmeans, Bug::none, owned.view());
  for (std::size_t i = 0; i < 30000; i += 10) {
    answer.labels[i] = (answer.labels[i] + 1) % 3;
  }
  std::size_t found = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const VerifyOptions options{.sampled_points = 10, .seed = seed};
    found += finds(verify_cheaply(meta_of(Family::kmeans), owned.view(), answer.view(), options),
                   "labels")
                 ? 1
                 : 0;
  }
  EXPECT_GT(found, 5U);
  EXPECT_LT(found, 20U);
}

// --- two answers from one start ------------------------------------------------------------------

TYPED_TEST(CheapCheck, aDeterministicVariantGivesEqualBits) {
  const auto owned = clouds<TypeParam>(5000, 4, 3, 4);
  for (const Family family : {Family::kmeans, Family::fcm}) {
    const Meta meta = meta_of(family);
    const Problem<TypeParam> problem = owned.view();
    const auto recorded = solve(meta, problem);
    auto timed = answer_with(family, Bug::none, problem);
    const Verdict same = verify_same(meta, problem, recorded.view(), timed.view());
    EXPECT_TRUE(same.right()) << same.message();
    const auto expect = [&](const auto& spoil) {
      auto other = timed;
      spoil(other);
      EXPECT_TRUE(finds(verify_same(meta, problem, recorded.view(), other.view()), "same bits"));
    };
    expect([](auto& answer) { answer.labels[4999] = (answer.labels[4999] + 1) % 3; });
    expect([](auto& answer) {
      answer.centroids[11] = std::nextafter(answer.centroids[11], TypeParam(1e9));
    });
    expect([](auto& answer) {
      answer.entering[0] = std::nextafter(answer.entering[0], TypeParam(1e9));
    });
    expect([](auto& answer) { answer.iterations = 3; });
  }
}

TYPED_TEST(CheapCheck, anotherVariantGivesTheSameObjective) {
  const auto owned = clouds<TypeParam>(5000, 4, 3, 4);
  for (const Family family : {Family::kmeans, Family::fcm}) {
    Meta meta = meta_of(family);
    meta.deterministic = false;
    const Problem<TypeParam> problem = owned.view();
    const auto recorded = solve(meta, problem);
    auto timed = answer_with(family, Bug::none, problem);
    timed.centroids[0] = std::nextafter(timed.centroids[0], TypeParam(1e9));
    const Verdict same = verify_same(meta, problem, recorded.view(), timed.view());
    EXPECT_TRUE(same.right()) << same.message();
    const auto worse = answer_with(family, Bug::inertia_too_high, problem);
    EXPECT_TRUE(finds(verify_same(meta, problem, recorded.view(), worse.view()), "same objective"));
    const auto poisoned = answer_with(family, Bug::leaves_poison, problem);
    EXPECT_TRUE(finds(verify_same(meta, problem, recorded.view(), poisoned.view()), "written"));
    EXPECT_THROW(verify_same(meta, problem, poisoned.view(), timed.view()), std::invalid_argument);
    auto fewer = timed;
    fewer.iterations = 3;
    EXPECT_TRUE(finds(verify_same(meta, problem, recorded.view(), fewer.view()), "same objective"));
  }
}

} // namespace
} // namespace clusterbench
