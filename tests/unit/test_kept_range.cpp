// Which rows may change the clusters whose rounded sums are kept, and what such sums are rounded by:
// impls/cuda/support/kept_range.hpp.

#include "impls/cuda/support/kept_range.hpp"
#include "tests/unit/tensor_core_model.hpp"

#include <cmath>
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
std::vector<float> rows_with(std::size_t count, float value) {
  auto rows = normal_rows();
  for (std::size_t i = 0; i < count; ++i) {
    rows[i * kFeatures + 1] = value;
  }
  return rows;
}

std::string reason(std::size_t count, float value) {
  return refuse_to_keep(rows_with(count, value), kFeatures);
}

TEST(KeptRange, DenseRowsAreTaken) {
  EXPECT_EQ(refuse_to_keep(normal_rows(), kFeatures), "");
  EXPECT_EQ(refuse_to_keep({}, kFeatures), "");
}

TEST(KeptRange, ManyTinyValuesAreNot) {
  EXPECT_EQ(reason(30, 0x1p-20f), "");
  EXPECT_EQ(reason(60, 0x1p-10f), "");
  const std::string refusal = reason(60, -0x1p-14f);
  EXPECT_EQ(refusal.find("feature 1 is beneath 2^-14 of its largest value in 6"), 0u) << refusal;
}

TEST(KeptRange, ZerosAreTakenAndCounted) {
  for (const std::size_t count : {std::size_t{1}, kRows / 2, kRows - 1}) {
    const auto rows = rows_with(count, -0.0f);
    EXPECT_EQ(refuse_to_keep(rows, kFeatures), "");
    const auto zeros = Zeros<4>::of(rows, kFeatures);
    EXPECT_TRUE(zeros.any);
    EXPECT_EQ(zeros.rows[0], 0.0);
    EXPECT_EQ(zeros.rows[1], static_cast<double>(count));
    EXPECT_EQ(zeros.rows[3], 0.0); // no such feature
  }
  EXPECT_FALSE(Zeros<4>::of(normal_rows(), kFeatures).any);
}

TEST(KeptRange, AFeatureThatIsNothingHasNoRoundings) {
  EXPECT_EQ(reason(kRows, 0.0f), "");
  const auto zeros = Zeros<3>::of(rows_with(kRows, 0.0f), kFeatures);
  EXPECT_FALSE(zeros.any);
  EXPECT_EQ(zeros.rows[1], 0.0);
}

TEST(KeptRange, AClusterOfZerosIsInDoubt) {
  for (const double rows : {1.0, 3.0, 900.0, 1e7}) {
    EXPECT_TRUE(Zeros<1>::may_fill(rows, 1.0 / rows));          // all of them
    EXPECT_TRUE(Zeros<1>::may_fill(2.0 * rows, 1.0 / rows));    // there are more
    EXPECT_FALSE(Zeros<1>::may_fill(0.875 * rows, 1.0 / rows)); // one of eight is not
    EXPECT_FALSE(Zeros<1>::may_fill(0.0, 1.0 / rows));
  }
  EXPECT_FALSE(Zeros<1>::may_fill(100.0, 0.0)); // an empty cluster stays where it is
}

// As KeptRun::add_up() does it: of 64 rows products with the second and the first part of 16 at a time, and tiles one
// after another in float. Units of the largest value for each row; the tensor core loses all it may.
TEST(KeptRange, AddingUpTakesNoMoreThanIsAssumed) {
  constexpr std::size_t kTiles = 20;
  constexpr double kLargest = 32768.0;
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> uniform;
  double worst = 0.0;
  for (const double least : {0.0, 0.5, -1.0}) {
    for (const std::size_t group : {4, 8, 16}) {
      for (int run = 0; run < 20; ++run) {
        float sum = 0.0f;
        double exact = 0.0;
        for (std::size_t tile = 0; tile < kTiles; ++tile) {
          Vector parts(128); // of 16 rows the second ones, then the first ones
          for (std::size_t i = 0; i < 64; ++i) {
            const double share = least + (1.0 - least) * uniform(random);
            const auto value = static_cast<float>(kLargest * share);
            const double first = to_half(value), second = to_half(value - first);
            parts[i / 16 * 32 + i % 16] = second;
            parts[i / 16 * 32 + 16 + i % 16] = first;
            exact += first + second;
          }
          sum += cut_product(parts, Vector(parts.size(), 1.0), group);
        }
        const double rows = static_cast<double>(kTiles * 64);
        worst = std::max(worst, std::abs(static_cast<double>(sum) - exact) / (rows * kLargest));
      }
    }
  }
  EXPECT_LT(worst, kSumRounding);
  EXPECT_GT(worst, kSumRounding / 16.0); // it is what the bound is about
}

} // namespace
} // namespace clusterbench::cuda
