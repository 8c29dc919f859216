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
    bits[j % 8 / 2] |= 1u << (j % 2 * 8 + j / 8);
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

/// To 11 bits, or to a multiple of `smallest`.
float rounded(float x, float smallest = 0.0f) {
  if (x == 0.0f) {
    return 0.0f;
  }
  const float step = std::max(std::ldexp(1.0f, std::ilogb(x) - 10), smallest);
  return step * std::nearbyint(x / step);
}
constexpr float kSmallestHalf = 0x1p-24f;

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

TEST(HalfUnit, NoScoreIsMoreThanBeforeRounding) {
  std::mt19937_64 random(5);
  std::uniform_real_distribution<float> mantissa(1.0f, 2.0f);
  std::uniform_int_distribution<int> exponent(-30, 14);
  float largest = 0.0f; // of what was used, in halves of a step
  for (unsigned trial = 0; trial < 100000; ++trial) {
    const float size = std::ldexp(mantissa(random), exponent(random));
    const float score = trial % 2 == 0 ? size : -size, half = rounded(score, kSmallestHalf);
    EXPECT_GE(HalfUnit::before_rounding(half), score);
    const float allowed = HalfUnit::before_rounding(half) - half;
    largest = std::max(largest, (score - half) / allowed);
  }
  EXPECT_GT(largest, 0.99f);
  for (const float half : {0.0f, kSmallestHalf, -kSmallestHalf, 1.0f, -1.0f, 65504.0f}) {
    EXPECT_GT(HalfUnit::before_rounding(half), half); // to hold what float makes of a sum with it
  }
}

/// By how much a score from one part of a row and from the centroid and its half square in two is off, in units of its
/// bound. The products are added up in float, where tensor cores cut; the bound allows for either.
double share_of_error(std::size_t d, float row_size, float centroid_size, float& largest_score) {
  std::mt19937_64 random(d);
  std::normal_distribution<float> normal;
  double worst = 0.0;
  for (unsigned trial = 0; trial < 500; ++trial) {
    std::vector<float> y(d), c(d);
    double row = 0.0, centroid = 0.0, exact = 0.0;
    for (std::size_t f = 0; f < d; ++f) {
      y[f] = rounded(row_size * normal(random));
      c[f] = centroid_size * normal(random);
      row += static_cast<double>(y[f]) * static_cast<double>(y[f]);
      centroid += static_cast<double>(c[f]) * static_cast<double>(c[f]);
      exact -= static_cast<double>(y[f]) * static_cast<double>(c[f]);
    }
    const float x_norm = static_cast<float>(std::sqrt(row)),
                c_norm = static_cast<float>(std::sqrt(centroid));
    const HalfUnit unit = HalfUnit::of(x_norm, c_norm);
    const auto part = [](float x) { return rounded(x, kSmallestHalf); };
    float low = 0.0f, high = 0.0f;
    for (std::size_t f = 0; f < d; ++f) {
      const float value = -c[f] * unit.to;
      low += part(value - part(value)) * y[f];
      high += part(value) * y[f];
    }
    const float shift = static_cast<float>(trial % 3) / 4.0f * static_cast<float>(centroid);
    const float added = (static_cast<float>(0.5 * centroid) + shift) * unit.to;
    const float score = low + high + part(added) + part(added - part(added));
    largest_score = std::max(largest_score, std::abs(score));
    exact += 0.5 * centroid + static_cast<double>(shift);
    const double error =
        std::abs(static_cast<double>(score) * static_cast<double>(unit.from) - exact);
    worst = std::max(worst, error / static_cast<double>(unit.error(d).of(x_norm, c_norm)));
  }
  return worst;
}

TEST(HalfUnit, ScoresFitFloat16AndStayWithinTheirError) {
  double worst = 0.0;
  float largest_score = 0.0f;
  for (const std::size_t d : {1u, 2u, 8u, 37u, 64u}) {
    for (const float row_size : {1e-3f, 1.0f, 3000.0f}) {
      for (const float centroid_size : {1e-3f, 1.0f, 3000.0f}) {
        const double share = share_of_error(d, row_size, centroid_size, largest_score);
        EXPECT_LE(share, 1.0) << d << ", " << row_size << ", " << centroid_size;
        worst = std::max(worst, share);
      }
    }
  }
  EXPECT_LT(largest_score, 0x1p15f);
  EXPECT_GT(largest_score, 0x1p12f); // the unit is no smaller than it has to be
  EXPECT_GT(worst, 0.05);
}

} // namespace
} // namespace clusterbench::cuda
