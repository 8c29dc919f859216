// The tolerances of the verifier are where they should be: what rounding may do passes, and what is
// a little worse fails.
#include "harness/judge/verifier.hpp"
#include "tests/verify/rounded_run.hpp"
#include "tests/verify/run_variant.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <span>
#include <string>
#include <vector>

namespace clusterbench {
namespace {

/// The nearest of `centroids` to each point, in float64.
template <typename T>
std::vector<std::int32_t> nearest_labels(const Problem<T>& problem, std::span<const T> centroids) {
  std::vector<std::int32_t> labels;
  for (std::size_t i = 0; i < problem.n; ++i) {
    double smallest = 0.0;
    std::int32_t label = 0;
    for (std::size_t j = 0; j < problem.k; ++j) {
      double squared = 0.0;
      for (std::size_t f = 0; f < problem.d; ++f) {
        const double away = static_cast<double>(problem.points[i * problem.d + f]) -
                            static_cast<double>(centroids[j * problem.d + f]);
        squared += away * away;
      }
      if (j == 0 || squared < smallest) {
        smallest = squared;
        label = static_cast<std::int32_t>(j);
      }
    }
    labels.push_back(label);
  }
  return labels;
}

// --- labels ------------------------------------------------------------------------------------

/// One point between two centroids at -1 and 1, labelled 1.
template <typename T>
Verdict judge_point_between(T x, bool centres_points = false) {
  OwnedProblem<T> owned;
  owned.n = 3;
  owned.d = 1;
  owned.k = 2;
  owned.points = {T(-1), T(1), x};
  owned.centroids = {T(-1), T(1)};
  owned.stop = {StopRule::Kind::iterations, 0.0, 1};
  OwnedAnswer<T> answer;
  answer.labels = {0, 1, 1};
  answer.centroids = {T(-1), (T(1) + x) / 2};
  answer.iterations = 1;
  return verify_one_step({meta_of(Family::kmeans), centres_points}, owned.view(), answer.view());
}

TEST(Labels, mayDifferWithinRoundingOnly) {
  const Verdict in_float = judge_point_between<float>(-1e-7F);
  EXPECT_TRUE(in_float.right()) << in_float.message();
  EXPECT_EQ(in_float.labels_off, 1U);
  EXPECT_FALSE(judge_point_between<float>(-1e-4F).right());
  EXPECT_FALSE(judge_point_between<double>(-1e-7).right());
  EXPECT_TRUE(judge_point_between<double>(-1e-16).right());
  EXPECT_EQ(judge_point_between<float>(1e-3F).labels_off, 0U);
}

TEST(Labels, goToTheLowestIndexWhereArithmeticIsExact) {
  const Verdict verdict = judge_point_between<float>(0.0F);
  ASSERT_TRUE(finds(verdict, "labels"));
  EXPECT_NE(verdict.message().find("point 2: label 1 at squared distance 1, expected 0 at 1"),
            std::string::npos)
      << verdict.message();
}

TEST(Labels, mayDifferMoreInExpandedFormFarFromTheOrigin) {
  const auto owned = clouds<float>(2000, 4, 3, 1, 30000.0);
  const Problem<float> problem = owned.view();
  const auto answer = solve(meta_of(Family::kmeans, DistanceForm::expanded), problem);
  const Meta expanded = meta_of(Family::kmeans, DistanceForm::expanded);
  VerifyOptions options;
  options.judges_precision = false; // here it is too low, which is a finding of its own
  const Verdict declared = verify_one_step(expanded, problem, answer.view(), options);
  EXPECT_TRUE(finds(verify_one_step(expanded, problem, answer.view()), "precision"));
  EXPECT_TRUE(declared.right()) << declared.message();
  EXPECT_GT(declared.labels_off, 10U);
  EXPECT_TRUE(finds(verify_one_step(meta_of(Family::kmeans), problem, answer.view()), "labels"));
}

TEST(Labels, ofCentredPointsAreJudgedFromTheirMean) {
  const auto owned = clouds<float>(2000, 4, 3, 1, 3000.0);
  const Problem<float> problem = owned.view();
  const Meta meta = meta_of(Family::kmeans, DistanceForm::expanded);
  const auto answer = solve(meta, problem); // not centred, which is far worse here
  EXPECT_TRUE(finds(verify_one_step({meta, true}, problem, answer.view()), "labels"));
  // Integers are none any more: a tie may go either way.
  const Verdict tie = judge_point_between<float>(0.0F, true);
  EXPECT_TRUE(tie.right()) << tie.message();
  EXPECT_EQ(tie.labels_off, 1U);
  EXPECT_FALSE(judge_point_between<float>(-1e-4F, true).right());
}

/// Keeps the 10 bits of significand that tf32 has.
float to_tf32(float value) {
  int exponent = 0;
  const float significand = std::frexp(value, &exponent);
  return std::ldexp(std::nearbyint(std::ldexp(significand, 11)), exponent - 11);
}

TEST(Labels, mayDifferByTheDeclaredArithmetic) {
  const auto owned = clouds<float>(3000, 16, 4, 1);
  const Problem<float> problem = owned.view();
  auto narrow = owned;
  for (auto* values : {&narrow.points, &narrow.centroids}) {
    for (float& value : *values) {
      value = to_tf32(value);
    }
  }
  const Problem<float> narrow_problem = narrow.view();
  OwnedAnswer<float> answer;
  answer.labels = nearest_labels<float>(narrow_problem, narrow.centroids);
  answer.centroids = owned.centroids;
  answer.iterations = 1;
  std::vector<double> sums(problem.k * problem.d);
  std::vector<double> counts(problem.k);
  for (std::size_t i = 0; i < problem.n; ++i) {
    const auto j = static_cast<std::size_t>(answer.labels[i]);
    counts[j] += 1.0;
    for (std::size_t f = 0; f < problem.d; ++f) {
      sums[j * problem.d + f] += static_cast<double>(problem.points[i * problem.d + f]);
    }
  }
  for (std::size_t i = 0; i < sums.size(); ++i) {
    answer.centroids[i] = static_cast<float>(sums[i] / counts[i / problem.d]);
  }
  Meta meta = meta_of(Family::kmeans);
  EXPECT_TRUE(finds(verify_one_step(meta, problem, answer.view()), "labels"));
  meta.arithmetic = Arithmetic::tf32;
  const Verdict declared = verify_one_step(meta, problem, answer.view());
  EXPECT_TRUE(declared.right()) << declared.message();
  EXPECT_GT(declared.labels_off, 0U);
}

TEST(Labels, belongToTheDeclaredCentroids) {
  const auto owned = clouds<float>(4000, 6, 4, 3);
  const Problem<float> problem = owned.view();
  const OracleRun oracle = run_oracle(Family::kmeans, problem);
  Meta meta = meta_of(Family::kmeans);
  auto answer = solve(meta, problem);
  answer.labels = nearest_labels<float>(problem, answer.centroids);
  EXPECT_TRUE(finds(verify_answer(meta, problem, answer.view(), oracle), "labels"));
  EXPECT_TRUE(finds(verify_answer(meta, problem, answer.view(), oracle), "means"));
  meta.labels = LabelsFrom::returned_centroids;
  const Verdict declared = verify_answer(meta, problem, answer.view(), oracle);
  EXPECT_TRUE(declared.right()) << declared.message();
  answer.recorded.clear();
  EXPECT_TRUE(verify_answer(meta, problem, answer.view(), oracle).right());
}

// --- means -------------------------------------------------------------------------------------

TEST(Means, ofAMillionValuesMayBeSummedNaivelyInFloat) {
  // Values of one sign, whose partial sums grow and round ever more coarsely.
  OwnedProblem<float> owned;
  owned.n = 1000000;
  owned.d = 2;
  owned.k = 2;
  owned.stop = {StopRule::Kind::iterations, 0.0, 1};
  std::mt19937_64 random(5);
  std::uniform_real_distribution<float> uniform(0.0F, 1000.0F);
  for (std::size_t i = 0; i < owned.n * owned.d; ++i) {
    owned.points.push_back(uniform(random));
  }
  owned.centroids = {100.0F, 100.0F, 600.0F, 700.0F};
  const Problem<float> problem = owned.view();
  auto answer = solve(meta_of(Family::kmeans), problem);
  const Verdict verdict = verify_one_step(meta_of(Family::kmeans), problem, answer.view());
  EXPECT_TRUE(verdict.right()) << verdict.message();
  EXPECT_FALSE(verdict.sampled);
  answer.centroids[1] *= 1.001F;
  EXPECT_TRUE(finds(verify_one_step(meta_of(Family::kmeans), problem, answer.view()), "means"));
}

TEST(Means, ofValuesThatAreAlikeMayRoundTheSameWayEveryTime) {
  // One ulp of the sum of a million is 0.0078 (column 0), 16 (column 1) and 64 (column 2).
  OwnedProblem<float> owned;
  owned.n = 1000000;
  owned.d = 3;
  owned.k = 1;
  owned.stop = {StopRule::Kind::iterations, 0.0, 1};
  std::mt19937_64 random(5);
  std::normal_distribution<float> normal;
  for (std::size_t i = 0; i < owned.n; ++i) {
    for (const float value : {0.1F, 199.0F + normal(random), 1000.0F + 300.0F * normal(random)}) {
      owned.points.push_back(value);
    }
  }
  owned.centroids = {0.1F, 199.0F, 1000.0F};
  const Problem<float> problem = owned.view();
  const Meta meta = meta_of(Family::kmeans);
  auto answer = solve(meta, problem);
  EXPECT_GT(std::abs(answer.centroids[0] - 0.1F), 5e-4F); // a loop in float is that far off
  const Verdict verdict = verify_one_step(meta, problem, answer.view());
  EXPECT_TRUE(verdict.right()) << verdict.message();
  answer.centroids[0] = 0.12F;
  EXPECT_TRUE(finds(verify_one_step(meta, problem, answer.view()), "means"));
  answer = solve(meta, problem);
  answer.centroids[2] *= 1.002F; // these values are not alike
  EXPECT_TRUE(finds(verify_one_step(meta, problem, answer.view()), "means"));
}

/// A pass in float on points without their mean, which is added to the centroids at the end.
OwnedAnswer<float> centred_pass(const Problem<float>& problem) {
  const std::size_t d = problem.d;
  std::vector<float> mean(d);
  for (std::size_t i = 0; i < problem.n * d; ++i) {
    mean[i % d] += problem.points[i] / static_cast<float>(problem.n);
  }
  OwnedAnswer<float> answer;
  answer.labels = nearest_labels<float>(problem, problem.centroids);
  answer.centroids.assign(problem.k * d, 0.0F);
  answer.iterations = 1;
  std::vector<float> counts(problem.k);
  for (std::size_t i = 0; i < problem.n; ++i) {
    const auto j = static_cast<std::size_t>(answer.labels[i]);
    counts[j] += 1.0F;
    for (std::size_t f = 0; f < d; ++f) {
      answer.centroids[j * d + f] += problem.points[i * d + f] - mean[f];
    }
  }
  for (std::size_t i = 0; i < answer.centroids.size(); ++i) {
    answer.centroids[i] = answer.centroids[i] / counts[i / d] + mean[i % d];
  }
  return answer;
}

TEST(Means, ofCentredPointsRoundWhatIsLeft) {
  // Three points near zero, the others far away: their mean is taken off and takes digits along.
  OwnedProblem<float> owned = clouds<float>(1000, 2, 2, 1, 1000.0);
  for (std::size_t i = 0; i < 6; ++i) {
    owned.points[i] = 1e-3F * static_cast<float>(i + 1);
  }
  owned.centroids = {0.0F, 0.0F, 1000.0F, 1000.0F};
  const Meta meta = meta_of(Family::kmeans);
  auto answer = centred_pass(owned.view());
  EXPECT_TRUE(finds(verify_one_step(meta, owned.view(), answer.view()), "means"));
  const Verdict declared = verify_one_step({meta, true}, owned.view(), answer.view());
  EXPECT_TRUE(declared.right()) << declared.message();
  answer.centroids[0] += 2e-3F;
  EXPECT_TRUE(finds(verify_one_step({meta, true}, owned.view(), answer.view()), "means"));

  // Far from the origin less is left, and less may be lost.
  owned = clouds<float>(2000, 4, 3, 1, 3000.0);
  answer = centred_pass(owned.view());
  EXPECT_TRUE(verify_one_step({meta, true}, owned.view(), answer.view()).right());
  answer.centroids[0] += 0.02F;
  EXPECT_TRUE(verify_one_step(meta, owned.view(), answer.view()).right());
  EXPECT_TRUE(finds(verify_one_step({meta, true}, owned.view(), answer.view()), "means"));
}

TEST(Means, ofEmptyClustersAreKeptUnlessDeclared) {
  auto owned = clouds<float>(300, 3, 4, 1);
  owned.centroids[9] = 500.0F; // cluster 3 gets no points
  const Problem<float> problem = owned.view();
  Meta meta = meta_of(Family::kmeans);
  auto answer = solve(meta, problem);
  answer.recorded.clear();
  EXPECT_TRUE(verify_one_step(meta, problem, answer.view()).right());
  answer.centroids[9] = problem.points[0];
  const Verdict kept = verify_one_step(meta, problem, answer.view());
  ASSERT_TRUE(finds(kept, "means"));
  EXPECT_NE(kept.message().find("cluster 3, feature 0: got"), std::string::npos);
  EXPECT_NE(kept.message().find("expected 500"), std::string::npos) << kept.message();
  meta.reseeds_empty = true;
  EXPECT_TRUE(verify_one_step(meta, problem, answer.view()).right());

  // The point was taken from one cluster, and only that one has another mean.
  answer.centroids[0] += 0.1F;
  EXPECT_TRUE(verify_one_step(meta, problem, answer.view()).right());
  answer.centroids[3] += 0.1F;
  const Verdict two_off = verify_one_step(meta, problem, answer.view());
  ASSERT_TRUE(finds(two_off, "means"));
  EXPECT_NE(two_off.message().find("2 means are off, but only 1 clusters may have been empty"),
            std::string::npos)
      << two_off.message();
}

// --- objective ---------------------------------------------------------------------------------

/// An answer whose means nobody can check, with centroids that raise the inertia by `excess`.
template <typename T>
Verdict judge_excess(double excess) {
  const auto owned = clouds<T>(20000, 12, 5, 6);
  const Problem<T> problem = owned.view();
  const OracleRun oracle = run_oracle(Family::kmeans, problem);
  Meta meta = meta_of(Family::kmeans);
  auto answer = solve(meta, problem);
  answer.recorded.clear();
  const double step = std::sqrt(excess * oracle.final_objective / static_cast<double>(problem.n));
  for (std::size_t j = 0; j < problem.k; ++j) {
    answer.centroids[j * problem.d] += static_cast<T>(step);
  }
  answer.labels = nearest_labels<T>(problem, answer.centroids);
  meta.labels = LabelsFrom::returned_centroids;
  return verify_answer(meta, problem, answer.view(), oracle);
}

TEST(Objective, maySlightlyDrift) {
  const Verdict same = judge_excess<float>(0.0);
  EXPECT_TRUE(same.right()) << same.message();
  EXPECT_LT(std::abs(same.relative_difference), 1e-5);
  const Verdict higher = judge_excess<float>(8e-4);
  EXPECT_TRUE(finds(higher, "objective"));
  EXPECT_NEAR(higher.relative_difference, 8e-4, 4e-4);
  EXPECT_TRUE(judge_excess<double>(0.0).right());
  EXPECT_TRUE(finds(judge_excess<double>(1e-7), "objective"));
}

// Rounding may lead a run to another minimum; one whose every pass is right cannot be wrong.
/// Relative distance from the float64 run, where only centroids are rounded to float32.
double led_away_by_rounded_centroids(double offset) {
  const OwnedProblem<float> owned = clouds<float>(4000, 48, 200, 3, offset);
  const Problem<float> problem = owned.view();
  const double exact = run_oracle(Family::kmeans, problem).final_objective;
  return std::abs(inertia_of_rounded_run(problem, 3) / exact - 1.0);
}

TEST(Objective, farFromTheOriginRoundedCentroidsAloneLeadElsewhere) {
  EXPECT_LT(led_away_by_rounded_centroids(0.0), 1e-9);
  EXPECT_GT(led_away_by_rounded_centroids(1e6), 1e-5);
}

TEST(Objective, mayBeElsewhereOnlyIfEveryPassIsRight) {
  const auto owned = clouds<float>(20000, 12, 5, 6);
  const Problem<float> problem = owned.view();
  OracleRun oracle = run_oracle(Family::kmeans, problem);
  auto answer = solve(meta_of(Family::kmeans), problem);
  for (double& inertia : oracle.inertia) {
    inertia *= 1.01;
  }
  oracle.final_objective *= 1.01;
  const Verdict recorded = verify_answer(meta_of(Family::kmeans), problem, answer.view(), oracle);
  EXPECT_TRUE(recorded.right()) << recorded.message();
  EXPECT_NEAR(recorded.relative_difference, -0.01, 1e-3);

  auto one_wrong_pass = answer;
  one_wrong_pass.recorded[problem.k * problem.d] *= 1.01F;
  const Verdict wrong =
      verify_answer(meta_of(Family::kmeans), problem, one_wrong_pass.view(), oracle);
  EXPECT_TRUE(finds(wrong, "passes"));
  EXPECT_TRUE(finds(wrong, "objective"));

  answer.recorded.clear();
  EXPECT_TRUE(
      finds(verify_answer(meta_of(Family::kmeans), problem, answer.view(), oracle), "objective"));
}

/// Points in a row, in three clouds; all eight clusters begin in one of these. Two of them begin so
/// close together that the expanded form in float32 may leave one without points. Of two runs, one
/// has a cluster moved to the farthest cloud and comes down farther: the answer's where `better`,
/// else the oracle's.
Verdict judge_reseeded(bool better, bool declared) {
  OwnedProblem<float> owned;
  owned.n = 2000;
  owned.d = 1;
  owned.k = 8;
  owned.stop = {StopRule::Kind::iterations, 0.0, 2};
  std::mt19937_64 random(1);
  std::uniform_real_distribution<float> uniform(0.0F, 4.0F);
  owned.points = {4.0F, 4.0F + 0x1p-20F};
  for (std::size_t i = 2; i < owned.n; ++i) {
    const float cloud = i < 1000 ? 0.0F : i < 1500 ? -20.0F : -40.0F;
    owned.points.push_back(cloud + uniform(random));
  }
  owned.centroids.assign(owned.points.begin(), owned.points.begin() + 8);
  Meta meta = meta_of(Family::kmeans, DistanceForm::expanded);
  meta.reseeds_empty = declared;
  auto elsewhere = owned;
  (better ? elsewhere : owned).centroids[2] = -38.0F;
  auto answer = solve(meta, elsewhere.view());
  answer.recorded.clear();
  return verify_answer(meta, owned.view(), answer.view(), run_oracle(Family::kmeans, owned.view()));
}

TEST(Objective, mayBeLowerWhereRoundingEmptiesAClusterThatIsReseeded) {
  const Verdict reseeded = judge_reseeded(true, true);
  EXPECT_TRUE(reseeded.right()) << reseeded.message();
  EXPECT_LT(reseeded.relative_difference, -0.1);
  EXPECT_TRUE(finds(judge_reseeded(true, false), "objective"));
  EXPECT_TRUE(finds(judge_reseeded(false, true), "objective"));
}

// --- precision ---------------------------------------------------------------------------------

/// Four clouds, 40 standard deviations apart, whose distances in the expanded form lose every digit
/// as the offset grows. The first rows are the initial centroids.
template <typename T>
OwnedProblem<T> far_blobs(double offset) {
  OwnedProblem<T> owned;
  owned.n = 4000;
  owned.d = 2;
  owned.k = 4;
  owned.stop = {StopRule::Kind::iterations, 0.0, 10};
  std::mt19937_64 random(1);
  std::normal_distribution<double> normal;
  for (std::size_t i = 0; i < owned.n; ++i) {
    owned.points.push_back(static_cast<T>(offset + (i % 2 == 0 ? 0.0 : 40.0) + normal(random)));
    owned.points.push_back(static_cast<T>(offset + (i % 4 < 2 ? 0.0 : 40.0) + normal(random)));
  }
  owned.centroids.assign(owned.points.begin(), owned.points.begin() + 8);
  return owned;
}

template <typename T>
Verdict judge_far_blobs(planted::Bug bug, DistanceForm form, double offset,
                        const VerifyOptions& options = {}, bool recorded = true) {
  const auto owned = far_blobs<T>(offset);
  const Problem<T> problem = owned.view();
  const auto variant = make<T>(Family::kmeans, bug, form);
  prepare(*variant, problem);
  auto answer = run_once(*variant, Family::kmeans, problem);
  if (!recorded) {
    answer.recorded.clear();
  }
  return verify_answer(meta_of(Family::kmeans, form), problem, answer.view(),
                       run_oracle(Family::kmeans, problem), options);
}

TEST(Precision, randomLabelsAreWrongHoweverFarTheDataAre) {
  for (const double offset : {0.0, 1e3, 1e4, 3e4, 1e5, 1e6}) {
    for (const bool recorded : {true, false}) {
      const Verdict verdict = judge_far_blobs<float>(planted::Bug::random_labels,
                                                     DistanceForm::expanded, offset, {}, recorded);
      EXPECT_FALSE(verdict.right()) << offset;
      if (offset >= 1e5) { // all labels are within rounding
        EXPECT_TRUE(finds(verdict, recorded ? "precision" : "objective")) << verdict.message();
        EXPECT_NE(verdict.message().find("the precision of the expanded form"), std::string::npos)
            << verdict.message();
      }
    }
  }
}

TEST(Precision, expandedFormIsRightAsLongAsItFindsTheClusters) {
  for (const double offset : {0.0, 1e3, 1e4, 3e4}) {
    const Verdict verdict =
        judge_far_blobs<float>(planted::Bug::none, DistanceForm::expanded, offset);
    EXPECT_TRUE(verdict.right()) << offset << "\n" << verdict.message();
    EXPECT_LT(std::abs(verdict.relative_difference), 3e-4) << offset;
  }
  EXPECT_TRUE(judge_far_blobs<double>(planted::Bug::none, DistanceForm::expanded, 1e6).right());
}

TEST(Precision, expandedFormIsWrongWhereItFindsThemNoMore) {
  const Verdict verdict = judge_far_blobs<float>(planted::Bug::none, DistanceForm::expanded, 1e6);
  EXPECT_TRUE(finds(verdict, "precision"));
  EXPECT_NE(verdict.message().find("too low for these data"), std::string::npos)
      << verdict.message();
  EXPECT_TRUE(judge_far_blobs<float>(planted::Bug::none, DistanceForm::difference, 1e6).right());
  EXPECT_TRUE(judge_far_blobs<float>(planted::Bug::none, DistanceForm::expanded, 1e6,
                                     {.judges_precision = false})
                  .right());
}

TEST(Precision, overlappingCloudsMayLeadElsewhere) {
  // Many labels are in doubt, and rounding leads to another path; every pass is as good as an exact
  // one.
  const auto owned = clouds<float>(4000, 16, 50, 20, 30.0);
  const Problem<float> problem = owned.view();
  const Meta meta = meta_of(Family::kmeans, DistanceForm::expanded);
  const auto answer = solve(meta, problem);
  const Verdict verdict =
      verify_answer(meta, problem, answer.view(), run_oracle(Family::kmeans, problem));
  EXPECT_TRUE(verdict.right()) << verdict.message();
  EXPECT_TRUE(std::find(verdict.checks.begin(), verdict.checks.end(), "precision") !=
              verdict.checks.end());
}

} // namespace
} // namespace clusterbench
