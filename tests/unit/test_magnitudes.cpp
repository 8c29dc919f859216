// How large data is, and the units that follow from it: impls/cuda/support/magnitudes.hpp.

#include "impls/cuda/support/magnitudes.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <gtest/gtest.h>
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

TEST(Magnitudes, SquaredLengthsCountEveryFeatureOnce) {
  for (std::size_t d = 0; d < 14; ++d) { // the sum goes four features at a time
    double squared = 0.0;
    for (const float value : rows_of(1, d)) {
      squared += static_cast<double>(value) * static_cast<double>(value);
    }
    EXPECT_EQ(squared_length(rows_of(1, d)), squared) << d << " features";
  }
}

TEST(Magnitudes, OfEveryFeatureAndTheLongestRow) {
  constexpr std::size_t kRows = 5, kFeatures = 6;
  auto rows = rows_of(kRows, kFeatures);
  std::swap_ranges(rows.begin(), rows.begin() + kFeatures,
                   rows.end() - kFeatures); // the longest first
  const Magnitudes found = Magnitudes::of(rows, kFeatures);
  double squared = 0.0;
  for (std::size_t f = 0; f < kFeatures; ++f) {
    const double size = static_cast<double>((kRows - 1) * kFeatures + f + 1);
    EXPECT_EQ(found.largest[f], size);
    squared += size * size;
  }
  EXPECT_DOUBLE_EQ(found.longest, std::sqrt(squared));
}

TEST(Magnitudes, WordsOfEveryFeatureHoldItsLargestValue) {
  const std::vector<float> largest = {1.0f, 0x1p-30f, 3.0f, 0.0f, 0x1p90f};
  constexpr int kBits = 12;
  constexpr float kScale = 0x1p4f;
  const auto words = ToWords<8>::of_largest(largest, kBits, kScale);
  for (const std::size_t f : {0u, 1u, 2u, 4u}) {
    const float word = largest[f] * kScale * words.factor[f];
    EXPECT_LT(word, std::ldexp(1.0f, kBits)) << f;
    EXPECT_GE(word, std::ldexp(1.0f, kBits - 1)) << f;
  }
  EXPECT_EQ(words.factor[3], words.factor[7]) << "a feature that is nothing, and none";
}

} // namespace
} // namespace clusterbench::cuda
