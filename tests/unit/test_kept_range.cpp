// Which rows may change the clusters whose rounded sums are kept: impls/cuda/support/kept_range.hpp.

#include "impls/cuda/support/kept_range.hpp"

#include <gtest/gtest.h>
#include <random>
#include <string>
#include <vector>

namespace clusterbench::cuda {
namespace {

constexpr std::size_t kRows = 10000, kFeatures = 3;

std::vector<float> normal_rows() {
  std::mt19937_64 random(5);
  std::normal_distribution<float> normal;
  std::vector<float> rows(kRows * kFeatures);
  for (float& value : rows) {
    value = normal(random);
  }
  return rows;
}

/// Sets feature 1 of the first `count` rows.
std::string reason(std::size_t count, float value) {
  auto rows = normal_rows();
  for (std::size_t i = 0; i < count; ++i) {
    rows[i * kFeatures + 1] = value;
  }
  return refuse_to_keep(rows, kFeatures);
}

TEST(KeptRange, DenseRowsAreTaken) {
  EXPECT_EQ(refuse_to_keep(normal_rows(), kFeatures), "");
  EXPECT_EQ(refuse_to_keep({}, kFeatures), "");
}

TEST(KeptRange, AZeroIsNot) {
  EXPECT_EQ(reason(1, 0.0f).find("feature 1 is zero in 1 of 10000 rows"), 0u) << reason(1, 0.0f);
  EXPECT_EQ(reason(kRows - 1, -0.0f).find("feature 1 is zero in 9999 of"), 0u);
}

TEST(KeptRange, NorAreManyTinyValues) {
  EXPECT_EQ(reason(30, 0x1p-20f), "");
  EXPECT_EQ(reason(60, 0x1p-10f), "");
  const std::string refusal = reason(60, -0x1p-14f);
  EXPECT_EQ(refusal.find("feature 1 is beneath 2^-14 of its largest value in 6"), 0u) << refusal;
}

TEST(KeptRange, AFeatureThatIsNothingHasNoRoundings) {
  EXPECT_EQ(reason(kRows, 0.0f), "");
}

} // namespace
} // namespace clusterbench::cuda
