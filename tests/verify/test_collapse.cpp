// Which centres count as apart.
#include "harness/judge/collapse.hpp"

#include <gtest/gtest.h>
#include <limits>
#include <vector>

namespace clusterbench {
namespace {

/// Of points at 0 and 2 in each of two features: their spread is the root of 2.
std::size_t apart(const std::vector<double>& centres) {
  static const std::vector<double> points = {0, 0, 2, 2, 0, 2, 2, 0};
  Problem<double> problem;
  problem.n = 4;
  problem.d = 2;
  problem.k = centres.size() / 2;
  problem.points = points;
  return centres_apart<double>(problem, centres);
}

TEST(Collapse, CountsCentresThatAreApart) {
  EXPECT_EQ(apart({0, 0, 2, 2, 0, 2}), 3u);
  EXPECT_EQ(apart({1, 1, 1, 1, 1, 1}), 1u);
  EXPECT_EQ(apart({1, 1, 2, 2, 1, 1, 2, 2}), 2u);
  EXPECT_EQ(apart({1, 1}), 1u);
}

TEST(Collapse, AThousandthOfTheSpreadIsNear) {
  EXPECT_EQ(apart({1, 1, 1, 1 + 1.3e-3}), 1u);
  EXPECT_EQ(apart({1, 1, 1, 1 + 1.5e-3}), 2u);
}

TEST(Collapse, PointsThatAreAllTheSameHaveOneCentre) {
  const std::vector<float> points(10, 3.0f), centres(4, 3.0f);
  Problem<float> problem;
  problem.n = 5;
  problem.d = problem.k = 2;
  problem.points = points;
  EXPECT_EQ(centres_apart<float>(problem, centres), 1u);
}

} // namespace
} // namespace clusterbench
