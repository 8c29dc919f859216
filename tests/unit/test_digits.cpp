// How many digits of a ratio are printed: no more than its interval bears out.
#include "harness/report/digits.hpp"

#include <gtest/gtest.h>

namespace clusterbench {
namespace {

TEST(RatioText, HasTheDigitsOfItsInterval) {
  EXPECT_EQ(ratio_text(1.5, {1.48, 1.52}, false), "1.500 [1.480, 1.520]");
  EXPECT_EQ(ratio_text(1.5, {1.1, 2.1}, false), "1.5 [1.1, 2.1]");
}

TEST(RatioText, OfTensIsWholeWhereItsIntervalIsWide) {
  EXPECT_EQ(ratio_text(52.9, {42.7, 69.9}, true), "53 (43 .. 70)");
  EXPECT_EQ(ratio_text(52.93, {52.91, 52.96}, false), "52.930 [52.910, 52.960]");
}

TEST(RatioText, OfOneSampleSaysSo) {
  EXPECT_EQ(ratio_text(30.81, {30.81, 30.81}, true), "31 (one sample)");
}

} // namespace
} // namespace clusterbench
