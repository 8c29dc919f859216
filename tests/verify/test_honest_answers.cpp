// Answers of correct variants are never found wrong: on random shapes, rules and data, with all
// that an answer may tell and with less, judged in every way.
#include "datasets/catalog.hpp"
#include "harness/judge/verifier.hpp"
#include "harness/problem/starts.hpp"
#include "tests/verify/run_variant.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

namespace clusterbench {
namespace {

enum class Kind { normal, clusters, integers, grid, uniform, far, few_points, outliers };

template <typename T>
OwnedProblem<T> random_problem(Kind kind, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto pick = [&](const std::vector<std::size_t>& list) {
    return list[random() % list.size()];
  };
  OwnedProblem<T> owned;
  owned.n = pick({5, 17, 40, 100, 333, 1000});
  owned.d = pick({1, 2, 3, 9, 20});
  owned.k = std::min(owned.n, pick({1, 2, 3, 5, 16, 40, 100}));
  std::normal_distribution<double> normal;
  std::uniform_real_distribution<double> uniform;
  std::vector<double> middles(8 * owned.d);
  for (double& middle : middles) {
    middle = 5.0 * normal(random);
  }
  for (std::size_t i = 0; i < owned.n; ++i) {
    const std::size_t cluster = random() % 8;
    const double length = kind == Kind::outliers && random() % 50 == 0 ? 3e5 : 1.0;
    for (std::size_t f = 0; f < owned.d; ++f) {
      const double middle = middles[cluster * owned.d + f];
      const double value = kind == Kind::normal     ? normal(random)
                           : kind == Kind::clusters ? middle + normal(random)
                           : kind == Kind::integers ? static_cast<double>(random() % 5)
                           : kind == Kind::grid     ? 0.1 * static_cast<double>(random() % 7)
                           : kind == Kind::uniform  ? uniform(random)
                           : kind == Kind::far      ? 100.0 + normal(random)
                           : kind == Kind::outliers ? length * normal(random)
                                                    : middle;
      owned.points.push_back(static_cast<T>(value));
    }
  }
  owned.centroids.assign(owned.points.begin(),
                         owned.points.begin() + static_cast<std::ptrdiff_t>(owned.k * owned.d));
  const std::size_t most = pick({1, 2, 5, 20, 100});
  const StopRule rules[] = {{StopRule::Kind::iterations, 0.0, most},
                            {StopRule::Kind::labels, 0.0, most},
                            {StopRule::Kind::shift, 1e-4, most},
                            {StopRule::Kind::loss, 1e-3 * static_cast<double>(owned.n), most}};
  owned.stop = rules[random() % 4];
  const StartSequence<T> starts(InitSpec::Kind::first, owned.view(), "honest", seed, 0);
  owned.centroids = starts.at(random() % kStartCycle);
  return owned;
}

template <typename T>
void expect_right(Kind kind, std::uint64_t seed, Family family, DistanceForm form) {
  const auto owned = random_problem<T>(kind, seed);
  const Problem<T> problem = owned.view();
  const Meta meta = meta_of(family, form);
  const OracleRun oracle = run_oracle(family, problem);
  const auto answer = solve(meta, problem);
  const auto expect = [&](const char* what, const Verdict& verdict) {
    EXPECT_TRUE(verdict.right()) << what << ", seed " << seed << ", data " << static_cast<int>(kind)
                                 << ", n=" << owned.n << " d=" << owned.d << " k=" << owned.k
                                 << "\n"
                                 << verdict.message();
  };
  const VerifyOptions options{.sampled_points = 256, .seed = seed};
  auto library = answer;
  library.entering.clear();
  auto timed = answer;
  timed.recorded.clear();
  expect("recorded", verify_answer(meta, problem, answer.view(), oracle, options));
  expect("library's", verify_answer(meta, problem, library.view(), oracle, options));
  expect("by itself", verify_consistency(meta, problem, answer.view(), options));
  expect("by itself, timed", verify_consistency(meta, problem, timed.view(), options));
  expect("cheap", verify_cheaply(meta, problem, timed.view(), options));
  expect("same", verify_same(meta, problem, answer.view(), timed.view(), options));
  // Where many labels are ties, or there are fewer points than clusters, rounding may lead a run
  // elsewhere, and only its recording can show that every pass was right.
  const bool calm = kind == Kind::normal || kind == Kind::clusters || kind == Kind::uniform ||
                    (kind == Kind::outliers && form == DistanceForm::difference);
  if (calm && family == Family::kmeans) {
    expect("timed", verify_answer(meta, problem, timed.view(), oracle, options));
  }
}

TEST(HonestAnswers, areRight) {
  std::uint64_t seed = 0;
  for (const Kind kind : {Kind::normal, Kind::clusters, Kind::integers, Kind::grid, Kind::uniform,
                          Kind::far, Kind::few_points, Kind::outliers}) {
    for (int repetition = 0; repetition < 8; ++repetition) {
      ++seed;
      for (const Family family : {Family::kmeans, Family::fcm}) {
        expect_right<float>(kind, seed, family, DistanceForm::difference);
        expect_right<double>(kind, seed, family, DistanceForm::difference);
        expect_right<double>(kind, seed, family, DistanceForm::expanded);
        if (kind != Kind::far &&
            kind != Kind::outliers) { // where the expanded form has too few digits in float
          expect_right<float>(kind, seed, family, DistanceForm::expanded);
        }
      }
    }
  }
}

// A row that lies far out is nearly as far from every centroid, so rounding chooses its cluster in
// the first pass. The run ends elsewhere than in float64, and is right.
TEST(HonestAnswers, areRightWhereOutliersAreMostOfTheObjective) {
  std::mt19937_64 random(7);
  std::normal_distribution<double> normal;
  OwnedProblem<float> owned;
  std::uniform_real_distribution<double> uniform(0.0, 1.0);
  owned.n = 5000;
  owned.d = 64;
  owned.k = 3;
  for (std::size_t i = 0; i < owned.n; ++i) {
    const double length = std::pow(uniform(random), -2.0); // Pareto's law, of infinite mean
    for (std::size_t f = 0; f < owned.d; ++f) {
      owned.points.push_back(static_cast<float>(length * normal(random)));
    }
  }
  owned.centroids.assign(owned.points.begin(),
                         owned.points.begin() + static_cast<std::ptrdiff_t>(owned.k * owned.d));
  owned.stop = {StopRule::Kind::iterations, 0.0, 20};
  const Meta meta = meta_of(Family::kmeans, DistanceForm::difference);
  const StartSequence<float> starts(InitSpec::Kind::first, owned.view(), "outliers", 1, 0);
  OwnedProblem<float> from_there = owned; // the sequence reads the arrays of `owned`
  for (std::size_t start = 0; start < kStartCycle; ++start) {
    from_there.centroids = starts.at(start);
    const Problem<float> problem = from_there.view();
    auto timed = solve(meta, problem);
    timed.recorded.clear();
    const Verdict verdict = verify_answer(meta, problem, timed.view(),
                                          run_oracle(Family::kmeans, problem), {.seed = start});
    EXPECT_TRUE(verdict.right()) << "start " << start << "\n" << verdict.message();
  }
}

// Of this start, a point that changes its cluster early on takes others with it, so that float runs
// from beside it end 0.08 % lower or where the oracle does.
TEST(HonestAnswers, areRightWhereRoundingDecidesWhereTheyEnd) {
  const datasets::Array points = datasets::generate_rows("article002", {0, 50000});
  OwnedProblem<float> owned;
  owned.n = points.rows();
  owned.d = points.cols();
  owned.k = 4;
  owned.points.assign(points.f64().begin(), points.f64().end());
  owned.stop = {StopRule::Kind::labels, 0.0, 8};
  for (const std::size_t row : {44626, 27070, 45004, 49611}) {
    const auto begin = owned.points.begin() + static_cast<std::ptrdiff_t>(row * owned.d);
    owned.centroids.insert(owned.centroids.end(), begin,
                           begin + static_cast<std::ptrdiff_t>(owned.d));
  }
  const Meta meta = meta_of(Family::kmeans, DistanceForm::difference);
  const Problem<float> problem = owned.view();
  const OracleRun oracle = run_oracle(Family::kmeans, problem);
  constexpr double kDrift = 4e-4; // more than a float run is granted of any start
  std::mt19937_64 random(1);
  int elsewhere = 0;
  for (int i = 0; i < 40; ++i) {
    OwnedProblem<float> beside = owned;
    for (float& value : beside.centroids) {
      value *= random() % 2 != 0 ? 1.0F + 6e-6F : 1.0F - 6e-6F;
    }
    auto timed = solve(meta, beside.view());
    timed.recorded.clear();
    const Verdict verdict =
        verify_answer(meta, problem, timed.view(), oracle, {.seed = static_cast<std::uint64_t>(i)});
    EXPECT_TRUE(verdict.right()) << verdict.message();
    elsewhere += std::abs(verdict.relative_difference) > kDrift ? 1 : 0;
  }
  EXPECT_GT(elsewhere, 0);

  // All that is excused is where runs from beside the start end, not where any run does.
  OwnedProblem<float> other = owned;
  std::copy_n(owned.points.begin(), other.centroids.size(), other.centroids.begin());
  auto answer = solve(meta, other.view());
  answer.recorded.clear();
  const Verdict verdict = verify_answer(meta, problem, answer.view(), oracle, {.seed = 1});
  EXPECT_NE(verdict.message().find("objective: after iteration"), std::string::npos)
      << verdict.message();
}

} // namespace
} // namespace clusterbench
