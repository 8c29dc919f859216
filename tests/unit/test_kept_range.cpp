// Which rows may change the clusters whose rounded sums are kept, and which sums must be exact:
// impls/cuda/support/kept_range.hpp.

#include "impls/cuda/support/kept_range.hpp"
#include "impls/cuda/support/split_range.hpp"

#include <algorithm>
#include <cstdint>
#include <gtest/gtest.h>
#include <random>
#include <span>
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

std::string refuse_to_keep(std::span<const float> rows) {
  const auto largest = SplitRange(rows, rows.size() / kFeatures, kFeatures).largest();
  return cuda::refuse_to_keep(rows, kFeatures, largest);
}

std::string reason(std::size_t count, float value) {
  return refuse_to_keep(rows_with(count, value));
}

TEST(KeptRange, DenseRowsAreTaken) {
  EXPECT_EQ(refuse_to_keep(normal_rows()), "");
  EXPECT_EQ(refuse_to_keep({}), "");
}

TEST(KeptRange, ManyTinyValuesAreNot) {
  EXPECT_EQ(reason(30, 0x1p-20f), "");
  EXPECT_EQ(reason(60, 0x1p-10f), "");
  const std::string refusal = reason(60, -0x1p-14f);
  EXPECT_EQ(refusal.find("feature 1 is beneath 2^-14 of its largest value in 6"), 0u) << refusal;
}

TEST(KeptRange, ZerosAreTakenAndCounted) {
  for (const std::vector<float>& rows : {normal_rows(), std::vector<float>{}}) {
    const Zeros zeros = Zeros::of(rows, kFeatures);
    EXPECT_EQ(zeros.most, 0u);
    EXPECT_EQ(zeros.there, std::vector<std::uint8_t>(rows.size() / kFeatures, 0));
  }
  for (const std::size_t count : {std::size_t{1}, kRows / 2, kRows - 1}) {
    auto rows = rows_with(count, -0.0f);
    std::vector<std::uint8_t> there(kRows, 0);
    std::fill_n(there.begin(), count, std::uint8_t{1});
    EXPECT_EQ(refuse_to_keep(rows), "");
    EXPECT_EQ(Zeros::of(rows, kFeatures).most, count);
    EXPECT_EQ(Zeros::of(rows, kFeatures).there, there);
    rows[0] = rows.back() = 0.0f; // of the other features, one each
    there.back() = 1;
    EXPECT_EQ(Zeros::of(rows, kFeatures).most, count);
    EXPECT_EQ(Zeros::of(rows, kFeatures).there, there);
  }
}

TEST(KeptRange, AFeatureThatIsNothingHasNoRoundings) {
  auto rows = rows_with(kRows, 0.0f);
  std::vector<std::uint8_t> there(kRows, 0);
  EXPECT_EQ(refuse_to_keep(rows), "");
  EXPECT_EQ(Zeros::of(rows, kFeatures).most, 0u);
  EXPECT_EQ(Zeros::of(rows, kFeatures).there, there);
  rows[0] = 0.0f;
  there[0] = 1;
  EXPECT_EQ(Zeros::of(rows, kFeatures).most, 1u);
  EXPECT_EQ(Zeros::of(rows, kFeatures).there, there);
}

} // namespace
} // namespace clusterbench::cuda
