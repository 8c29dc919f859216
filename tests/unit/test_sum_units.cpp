// What takes a block's sums to integers: impls/cuda/support/magnitudes.hpp.

#include "impls/cuda/support/magnitudes.hpp"

#include <cmath>
#include <gtest/gtest.h>
#include <random>
#include <vector>

namespace clusterbench::cuda {
namespace {

constexpr double kRoom = 0x1p46; // of a word, with a sign
constexpr unsigned kMost = 4;

/// The largest share of the room that sums of `rows` times the largest value take, over units.
void expect_room(double unit, double largest_sum) {
  int exponent = 0;
  EXPECT_EQ(std::frexp(unit, &exponent), 0.5) << unit << " is no power of two";
  // Sums of floats are rounded up by a few units of 2^-24 each; 2^-10 is more than that.
  EXPECT_LT(unit * largest_sum * (1.0 + 0x1p-10), kRoom);
  EXPECT_GE(unit * largest_sum, kRoom / 4.0) << "digits are given away";
}

TEST(SumUnits, SumsOfTheLargestValuesFit) {
  std::mt19937_64 random(11);
  std::uniform_real_distribution<double> exponent(-60.0, 60.0);
  for (int draw = 0; draw < 2000; ++draw) {
    const auto largest = static_cast<float>(std::exp2(exponent(random)));
    const std::size_t rows_of_block = 1 + random() % 9000000;
    const std::vector<float> rows{largest / 3.0f, -1e-9f, -largest, 1e-9f}; // [2, 2]
    const std::vector<float> initial{0.0f, 0.0f};
    const auto units = SumUnits<kMost>::of(rows, initial, 2, rows_of_block);
    const auto most = static_cast<double>(rows_of_block);
    expect_room(units.features[0], most * static_cast<double>(largest));
    expect_room(units.features[1], most * 1e-9);
    expect_room(units.counts, most);
  }
}

TEST(SumUnits, AllLabelsMayChangeAndAllDistancesBeTheLongest) {
  const std::size_t rows_of_block = 7577;
  const std::vector<float> rows{3.0f, 4.0f, -0.5f, 0.25f}; // [2, 2], the longer one 5
  const std::vector<float> near{0.0f, 0.0f}, far{-60.0f, 80.0f};
  const double most = rows_of_block;
  const auto units_near = SumUnits<kMost>::of(rows, near, 2, rows_of_block);
  const auto units_far = SumUnits<kMost>::of(rows, far, 2, rows_of_block);
  expect_room(units_near.fact, most * 10.0); // between two rows; means may lie there
  expect_room(units_far.fact, most * 105.0); // to the initial centroid, through the origin
  const std::vector<float> tiny{1e-5f, 0.0f, 0.0f, 1e-5f};
  expect_room(SumUnits<kMost>::of(tiny, near, 2, rows_of_block).fact, most); // as many may change
}

TEST(SumUnits, FeaturesWithoutAnythingHaveAUnit) {
  const std::vector<float> rows{1.0f, 0.0f, 2.0f, 0.0f};
  const auto units = SumUnits<kMost>::of(rows, std::vector<float>{0.0f, 0.0f}, 2, 10);
  EXPECT_EQ(units.features[1], 1.0);
  EXPECT_EQ(units.features[3], 1.0); // padding
}

} // namespace
} // namespace clusterbench::cuda
