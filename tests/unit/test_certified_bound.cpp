// The bound of docs/certified.md, attacked on the host: scores in float16 by a model of a tensor
// core that loses all it may, against long double, for points and centroids of every awkward kind.
#include "impls/cuda/common/certified_bound.hpp"
#include "impls/cuda/many_clusters/folded_bounds.hpp"
#include "tests/unit/tensor_core_model.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <gtest/gtest.h>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace clusterbench::cuda {
namespace {

struct Rounded {
  Vector exact, half;
  RoundedNorms norms;
};

Rounded round_vector(const Vector& exact) {
  Rounded result{exact, exact, {}};
  double squares = 0.0, half_squares = 0.0, residuals = 0.0;
  for (std::size_t f = 0; f < exact.size(); ++f) {
    const double half = to_half(exact[f]);
    result.half[f] = half;
    squares += exact[f] * exact[f];
    half_squares += half * half;
    residuals += (exact[f] - half) * (exact[f] - half);
  }
  result.norms = norms_of(squares, half_squares, residuals);
  return result;
}

/// The computed score, its low bits replaced by whatever is worst.
float computed_score(const Rounded& x, const Rounded& c, std::size_t group, std::uint32_t bits) {
  const auto half_square = static_cast<float>(0.5 * c.norms.exact * c.norms.exact);
  const float score = half_square - cut_product(x.half, c.half, group);
  return std::bit_cast<float>((std::bit_cast<std::uint32_t>(score) & ~31u) | bits);
}

/// The error of a score in units of its bound.
double share_of_bound(const Rounded& x, const Rounded& c) {
  long double exact = 0.0L;
  for (std::size_t f = 0; f < x.exact.size(); ++f) {
    const long double of_c = c.exact[f];
    exact += of_c * (0.5L * of_c - static_cast<long double>(x.exact[f]));
  }
  const auto products = static_cast<unsigned>((x.exact.size() + 15) / 16 * 16);
  const ScoreError error = score_error(c.norms, products);
  const double bound = static_cast<double>(
      error.of(static_cast<float>(x.norms.residual), static_cast<float>(x.norms.rounded)));
  double worst = 0.0;
  for (const std::size_t group : {4, 8, 16}) {
    for (const std::uint32_t bits : {0u, 31u}) {
      const long double away = computed_score(x, c, group, bits) - exact;
      worst = std::max(worst, static_cast<double>(std::abs(away)));
    }
  }
  return worst == 0.0 ? 0.0 : worst / bound;
}

struct Kind {
  std::string name;
  std::function<double(std::mt19937_64&, std::size_t feature)> x, c;
};

std::vector<Kind> kinds() {
  using Random = std::mt19937_64;
  const auto normal = [](double scale, double offset = 0.0) {
    return [=](Random& random, std::size_t) {
      return offset + scale * std::normal_distribution<double>()(random);
    };
  };
  const auto fixed = [](double value) { return [=](Random&, std::size_t) { return value; }; };
  const auto wide = [](Random& random, std::size_t) {
    return std::ldexp(std::normal_distribution<double>()(random),
                      static_cast<int>(random() % 40) - 26);
  };
  const auto tie = [](Random& random, std::size_t) { // half way between two float16 numbers
    return 1024.0 + static_cast<double>(random() % 1024) + 0.5;
  };
  const auto lone = [](Random&, std::size_t f) { return f == 0 ? 30000.0 : 1e-3; };
  return {{"normal", normal(3000), normal(3000)},
          {"far from the mean", normal(1, 16000), normal(1, 16000)},
          {"small and large", normal(1e-3), normal(9000)},
          {"large and small", normal(9000), normal(1e-3)},
          {"denormal", normal(1e-6), normal(1e-6)},
          {"vanishing", normal(1e-12), normal(1000)},
          {"overflowing", normal(60000), normal(60000)},
          {"far overflowing", normal(1000), normal(1e7)},
          {"wide exponents", wide, wide},
          {"always half way", tie, tie},
          {"half way, one side", tie, fixed(1.0)},
          {"cut in every step", fixed(4099.0 / 4096), fixed(4099.0 / 4096)},
          {"one large, many lost", lone, fixed(1.0)},
          {"zero", fixed(0.0), normal(1000)},
          {"to the origin", normal(1000), fixed(0.0)}};
}

TEST(CertifiedBound, HoldsForEveryKind) {
  std::mt19937_64 random(7);
  for (const Kind& kind : kinds()) {
    double worst = 0.0;
    for (const std::size_t d : {1, 2, 15, 16, 17, 64, 100, 128, 768, 2047, 32768}) {
      for (int repeat = 0; repeat < (d > 2047 ? 2 : d > 200 ? 20 : 200); ++repeat) {
        Vector x(d), c(d);
        for (std::size_t f = 0; f < d; ++f) {
          x[f] = kind.x(random, f);
          c[f] = kind.c(random, f);
        }
        worst = std::max(worst, share_of_bound(round_vector(x), round_vector(c)));
      }
    }
    EXPECT_LE(worst, 1.0) << kind.name;
  }
}

/// The errors of scores in two float16 parts, and in float, in units of the bounds.
std::array<double, 2> shares_of_plain_bounds(const Rounded& x, const Rounded& c) {
  Vector of_x, of_c; // low times high, high times low, high times high
  for (const auto& [low_x, low_c] : {std::pair{false, true}, {true, false}, {false, false}}) {
    for (std::size_t f = 0; f < x.exact.size(); ++f) {
      of_x.push_back(low_x ? to_half(x.exact[f] - x.half[f]) : x.half[f]);
      of_c.push_back(low_c ? to_half(c.exact[f] - c.half[f]) : c.half[f]);
    }
  }
  long double exact = 0.0L;
  float plain = 0.0f;
  for (std::size_t f = 0; f < x.exact.size(); ++f) {
    const long double value = c.exact[f];
    exact += value * (0.5L * value - static_cast<long double>(x.exact[f]));
    plain = std::fma(static_cast<float>(x.exact[f]), static_cast<float>(c.exact[f]), plain);
  }
  const auto half_square = static_cast<float>(0.5 * c.norms.exact * c.norms.exact);
  const auto share = [&](float score, const PlainError& error) {
    const auto bound = static_cast<double>(error.of(
        static_cast<float>(x.norms.rounded + x.norms.residual), static_cast<float>(c.norms.exact)));
    return static_cast<double>(std::abs(static_cast<long double>(score) - exact)) / bound;
  };
  const float of_parts = half_square - cut_product(of_x, of_c, 4);
  return {share(of_parts, split_error_small_first(x.exact.size())),
          share(half_square - plain, float_error(x.exact.size()))};
}

TEST(CertifiedBound, HoldsForTwoPartsAndForFloat) {
  std::mt19937_64 random(13);
  for (const Kind& kind : kinds()) {
    if (kind.name.find("overflow") != std::string::npos) {
      continue; // the scale leaves no value beyond float16; only one product is ready for one
    }
    double worst_split = 0.0, worst_float = 0.0;
    for (const std::size_t d : {1, 2, 17, 100, 448}) {
      for (int repeat = 0; repeat < 50; ++repeat) {
        Vector x(d), c(d);
        for (std::size_t f = 0; f < d; ++f) {
          x[f] = kind.x(random, f);
          c[f] = kind.c(random, f);
        }
        const auto [split, plain] = shares_of_plain_bounds(round_vector(x), round_vector(c));
        worst_split = std::max(worst_split, split);
        worst_float = std::max(worst_float, plain);
      }
    }
    EXPECT_LE(worst_split, 1.0) << kind.name;
    EXPECT_LE(worst_float, 1.0) << kind.name;
  }
}

/// The error, in units of its bound, of a score that a tensor core makes whole: |c|^2 / 2 in three
/// halves and the row's constant are further features, which fill up those of the data, or are 16
/// of their own. |c|^2 / 2 is at most 2^30.
double share_of_whole_bound(const Rounded& x, const Rounded& c, bool in_tail) {
  const std::size_t d = x.exact.size();
  Vector of_x(d), of_c(d);
  long double exact = 0.0L;
  for (std::size_t f = 0; f < d; ++f) {
    of_x[f] = -x.half[f];
    of_c[f] = c.half[f];
    const long double value = c.exact[f];
    exact += value * (0.5L * value - static_cast<long double>(x.exact[f]));
  }
  const double half_square = static_cast<float>(0.5 * c.norms.exact * c.norms.exact);
  const double first = to_half(half_square * 0x1p-15);
  const double second = to_half((half_square - first * 0x1p15) * 0x1p-4);
  const double third = to_half(half_square - first * 0x1p15 - second * 0x1p4);
  const double constant = to_half(0.5 * x.norms.rounded * x.norms.rounded * 0x1p-15);
  const Vector tail_x{0x1p15, 0x1p4, 1.0, constant, 0x1p15},
      tail_c{first, second, third, 0x1p15, 0.0};
  const auto to_sixteens = [](Vector& of) { of.resize((of.size() + 15) / 16 * 16); };
  if (in_tail) {
    to_sixteens(of_x);
    to_sixteens(of_c);
  }
  of_x.insert(of_x.end(), tail_x.begin(), tail_x.end());
  of_c.insert(of_c.end(), tail_c.begin(), tail_c.end());
  to_sixteens(of_x);
  to_sixteens(of_c);
  exact += static_cast<long double>(constant) * 0x1p15L;
  const auto residual = static_cast<float>(x.norms.residual);
  const auto norm = static_cast<float>(x.norms.rounded);
  const auto a = static_cast<float>(constant * 0x1p15);
  const ScoreError largest = score_error(c.norms, static_cast<unsigned>((d + 15) / 16 * 16));
  double worst = 0.0;
  for (const unsigned index_bits : {0u, 1u, 5u, 10u, 16u}) { // of a whole score in a tail none
    if (in_tail && index_bits > 0) {
      break;
    }
    const auto bound =
        static_cast<double>(in_tail ? tail_error(largest, residual, norm, a)
                                    : folded_error(largest, residual, norm, a,
                                                   static_cast<unsigned>(of_x.size()), index_bits));
    const std::uint32_t all = (1u << index_bits) - 1;
    for (const std::size_t group : {4, 8, 16}) {
      for (const std::uint32_t bits : {0u, all}) {
        const float score = cut_product(of_x, of_c, group);
        const auto marked =
            std::bit_cast<float>((std::bit_cast<std::uint32_t>(score) & ~all) | bits);
        const auto error = static_cast<double>(std::abs(marked - exact));
        worst = std::max(worst, error == 0.0 ? 0.0 : error / bound);
      }
    }
  }
  return worst;
}

/// The worst share of all kinds, of values below 2^13 for up to 32 features, half of it for up to
/// 128, and so on, as HalfCopy scales them.
/// headroom: how many powers of two farther centroids may lie than points.
void attack_whole_scores(bool in_tail, const std::vector<std::size_t>& features, int headroom = 0) {
  std::mt19937_64 random(17);
  for (const Kind& kind : kinds()) {
    if (kind.name.find("overflow") != std::string::npos) {
      continue; // the scale leaves no value beyond its range
    }
    double worst = 0.0;
    for (const std::size_t d : features) {
      double most = 8191.0;
      for (std::size_t fits = 32; fits < d; fits *= 4) {
        most *= 0.5;
      }
      for (int repeat = 0; repeat < (d > 2047 ? 2 : d > 200 ? 20 : 300); ++repeat) {
        Vector x(d), c(d);
        for (std::size_t f = 0; f < d; ++f) {
          x[f] = std::ldexp(std::clamp(most * 0x1p-15 * kind.x(random, f), -most, most), -headroom);
          c[f] = std::clamp(most * 0x1p-15 * kind.c(random, f), -most, most);
        }
        worst = std::max(worst, share_of_whole_bound(round_vector(x), round_vector(c), in_tail));
      }
    }
    EXPECT_LE(worst, 1.0) << kind.name;
    if (in_tail && kind.name == "to the origin") {
      EXPECT_EQ(worst, 0.0); // nothing is cut, and no bits hold an index
    } else {
      EXPECT_GT(worst, 0.0) << kind.name;
    }
  }
}

TEST(CertifiedBound, HoldsForScoresMadeWhole) {
  attack_whole_scores(false, {1, 2, 11, 12, 27, 28, 32});
}

TEST(CertifiedBound, HoldsForScoresWithATail) {
  const std::vector<std::size_t> features{1,  2,   15,  16,  17,  32,   33,
                                          64, 100, 128, 129, 768, 2047, 32768};
  attack_whole_scores(true, features);
  attack_whole_scores(true, features, 6); // of a rank
}

/// Towards zero.
double cut_to_half(double value) {
  const int exponent = value == 0.0 ? 0 : std::max(std::ilogb(value), -14);
  return std::ldexp(std::trunc(std::ldexp(value, 10 - exponent)), exponent - 10);
}

/// The error, in units of its bound, of a whole score that is scaled so that float16 holds it:
/// centroids are negative and 2^-15 of themselves, |c|^2 / 2 is in two halves. Values below 2^13,
/// at most 64 of them.
/// rounds: every 16 products are added to a sum that is cut to float16, but for the last.
double share_of_packed_bound(const Rounded& x, const Rounded& c, bool rounds) {
  Vector of_x = x.half, of_c;
  long double exact = 0.0L;
  for (std::size_t f = 0; f < x.exact.size(); ++f) {
    of_c.push_back(to_half(-0x1p-15 * c.half[f])); // some are too small to be normal
    const long double value = c.exact[f];
    exact += value * (0.5L * value - static_cast<long double>(x.exact[f]));
  }
  const double half_square = static_cast<float>(0.5 * c.norms.exact * c.norms.exact);
  const double first = to_half(half_square * 0x1p-15);
  const double second = to_half((half_square - first * 0x1p15) * 0x1p-5);
  const double constant = to_half(0.5 * x.norms.rounded * x.norms.rounded * 0x1p-15);
  const std::size_t products = (of_x.size() + 4 + 15) / 16 * 16;
  of_x.resize(products - 4, 0.0);
  of_c.resize(products - 4, 0.0);
  for (const auto& [a, b] :
       {std::pair{1.0, first}, {0x1p-10, second}, {constant, 1.0}, {1.0, 0.0}}) {
    of_x.push_back(a);
    of_c.push_back(b);
  }
  exact += static_cast<long double>(constant) * 0x1p15L;
  const auto of_data = static_cast<unsigned>((x.exact.size() + 15) / 16 * 16);
  const PackedError error(score_error(c.norms, of_data), static_cast<unsigned>(products),
                          rounds ? static_cast<unsigned>(products / 16 - 1) : 0);
  const auto bound = 4.0 * static_cast<double>(error.times(0.25f, 0.0f)
                                                   .of(static_cast<float>(x.norms.residual),
                                                       static_cast<float>(x.norms.rounded)));
  double worst = 0.0;
  for (const std::size_t group : {4, 8, 16}) {
    double score = 0.0;
    std::size_t done = 0; // products
    for (; rounds && done + 16 < products; done += 16) {
      Vector some_x(of_x.begin() + done, of_x.begin() + done + 16);
      Vector some_c(of_c.begin() + done, of_c.begin() + done + 16);
      some_x.push_back(score);
      some_c.push_back(1.0);
      score = cut_to_half(cut_product(some_x, some_c, group));
    }
    Vector last_x(of_x.begin() + done, of_x.end()), last_c(of_c.begin() + done, of_c.end());
    last_x.push_back(score);
    last_c.push_back(1.0);
    score = cut_product(last_x, last_c, group);
    worst = std::max(
        worst, static_cast<double>(std::abs(static_cast<long double>(score) * 0x1p15L - exact)));
  }
  return worst == 0.0 ? 0.0 : worst / bound;
}

TEST(CertifiedBound, HoldsForPackedScores) {
  std::mt19937_64 random(19);
  double most = 0.0;
  for (const Kind& kind : kinds()) {
    if (kind.name.find("overflow") != std::string::npos) {
      continue; // the scale leaves no value beyond its range
    }
    double worst = 0.0;
    for (const std::size_t d : {1, 2, 12, 13, 16, 17, 28, 29, 32, 60, 64}) {
      for (int repeat = 0; repeat < 300; ++repeat) {
        Vector x(d), c(d);
        for (std::size_t f = 0; f < d; ++f) {
          x[f] = std::clamp(0.25 * kind.x(random, f), -4095.0, 4095.0);
          c[f] = std::clamp(0.25 * kind.c(random, f), -8191.0, 8191.0);
        }
        const Rounded of_x = round_vector(x), of_c = round_vector(c);
        worst = std::max(worst, share_of_packed_bound(of_x, of_c, false));
        worst = std::max(worst, share_of_packed_bound(of_x, of_c, true));
      }
    }
    EXPECT_LE(worst, 1.0) << kind.name;
    most = std::max(most, worst);
  }
  EXPECT_GT(most, 0.4); // or the test would show little
}

// A bound that is never approached would prove nothing about the test above: here the residuals
// point along the other vector, and most of the bound is used up.
TEST(CertifiedBound, IsNearlyReached) {
  for (const std::size_t d : {1, 64, 768}) {
    const Vector x(d, 1024.5), c(d, 1026.5); // half way, rounded down and up
    EXPECT_GT(share_of_bound(round_vector(x), round_vector(Vector(d, 1.0))), 0.4) << d;
    EXPECT_LE(share_of_bound(round_vector(x), round_vector(c)), 1.0) << d;
  }
}

TEST(CertifiedBound, NormsAreNotTooSmall) {
  std::mt19937_64 random(11);
  for (const Kind& kind : kinds()) {
    Vector x(333);
    for (std::size_t f = 0; f < x.size(); ++f) {
      x[f] = kind.x(random, f);
    }
    const Rounded rounded = round_vector(x);
    long double exact = 0.0L, half = 0.0L, residual = 0.0L;
    for (std::size_t f = 0; f < x.size(); ++f) {
      const long double lost = static_cast<long double>(x[f]) - rounded.half[f];
      exact += static_cast<long double>(x[f]) * x[f];
      half += static_cast<long double>(rounded.half[f]) * rounded.half[f];
      residual += lost * lost;
    }
    EXPECT_GE(rounded.norms.exact, static_cast<double>(std::sqrt(exact))) << kind.name;
    EXPECT_GE(rounded.norms.rounded, static_cast<double>(std::sqrt(half))) << kind.name;
    EXPECT_GE(rounded.norms.residual, static_cast<double>(std::sqrt(residual))) << kind.name;
  }
}

// Points are moved and scaled in float: rows that lie in all kinds of ways around all kinds of
// means.
TEST(CertifiedBound, ResidualsOfFloatsAreNotTooSmall) {
  std::mt19937_64 random(13);
  double least_room = INFINITY;
  for (const Kind& kind : kinds()) {
    for (const double offset : {0.0, 1.0, 1e3, 1e6, -3e7}) {
      for (const float scale : {0x1p-9f, 1.0f, 0x1p5f}) {
        long double away = 0.0L;
        double lost = 0.0, norm = 0.0;
        for (std::size_t f = 0; f < 100; ++f) {
          const auto x = static_cast<float>(offset + kind.x(random, f));
          const auto mean = static_cast<float>(offset + 0.01 * kind.c(random, f));
          const float moved = (x - mean) * scale;
          const double half = to_half(static_cast<double>(moved));
          const long double exact = (static_cast<long double>(x) - mean) * scale;
          away += (exact - half) * (exact - half);
          const float rest = moved - static_cast<float>(half);
          lost += static_cast<double>(rest) * static_cast<double>(rest);
          norm += half * half;
        }
        const auto upwards = [](double squares) {
          return std::nextafter(static_cast<float>(std::sqrt(squares)), INFINITY);
        };
        const double bound = static_cast<double>(residual_of(upwards(lost), upwards(norm)));
        const double distance = static_cast<double>(std::sqrt(away));
        EXPECT_GE(bound, distance) << kind.name << ", offset " << offset;
        least_room = distance > 0.0 ? std::min(least_room, bound / distance) : least_room;
      }
    }
  }
  EXPECT_LT(least_room, 1.001); // hardly more than needed
}

} // namespace
} // namespace clusterbench::cuda
