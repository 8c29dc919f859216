// Which rows may change the clusters whose rounded sums are kept, and which sums must be exact:
// impls/cuda/few_clusters/rounding_bounds.hpp.

#include "impls/cuda/few_clusters/rounding_bounds.hpp"
#include "tests/unit/magnitudes_of.hpp"

#include <algorithm>
#include <cmath>
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

/// As a kernel counts them.
std::vector<ValueCounts> counts_of(std::span<const float> rows) {
  const auto largest = magnitudes_of(rows, kFeatures).largest;
  std::vector<ValueCounts> counts(kFeatures);
  for (std::size_t e = 0; e < rows.size(); ++e) {
    const float size = std::abs(rows[e]);
    ValueCounts& of_feature = counts[e % kFeatures];
    of_feature.zero += size == 0.0f ? 1 : 0;
    of_feature.small += size > 0.0f && size < kSmallValue * largest[e % kFeatures] ? 1 : 0;
  }
  return counts;
}

std::string refuse_incremental(std::span<const float> rows) {
  return cuda::refuse_incremental(counts_of(rows), rows.size() / kFeatures);
}

std::size_t most_zeros(std::span<const float> rows) {
  return cuda::most_zeros(counts_of(rows), rows.size() / kFeatures);
}

std::string reason(std::size_t count, float value) {
  return refuse_incremental(rows_with(count, value));
}

TEST(IncrementalRange, DenseRowsAreTaken) {
  EXPECT_EQ(refuse_incremental(normal_rows()), "");
  EXPECT_EQ(refuse_incremental({}), "");
}

TEST(IncrementalRange, ManyTinyValuesAreNot) {
  EXPECT_EQ(reason(30, 0x1p-20f), "");
  EXPECT_EQ(reason(60, 0x1p-10f), "");
  const std::string refusal = reason(60, -0x1p-14f);
  EXPECT_EQ(refusal.find("feature 1 is beneath 2^-14 of its largest value in 6"), 0u) << refusal;
}

TEST(IncrementalRange, ZerosAreTakenAndCounted) {
  EXPECT_EQ(most_zeros(normal_rows()), 0u);
  EXPECT_EQ(most_zeros({}), 0u);
  for (const std::size_t count : {std::size_t{1}, kRows / 2, kRows - 1}) {
    auto rows = rows_with(count, -0.0f);
    EXPECT_EQ(refuse_incremental(rows), "");
    EXPECT_EQ(most_zeros(rows), count);
    rows[0] = rows.back() = 0.0f; // of the other features, one each
    EXPECT_EQ(most_zeros(rows), count);
  }
}

TEST(IncrementalRange, AFeatureThatIsNothingHasNoRoundings) {
  auto rows = rows_with(kRows, 0.0f);
  EXPECT_EQ(refuse_incremental(rows), "");
  EXPECT_EQ(most_zeros(rows), 0u);
  rows[0] = 0.0f;
  EXPECT_EQ(most_zeros(rows), 1u);
}

} // namespace
} // namespace clusterbench::cuda
