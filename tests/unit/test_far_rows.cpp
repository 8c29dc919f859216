// Which rows lie far from the origin: impls/cuda/common/magnitudes.hpp.

#include "impls/cuda/common/magnitudes.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <gtest/gtest.h>
#include <random>
#include <vector>

namespace clusterbench::cuda {
namespace {

double spread_of(const std::vector<float>& values) {
  FeatureSpread spread{};
  for (const float value : values) {
    spread.add(value, values.front());
  }
  return spread.of(static_cast<double>(values.size()));
}

TEST(FarRows, TheSpreadIsTheMeanSquaredDistanceFromTheMean) {
  EXPECT_DOUBLE_EQ(spread_of({3.0f, 3.0f, 3.0f}), 0.0);
  EXPECT_DOUBLE_EQ(spread_of({4.0f, 6.0f}), 1.0);
  EXPECT_DOUBLE_EQ(spread_of({-1.0f, 0.0f, 4.0f}), (4.0 + 1.0 + 9.0) / 3.0);
  // It is there yet where the mean square and the square of the mean have no digits for it.
  std::vector<float> far(1000, 0x1p23f);
  far.back() += 1.0f;
  EXPECT_NEAR(spread_of(far), 999.0 / 1e6, 1e-9);
}

/// Whether 10,000 rows of three features, normal ones around (mean, mean, mean), are refused.
bool refused(float mean, std::size_t k) {
  std::mt19937_64 random(5);
  std::normal_distribution<float> normal(mean);
  std::vector<float> values(10000);
  std::ranges::generate(values, [&] { return normal(random); });
  const double longest = std::sqrt(3.0) * (static_cast<double>(mean) + 4.0);
  return !refuse_far_rows(longest, 3.0 * spread_of(values), k).empty();
}

TEST(FarRows, MoreCentroidsAreFarSooner) {
  EXPECT_FALSE(refused(0.0f, 64));
  EXPECT_FALSE(refused(4.0f, 64));
  EXPECT_TRUE(refused(15.0f, 64));
  EXPECT_FALSE(refused(15.0f, 7));
  EXPECT_TRUE(refused(150.0f, 7));
  // One row is enough, as errors are of the longest one.
  EXPECT_NE(refuse_far_rows(1000.0, 3.0, 64), "");
}

TEST(FarRows, RowsThatAreAllTheSameAreNotFar) {
  EXPECT_EQ(refuse_far_rows(1e6, 0.0, 64), "");
}

} // namespace
} // namespace clusterbench::cuda
