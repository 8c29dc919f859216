// Words that count who has added to them: impls/cuda/few_features/counted_sums.cuh; and the units
// that take sums to what they hold: magnitudes.hpp.

#include "impls/cuda/common/magnitudes.hpp"
#include "impls/cuda/few_features/counted_sums.cuh"
#include "tests/unit/magnitudes_of.hpp"

#include <cmath>
#include <cstdint>
#include <gtest/gtest.h>
#include <limits>
#include <random>
#include <vector>

namespace clusterbench::cuda {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Adds parts to a word that was `before`, and checks it after each.
void expect_counted(std::uint64_t before, const std::vector<double>& parts, double sum) {
  std::uint64_t now = before;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    EXPECT_FALSE(CountedWord::complete(now, before, static_cast<unsigned>(parts.size())))
        << i << " parts";
    now += CountedWord::part(parts[i]);
  }
  EXPECT_TRUE(CountedWord::complete(now, before, static_cast<unsigned>(parts.size())));
  EXPECT_EQ(CountedWord::sum(now, before, static_cast<unsigned>(parts.size())), sum);
}

TEST(CountedWord, CountsAsManyPartsAsItSays) {
  std::mt19937_64 random(3);
  for (const unsigned count : {1u, 2u, 132u, CountedWord::kMostParts}) {
    for (const double part : {CountedWord::kMost, -CountedWord::kMost, 0.0, 1.0, -1.0}) {
      for (int draw = 0; draw < 20;
           ++draw) { // a word has any value before, and goes on from its end to zero
        expect_counted(random(), std::vector<double>(count, part), count * part);
      }
      expect_counted(~std::uint64_t{0}, std::vector<double>(count, part), count * part);
    }
  }
}

TEST(CountedWord, SumsAreExact) {
  std::mt19937_64 random(4);
  std::uniform_int_distribution<std::int64_t> integer(-(std::int64_t{1} << 45),
                                                      std::int64_t{1} << 45);
  for (int draw = 0; draw < 1000; ++draw) {
    std::vector<double> parts(1 + random() % CountedWord::kMostParts);
    std::int64_t sum = 0;
    for (double& part : parts) {
      const std::int64_t value = integer(random);
      part = static_cast<double>(value);
      sum += value;
    }
    expect_counted(random(), parts, static_cast<double>(sum)); // 255 of 2^45 are exact in a double
  }
}

TEST(CountedWord, WhatIsNoNumberOrTooLargeLeavesTheCountAlone) {
  const double nothing = std::numeric_limits<double>::quiet_NaN();
  expect_counted(7, {nothing, 5.0}, 5.0 - CountedWord::kMost);
  expect_counted(7, {kInfinity, 5.0}, 5.0 + CountedWord::kMost);
  expect_counted(7, {-kInfinity, -1e300}, -2.0 * CountedWord::kMost);
}

/// `unit` is a power of two, and takes sums of at most this size to less than 2^45, but not to much
/// less.
void expect_room(double unit, double largest_sum) {
  int exponent = 0;
  EXPECT_EQ(std::frexp(unit, &exponent), 0.5) << unit << " is no power of two";
  EXPECT_LT(unit * largest_sum, CountedWord::kMost / 2.0);
  EXPECT_GE(unit * largest_sum, CountedWord::kMost / 4.0) << "digits are given away";
}

Magnitudes of(std::vector<float> rows) {
  return magnitudes_of(rows, 2);
}

TEST(SumUnits, SumsOfTheLargestValuesFit) {
  std::mt19937_64 random(11);
  std::uniform_real_distribution<double> exponent(-60.0, 60.0);
  for (int draw = 0; draw < 2000; ++draw) {
    const auto largest = static_cast<float>(std::exp2(exponent(random)));
    const std::size_t rows_of_block = 1 + random() % 9000000;
    const auto units =
        SumUnits<4>::of(of({largest / 3.0f, -1e-9f, -largest, 1e-9f}), rows_of_block);
    const auto most = static_cast<double>(rows_of_block);
    expect_room(units.features[0], most * static_cast<double>(largest));
    expect_room(units.features[1], most * static_cast<double>(1e-9f));
    expect_room(units.counts, most); // all labels may change, whatever the rows are
  }
}

TEST(SumUnits, AllDistancesMayBeTheLongest) {
  const double rows = 7577.0;
  const Magnitudes of_rows = of({3.0f, 4.0f, -0.5f, 0.25f}); // the longer one 5
  const auto unit = [&](const Magnitudes& rows_of, double longest_of_start) {
    return SumUnits<4>::of(rows_of, 7577).distances(longest_of_start);
  };
  expect_room(unit(of_rows, 0.0), rows * 10.01);    // between two rows: means may lie there
  expect_room(unit(of_rows, 100.0), rows * 105.11); // to a centroid, through the origin
  expect_room(unit(of({1e30f, 0.0f, 1.0f, 1.0f}), 0.0), rows * 0x1p64); // roots of floats
}

TEST(SumUnits, FeaturesWithoutAnythingHaveAUnit) {
  const auto units = SumUnits<4>::of(of({1.0f, 0.0f, 2.0f, 0.0f}), 10);
  EXPECT_EQ(units.features[1], 1.0);
  EXPECT_EQ(units.features[3], 1.0); // padding
}

} // namespace
} // namespace clusterbench::cuda
