// The vector kernels of every instruction set that this processor executes, against plain loops in
// double, on sizes that are multiples of nothing. The variants only ever run the widest.
#include "impls/simd/support/dispatch.hpp"
#include "impls/simd/support/fixed_sums.hpp"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <numeric>
#include <random>
#include <string>

namespace clusterbench::simd {
namespace {

template <typename T>
struct Case {
  std::size_t n, d, k;
  std::vector<T> points, centroids;
};

template <typename T>
Case<T> clouds(std::size_t n, std::size_t d, std::size_t k) {
  Case<T> test{n, d, k, std::vector<T>(n * d), std::vector<T>(k * d)};
  std::mt19937_64 random(n * 1009 + d * 31 + k);
  std::normal_distribution<double> normal;
  std::ranges::generate(test.points, [&] { return static_cast<T>(normal(random)); });
  std::ranges::generate(test.centroids, [&] { return static_cast<T>(normal(random)); });
  return test;
}

/// Points [n, d], less the origin if there is one, in blocks of `lanes`; the last is repeated.
template <typename T>
std::vector<T> as_columns(const std::vector<T>& points, std::size_t n, std::size_t d,
                          std::size_t lanes, const T* origin = nullptr) {
  std::vector<T> columns(rounded_up(n) * d);
  for (std::size_t i = 0; i < rounded_up(n); ++i) {
    for (std::size_t f = 0; f < d; ++f) {
      columns[i / lanes * lanes * d + f * lanes + i % lanes] =
          points[std::min(i, n - 1) * d + f] - (origin == nullptr ? T{0} : origin[f]);
    }
  }
  return columns;
}

template <typename T>
double squared_distance(const Case<T>& test, std::size_t i, std::size_t j) {
  double sum = 0.0;
  for (std::size_t f = 0; f < test.d; ++f) {
    const double away =
        double{test.points[i * test.d + f]} - double{test.centroids[j * test.d + f]};
    sum += away * away;
  }
  return sum;
}

template <typename T>
class SimdKernels : public testing::Test {
protected:
  static constexpr double kRounding = std::numeric_limits<T>::epsilon();
};
using Precisions = testing::Types<float, double>;
TYPED_TEST_SUITE(SimdKernels, Precisions);

TYPED_TEST(SimdKernels, TheWidestComesLast) {
  const auto all = executable_kernels<TypeParam>();
  ASSERT_FALSE(all.empty());
  for (std::size_t i = 1; i < all.size(); ++i) {
    EXPECT_EQ(all[i]->lanes, 2 * all[i - 1]->lanes);
  }
}

TYPED_TEST(SimdKernels, ColumnsAreThePoints) {
  using T = TypeParam;
  for (const Kernels<T>* kernels : executable_kernels<T>()) {
    for (const std::size_t d : {1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17, 31, 32, 37, 129}) {
      for (const std::size_t n : {1, 15, 33, 64, 127}) {
        SCOPED_TRACE(std::string(kernels->isa) + ", n " + std::to_string(n) + ", d " +
                     std::to_string(d));
        const Case<T> test = clouds<T>(n, d, 1);
        for (const T* origin : {static_cast<const T*>(nullptr), test.centroids.data()}) {
          const std::vector<T> expected = as_columns(test.points, n, d, kernels->lanes, origin);
          const Chunk<T> chunk{test.points.data(), nullptr, n, d};
          AlignedVector<T> columns(expected.size());
          const auto expect_columns = [&] {
            EXPECT_TRUE(std::ranges::equal(columns, expected));
            std::ranges::fill(columns, T{7});
          };
          std::vector<T> squares(rounded_up(n));
          kernels->columns_of_rows(chunk, origin, columns.data());
          expect_columns();
          kernels->columns_and_squares(chunk, origin, columns.data(), squares.data());
          expect_columns();
          for (std::size_t i = 0; i < rounded_up(n); ++i) {
            double sum = 0.0;
            for (std::size_t f = 0; f < d; ++f) {
              const double x{expected[i / kernels->lanes * kernels->lanes * d + f * kernels->lanes +
                                      i % kernels->lanes]};
              sum += x * x;
            }
            EXPECT_NEAR(double{squares[i]}, sum, TestFixture::kRounding * double(d) * sum);
          }
        }
      }
    }
  }
}

TYPED_TEST(SimdKernels, LabelsAreOfTheNearest) {
  using T = TypeParam;
  for (const Kernels<T>* kernels : executable_kernels<T>()) {
    for (const std::size_t d : {1, 2, 3, 5, 8, 9, 16, 17, 37, 64, 129, 257}) {
      for (const std::size_t k : {1, 2, 5, 7, 9, 23, 300}) {
        for (const std::size_t n : {1, 15, 33, 127}) {
          const Case<T> test = clouds<T>(n, d, k);
          const std::vector<T> columns = as_columns<T>(test.points, n, d, kernels->lanes);
          const Chunk<T> chunk{test.points.data(), columns.data(), n, d};
          std::vector<AssignKernel<T>> assigns = {kernels->assign_columns};
          if (d <= kSmallD) {
            assigns.push_back(kernels->assign_small_d[d]);
          }
          for (std::size_t a = 0; a < assigns.size(); ++a) {
            SCOPED_TRACE(std::string(kernels->isa) + ", kernel " + std::to_string(a) + ", n " +
                         std::to_string(n) + ", d " + std::to_string(d) + ", k " +
                         std::to_string(k));
            std::vector<std::int32_t> labels(rounded_up(n), -7), again(rounded_up(n), -7);
            std::vector<T> distances(rounded_up(n));
            assigns[a](chunk, test.centroids.data(), k, labels.data(), distances.data());
            assigns[a](chunk, test.centroids.data(), k, again.data(), nullptr);
            for (std::size_t i = 0; i < n; ++i) {
              ASSERT_GE(labels[i], 0);
              ASSERT_LT(static_cast<std::size_t>(labels[i]), k);
              ASSERT_EQ(again[i], labels[i]);
              double smallest = std::numeric_limits<double>::infinity();
              for (std::size_t j = 0; j < k; ++j) {
                smallest = std::min(smallest, squared_distance(test, i, j));
              }
              const double own = squared_distance(test, i, static_cast<std::size_t>(labels[i]));
              const double rounding = static_cast<double>(d + 4) * this->kRounding * smallest;
              ASSERT_LE(own, smallest + 2 * rounding);
              ASSERT_NEAR(double{distances[i]}, own, rounding);
            }
          }
        }
      }
    }
  }
}

TYPED_TEST(SimdKernels, SumsAreOfEveryPointOnce) {
  using T = TypeParam;
  for (const Kernels<T>* kernels : executable_kernels<T>()) {
    for (const std::size_t d : {1, 2, 3, 4, 5, 7, 9, 16, 37, 257}) {
      for (const std::size_t k : {1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 300}) {
        for (const std::size_t n : {1, 15, 33, 127}) {
          const Case<T> test = clouds<T>(n, d, k);
          const std::vector<T> columns = as_columns<T>(test.points, n, d, kernels->lanes);
          const Chunk<T> chunk{test.points.data(), columns.data(), n, d};
          std::mt19937_64 random(n + d + k);
          std::vector<std::int32_t> labels(rounded_up(n), -1);
          std::vector<double> sums(k * d, 1.0), counts(k, 2.0); // added to, not overwritten
          for (std::size_t i = 0; i < n; ++i) {
            labels[i] = static_cast<std::int32_t>(random() % k);
            const auto j = static_cast<std::size_t>(labels[i]);
            counts[j] += 1.0;
            for (std::size_t f = 0; f < d; ++f) {
              sums[j * d + f] += double{test.points[i * d + f]};
            }
          }
          for (const SumKernel<T> sum :
               {kernels->sum_by_mask, kernels->sum_by_label, kernels->sum_in_double}) {
            SCOPED_TRACE(std::string(kernels->isa) + ", n " + std::to_string(n) + ", d " +
                         std::to_string(d) + ", k " + std::to_string(k));
            std::vector<T> scratch(scratch_size<T>(k, d));
            std::vector<double> own_sums(k * d, 1.0), own_counts(k, 2.0);
            sum(chunk, labels.data(), k, scratch.data(), own_sums.data(), own_counts.data());
            if (sum == kernels->sum_by_label) {
              kernels->collect_sums(k, d, scratch.data(), own_sums.data(), own_counts.data());
            }
            EXPECT_EQ(own_counts, counts);
            for (std::size_t c = 0; c < sums.size(); ++c) {
              ASSERT_NEAR(own_sums[c], sums[c], 16.0 * this->kRounding * static_cast<double>(n));
            }
            EXPECT_EQ(std::ranges::count(scratch, T{0}), std::ssize(scratch));
          }
        }
      }
    }
  }
}

/// Sums of points [n, d], each of which the thread of its share has looked at.
FixedSums settled(const std::vector<float>& points, std::size_t n, std::size_t d, Team& team) {
  FixedSums fixed(points, d, team.size());
  team.run([&](std::size_t t) {
    const auto [begin, end] = share_of(n, t, team.size());
    for (std::size_t i = begin; i < end; i += kRoundUp) {
      fixed.look(t, i, std::min(kRoundUp, end - i));
    }
  });
  fixed.settle(team);
  return fixed;
}

/// Moves points [n, d] among k clusters for some passes, by every instruction set, and hands each
/// sum to check(fixed, sum, exact sum, sum of magnitudes, count, feature).
template <class Check>
void move_about(const std::vector<float>& points, std::size_t n, std::size_t d, std::size_t k,
                Check check) {
  Team team(2);
  const FixedSums fixed = settled(points, n, d, team);
  ASSERT_TRUE(fixed.usable());
  for (const Kernels<float>* kernels : executable_kernels<float>()) {
    SCOPED_TRACE(std::string(kernels->isa) + ", n " + std::to_string(n) + ", d " +
                 std::to_string(d) + ", k " + std::to_string(k));
    std::mt19937_64 random(n + d + k);
    std::vector<std::int32_t> labels(rounded_up(n)), previous(n, -1);
    std::vector<std::uint64_t> kept(k * fixed.width());
    std::vector<double> counts(k);
    for (int pass = 0; pass < 12; ++pass) {
      std::size_t changes = 0;
      std::vector<long double> sums(k * d), magnitudes(k * d);
      std::vector<double> expected_counts(k);
      for (std::size_t i = 0; i < n; ++i) {
        // In the end all of them are in the last cluster but one point, alone with what is left.
        const std::size_t random_label = pass < 11 ? random() % k : i == 0 ? 0 : k - 1;
        if (pass % 11 == 0 || random() % 4 == 0) {
          labels[i] = static_cast<std::int32_t>(random_label);
        }
        changes += labels[i] != previous[i];
        const auto j = static_cast<std::size_t>(labels[i]);
        expected_counts[j] += 1.0;
        for (std::size_t f = 0; f < d; ++f) {
          sums[j * d + f] += static_cast<long double>(points[i * d + f]);
          magnitudes[j * d + f] += std::abs(static_cast<long double>(points[i * d + f]));
        }
      }
      const Chunk<float> chunk{points.data(), nullptr, n, d};
      EXPECT_EQ(kernels->move_rows(chunk, labels.data(), previous.data(), fixed.kernel(),
                                   kept.data(), counts.data()),
                changes);
      EXPECT_TRUE(std::equal(previous.begin(), previous.end(), labels.begin()));
      EXPECT_EQ(counts, expected_counts);
      for (std::size_t c = 0; c < sums.size(); ++c) {
        const std::size_t j = c / d, f = c % d;
        const double sum = fixed.value(kept[j * fixed.width() + f], counts[j], f);
        check(fixed, sum, sums[c], magnitudes[c], counts[j], f);
      }
    }
  }
}

TEST(SimdMovedRows, SumsOfIntegersAreExact) {
  for (const std::size_t d : {1, 2, 7, 8, 9, 16, 37, 100}) {
    for (const std::size_t k : {1, 2, 7, 16}) {
      for (const std::size_t n : {1, 15, 33, 300}) {
        std::mt19937_64 random(n + d + k);
        std::vector<float> points(n * d);
        std::ranges::generate(
            points, [&] { return static_cast<float>(static_cast<int>(random() % 2001) - 1000); });
        move_about(points, n, d, k,
                   [](const FixedSums& fixed, double sum, long double exact, long double,
                      double count, std::size_t f) {
                     ASSERT_EQ(sum, static_cast<double>(exact));
                     ASSERT_TRUE(count == 0.0 || count > 0.0);
                     ASSERT_TRUE(fixed.near_enough(sum, 1.0, f)) << "nothing was rounded";
                   });
      }
    }
  }
}

// Of each feature some values are so small beside others that their digits are lost. Which sums
// that matters to is known: the others are as near as a sum of floats may be.
TEST(SimdMovedRows, SumsThatLostTooMuchAreKnown) {
  std::size_t near = 0, lost = 0;
  for (const float tiny : {0x1p-10f, 0x1p-30f, 0x1p-60f}) {
    constexpr std::size_t kD = 9, kN = 400;
    std::mt19937_64 random(7);
    std::normal_distribution<float> normal;
    std::vector<float> points(kN * kD);
    for (std::size_t c = 0; c < points.size(); ++c) {
      points[c] = normal(random) * (c / kD % 4 == 0 ? tiny : 1.0f);
    }
    move_about(points, kN, kD, 5,
               [&](const FixedSums& fixed, double sum, long double exact, long double magnitudes,
                   double count, std::size_t f) {
                 if (!fixed.near_enough(sum, count, f)) {
                   ++lost;
                   return;
                 }
                 ++near;
                 ASSERT_LE(std::abs(static_cast<long double>(sum) - exact), 0x1p-22L * magnitudes);
               });
  }
  EXPECT_GT(near, 1000u);
  EXPECT_GT(lost, 0u);
}

// Few blocks have small values, and only those are read again to count them.
TEST(SimdMovedRows, SmallValuesAreCountedWhereverTheyAre) {
  constexpr std::size_t kN = 10'000, kD = 2;
  for (const std::size_t threads : {1, 3}) {
    for (const float other : {1.0f, 0x1p-100f, 0x1p100f}) { // another feature, of any magnitude
      Team team(threads);
      std::vector<float> points(kN * kD);
      for (std::size_t i = 0; i < kN; ++i) {
        points[i * kD] = other;
        points[i * kD + 1] = 1.5f;
      }
      for (const std::size_t row : {0, 5'000, 9'999}) {
        points[row * kD + 1] = 0x1.8p-60f;
      }
      points[1'234 * kD + 1] = 0.0f;
      const FixedSums fixed = settled(points, kN, kD, team);
      ASSERT_TRUE(fixed.usable());
      EXPECT_FALSE(fixed.near_enough(0.0, 8.0, 1)); // more than twice the four that are small
      EXPECT_TRUE(fixed.near_enough(0.0, 9.0, 1));
    }
  }
}

TEST(SimdMovedRows, AreFiniteOnly) {
  Team team(1);
  const std::vector<float> points = {1.0f, 2.0f, std::numeric_limits<float>::infinity(), 3.0f};
  EXPECT_FALSE(settled(points, 2, 2, team).usable());
  const std::vector<float> zeros(4);
  EXPECT_TRUE(settled(zeros, 2, 2, team).usable());
}

TYPED_TEST(SimdKernels, PassesLabelAndSumAtOnce) {
  using T = TypeParam;
  for (const Kernels<T>* kernels : executable_kernels<T>()) {
    for (const std::size_t d : {1, 2, 3, 4, 15, 37, 64, 100, 257}) {
      for (const std::size_t k : {1, 2, 3, 4, 5, 6, 7, 8, 23}) {
        for (const std::size_t n : {1, 7, 15, 33, 127}) {
          const Case<T> test = clouds<T>(n, d, k);
          const std::vector<T> columns = as_columns<T>(test.points, n, d, kernels->lanes);
          const Chunk<T> chunk{test.points.data(), columns.data(), n, d};
          std::vector<std::int32_t> expected(rounded_up(n));
          std::vector<T> expected_distances(rounded_up(n));
          kernels->assign_columns(chunk, test.centroids.data(), k, expected.data(),
                                  expected_distances.data());
          std::vector<PassKernel<T>> passes = {kernels->pass_by_rows};
          if (d <= kPassD && k <= kPassK) {
            passes.push_back(kernels->pass_in_registers[d - 1][k - 1]);
          }
          for (const PassKernel<T> pass : passes) {
            SCOPED_TRACE(std::string(kernels->isa) + ", n " + std::to_string(n) + ", d " +
                         std::to_string(d) + ", k " + std::to_string(k));
            std::vector<std::int32_t> labels(rounded_up(n), -7);
            std::vector<T> distances(rounded_up(n)), scratch(scratch_size<T>(k, d));
            std::vector<double> sums(k * d, 1.0), counts(k, 2.0), no_sums(k * d), no_counts(k);
            pass(chunk, test.centroids.data(), k, labels.data(), distances.data(), scratch.data(),
                 sums.data(), counts.data());
            kernels->collect_sums(k, d, scratch.data(), sums.data(), counts.data());
            std::vector<double> expected_sums(k * d, 1.0), expected_counts(k, 2.0);
            for (std::size_t i = 0; i < n; ++i) {
              ASSERT_EQ(labels[i], expected[i]) << i; // no near ties in these clouds
              ASSERT_NEAR(distances[i], expected_distances[i],
                          static_cast<double>(d + 4) * this->kRounding * distances[i]);
              const auto j = static_cast<std::size_t>(labels[i]);
              expected_counts[j] += 1.0;
              for (std::size_t f = 0; f < d; ++f) {
                expected_sums[j * d + f] += double{test.points[i * d + f]};
              }
            }
            EXPECT_EQ(counts, expected_counts);
            for (std::size_t c = 0; c < sums.size(); ++c) {
              ASSERT_NEAR(sums[c], expected_sums[c], 16.0 * this->kRounding * double(n));
            }
          }
        }
      }
    }
  }
}

TYPED_TEST(SimdKernels, DistancesAndWeightedSumsOfRows) {
  using T = TypeParam;
  for (const Kernels<T>* kernels : executable_kernels<T>()) {
    for (const std::size_t d : {1, 3, 16, 31, 37, 64, 257}) {
      for (const std::size_t k : {1, 2, 7, 8, 9, 23}) {
        for (const std::size_t n : {1, 7, 33, 64}) {
          SCOPED_TRACE(std::string(kernels->isa) + ", n " + std::to_string(n) + ", d " +
                       std::to_string(d) + ", k " + std::to_string(k));
          const Case<T> test = clouds<T>(n, d, k);
          const Chunk<T> chunk{test.points.data(), nullptr, n, d};
          std::vector<T> distances(k * kRoundUp);
          const std::size_t width = padded<T>(d);
          std::vector<T> centres(k * width), sums(k * width, T{1});
          for (std::size_t c = 0; c < k * d; ++c) {
            centres[c / d * width + c % d] = test.centroids[c];
          }
          const bool alone = n == 33; // asks memory for more and computes the same
          kernels->distances_of_rows(chunk, centres.data(), k, distances.data(), alone);
          std::vector<double> expected(k * d, 1.0);
          for (std::size_t i = 0; i < n; ++i) {
            for (std::size_t j = 0; j < k; ++j) {
              const T distance = distances[j * kRoundUp + i];
              ASSERT_NEAR(distance, squared_distance(test, i, j),
                          static_cast<double>(d + 4) * this->kRounding * distance);
              for (std::size_t f = 0; f < d; ++f) {
                expected[j * d + f] += double{distance} * double{test.points[i * d + f]};
              }
            }
          }
          kernels->weighted_sums_of_rows(chunk, distances.data(), k, sums.data(), alone);
          for (std::size_t c = 0; c < k * d; ++c) {
            ASSERT_NEAR(sums[c / d * width + c % d], expected[c],
                        64.0 * this->kRounding * double(n * d));
          }
        }
      }
    }
  }
}

// With one centre at distance 1 and the other at 1 / x the second's share is a power of x.
TYPED_TEST(SimdKernels, MembershipsArePowersOfRatios) {
  using T = TypeParam;
  for (const Kernels<T>* kernels : executable_kernels<T>()) {
    for (const double exponent : {0.5, 2.0 / 3.0, 1.0, 2.0, 10.0, 100.0}) {
      for (const double tenth : {0.0, 1e-9, 0.01, 0.1, 0.3, 0.5, 1.0, 2.0, 5.0, 30.0, 37.0}) {
        SCOPED_TRACE(std::string(kernels->isa) + ", 10^-" + std::to_string(tenth) + " to " +
                     std::to_string(exponent));
        const T distance = static_cast<T>(std::pow(10.0, tenth));
        std::vector<T> distances(2 * kRoundUp, T{1}), u(2 * kRoundUp);
        std::fill(distances.begin() + kRoundUp, distances.end(), distance);
        kernels->memberships_of(distances.data(), 2, static_cast<T>(exponent), u.data());
        const double share = std::pow(double{T{1} / distance}, double{static_cast<T>(exponent)});
        const double steps = 4.0 + std::abs(std::log2(std::max(share, 1e-300))) * (sizeof(T) / 8);
        for (std::size_t i = 0; i < kRoundUp; ++i) {
          ASSERT_NEAR(u[i], 1.0 / (1.0 + share), 4.0 * this->kRounding);
          ASSERT_NEAR(u[kRoundUp + i], share / (1.0 + share),
                      steps * this->kRounding * share + std::numeric_limits<T>::min());
        }
      }
    }
  }
}

TYPED_TEST(SimdKernels, MembershipsOfNoDistanceAndOfInfiniteOnes) {
  using T = TypeParam;
  const T infinity = std::numeric_limits<T>::infinity();
  for (const Kernels<T>* kernels : executable_kernels<T>()) {
    for (const double exponent : {0.5, 1.0, 10.0}) {
      SCOPED_TRACE(std::string(kernels->isa) + ", " + std::to_string(exponent));
      std::vector<T> distances(3 * kRoundUp, T{0}), u(3 * kRoundUp);
      std::fill(distances.begin() + kRoundUp, distances.begin() + 2 * kRoundUp, T{3});
      kernels->memberships_of(distances.data(), 3, static_cast<T>(exponent), u.data());
      EXPECT_EQ(std::vector(u.begin(), u.begin() + 1), std::vector{T{0.5}});
      EXPECT_EQ(u[kRoundUp], T{0});
      EXPECT_EQ(u[2 * kRoundUp], T{0.5});
      std::ranges::fill(distances, infinity);
      kernels->memberships_of(distances.data(), 3, static_cast<T>(exponent), u.data());
      EXPECT_NEAR(u[kRoundUp], 1.0 / 3.0, this->kRounding);
    }
  }
}

TYPED_TEST(SimdKernels, RootsAreAddedUp) {
  using T = TypeParam;
  const std::vector<T> squares = {0, 1, 4, 9, 16, 25, 36, 49, 64, 81, 100};
  for (const Kernels<T>* kernels : executable_kernels<T>()) {
    EXPECT_EQ(kernels->sum_of_roots(squares.data(), squares.size()), 55.0);
    EXPECT_EQ(kernels->sum_of_roots(squares.data(), 0), 0.0);
    const std::vector<T> weights = {9, 2, 0.5, 0, 0, 0, 0, 0, 0, 0, 1};
    EXPECT_EQ(kernels->sum_of_weighted_roots(squares.data(), weights.data(), squares.size()), 13.0);
    EXPECT_EQ(kernels->sum_of_weighted_roots(squares.data(), weights.data(), 0), 0.0);
  }
}

TYPED_TEST(SimdKernels, WeightedPointsAreAddedUp) {
  using T = TypeParam;
  for (const Kernels<T>* kernels : executable_kernels<T>()) {
    for (const std::size_t n : {1, 33, 257}) {
      for (const std::size_t d : {1, 3, 9, 17, 100}) {
        const std::size_t k = 5;
        const Case<T> test = clouds<T>(n, d, k);
        std::vector<T> weights(n);
        std::vector<std::int32_t> labels(n);
        std::vector<double> sums(k * d, 1.0), totals(k, 2.0), expected = sums, of_weights = totals;
        for (std::size_t i = 0; i < n; ++i) {
          weights[i] = static_cast<T>(i % 4) / T{3};
          labels[i] = static_cast<std::int32_t>(i * 7 % k);
          of_weights[i * 7 % k] += double{weights[i]};
          for (std::size_t f = 0; f < d; ++f) {
            expected[i * 7 % k * d + f] += double{weights[i]} * double{test.points[i * d + f]};
          }
        }
        kernels->sum_with_weights({test.points.data(), nullptr, n, d}, weights.data(),
                                  labels.data(), sums.data(), totals.data());
        for (std::size_t c = 0; c < k * d; ++c) {
          ASSERT_NEAR(sums[c], expected[c], 1e-13 * double(n)) << kernels->isa;
        }
        for (std::size_t j = 0; j < k; ++j) {
          ASSERT_NEAR(totals[j], of_weights[j], 1e-13 * double(n)) << kernels->isa;
        }
      }
    }
  }
}

} // namespace
} // namespace clusterbench::simd
