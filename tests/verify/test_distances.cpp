// Distances of blocks of rows are those of single rows, bit for bit, and those of plain arithmetic.
#include "harness/judge/distance_kernel.hpp"
#include "harness/judge/float64_math.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <span>
#include <vector>

namespace clusterbench {
namespace {

template <typename T>
void expect_plain_distances(std::size_t n, std::size_t d, std::size_t k) {
  std::mt19937_64 random(n + d + k);
  std::normal_distribution<double> normal(3.0, 2.0);
  std::vector<T> points(n * d);
  std::vector<double> centroids(k * d);
  for (T& value : points) {
    value = static_cast<T>(normal(random));
  }
  for (double& value : centroids) {
    value = normal(random);
  }
  const DistanceKernel kernel(centroids, k, d);
  DistanceKernel::Scratch scratch(kernel);
  DistanceKernel::Scratch alone(kernel);
  const auto row_of = [&](std::size_t row) -> const T* { return points.data() + row * d; };
  std::size_t seen = 0;
  kernel.for_each_row(0, n, row_of, scratch, [&](std::size_t row, std::span<const double> all) {
    EXPECT_EQ(row, seen++);
    ASSERT_EQ(all.size(), k);
    const std::vector<const T*> one = {row_of(row)};
    kernel.measure(std::span<const T* const>(one), alone);
    for (std::size_t j = 0; j < k; ++j) {
      EXPECT_EQ(all[j], alone.of(0)[j]);
      long double plain = 0.0L;
      for (std::size_t f = 0; f < d; ++f) {
        const long double away = static_cast<long double>(row_of(row)[f]) - centroids[j * d + f];
        plain += away * away;
      }
      EXPECT_NEAR(all[j], static_cast<double>(plain),
                  static_cast<double>(plain) * 0x1p-53 * static_cast<double>(d + 8));
    }
  });
  EXPECT_EQ(seen, n);
}

TEST(Distances, ofBlocksAreThoseOfRows) {
  for (const std::size_t n : {1U, 7U, 8U, 15U, 16U, 17U, 50U}) {
    for (const std::size_t d : {1U, 2U, 9U, 37U}) {
      for (const std::size_t k : {1U, 2U, 7U, 8U, 9U, 33U}) {
        expect_plain_distances<float>(n, d, k);
        expect_plain_distances<double>(n, d, k);
      }
    }
  }
}

TEST(Nearest, isTheFirstOfTheSmallest) {
  std::mt19937 random(1);
  for (std::size_t k = 1; k < 40; ++k) {
    for (int repetition = 0; repetition < 50; ++repetition) {
      std::vector<double> values(k);
      for (double& value : values) {
        value = static_cast<double>(random() % 6);
      }
      std::size_t expected = 0;
      for (std::size_t j = 1; j < k; ++j) {
        expected = values[j] < values[expected] ? j : expected;
      }
      EXPECT_EQ(nearest(values), expected);
    }
  }
}

} // namespace
} // namespace clusterbench
