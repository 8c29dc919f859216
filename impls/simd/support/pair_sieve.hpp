// What the sieve needs in bfloat16: points and centroids seen from the middle of the points,
// rounded to eight bits, two features in a word, and a bound of what that can do to a score.
//
// Score: s = |c'|^2 / 2 - x'.c', x' = x - m, c' = c - m; x^, c^ are x', c' in bfloat16, its
// denormals taken for 0. Their residuals are computed, not estimated: r >= |x' - x^|,
// R >= |c' - c^|.
//   |x'.c' - x^.c^| <= r |c'| + |x^| R    by Cauchy and Schwarz
// Products of two values of eight bits are exact in float. They are added in some order, at most
// two operations a word and a few for what is padded; each may round in whatever direction and
// flush to 0. Then follow the roundings of sieve.hpp: of |c'|^2 / 2, of three last bits, of the
// limit. With words w, a(n) as there, C = max |c'|, and R the largest of all centroids a score is
// off by less than
//   r C + |x^| R + a(4 w + 20) (|x^| C + C^2 / 2) + tiny,
// and twice that is the margin in which another centroid may be the nearest.
#pragma once

#include "impls/simd/support/aligned.hpp"
#include "impls/simd/support/dispatch.hpp"
#include "impls/simd/support/sieve.hpp"
#include "impls/simd/support/team.hpp"

#include <bit>
#include <cstdint>

namespace clusterbench::simd {

/// The nearest bfloat16, ties to even, as a float; what is denormal there becomes 0.
inline float rounded_to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const float rounded = std::bit_cast<float>((bits + 0x7fffu + (bits >> 16 & 1u)) & 0xffff0000u);
  return std::abs(rounded) < std::numeric_limits<float>::min() ? 0.0f : rounded;
}

class PairSieveMaker {
public:
  using Real = float;
  using Kernel = PairKernel;
  using Score = float;

  PairSieveMaker() = default;

  /// points [n, d]. Tiles want their panels in another order than registers. As many parts pack()
  /// as the team has threads.
  PairSieveMaker(std::span<const float> points, std::size_t n, std::size_t d, std::size_t k,
                 const PairKernel& kernel, Team& team)
      : d_(d), k_(k), tiles_(kernel.tiles), words_(tiles_ ? (d + 31) / 32 * kTile : (d + 1) / 2),
        rows_(tiles_ ? kTile : kPairGroup),
        padded_(tiles_ ? (k + 31) / 32 * 32 : (k + kPairGroup - 1) / kPairGroup * kPairGroup),
        origin_(middle_of(points, n, d)), columns_(rounded_up(n) * words_), norms_(rounded_up(n)),
        residuals_(rounded_up(n)), panels_(padded_ * words_),
        halves_(padded_, std::numeric_limits<float>::max() / 2), largest_(team.size()) {
    team.run([&](std::size_t t) {
      const auto [begin, end] = share_of(n, t, team.size());
      double longest = 0.0;
      for (std::size_t i = begin; i < rounded_up(end); ++i) {
        std::uint32_t* column = &columns_[i / kTile * words_ * kTile + i % kTile];
        const Lengths lengths =
            rounded(&points[std::min(i, n - 1) * d], 1.0f,
                    [&](std::size_t w) -> std::uint32_t& { return column[w * kTile]; });
        for (std::size_t w = (d + 1) / 2; w < words_; ++w) {
          column[w * kTile] = 0;
        }
        norms_[i] = static_cast<float>(lengths.rounded);
        residuals_[i] = static_cast<float>(lengths.residual);
        longest = larger(longest, lengths.exact);
      }
      largest_[t].point = longest;
    });
  }

  std::size_t groups() const { return padded_ / kPairGroup; }

  PairColumns columns(std::size_t i) const {
    return {&columns_[i * words_], &norms_[i], &residuals_[i]};
  }

  /// Packs the share of part `part` of the centroids [k, d]; all parts must be done before sieve().
  void pack(std::span<const float> centroids, std::size_t part) {
    const std::size_t parts = largest_.size();
    double length = 0.0, residual = 0.0;
    for (std::size_t j = k_ * part / parts; j < k_ * (part + 1) / parts; ++j) {
      const Lengths lengths =
          rounded(&centroids[j * d_], -1.0f,
                  [&](std::size_t w) -> std::uint32_t& { return panels_[panel_index(j, w)]; });
      halves_[j] = static_cast<float>(lengths.squares / 2);
      length = larger(length, lengths.exact);
      residual = larger(residual, lengths.residual);
    }
    largest_[part].length = length;
    largest_[part].residual = residual;
  }

  PairSieve sieve() const {
    Largest all;
    for (const Largest& part : largest_) {
      all.point = larger(all.point, part.point);
      all.length = larger(all.length, part.length);
      all.residual = larger(all.residual, part.residual);
    }
    const double half = all.length * all.length / 2;
    const auto words = static_cast<double>(words_);
    const double rounding = twice_rounding<float>(4 * words + 20);
    const double per_norm = 2 * all.residual + rounding * all.length;
    const double always =
        rounding * half + (8 * words + 40) * double{std::numeric_limits<float>::min()};
    constexpr double kMost = double{std::numeric_limits<float>::max()} / 4;
    const bool fits = all.point * all.length + half < kMost && all.point < kMost;
    constexpr double kUp = 1.0 + 8.0 * std::numeric_limits<float>::epsilon();
    PairSieve sieve{panels_.data(), halves_.data(), groups(), words_};
    if (fits) {
      sieve.per_norm = static_cast<float>(per_norm * kUp);
      sieve.per_residual = static_cast<float>(2 * all.length * kUp);
      sieve.always = static_cast<float>(always * kUp);
    } else {
      sieve.always = std::numeric_limits<float>::infinity();
    }
    return sieve;
  }

private:
  /// Of a vector seen from the origin; all but the squares are rounded up.
  struct Lengths {
    double squares, exact, rounded, residual;
  };
  struct alignas(64) Largest {
    double point = 0.0, length = 0.0, residual = 0.0; // lengths of points and centroids
  };

  /// Writes sign * (x - origin) in bfloat16, word by word.
  template <typename Word>
  Lengths rounded(const float* x, float sign, Word word) const {
    double exact = 0.0, narrow = 0.0, residual = 0.0;
    for (std::size_t f = 0; f < d_; ++f) {
      const float value = x[f] - origin_[f];
      const float close = rounded_to_bf16(value);
      const double away = double{value} - double{close};
      exact += double{value} * double{value};
      narrow += double{close} * double{close};
      residual += away * away;
      const std::uint32_t bits = std::bit_cast<std::uint32_t>(sign * close) >> 16;
      std::uint32_t& both = word(f / 2);
      both = f % 2 == 0 ? bits : both | bits << 16;
    }
    const double up = 1.0 + static_cast<double>(d_ + 8) * std::numeric_limits<double>::epsilon() +
                      2.0 * std::numeric_limits<float>::epsilon();
    const double subtraction = std::sqrt(exact) * std::numeric_limits<float>::epsilon();
    return {exact, std::sqrt(exact) * up, std::sqrt(narrow) * up,
            (std::sqrt(residual) + subtraction) * up};
  }

  std::size_t panel_index(std::size_t j, std::size_t w) const {
    const std::size_t panel = j / rows_ * rows_ * words_;
    return tiles_ ? panel + w / kTile * kTile * kTile + j % kTile * kTile + w % kTile
                  : panel + w * rows_ + j % rows_;
  }

  std::size_t d_ = 0, k_ = 0;
  bool tiles_ = false;
  std::size_t words_ = 0, rows_ = 1, padded_ = 0;
  std::vector<float> origin_;              // [d]
  UntouchedVector<std::uint32_t> columns_; // [n, words] in blocks of 16 points
  UntouchedVector<float> norms_, residuals_;
  AlignedVector<std::uint32_t> panels_; // [padded, words]
  std::vector<float> halves_;           // [padded]
  std::vector<Largest> largest_;        // by part
};

} // namespace clusterbench::simd
