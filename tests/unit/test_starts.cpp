// Starts of samples: all different, of the right form, the same again from the same secret, and
// never an old one with its clusters in another order.
#include "harness/problem/secret_stream.hpp"
#include "harness/problem/starts.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace clusterbench {
namespace {

using Kind = InitSpec::Kind;

template <typename T>
struct Data {
  std::size_t n, d, k;
  std::vector<T> points;
  std::vector<T> own;

  Problem<T> problem() const {
    Problem<T> problem;
    problem.n = n;
    problem.d = d;
    problem.k = k;
    problem.points = points;
    problem.centroids = own;
    return problem;
  }
};

/// Normal points; the own start is the first rows.
template <typename T>
Data<T> normal_data(std::size_t n, std::size_t d, std::size_t k, double offset = 0.0) {
  Data<T> data{n, d, k, {}, {}};
  std::mt19937_64 random(n + 10 * d + 100 * k);
  std::normal_distribution<double> normal;
  for (std::size_t e = 0; e < n * d; ++e) {
    data.points.push_back(static_cast<T>(offset + normal(random)));
  }
  data.own.assign(data.points.begin(), data.points.begin() + static_cast<std::ptrdiff_t>(k * d));
  return data;
}

/// The rows in an order of their own: equal for starts that are permuted only.
template <typename T>
std::vector<std::vector<T>> sorted_rows(const std::vector<T>& start, std::size_t d) {
  std::vector<std::vector<T>> rows;
  for (std::size_t e = 0; e < start.size(); e += d) {
    rows.emplace_back(start.begin() + static_cast<std::ptrdiff_t>(e),
                      start.begin() + static_cast<std::ptrdiff_t>(e + d));
  }
  std::sort(rows.begin(), rows.end());
  return rows;
}

template <typename T>
bool are_rows_of(const std::vector<T>& start, const Data<T>& data) {
  const auto points = sorted_rows(data.points, data.d);
  const auto rows = sorted_rows(start, data.d);
  return std::all_of(rows.begin(), rows.end(),
                     [&](const auto& row) {
                       return std::binary_search(points.begin(), points.end(), row);
                     }) &&
         std::adjacent_find(rows.begin(), rows.end()) == rows.end();
}

template <typename T>
void expect_good_starts(const std::string& name, Kind kind, const Data<T>& data) {
  const StartSequence<T> starts(kind, data.problem(), "hash", 4711, 0);
  std::set<std::vector<std::vector<T>>> seen = {sorted_rows(data.own, data.d)};
  for (std::size_t i = 0; i < 40; ++i) {
    const std::vector<T> start = starts.drawn(i);
    ASSERT_EQ(start.size(), data.k * data.d) << name;
    EXPECT_TRUE(seen.insert(sorted_rows(start, data.d)).second) << name << ", start " << i;
    for (const T value : start) {
      EXPECT_LE(std::abs(value), largest_coordinate<T>(data.d)) << name << ", start " << i;
    }
  }
}

template <typename T>
class Starts : public testing::Test {};
using Precisions = testing::Types<float, double>;
TYPED_TEST_SUITE(Starts, Precisions);

TYPED_TEST(Starts, areDifferentAndFitWhateverTheDataAre) {
  using T = TypeParam;
  for (const Kind kind : {Kind::first, Kind::random, Kind::kmeans_plus_plus, Kind::file}) {
    expect_good_starts("plain", kind, normal_data<T>(2000, 3, 7));
    expect_good_starts("one cluster", kind, normal_data<T>(2000, 3, 1));
    expect_good_starts("one number", kind, normal_data<T>(1, 1, 1));
    expect_good_starts("as many clusters as points", kind, normal_data<T>(30, 2, 30));
    expect_good_starts("half as many", kind, normal_data<T>(60, 2, 30));
    expect_good_starts("few points", kind, normal_data<T>(5, 2, 2));
    expect_good_starts("many clusters", kind, normal_data<T>(2000, 2, 900));
    expect_good_starts("far away", kind, normal_data<T>(500, 2, 3, 1e7));
    for (const double value : {0.0, 1.0, -3e-6, 1e12}) {
      auto equal = normal_data<T>(400, 2, 3);
      equal.points.assign(equal.points.size(), static_cast<T>(value));
      equal.own.assign(equal.own.size(), static_cast<T>(value));
      expect_good_starts("all points equal", kind, equal);
    }
    auto few = normal_data<T>(4000, 2, 3);
    for (std::size_t e = 0; e < few.points.size(); ++e) {
      few.points[e] = few.points[e % 8]; // four points, a thousand times
    }
    expect_good_starts("few distinct points", kind, few);
    auto large = normal_data<T>(400, 2, 3);
    const T most = largest_coordinate<T>(2);
    for (std::size_t e = 0; e < large.points.size(); ++e) {
      large.points[e] = large.points[e] > 0 ? most : -most;
    }
    std::copy_n(large.points.begin(), large.own.size(), large.own.begin());
    expect_good_starts("the largest numbers", kind, large);
    auto constant = normal_data<T>(400, 2, 3);
    for (std::size_t e = 0; e < constant.points.size(); e += 2) {
      constant.points[e] = T(0.1);
    }
    std::copy_n(constant.points.begin(), constant.own.size(), constant.own.begin());
    expect_good_starts("a constant feature", kind, constant);
  }
}

TYPED_TEST(Starts, leaveAConstantFeatureAlone) {
  auto data = normal_data<TypeParam>(400, 2, 3);
  for (std::size_t e = 0; e < data.points.size(); e += 2) {
    data.points[e] = TypeParam(0.1);
  }
  std::copy_n(data.points.begin(), data.own.size(), data.own.begin());
  const StartSequence<TypeParam> starts(Kind::file, data.problem(), "hash", 1, 0);
  for (std::size_t e = 0; e < 6; e += 2) {
    EXPECT_EQ(starts.drawn(3)[e], TypeParam(0.1));
  }
}

TYPED_TEST(Starts, areRowsOfThePointsInSixOfNine) {
  const auto data = normal_data<TypeParam>(5000, 3, 8);
  const StartSequence<TypeParam> starts(Kind::first, data.problem(), "hash", 12, 3);
  for (std::size_t cycle = 0; cycle < 4; ++cycle) {
    std::size_t rows = 0;
    for (std::size_t i = 0; i < kStartCycle; ++i) {
      rows += are_rows_of(starts.drawn(cycle * kStartCycle + i), data) ? 1 : 0;
    }
    EXPECT_EQ(rows, 6U);
  }
}

TYPED_TEST(Starts, moveClearlyAndNotFar) {
  const auto data = normal_data<TypeParam>(5000, 4, 6);
  const StartSequence<TypeParam> starts(Kind::kmeans_plus_plus, data.problem(), "hash", 12, 3);
  for (std::size_t i = 0; i < 9; ++i) {
    const auto start = starts.drawn(i);
    // The clusters are turned on by some places: find out by how many.
    std::size_t fitting = 0;
    for (std::size_t places = 0; places < data.k; ++places) {
      double least = 1e9, most = 0.0;
      for (std::size_t e = 0; e < start.size(); ++e) {
        const double own = static_cast<double>(data.own[(e + places * data.d) % start.size()]);
        const double away = std::abs(static_cast<double>(start[e]) - own);
        least = std::min(least, away);
        most = std::max(most, away);
      }
      fitting += least > 0.018 && most < 0.11 ? 1 : 0;
    }
    EXPECT_EQ(fitting, 1U) << "start " << i;
  }
}

TYPED_TEST(Starts, followFromSecretProblemAndRound) {
  const auto data = normal_data<TypeParam>(5000, 3, 8);
  const auto make = [&](const char* hash, std::uint64_t secret, std::size_t round) {
    return StartSequence<TypeParam>(Kind::first, data.problem(), hash, secret, round).drawn(2);
  };
  EXPECT_EQ(make("a", 1, 0), make("a", 1, 0));
  EXPECT_NE(make("a", 1, 0), make("b", 1, 0));
  EXPECT_NE(make("a", 1, 0), make("a", 2, 0));
  EXPECT_NE(make("a", 1, 0), make("a", 1, 1));
}

TYPED_TEST(Starts, haveTheOwnOneOnceInTheFirstCycle) {
  const auto data = normal_data<TypeParam>(500, 3, 4);
  std::set<std::size_t> positions, of_five;
  for (std::uint64_t secret = 0; secret < 200; ++secret) {
    const StartSequence<TypeParam> starts(Kind::first, data.problem(), "hash", secret, 0);
    EXPECT_EQ(starts.at(starts.own_position()), data.own);
    EXPECT_NE(starts.at(starts.own_position() + kStartCycle), data.own);
    positions.insert(starts.own_position());
    of_five.insert(
        StartSequence<TypeParam>(Kind::first, data.problem(), "hash", secret, 0, 5).own_position());
  }
  EXPECT_EQ(positions.size(), 9U);
  EXPECT_EQ(*positions.rbegin(), 8U);
  EXPECT_EQ(of_five.size(), 5U);
  EXPECT_EQ(*of_five.rbegin(), 4U);
}

TYPED_TEST(Starts, ofMembershipsSumToOne) {
  using T = TypeParam;
  for (const std::size_t k : {2U, 5U}) {
    auto data = normal_data<T>(10000, 2, k);
    std::vector<T> own;
    for (std::size_t i = 0; i < data.n; ++i) {
      for (std::size_t j = 0; j < k; ++j) {
        own.push_back(i % k == j ? T(1) : T(0)); // hard ones: scaling alone would leave them
      }
    }
    Problem<T> problem = data.problem();
    problem.centroids = {};
    problem.memberships = own;
    const StartSequence<T> starts(Kind::file, problem, "hash", 5, 0);
    std::set<std::vector<T>> seen = {own};
    for (std::size_t i = 0; i < 12; ++i) {
      const auto start = starts.drawn(i);
      ASSERT_EQ(start.size(), own.size());
      EXPECT_TRUE(seen.insert(start).second);
      EXPECT_EQ(start, starts.drawn(i));
      std::size_t unchanged = 0;
      for (std::size_t row = 0; row < data.n; ++row) {
        double sum = 0.0;
        for (std::size_t j = 0; j < k; ++j) {
          EXPECT_GE(start[row * k + j], 0);
          sum += static_cast<double>(start[row * k + j]);
          unchanged += start[row * k + j] == own[row * k + j] ? 1 : 0;
        }
        EXPECT_NEAR(sum, 1.0, sizeof(T) == 4 ? 5e-7 : 1e-15 * static_cast<double>(k));
      }
      EXPECT_EQ(unchanged, 0U);
    }
    EXPECT_EQ(starts.at(starts.own_position()), own);
  }
}

TEST(JudgedPositions, areTwoSecretOnesWithinTheSamples) {
  EXPECT_EQ(judged_positions(1, "a", 1), (std::vector<std::size_t>{0}));
  EXPECT_EQ(judged_positions(1, "a", 2), (std::vector<std::size_t>{0, 1}));
  std::set<std::vector<std::size_t>> seen;
  for (std::uint64_t secret = 0; secret < 2000; ++secret) {
    const auto positions = judged_positions(secret, "a", 9);
    ASSERT_EQ(positions.size(), 2U);
    EXPECT_LT(positions[0], positions[1]);
    EXPECT_LT(positions[1], 9U);
    seen.insert(positions);
  }
  EXPECT_EQ(seen.size(), 36U); // every pair
  EXPECT_EQ(judged_positions(3, "a", 9), judged_positions(3, "a", 9));
}

TEST(JudgingNumber, drawsEachLateSampleAsOftenAndVariantsShareIt) {
  constexpr std::size_t kLate = 20;
  std::vector<int> drawn(kLate);
  int shared = 0;
  for (std::uint64_t secret = 0; secret < 2000; ++secret) {
    const auto lowest = [&](std::size_t count) {
      std::size_t best = 0;
      for (std::size_t i = 1; i < count; ++i) {
        best = judging_number(secret, "a", i) < judging_number(secret, "a", best) ? i : best;
      }
      return best;
    };
    ++drawn[lowest(kLate)];
    shared += lowest(kLate) == lowest(kLate * 3 / 4) ? 1 : 0;
  }
  for (const int times : drawn) {
    EXPECT_NEAR(times, 100, 45); // 4.6 standard deviations
  }
  EXPECT_NEAR(shared, 1500, 100);
  EXPECT_NE(judging_number(1, "a", 0), judging_number(1, "b", 0));
}

TEST(SecretStream, isEvenAndChangesWithItsPurpose) {
  SecretStream stream(1, "one");
  double sum = 0.0;
  for (int i = 0; i < 10000; ++i) {
    const double value = stream.uniform();
    EXPECT_GE(value, 0.0);
    EXPECT_LT(value, 1.0);
    sum += value;
  }
  EXPECT_NEAR(sum / 10000, 0.5, 0.02);
  EXPECT_NE(SecretStream(1, "one").at(0), SecretStream(1, "two").at(0));
  EXPECT_NE(SecretStream(1, "one").at(0), SecretStream(2, "one").at(0));
  EXPECT_EQ(SecretStream(1, "one").at(7), SecretStream(1, "one").at(7));
}

} // namespace
} // namespace clusterbench
