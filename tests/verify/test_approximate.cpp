// Variants that declare themselves approximate: judged by their objective and their means, and
// shown with the share of labels that differ.
#include "harness/judge/verifier.hpp"
#include "tests/verify/narrow_pass.hpp"
#include "tests/verify/run_variant.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace clusterbench {
namespace {

Meta approximate(double within) {
  Meta meta = meta_of(Family::kmeans);
  meta.approximate_within = within;
  return meta;
}

/// `passes` passes with products of eight digits on clouds that overlap.
struct NarrowRun {
  OwnedProblem<float> owned;
  OwnedAnswer<float> answer;
};

NarrowRun narrow_run(std::size_t passes) {
  NarrowRun run{clouds<float>(20000, 8, 12, passes, 2.0), {}};
  std::vector<float> centroids = run.owned.centroids;
  for (std::size_t pass = 0; pass < passes; ++pass) {
    Problem<float> problem = run.owned.view();
    problem.centroids = centroids;
    run.answer = narrow_pass(problem, kBf16Digits, true);
    centroids = run.answer.centroids;
  }
  run.answer.iterations = passes;
  return run;
}

TEST(Approximate, isRightWithinWhatItDeclares) {
  const NarrowRun run = narrow_run(5);
  const Problem<float> problem = run.owned.view();
  const OracleRun oracle = run_oracle(Family::kmeans, problem);
  const Verdict exact = verify_answer(meta_of(Family::kmeans), problem, run.answer.view(), oracle);
  EXPECT_TRUE(finds(exact, "labels"));
  const Verdict declared = verify_answer(approximate(0.01), problem, run.answer.view(), oracle);
  EXPECT_TRUE(declared.right()) << declared.message();
  EXPECT_EQ(declared.labels_judged, problem.n);
  EXPECT_GT(declared.share_of_labels_off(), 1e-3);
  EXPECT_LT(declared.share_of_labels_off(), 0.1);
  EXPECT_LT(std::abs(declared.relative_difference), 0.01);
  EXPECT_NE(declared.relative_difference, 0.0);
  EXPECT_TRUE(verify_consistency(approximate(0.01), problem, run.answer.view()).right());
  EXPECT_TRUE(verify_cheaply(approximate(0.01), problem, run.answer.view()).right());
}

TEST(Approximate, countsTheLabelsThatDiffer) {
  auto owned = clouds<float>(10000, 4, 3, 1);
  const Problem<float> problem = owned.view();
  auto answer = solve(meta_of(Family::kmeans), problem);
  for (std::size_t i = 0; i < 500; ++i) {
    answer.labels[20 * i] = (answer.labels[20 * i] + 1) % 3;
  }
  answer.centroids = means_of(problem, answer.labels);
  answer.recorded.clear();
  const Verdict verdict = verify_one_step(approximate(1.0), problem, answer.view());
  EXPECT_TRUE(verdict.right()) << verdict.message();
  EXPECT_NEAR(verdict.share_of_labels_off(), 0.05, 1e-3);
}

TEST(Approximate, beyondTheBudgetOnePassIsJudgedBySamples) {
  auto owned = clouds<float>(10000, 4, 3, 1);
  const Problem<float> problem = owned.view();
  auto answer = solve(meta_of(Family::kmeans), problem);
  answer.recorded.clear();
  const VerifyOptions options{.sampled_points = 500, .step_budget = 3.0 * 4 * 3 * 2000};
  const auto judged = [&] {
    return verify_one_step(approximate(0.01), problem, answer.view(), options);
  };
  EXPECT_TRUE(judged().right()) << judged().message();
  EXPECT_EQ(judged().labels_judged, 2000U);
  EXPECT_TRUE(std::isnan(judged().oracle_objective));
  answer.centroids = owned.centroids; // as before the pass
  EXPECT_TRUE(finds(judged(), "means"));
}

TEST(Approximate, isWrongBeyondWhatItDeclares) {
  const NarrowRun run = narrow_run(3);
  const Problem<float> problem = run.owned.view();
  const OracleRun oracle = run_oracle(Family::kmeans, problem);
  const auto verdict_on = [&](double within, const OwnedAnswer<float>& answer) {
    return verify_answer(approximate(within), problem, answer.view(), oracle);
  };
  // All centroids a little off: the objective rises by a tenth.
  auto moved = run.answer;
  const double step = std::sqrt(0.1 * oracle.final_objective / static_cast<double>(problem.n));
  for (std::size_t j = 0; j < problem.k; ++j) {
    moved.centroids[j * problem.d] += static_cast<float>(step);
  }
  EXPECT_TRUE(finds(verdict_on(0.05, moved), "means"));
  EXPECT_TRUE(finds(verdict_on(0.05, moved), "objective"));
  EXPECT_TRUE(verdict_on(0.2, moved).right()) << verdict_on(0.2, moved).message();

  // Means of labels that nobody looked for.
  auto random = run.answer;
  for (std::size_t i = 0; i < problem.n; ++i) {
    random.labels[i] = static_cast<std::int32_t>(i * 7919 % problem.k);
  }
  random.centroids = means_of(problem, random.labels);
  EXPECT_TRUE(finds(verdict_on(0.05, random), "objective"));
  EXPECT_TRUE(finds(verify_consistency(approximate(0.05), problem, random.view()), "descent"));

  auto early = run.answer;
  early.iterations = 2;
  EXPECT_TRUE(finds(verdict_on(0.05, early), "stop rule"));
}

TEST(Approximate, hasTheFormOfAllOthers) {
  const NarrowRun run = narrow_run(3);
  const Problem<float> problem = run.owned.view();
  const OracleRun oracle = run_oracle(Family::kmeans, problem);
  const auto expect = [&](const char* check, const auto& spoil) {
    auto answer = run.answer;
    spoil(answer);
    EXPECT_TRUE(finds(verify_answer(approximate(0.1), problem, answer.view(), oracle), check));
    EXPECT_TRUE(finds(verify_cheaply(approximate(0.1), problem, answer.view()), check));
  };
  expect("label range", [](auto& answer) { answer.labels[7] = 12; });
  expect("written", [](auto& answer) { answer.labels[7] = -1; });
  expect("finite",
         [](auto& answer) { answer.centroids[7] = std::numeric_limits<float>::infinity(); });
  expect("iterations", [](auto& answer) { answer.iterations = 4; });
}

TEST(Approximate, fuzzyMembershipsMayBeCoarse) {
  auto owned = clouds<float>(4000, 4, 3, 4);
  Meta meta = meta_of(Family::fcm);
  const Problem<float> problem = owned.view();
  const OracleRun oracle = run_oracle(Family::fcm, problem);
  auto answer = solve(meta, problem);
  answer.recorded.clear();
  for (float& membership : answer.memberships) {
    membership = static_cast<float>(with_digits(membership, kBf16Digits));
  }
  EXPECT_FALSE(verify_answer(meta, problem, answer.view(), oracle).right());
  meta.approximate_within = 0.02;
  const Verdict declared = verify_answer(meta, problem, answer.view(), oracle);
  EXPECT_TRUE(declared.right()) << declared.message();
  for (float& membership : answer.memberships) {
    membership *= 0.9F;
  }
  EXPECT_TRUE(finds(verify_answer(meta, problem, answer.view(), oracle), "row sums"));
}

} // namespace
} // namespace clusterbench
