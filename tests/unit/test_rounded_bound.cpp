// What rounding a row to float16 proves of its nearest centroid:
// impls/cuda/few_clusters/rounding_bounds.hpp.

#include "impls/cuda/few_clusters/rounding_bounds.hpp"
#include "tests/unit/tensor_core_model.hpp"

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
CandidateSet of_lanes(const std::set<unsigned>& numbers) {
  std::uint32_t bits[4] = {};
  for (const unsigned j : numbers) {
    bits[j % 8 / 2] |= 1u << (j % 2 * 8 + j / 8);
  }
  return {bits[0] | bits[2] << 16, bits[1] | bits[3] << 16};
}

TEST(CandidateSet, OnlyOne) {
  for (unsigned i = 0; i < kMost; ++i) {
    EXPECT_TRUE(of_lanes({i}) == CandidateSet::only(i)) << i;
    EXPECT_FALSE(of_lanes({}) == CandidateSet::only(i)) << i;
    for (unsigned j = i + 1; j < kMost; ++j) {
      EXPECT_FALSE(CandidateSet::only(i) == CandidateSet::only(j)) << i << ", " << j;
      EXPECT_FALSE(of_lanes({i, j}) == CandidateSet::only(i)) << i << ", " << j;
      EXPECT_FALSE(of_lanes({i, j}) == CandidateSet::only(j)) << i << ", " << j;
    }
  }
}

TEST(CandidateSet, GivesAllThatThereAreOnce) {
  std::mt19937_64 random(3);
  std::vector<unsigned> numbers(kMost);
  std::iota(numbers.begin(), numbers.end(), 0u);
  for (unsigned count = 0; count <= kMost; ++count) {
    for (unsigned trial = 0; trial < 50; ++trial) {
      std::ranges::shuffle(numbers, random);
      const std::set<unsigned> those(numbers.begin(), numbers.begin() + count);
      CandidateSet left = of_lanes(those);
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

/// Rows at `offset`, with centroids around them: by how much the score of the nearest exceeds the
/// least one of the rounded row, in units of the slack.
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
    // What float makes of the least score is not rounding of the row: `certain` is for that, and is
    // zero here.
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
  float of_normals = 0.0f, of_others = 0.0f; // how much of what is allowed a score uses
  for (unsigned trial = 0; trial < 100000; ++trial) {
    const float size = std::ldexp(mantissa(random), exponent(random));
    const float score = trial % 2 == 0 ? size : -size;
    const float half = static_cast<float>(to_half(static_cast<double>(score)));
    EXPECT_GE(HalfUnit::before_rounding(half), score);
    const float used = (score - half) / (HalfUnit::before_rounding(half) - half);
    (size >= 0x1p-10f ? of_normals : of_others) =
        std::max(size >= 0x1p-10f ? of_normals : of_others, used);
  }
  EXPECT_GT(of_normals, 0.98f);
  EXPECT_GT(of_others, 0.9f);
  for (const float half : {0.0f, 0x1p-24f, -0x1p-24f, 1.0f, -1.0f, 65504.0f}) {
    EXPECT_GT(HalfUnit::before_rounding(half), half); // to hold what float makes of a sum with it
  }
}

/// A row in units of its scale, with centroids, and the scores that tensor cores make of them.
struct Scored {
  std::vector<float> y;
  float length = 0.0f;        ///< of y, or a little more
  std::vector<float> rounded; ///< scores to float16, in the unit
  std::vector<double> off;    ///< errors before that, in units of the scale
};

/// unit.to times -y.c and the half squares and the shift, as the device makes them. group: of
/// products that a tensor core adds up at once.
Scored score(const std::vector<float>& y, const std::vector<std::vector<float>>& centroids,
             const HalfUnit& unit, float shift, std::size_t group) {
  Scored scored{y, 0.0f, {}, {}};
  for (const auto& c : centroids) {
    Vector of_row[2], of_centroid[2]; // with low parts, and with high ones
    double squared = 0.0, exact = 0.0;
    for (std::size_t f = 0; f < y.size(); ++f) {
      const double part = static_cast<double>(-c[f] * unit.to), high = to_half(part);
      of_row[0].push_back(static_cast<double>(y[f]));
      of_row[1].push_back(static_cast<double>(y[f]));
      of_centroid[0].push_back(to_half(part - high));
      of_centroid[1].push_back(high);
      squared += static_cast<double>(c[f]) * static_cast<double>(c[f]);
      exact -= static_cast<double>(y[f]) * static_cast<double>(c[f]);
    }
    Vector row, centroid;
    for (unsigned part = 0; part < 2; ++part) {
      of_row[part].resize((y.size() + 15) / 16 * 16);
      of_centroid[part].resize(of_row[part].size());
      row.insert(row.end(), of_row[part].begin(), of_row[part].end());
      centroid.insert(centroid.end(), of_centroid[part].begin(), of_centroid[part].end());
    }
    const double added = static_cast<double>((static_cast<float>(0.5 * squared) + shift) * unit.to);
    row.resize(row.size() + 16, 1.0);
    centroid.push_back(to_half(added));
    centroid.push_back(to_half(added - to_half(added)));
    centroid.resize(row.size());
    const float found = cut_product(row, centroid, group);
    scored.rounded.push_back(static_cast<float>(to_half(static_cast<double>(found))));
    exact += 0.5 * squared + static_cast<double>(shift);
    scored.off.push_back(
        std::abs(static_cast<double>(found) * static_cast<double>(unit.from) - exact));
  }
  return scored;
}

float length(const std::vector<float>& v) {
  return 1.001f * std::sqrt(std::inner_product(v.begin(), v.end(), v.begin(), 0.0f));
}

/// How rows and centroids are made: drawn; so that every step of their sum is cut; or one large
/// product, which comes first, and others that are lost beside it.
enum class Made { drawn, cut, lost };

/// The largest error of a score in units of its bound, of rows and centroids of these sizes.
double share_of_error(std::size_t d, float row_size, float centroid_size, Made made,
                      float& largest_score) {
  std::mt19937_64 random(d);
  std::normal_distribution<float> normal;
  double worst = 0.0;
  for (unsigned trial = 0; trial < 100; ++trial) {
    std::vector<float> y(d), c(d);
    for (std::size_t f = 0; f < d; ++f) {
      switch (made) {
      case Made::drawn:
        y[f] = rounded(row_size * normal(random));
        c[f] = centroid_size * normal(random);
        break;
      case Made::cut:
        y[f] = rounded(row_size * (-4099.0f / 4096.0f));
        c[f] = centroid_size * (4099.0f / 4096.0f);
        break;
      case Made::
          lost: // 1.25^2 is beneath 2, so a step is 2^-23 of it; 63 of 64 such steps are lost
        y[f] = rounded(row_size * (f == 0 ? 1.25f : 63.0f / 64.0f * 0x1p-11f));
        c[f] = centroid_size * (f == 0 ? -1.25f : -0x1p-12f);
      }
    }
    const HalfUnit unit = HalfUnit::of(length(y), length(c));
    const float shift = static_cast<float>(trial % 3) / 4.0f * length(c) * length(c) / 1.003f;
    const float longest = std::max(length(c), HalfUnit::length_of(shift));
    for (const std::size_t group : {4, 8, 16}) {
      const Scored scored = score(y, {c}, unit, shift, group);
      largest_score = std::max(largest_score, std::abs(scored.rounded[0]));
      worst = std::max(worst,
                       scored.off[0] / static_cast<double>(unit.error(d).of(length(y), longest)));
    }
  }
  return worst;
}

TEST(HalfUnit, ScoresFitFloat16AndStayWithinTheirError) {
  double of_parts = 0.0, of_cuts = 0.0; // where roundings count most, and where cuts do
  float largest_score = 0.0f;
  for (const std::size_t d : {1u, 2u, 8u, 37u, 64u}) {
    for (const float row_size : {4.0f, 1024.0f, 16384.0f}) {
      for (const float centroid_size : {4.0f, 1024.0f, 16384.0f}) {
        for (const Made made : {Made::drawn, Made::cut, Made::lost}) {
          const double share = share_of_error(d, row_size, centroid_size, made, largest_score);
          EXPECT_LE(share, 1.0) << d << ", " << row_size << ", " << centroid_size << ", "
                                << static_cast<int>(made);
          double& worst = made == Made::lost ? of_cuts : of_parts;
          worst = std::max(worst, share);
        }
      }
    }
  }
  EXPECT_LT(largest_score, 0x1p15f);
  EXPECT_GT(largest_score, 0x1.8p14f); // the unit is no smaller than it has to be
  EXPECT_GT(of_parts, 0.5);
  EXPECT_GT(of_cuts, 0.15); // without what the bound has for cuts it is more than one
}

/// What is left of centroids around rows, and whether the nearest is always among them.
struct Left {
  unsigned lost = 0, alone = 0, rows = 0;
  double used = 0.0; ///< of what the limit allows beyond the least score
};

/// shift: in halves of the longest row's square. spread: see attack().
Left decide(std::size_t d, float offset, float spread, float shift_of_square) {
  constexpr float kScale = 2048.0f;
  std::mt19937_64 random(d);
  std::normal_distribution<float> normal;
  Left left;
  for (unsigned trial = 0; trial < 300; ++trial) {
    std::vector<float> x(d), y(d);
    float lost = 0.0f;
    for (std::size_t f = 0; f < d; ++f) {
      x[f] = kScale * (offset + normal(random));
      y[f] = rounded(x[f]);
      lost += (x[f] - y[f]) * (x[f] - y[f]);
    }
    std::vector<std::vector<float>> centroids(8, std::vector<float>(d));
    float longest = 0.0f;
    for (auto& c : centroids) {
      const float side = spread * normal(random);
      for (std::size_t f = 0; f < d; ++f) {
        c[f] = x[f] + side * (y[f] - x[f]) + 0.01f * kScale * spread * normal(random) / 2048.0f;
      }
      longest = std::max(longest, length(c));
    }
    const float square = length(y) * length(y) / 1.003f, shift = shift_of_square * 0.5f * square;
    const HalfUnit unit = HalfUnit::of(length(y), longest);
    const float certain =
        2.0f * unit.error(d).of(length(y), std::max(longest, HalfUnit::length_of(shift)));
    const RoundedRow row = RoundedRow::of(square, std::sqrt(lost));
    const Scored scored = score(y, centroids, unit, shift, 16);
    const float least = *std::ranges::min_element(scored.rounded);
    const float limit = static_cast<float>(to_half(static_cast<double>(
        unit.limit(least, shift, [&](float of) { return row.slack(of, certain); }))));
    double least_distance = INFINITY;
    std::size_t nearest = 0;
    for (std::size_t j = 0; j < centroids.size(); ++j) {
      double distance = 0.0;
      for (std::size_t f = 0; f < d; ++f) {
        const double away = static_cast<double>(centroids[j][f]) - static_cast<double>(x[f]);
        distance += away * away;
      }
      nearest = distance < least_distance ? j : nearest;
      least_distance = std::min(least_distance, distance);
    }
    left.lost += scored.rounded[nearest] > limit;
    left.used = std::max(left.used,
                         static_cast<double>((scored.rounded[nearest] - least) / (limit - least)));
    left.alone += std::ranges::count_if(scored.rounded, [&](float of) { return of <= limit; }) == 1;
    ++left.rows;
  }
  return left;
}

TEST(HalfUnit, TheNearestIsNeverLost) {
  Left all;
  for (const std::size_t d : {1u, 2u, 8u, 37u, 64u}) {
    for (const float offset : {0.0f, 1.0f, 4.0f}) {
      for (const float spread : {2.0f, 30.0f, 1000.0f, 30000.0f}) {
        for (const float shift : {0.0f, 0.5f, 1.0f}) {
          const Left left = decide(d, offset, spread, shift);
          EXPECT_EQ(left.lost, 0u) << d << ", " << offset << ", " << spread << ", " << shift;
          all.used = std::max(all.used, left.used);
          all.alone += left.alone;
          all.rows += left.rows;
        }
      }
    }
  }
  EXPECT_GT(all.used, 0.7);           // an attack that is one
  EXPECT_GT(all.alone, all.rows / 8); // and a limit that decides something
}

} // namespace
} // namespace clusterbench::cuda
