// Which rows two float16 parts of one scale can hold, and the scale:
// impls/cuda/few_clusters/rounding_bounds.hpp.

#include "impls/cuda/few_clusters/rounding_bounds.hpp"
#include "tests/unit/magnitudes_of.hpp"

#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <string>
#include <vector>

namespace clusterbench::cuda {
namespace {

/// 40 rows of two features between 1 and 4.
std::vector<float> plain_rows() {
  std::vector<float> rows;
  for (int e = 0; e < 80; ++e) {
    rows.push_back(1.0f + static_cast<float>(e % 7) * 0.5f);
  }
  return rows;
}

SplitRange range_of(const std::vector<float>& rows) {
  const Magnitudes of = magnitudes_of(rows, 2);
  return SplitRange(of.finite, of.shortest, of.longest, of.largest);
}

TEST(SplitRange, TheScaleTakesTheLargestValueNearTheEndOfFloat16) {
  for (const float largest : {0x1p-40f, 0.3f, 1.0f, 1.99f, 2.0f, 7.0f, 0x1p57f}) {
    const float scaled = largest * split_scale(largest);
    EXPECT_GE(scaled, 0x1p14f) << largest;
    EXPECT_LT(scaled, 0x1p15f) << largest;
    EXPECT_EQ(std::exp2(std::round(std::log2(split_scale(largest)))), split_scale(largest));
  }
  EXPECT_EQ(split_scale(0.0f), 1.0f);
}

TEST(SplitRange, CentroidsCountForTheScaleAndNotForTheLongestRow) {
  SplitRange range = range_of(plain_rows());
  EXPECT_EQ(range.refuse(), "");
  EXPECT_EQ(range.scale(), split_scale(4.0f));
  EXPECT_GE(range.longest(), std::hypot(3.5f, 4.0f));
  EXPECT_LT(range.longest(), 1.01f * std::hypot(3.5f, 4.0f));
  const float longest = range.longest();
  range.include(std::vector<float>{-100.0f, 3.0f});
  EXPECT_EQ(range.scale(), split_scale(100.0f));
  EXPECT_EQ(range.longest(), longest);
  EXPECT_EQ(range.refuse(), "");
}

TEST(SplitRange, RefusesWhatWouldLoseDigitsAndSaysWhy) {
  const auto reason = [](std::size_t at, float value, std::size_t step = 80) {
    auto rows = plain_rows();
    for (std::size_t e = at; e < rows.size(); e += step) {
      rows[e] = value;
    }
    return range_of(rows).refuse();
  };
  EXPECT_EQ(reason(5, 0.0f), "");
  EXPECT_EQ(reason(5, 0x1p-30f), ""); // its row and its feature have larger ones
  EXPECT_NE(reason(5, std::numeric_limits<float>::quiet_NaN()).find("not finite"),
            std::string::npos);
  EXPECT_NE(reason(5, std::numeric_limits<float>::infinity()).find("not finite"),
            std::string::npos);
  EXPECT_NE(reason(5, 0x1p20f).find("too far apart"), std::string::npos);
  EXPECT_NE(reason(5, 0x1p60f).find("the largest value is 1.15e+18"), std::string::npos);
  EXPECT_NE(reason(1, 0x1p-20f, 2).find("smallest feature"), std::string::npos);
  EXPECT_EQ(reason(1, 0.0f, 2), ""); // a feature that is nothing has no digits
  auto rows = plain_rows();
  rows[6] = rows[7] = 0x1p-14f;
  EXPECT_NE(range_of(rows).refuse().find("the shortest row"), std::string::npos);
}

TEST(SplitRange, CentroidsFarAwayRefuseTheRows) {
  SplitRange range = range_of(plain_rows());
  range.include(std::vector<float>{0x1p30f});
  EXPECT_NE(range.refuse().find("too far apart"), std::string::npos);
}

} // namespace
} // namespace clusterbench::cuda
