// What rounding a row to float16 proves of its nearest centroid: impls/cuda/support/rounded_bound.hpp.

#include "impls/cuda/support/rounded_bound.hpp"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <numeric>
#include <random>
#include <set>
#include <vector>

namespace clusterbench::cuda {
namespace {

constexpr unsigned kMost = 64;

/// As four lanes make it, of which lane t has the numbers 8 i + 2 t and 8 i + 2 t + 1.
NearOnes of_lanes(const std::set<unsigned>& numbers) {
  std::uint32_t bits[4] = {};
  for (const unsigned j : numbers) {
    bits[j % 8 / 2] |= 1u << (j / 8 * 2 + j % 2);
  }
  return {bits[0] | bits[2] << 16, bits[1] | bits[3] << 16};
}

TEST(NearOnes, OnlyOne) {
  for (unsigned i = 0; i < kMost; ++i) {
    EXPECT_TRUE(of_lanes({i}) == NearOnes::only(i)) << i;
    EXPECT_FALSE(of_lanes({}) == NearOnes::only(i)) << i;
    for (unsigned j = i + 1; j < kMost; ++j) {
      EXPECT_FALSE(NearOnes::only(i) == NearOnes::only(j)) << i << ", " << j;
      EXPECT_FALSE(of_lanes({i, j}) == NearOnes::only(i)) << i << ", " << j;
      EXPECT_FALSE(of_lanes({i, j}) == NearOnes::only(j)) << i << ", " << j;
    }
  }
}

TEST(NearOnes, GivesAllThatThereAreOnce) {
  std::mt19937_64 random(3);
  std::vector<unsigned> numbers(kMost);
  std::iota(numbers.begin(), numbers.end(), 0u);
  for (unsigned count = 0; count <= kMost; ++count) {
    for (unsigned trial = 0; trial < 50; ++trial) {
      std::ranges::shuffle(numbers, random);
      const std::set<unsigned> those(numbers.begin(), numbers.begin() + count);
      NearOnes left = of_lanes(those);
      std::multiset<unsigned> taken;
      while (!left.empty() && taken.size() <= kMost) {
        taken.insert(left.take());
      }
      EXPECT_TRUE(std::ranges::equal(taken, those)) << count;
    }
  }
}

/// To 11 bits.
float rounded(float x) {
  if (x == 0.0f) {
    return 0.0f;
  }
  const int exponent = std::ilogb(x) - 10;
  return std::ldexp(std::nearbyint(std::ldexp(x, -exponent)), exponent);
}

struct Worst {
  double used = 0.0;  ///< of the slack
  unsigned wrong = 0; ///< rows whose nearest centroid another one beats once they are rounded
};

/// Rows at `offset`, with centroids around them: by how much the score of the nearest exceeds the least one of the
/// rounded row, in units of the slack.
Worst attack(unsigned d, float offset, float spread) {
  std::mt19937_64 random(d);
  std::normal_distribution<float> normal;
  Worst worst;
  for (unsigned trial = 0; trial < 4000; ++trial) {
    std::vector<float> x(d), y(d);
    float squared = 0.0f, lost = 0.0f;
    for (unsigned f = 0; f < d; ++f) {
      x[f] = offset + normal(random);
      y[f] = rounded(x[f]);
      squared += y[f] * y[f];
      lost += (x[f] - y[f]) * (x[f] - y[f]);
    }
    const RoundedRow row = RoundedRow::of(squared, std::sqrt(lost));
    EXPECT_GE(row.lost(), std::sqrt(lost));
    constexpr unsigned kCentroids = 8;
    double least_score = INFINITY, least_distance = INFINITY, nearest_score = 0.0;
    for (unsigned j = 0; j < kCentroids;
         ++j) { // across what rounding took away, where it matters most
      const double side = spread * static_cast<double>(normal(random));
      double score = 0.0, distance = 0.0;
      for (unsigned f = 0; f < d; ++f) {
        const double c = static_cast<double>(x[f]) + side * static_cast<double>(y[f] - x[f]) +
                         0.01 * static_cast<double>(spread * normal(random));
        score += 0.5 * c * c - c * static_cast<double>(y[f]);
        distance += (c - static_cast<double>(x[f])) * (c - static_cast<double>(x[f]));
      }
      least_score = std::min(least_score, score);
      if (distance < least_distance) {
        least_distance = distance;
        nearest_score = score;
      }
    }
    const double slack = static_cast<double>(row.slack(static_cast<float>(least_score), 0.0f));
    // What float makes of the least score is not rounding of the row: `certain` is for that, and is zero here.
    const double of_float = 0x1p-22 * (std::abs(least_score) + static_cast<double>(squared));
    worst.used = std::max(worst.used, (nearest_score - least_score) / (slack + of_float));
    worst.wrong += nearest_score > least_score;
  }
  return worst;
}

TEST(RoundedRow, ScoresOfTheNearestStayWithinTheSlack) {
  double largest = 0.0;
  unsigned wrong = 0;
  for (const unsigned d : {1u, 2u, 8u, 37u, 64u}) {
    for (const float offset : {0.0f, 10.0f, 1000.0f}) {
      for (const float spread : {0.5f, 2.0f, 100.0f}) {
        const Worst worst = attack(d, offset, spread);
        EXPECT_LE(worst.used, 1.0) << d << ", " << offset << ", " << spread;
        largest = std::max(largest, worst.used);
        wrong += worst.wrong;
      }
    }
  }
  EXPECT_GT(largest, 0.5); // an attack that is one
  EXPECT_GT(wrong, 1000u);
}

TEST(RoundedRow, NothingLostNothingAllowed) {
  EXPECT_EQ(RoundedRow::of(100.0f, 0.0f).slack(-50.0f, 0.0f), 0.0f);
  EXPECT_EQ(RoundedRow{}.slack(0.0f, 0.25f), 0.25f);
}

} // namespace
} // namespace clusterbench::cuda
