// The oracle against numbers that no code of this project computed (oracle_numbers.py prints them),
// and its promises: independent of the thread count, exact where arithmetic is exact.
#include "harness/judge/one_step_states.hpp"
#include "harness/judge/oracle.hpp"

#include "tests/verify/reference_problem.hpp"

#include <gtest/gtest.h>
#include <omp.h>

#include <cmath>
#include <random>
#include <stdexcept>
#include <vector>

namespace clusterbench {
namespace {

void expect_close(const std::vector<double>& got, const std::vector<double>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_NEAR(got[i], expected[i], 1e-13 * std::abs(expected[i])) << "value " << i;
  }
}

template <typename T>
class Oracle : public testing::Test {
protected:
  std::vector<T> points = reference_points<T>();
  OracleRun run(Family family, StopRule stop, double fuzzifier = 2.0) const {
    auto problem = reference_problem<T>(points, stop);
    problem.fuzzifier = fuzzifier;
    return run_oracle(family, problem);
  }
};
using Precisions = testing::Types<float, double>;
TYPED_TEST_SUITE(Oracle, Precisions);

TYPED_TEST(Oracle, isScikitLearnsKMeans) {
  const OracleRun run = this->run(Family::kmeans, {StopRule::Kind::iterations, 0.0, 6});
  EXPECT_EQ(run.iterations, 6U);
  ASSERT_EQ(run.states.size(), 7U);
  expect_close(run.returned(),
               {12.533653846153861, 23.847355769230766, 46.07572115384616, 34.278571428571425,
                12.796428571428581, 16.539285714285715, 22.376302083333329, 51.645833333333357,
                17.852864583333336, 46.122115384615412, 33.890384615384612, 43.973076923076924});
  expect_close(run.inertia, {256664.43359375, 159297.45305696729, 144696.59025497275,
                             125446.35163984454, 103557.95049539694, 87052.727022364503});
  EXPECT_NEAR(run.final_objective, 81590.637962858309, 1e-8);
  expect_close(run.loss, {6592.987851068051, 5298.1764959052507, 5050.6735849027309,
                          4687.7896395504868, 4248.5096072573588, 3954.9177081227735});
  EXPECT_TRUE(run.still_moving);
  EXPECT_EQ(run.stood_still_at, 0U);
  EXPECT_EQ(run.empty_at, 0U);
}

TYPED_TEST(Oracle, standsStillWhereScikitLearnDoes) {
  const OracleRun by_rule = this->run(Family::kmeans, {StopRule::Kind::labels, 0.0, 300});
  EXPECT_EQ(by_rule.iterations, 20U);
  EXPECT_FALSE(by_rule.still_moving);
  const OracleRun fixed = this->run(Family::kmeans, {StopRule::Kind::iterations, 0.0, 30});
  EXPECT_EQ(fixed.iterations, 30U);
  EXPECT_EQ(fixed.stood_still_at, 20U);
  EXPECT_EQ(fixed.final_objective, by_rule.final_objective);
}

TYPED_TEST(Oracle, isExtendedPrecisionsFcm) {
  const OracleRun two = this->run(Family::fcm, {StopRule::Kind::iterations, 0.0, 5});
  expect_close(two.loss, {94636.324386843437, 48938.976729937698, 47295.180607859773,
                          46897.384311266738, 46350.181209041817});
  expect_close(two.returned(),
               {18.940593185561916, 24.121123467021214, 26.446656965361306, 39.214808597380262,
                33.486597704868728, 27.811884682768881, 35.66827561191819, 34.665134815000414,
                34.316080075615531, 24.872658158247617, 34.747742011595214, 44.609107759073147});
  EXPECT_LT(two.final_objective, two.loss.back());
  const OracleRun sharper = this->run(Family::fcm, {StopRule::Kind::iterations, 0.0, 5}, 1.5);
  expect_close(sharper.loss, {179515.17297275097, 95019.916106640667, 88709.442539158379,
                              84500.71571310921, 81866.05499776869});
  expect_close(sharper.returned(),
               {14.106410362060783, 22.628217993931084, 22.806804022660653, 44.51897503346553,
                32.788996752694146, 22.563007073381424, 40.987202146798566, 35.845117425648873,
                37.533287242879474, 20.380940934672278, 35.525168222356719, 49.334461264013122});
}

TEST(OracleFromMemberships, isExtendedPrecisionsFcm) {
  const std::vector<double> points = reference_points<double>();
  std::vector<double> memberships;
  for (std::size_t i = 0; i < kN; ++i) {
    double sum = 0.0;
    for (std::size_t j = 0; j < kK; ++j) {
      memberships.push_back(static_cast<double>(1 + (i * 5 + j * 3) % 8));
      sum += memberships.back();
    }
    for (std::size_t j = 0; j < kK; ++j) {
      memberships[i * kK + j] /= sum;
    }
  }
  auto problem = reference_problem<double>(points, {StopRule::Kind::iterations, 0.0, 3});
  problem.centroids = {};
  problem.memberships = memberships;
  const OracleRun run = run_oracle(Family::fcm, problem);
  expect_close(run.loss, {47865.632900331941, 47826.002267683914, 47750.498140881675});
  expect_close(run.returned(),
               {26.84415357486067, 31.144634631373751, 33.354925210841159, 30.89255704566683,
                33.790654168594507, 31.730986054704708, 30.434203225519276, 33.592260756330106,
                32.136469582123674, 30.364100913568834, 28.8729042568648, 36.554755210713218});
  ASSERT_EQ(run.states.size(), 4U);
  EXPECT_EQ(run.states[0].centroids, run.states[1].centroids);
  EXPECT_EQ(run.final_objective, run.loss.back());
}

TEST(OracleRules, keepEmptyClustersAndBreakTiesToTheLowestIndex) {
  // 0 and 2 are as far from the first centroid as from the second; the third has no points.
  const std::vector<double> points = {0.0, 2.0, 1.0};
  const std::vector<double> centroids = {1.0, 1.0, 50.0};
  Problem<double> problem;
  problem.n = 3;
  problem.d = 1;
  problem.k = 3;
  problem.points = points;
  problem.centroids = centroids;
  problem.stop = {StopRule::Kind::iterations, 0.0, 1};
  const OracleRun run = run_oracle(Family::kmeans, problem);
  EXPECT_EQ(run.returned(), (std::vector<double>{1.0, 1.0, 50.0}));
  EXPECT_EQ(run.empty_at, 1U);
  EXPECT_EQ(run.inertia[0], 2.0);
  EXPECT_EQ(run.loss[0], 2.0);
}

TEST(OracleSums, survive) {
  // 1e16 + 1 - 1e16: lost without compensation, in whatever order chunks are summed.
  std::vector<double> points(30000);
  for (std::size_t i = 0; i < points.size(); i += 3) {
    points[i] = 1e16;
    points[i + 1] = 1.0;
    points[i + 2] = -1e16;
  }
  const std::vector<double> centroid = {0.0};
  Problem<double> problem;
  problem.n = points.size();
  problem.d = 1;
  problem.k = 1;
  problem.points = points;
  problem.centroids = centroid;
  problem.stop = {StopRule::Kind::iterations, 0.0, 1};
  EXPECT_EQ(run_oracle(Family::kmeans, problem).returned()[0], 1.0 / 3.0);
}

TEST(OracleThreads, doNotChangeABit) {
  std::mt19937_64 random(3);
  std::normal_distribution<float> normal;
  std::vector<float> points(20000 * 5);
  for (float& value : points) {
    value = normal(random);
  }
  Problem<float> problem;
  problem.n = 20000;
  problem.d = 5;
  problem.k = 7;
  problem.points = points;
  problem.centroids = problem.points.first(35);
  problem.stop = {StopRule::Kind::iterations, 0.0, 3};
  const int threads = omp_get_max_threads();
  for (const Family family : {Family::kmeans, Family::fcm}) {
    omp_set_num_threads(1);
    const OracleRun alone = run_oracle(family, problem);
    omp_set_num_threads(3);
    const OracleRun together = run_oracle(family, problem);
    EXPECT_EQ(alone.returned(), together.returned());
    EXPECT_EQ(alone.loss, together.loss);
    EXPECT_EQ(alone.final_objective, together.final_objective);
  }
  omp_set_num_threads(threads);
}

TEST(OracleInput, isChecked) {
  const std::vector<double> points = reference_points<double>();
  auto problem = reference_problem<double>(points, {});
  problem.n = kN + 1;
  EXPECT_THROW(run_oracle(Family::kmeans, problem), std::invalid_argument);
  problem.n = kN;
  problem.centroids = problem.centroids.first(5);
  EXPECT_THROW(run_oracle(Family::kmeans, problem), std::invalid_argument);
  problem = reference_problem<double>(points, {});
  const std::vector<double> weights(kN, 1.0), zeros(kN, 0.0);
  problem.weights = weights;
  EXPECT_NO_THROW(run_oracle(Family::kmeans, problem));
  EXPECT_THROW(run_oracle(Family::fcm, problem), std::invalid_argument);
  problem.weights = std::span(weights).first(kN - 1);
  EXPECT_THROW(run_oracle(Family::kmeans, problem), std::invalid_argument);
  problem.weights = zeros;
  EXPECT_THROW(run_oracle(Family::kmeans, problem), std::invalid_argument);
  problem = reference_problem<double>(points, {});
  problem.fuzzifier = 1.0;
  EXPECT_THROW(run_oracle(Family::fcm, problem), std::invalid_argument);
}

TEST(OneStepStates, areDistinctAndFit) {
  const std::vector<float> points = reference_points<float>();
  const auto problem = reference_problem<float>(points, {StopRule::Kind::iterations, 0.0, 6});
  for (const Family family : {Family::kmeans, Family::fcm}) {
    const OracleRun run = run_oracle(family, problem);
    const auto states = one_step_states(family, problem, run);
    EXPECT_EQ(states.size(), family == Family::kmeans ? 3U : 4U);
    for (std::size_t i = 0; i < states.size(); ++i) {
      const Problem<float> one_pass = one_pass_problem(problem, states[i]);
      EXPECT_EQ(one_pass.centroids.size(), kK * kD);
      EXPECT_EQ(one_pass.stop.max_iterations, 1U);
      for (std::size_t other = 0; other < i; ++other) {
        EXPECT_NE(states[i].centroids, states[other].centroids);
      }
    }
  }
}

} // namespace
} // namespace clusterbench
