// Which rows lie far from the origin: impls/cuda/support/far_rows.hpp.

#include "impls/cuda/support/far_rows.hpp"

#include <gtest/gtest.h>
#include <random>
#include <vector>

namespace clusterbench::cuda {
namespace {

/// 10,000 rows of three features, normal ones around (mean, mean, mean).
std::vector<float> normal_rows(float mean) {
  std::mt19937_64 random(5);
  std::normal_distribution<float> normal(mean);
  std::vector<float> rows(30000);
  for (float& value : rows) {
    value = normal(random);
  }
  return rows;
}

TEST(FarRows, TheRatioIsOfTheLongestRowToTheSpread) {
  const std::vector<float> rows = {3.0f, 4.0f, 3.0f,
                                   6.0f}; // of squared length 25 and 45, one from their mean
  EXPECT_DOUBLE_EQ(squared_length_to_spread(rows, 2), 45.0);
  EXPECT_DOUBLE_EQ(squared_length_to_spread(rows, 1), 36.0 / 1.5);
  EXPECT_NEAR(squared_length_to_spread(normal_rows(1000.0f), 3), 1e6, 2e4);
  // The spread is there yet where the mean square and the square of the mean have no digits for it.
  std::vector<float> far(1000, 0x1p23f);
  far.back() += 1.0f;
  const double longest = (0x1p23 + 1.0) * (0x1p23 + 1.0);
  EXPECT_NEAR(squared_length_to_spread(far, 1) / longest, 1e6 / 999.0, 1e-6);
}

TEST(FarRows, RowsThatAreAllTheSameAreNotFar) {
  EXPECT_EQ(squared_length_to_spread(std::vector<float>(300, 1e6f), 3), 0.0);
  EXPECT_EQ(squared_length_to_spread({}, 3), 0.0);
}

TEST(FarRows, MoreCentroidsAreFarSooner) {
  EXPECT_FALSE(are_far_from_origin(normal_rows(0.0f), 3, 64));
  EXPECT_FALSE(are_far_from_origin(normal_rows(4.0f), 3, 64));
  EXPECT_TRUE(are_far_from_origin(normal_rows(15.0f), 3, 64));
  EXPECT_FALSE(are_far_from_origin(normal_rows(15.0f), 3, 7));
  EXPECT_TRUE(are_far_from_origin(normal_rows(150.0f), 3, 7));
  std::vector<float> rows =
      normal_rows(0.0f); // one row is enough, as errors are of the longest one
  rows[3] = 1000.0f;
  EXPECT_TRUE(are_far_from_origin(rows, 3, 64));
}

} // namespace
} // namespace clusterbench::cuda
