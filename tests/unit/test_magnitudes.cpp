// How large data is, and the units that follow from it: impls/cuda/common/magnitudes.hpp.

#include "impls/cuda/common/magnitudes.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <gtest/gtest.h>
#include <limits>
#include <vector>

namespace clusterbench::cuda {
namespace {

/// Whole numbers, no two of the same size, with both signs.
std::vector<float> rows_of(std::size_t n, std::size_t d) {
  std::vector<float> rows(n * d);
  for (std::size_t e = 0; e < rows.size(); ++e) {
    rows[e] = static_cast<float>(e + 1) * (e % 2 == 0 ? 1.0f : -1.0f);
  }
  return rows;
}

TEST(Magnitudes, TheLongestRowCountsEveryFeature) {
  constexpr std::size_t kRows = 5, kFeatures = 6;
  auto rows = rows_of(kRows, kFeatures);
  std::swap_ranges(rows.begin(), rows.begin() + kFeatures,
                   rows.end() - kFeatures); // the longest first
  double squared = 0.0;
  for (std::size_t f = 0; f < kFeatures; ++f) {
    const double size = static_cast<double>((kRows - 1) * kFeatures + f + 1);
    squared += size * size;
  }
  EXPECT_DOUBLE_EQ(longest_row(rows, kFeatures), std::sqrt(squared));
  rows.back() = std::numeric_limits<float>::quiet_NaN(); // of a shorter one
  EXPECT_DOUBLE_EQ(longest_row(rows, kFeatures), std::sqrt(squared));
}

TEST(Magnitudes, WordsOfEveryFeatureHoldItsLargestValue) {
  const std::vector<float> largest = {1.0f, 0x1p-30f, 3.0f, 0.0f, 0x1p90f};
  constexpr int kBits = 12;
  constexpr float kScale = 0x1p4f;
  Magnitudes rows;
  rows.largest = largest;
  const auto words = ToWords<8>::of(rows, kBits, kScale);
  for (const std::size_t f : {0u, 1u, 2u, 4u}) {
    const float word = largest[f] * kScale * words.factor[f];
    EXPECT_LT(word, std::ldexp(1.0f, kBits)) << f;
    EXPECT_GE(word, std::ldexp(1.0f, kBits - 1)) << f;
  }
  EXPECT_EQ(words.factor[3], words.factor[7]) << "a feature that is nothing, and none";
}

} // namespace
} // namespace clusterbench::cuda
