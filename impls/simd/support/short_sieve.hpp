// What the sieve needs in integers of 16 bits: points and centroids seen from a point amidst the
// data, in units, two features in a word, and a bound of what rounding to units can do to a score.
//
// Score: s = |c'|^2 / 2 - x'.c', x' = x - m, c' = c - m. With A units in 1 for points and B for
// centroids, x^ = x' A and c^ = c' B rounded to integers, the score in units of 1 / (A B) is
//   S = round(A B |c'|^2 / 2) - x^.c^,
// in which integers are multiplied and added: nothing is rounded once it is in units. A and B are
// so large that |x^|, |c^| and the sums just fit: whatever part of the features is added up,
// |x^.c^| <= |x^| |c^|. Residuals r >= |x' A - x^|, R >= |c' B - c^|, the largest of all:
//   |A B x'.c' - x^.c^| <= r |c'| B + |x^| R    by Cauchy and Schwarz
// One more is lost by rounding |c'|^2 / 2, seven by three last bits that are replaced. Twice all
// that is the margin in which another centroid may be the nearest. Values in bfloat16 have 8 bits
// and leave residuals many times as large; these have up to 16, since they need no exponents.
#pragma once

#include "impls/simd/support/aligned.hpp"
#include "impls/simd/support/dispatch.hpp"
#include "impls/simd/support/sieve.hpp"
#include "impls/simd/support/team.hpp"

#include <bit>
#include <cstdint>

namespace clusterbench::simd {

template <typename T>
class ShortSieveMaker {
public:
  using Real = T;
  using Kernel = ShortKernel<T>;
  using Score = std::int32_t;

  ShortSieveMaker() = default;

  /// points [n, d]. As many parts pack() as the team has threads.
  ShortSieveMaker(std::span<const T> points, std::size_t n, std::size_t d, std::size_t k,
                  const ShortKernel<T>& /*kernel*/, Team& team)
      : d_(d), k_(k), words_((d + 1) / 2), groups_((k + kPairGroup - 1) / kPairGroup),
        origin_(middle_of(points, n, d)), columns_(rounded_up(n) * words_),
        panels_(groups_ * kPairGroup * words_), halves_(groups_ * kPairGroup, kNobody),
        largest_(team.size()) {
    const Kernels<T>& kernels = *executable_kernels<T>().back();
    const auto each_block = [&](auto work) {
      team.run([&](std::size_t t) {
        AlignedVector<T> block(kRoundUp * d);
        T squares[kRoundUp];
        const auto [begin, end] = share_of(n, t, team.size());
        for (std::size_t i = begin; i < end; i += kRoundUp) {
          const Chunk<T> chunk{&points[i * d], nullptr, std::min(kRoundUp, end - i), d};
          kernels.columns_and_squares(chunk, origin_.data(), block.data(), squares);
          work(largest_[t], i, block.data(), squares);
        }
      });
    };
    each_block([d](Largest& part, std::size_t /*i*/, const T* /*block*/, const T* squares) {
      for (std::size_t r = 0; r < kRoundUp; ++r) {
        part.point = larger(part.point, double{rounded_up_to_norm<T>(squares[r], d)});
      }
    });
    for (const Largest& part : largest_) {
      point_ = larger(point_, part.point);
    }
    fits_ = std::isfinite(point_);
    units_ = fits_ ? double{static_cast<T>(kMostUnits / point_)} : 0.0;
    each_block([&](Largest& part, std::size_t i, const T* block, const T* /*squares*/) {
      for (std::size_t b = 0; b < kRoundUp / kernels.lanes; ++b) {
        in_units(part, i + b * kernels.lanes, kernels.lanes, block + b * kernels.lanes * d);
      }
    });
  }

  std::size_t groups() const { return groups_; }

  const std::uint32_t* columns(std::size_t i) const { return &columns_[i * words_]; }

  /// The longest of the centroids [k, d] decides the unit, so every part looks at all of them, and
  /// packs its share. All parts must be done before sieve().
  void pack(std::span<const T> centroids, std::size_t part) {
    const std::size_t parts = largest_.size();
    double squares = 0.0;
    for (std::size_t j = 0; j < k_; ++j) {
      squares = larger(squares, squares_of(&centroids[j * d_]));
    }
    const auto longest = rounded_up_to_norm<double>(squares, d_);
    Largest& mine = largest_[part];
    mine.centroid = longest;
    mine.residual = 0.0;
    // The second for sums of squares, where centroids lie farther away than points.
    const double units = std::min(kMostUnits / longest, kMostUnits * point_ / (longest * longest));
    mine.units = std::isfinite(units) ? units : 0.0;
    for (std::size_t j = k_ * part / parts; j < k_ * (part + 1) / parts; ++j) {
      pack_one(&centroids[j * d_], j, mine);
    }
  }

  ShortSieve sieve() const {
    double residual = 0.0, of_points = 0.0;
    for (const Largest& part : largest_) {
      residual = larger(residual, part.residual);
      of_points = larger(of_points, part.point_residual);
    }
    const Largest& any = largest_.front();
    constexpr double kUp = 1.0 + 0x1p-20; // for the rounding of these few operations
    const double error =
        (of_points * any.centroid * any.units + (point_ * units_ + of_points) * residual) * kUp +
        9.0;
    constexpr double kMost = 0x1p30;
    const bool fits = fits_ && units_ > 0.0 && any.units > 0.0 && 2.0 * error < kMost;
    return {panels_.data(), halves_.data(), groups_, words_,
            fits ? static_cast<std::int32_t>(2.0 * error) + 1 : kNobody};
  }

private:
  static constexpr double kMostUnits = 32000.0; ///< of a length; a value fits 16 bits, a product 30
  static constexpr std::int32_t kNobody = 0x7fffffff; ///< a score that no centroid has

  struct alignas(64) Largest {
    double point = 0.0, point_residual = 0.0, centroid = 0.0, residual = 0.0; // lengths
    double units = 0.0;
  };

  double squares_of(const T* c) const {
    double squares = 0.0;
    for (std::size_t f = 0; f < d_; ++f) {
      const double value = double{c[f]} - double{origin_[f]};
      squares += value * value;
    }
    return squares;
  }

  static std::uint32_t word(std::int32_t low, std::int32_t high) {
    return (static_cast<std::uint32_t>(low) & 0xffffu) | static_cast<std::uint32_t>(high) << 16;
  }

  /// Points i to i + lanes - 1, of which `block` has the columns [d, lanes]. Residuals: what
  /// rounding to units leaves, and what the subtraction of the origin has rounded off.
  void in_units(Largest& part, std::size_t i, std::size_t lanes, const T* block) {
    std::uint32_t* column = &columns_[i / kTile * words_ * kTile + i % kTile];
    const auto units = static_cast<T>(units_);
    T left[kTile] = {};
    if (!fits_) {
      for (std::size_t w = 0; w < words_; ++w) {
        std::fill_n(column + w * kTile, lanes, 0u);
      }
      return;
    }
    for (std::size_t f = 0; f < d_; f += 2) {
      for (std::size_t l = 0; l < lanes; ++l) {
        const T a = block[f * lanes + l] * units;
        const T b = f + 1 < d_ ? block[(f + 1) * lanes + l] * units : T{0};
        const T near_a = std::nearbyint(a), near_b = std::nearbyint(b);
        left[l] += (a - near_a) * (a - near_a) + (b - near_b) * (b - near_b);
        column[f / 2 * kTile + l] =
            word(static_cast<std::int32_t>(near_a), static_cast<std::int32_t>(near_b));
      }
    }
    for (std::size_t l = 0; l < lanes; ++l) {
      part.point_residual =
          larger(part.point_residual, bound_of_residual(double{left[l]}, point_ * units_));
    }
  }

  /// squares: of what rounding to units left, added up in T; length: in units.
  double bound_of_residual(double squares, double length) const {
    const double rounding = static_cast<double>(d_ + 8) * std::numeric_limits<T>::epsilon();
    return std::sqrt(squares * (1.0 + rounding)) + 2.0 * length * std::numeric_limits<T>::epsilon();
  }

  void pack_one(const T* c, std::size_t j, Largest& part) {
    std::uint32_t* panel = &panels_[j / kPairGroup * kPairGroup * words_ + j % kPairGroup];
    double left = 0.0;
    std::int32_t low = 0;
    for (std::size_t f = 0; f < d_; ++f) {
      const double exact = (double{c[f]} - double{origin_[f]}) * part.units,
                   near = std::nearbyint(exact);
      left += (exact - near) * (exact - near);
      const auto value = static_cast<std::int32_t>(-near);
      if (f % 2 == 0) {
        low = value;
      }
      panel[f / 2 * kPairGroup] = f % 2 == 0 ? word(value, 0) : word(low, value);
    }
    halves_[j] = static_cast<std::int32_t>(squares_of(c) / 2.0 * units_ * part.units);
    part.residual = larger(part.residual, std::sqrt(left) * (1.0 + 0x1p-20) + 0x1p-20);
  }

  std::size_t d_ = 0, k_ = 0, words_ = 0, groups_ = 0;
  double point_ = 0.0; // length of the longest
  double units_ = 0.0; // of points in 1; 0: there are none
  bool fits_ = false;
  std::vector<T> origin_;                  // [d]
  UntouchedVector<std::uint32_t> columns_; // [n, words] in blocks of 16 points
  AlignedVector<std::uint32_t> panels_;    // [groups, words, kPairGroup]
  std::vector<std::int32_t> halves_;       // [groups, kPairGroup]
  std::vector<Largest> largest_;           // by part
};

} // namespace clusterbench::simd
