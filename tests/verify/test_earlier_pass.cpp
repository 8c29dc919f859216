// A run may be behind the oracle by one of 32 passes, and by not one more.
#include "harness/judge/path_check.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

namespace clusterbench {
namespace {

constexpr std::size_t kN = 20000;
constexpr std::size_t kPasses = 64; // two may be missing

/// Points without structure, whose clusters still move after 64 passes.
std::vector<double> uniform_points() {
  std::mt19937_64 random(7); // its numbers are fixed by the standard
  std::vector<double> points(2 * kN);
  for (double& value : points) {
    value = static_cast<double>(random() >> 11) * 0x1p-53;
  }
  return points;
}

class EarlierPass : public testing::Test {
protected:
  EarlierPass() {
    problem_.n = kN;
    problem_.d = 2;
    problem_.k = 100;
    problem_.points = points_;
    problem_.centroids = std::span<const double>(points_).first(problem_.k * problem_.d);
    problem_.stop = {StopRule::Kind::iterations, 0.0, kPasses};
    oracle_ = run_oracle(Family::kmeans, problem_);
  }

  /// What is found of the oracle's centroids after `passes`, given as those after 64.
  std::optional<std::string> found_of(std::size_t passes) const {
    JudgedAnswer<double> answer;
    answer.iterations = kPasses;
    answer.centroids = oracle_.states.at(passes).centroids;
    answer.entering = oracle_.states.at(passes - 1).centroids;
    return earlier_pass(Declaration(Meta{}), problem_, answer, oracle_);
  }

  std::vector<double> points_ = uniform_points();
  Problem<double> problem_;
  OracleRun oracle_;
};

TEST_F(EarlierPass, mayBeBehindByOneOf32) {
  ASSERT_TRUE(oracle_.still_moving);
  ASSERT_EQ(oracle_.states.size(), kPasses + 1);
  EXPECT_EQ(found_of(kPasses), std::nullopt);
  EXPECT_EQ(found_of(kPasses - 1), std::nullopt);
  EXPECT_EQ(found_of(kPasses - 2), std::nullopt);
}

TEST_F(EarlierPass, isFoundOneFurtherBehind) {
  for (const std::size_t passes : {kPasses - 3, kPasses - 8}) {
    EXPECT_EQ(found_of(passes),
              "iteration 64: the centroids are those after iteration " + std::to_string(passes));
  }
  EXPECT_TRUE(found_of(kPasses / 2)); // by the name of a pass beside it
}

} // namespace
} // namespace clusterbench
