// What sieve_columns needs: points and centroids seen from the middle of the points, and a bound
// of what rounding can do to a score. With the origin there the bound depends on the spread of the
// data and not on where it lies.
//
// Score: s = |c'|^2 / 2 - x'.c', x' = x - m, c' = c - m. Computed from x^ = fl(x'), c^ = fl(c'); u
// is the unit roundoff, a = d u / (1 - d u) the bound of d roundings in a row.
//   x^, c^ are off by u each:   |x'.c' - x^.c^| <= (2 u + u^2) |x^| |c^|, and |c'|^2 / 2 is off by
//                               as many |c^|^2 / 2
//   |c^|^2 / 2 in the widest arithmetic, rounded:         at most (d + 2) u of itself
//   d multiplications and additions, fused or not, to it: a(d + 1) (|x^| |c^| + |c^|^2 / 2)
//   up to three last bits replaced:                       7 units in the last place, <= 14 u of it
//   products that underflow:                              half the smallest number each
// So a score is off by less than a(d + 19) |x^| C + a(2 d + 21) C^2 / 2 + tiny, C = max |c^|. If
// s_c is the nearest centroid's and s_a the least, s_c is at most s_a plus twice that; u of each
// for the rounding of that sum. The bound is infinite if a score might overflow: then nothing is
// ruled out.
#pragma once

#include "impls/simd/support/aligned.hpp"
#include "impls/simd/support/kernels.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <type_traits>
#include <vector>

namespace clusterbench::simd {

/// Twice the rounding of d steps, rounded up; infinite if there are too many of them.
template <typename T>
double twice_rounding(double steps) {
  const double share = steps * static_cast<double>(std::numeric_limits<T>::epsilon()) / 2;
  return share < 0.5 ? 2.0 * share / (1.0 - share) * (1.0 + 1e-6)
                     : std::numeric_limits<double>::infinity();
}

/// The larger one, or what is not a number.
inline double larger(double a, double b) {
  return b > a || std::isnan(b) ? b : a;
}

/// At least the length whose square was added up in d steps, some of which may have underflowed.
template <typename T, typename Square>
T rounded_up_to_norm(Square squares, std::size_t d) {
  using Limits = std::numeric_limits<Square>;
  const auto steps = static_cast<Square>(d);
  return static_cast<T>(std::sqrt(squares + steps * Limits::min()) *
                        (1 + (steps + 4) * Limits::epsilon() +
                         2 * static_cast<Square>(std::numeric_limits<T>::epsilon())));
}

/// The mean of some of [n, d] points, at equal distances, rounded: any origin is right, and one
/// near the middle makes bounds short.
template <typename T>
std::vector<T> middle_of(std::span<const T> points, std::size_t n, std::size_t d) {
  constexpr std::size_t kMost = 256;
  const std::size_t count = std::min(n, kMost);
  std::vector<double> sums(d);
  for (std::size_t s = 0; s < count; ++s) {
    const T* row = &points[s * n / count * d];
    for (std::size_t f = 0; f < d; ++f) {
      sums[f] += double{row[f]};
    }
  }
  std::vector<T> mean(d);
  std::ranges::transform(sums, mean.begin(), [&](double sum) {
    return static_cast<T>(sum / static_cast<double>(count));
  });
  return mean;
}

template <typename T>
class SieveMaker {
public:
  SieveMaker() = default;

  /// points [n, d], which as many parts as there are threads are to take() and pack().
  SieveMaker(std::span<const T> points, std::size_t n, std::size_t d, std::size_t k,
             const Kernels<T>& kernels, std::size_t threads)
      : points_(points), kernels_(&kernels), d_(d), k_(k), group_(kernels.sieve_group),
        groups_((k + group_ - 1) / group_), origin_(middle_of(points, n, d)),
        columns_(rounded_up(n) * d), norms_(rounded_up(n)), panels_(groups_ * group_ * d),
        halves_(groups_ * group_, std::numeric_limits<T>::max() / 2), longest_(threads) {}

  /// Thread t copies `count` points from point i on, a multiple of kRoundUp or all that are left.
  void take(std::size_t t, std::size_t i, std::size_t count) {
    const Chunk<T> chunk{&points_[i * d_], nullptr, count, d_};
    kernels_->columns_and_squares(chunk, origin_.data(), &columns_[i * d_], &norms_[i]);
    Bits longest = 0;
    for (const std::size_t end = i + rounded_up(count); i < end; ++i) {
      norms_[i] = rounded_up_to_norm<T>(norms_[i], d_);
      longest = std::max(longest, std::bit_cast<Bits>(norms_[i]));
    }
    longest_[t].point = larger(longest_[t].point, double{std::bit_cast<T>(longest)});
  }

  const T* columns(std::size_t i) const { return &columns_[i * d_]; }
  const T* norms(std::size_t i) const { return &norms_[i]; }

  /// Packs the share of part `part` of the centroids [k, d]; all parts must be done before sieve().
  void pack(std::span<const T> centroids, std::size_t part) {
    const std::size_t parts = longest_.size();
    double longest = 0.0;
    for (std::size_t g = groups_ * part / parts; g < groups_ * (part + 1) / parts; ++g) {
      for (std::size_t t = 0; t < group_; ++t) {
        if (g * group_ + t >= k_) { // no centroid: of all scores the largest
          for (std::size_t f = 0; f < d_; ++f) {
            panels_[(g * d_ + f) * group_ + t] = 0;
          }
          continue;
        }
        double squares = 0.0;
        for (std::size_t f = 0; f < d_; ++f) {
          const T value = centroids[(g * group_ + t) * d_ + f] - origin_[f];
          panels_[(g * d_ + f) * group_ + t] = -value;
          squares += double{value} * double{value};
        }
        halves_[g * group_ + t] = static_cast<T>(squares / 2);
        longest = larger(longest, double{rounded_up_to_norm<T>(squares, d_)});
      }
    }
    longest_[part].centroid = longest;
  }

  Sieve<T> sieve() const {
    double point = 0.0, longest = 0.0;
    for (const Longest& part : longest_) {
      point = larger(point, part.point);
      longest = larger(longest, part.centroid);
    }
    const auto d = static_cast<double>(d_);
    const double half = longest * longest / 2;
    const double per_norm = twice_rounding<T>(d + 20) * longest;
    const double always = twice_rounding<T>(2 * d + 22) * half +
                          2 * (d + 12) * double{std::numeric_limits<T>::denorm_min()};
    const bool fits = point * longest + half < double{std::numeric_limits<T>::max()} / 4;
    constexpr T kInfinite = std::numeric_limits<T>::infinity();
    constexpr double kUp = 1.0 + 4.0 * std::numeric_limits<T>::epsilon();
    return {panels_.data(), halves_.data(), groups_, fits ? static_cast<T>(per_norm * kUp) : T{0},
            fits ? static_cast<T>(always * kUp) : kInfinite};
  }

private:
  /// Of lengths, they are in the same order, and what is not a number is above all.
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;

  struct alignas(64) Longest {
    double point = 0.0, centroid = 0.0;
  };

  std::span<const T> points_;
  const Kernels<T>* kernels_ = nullptr;
  std::size_t d_ = 0, k_ = 0, group_ = 1, groups_ = 0;
  std::vector<T> origin_;        // [d]
  UntouchedVector<T> columns_;   // [n, d] in blocks of lanes, less the origin
  UntouchedVector<T> norms_;     // [n] at least the lengths of those
  UntouchedVector<T> panels_;    // [groups, d, group] the centroids less the origin, negative
  std::vector<T> halves_;        // [groups, group] half of their squared lengths
  std::vector<Longest> longest_; // by part
};

} // namespace clusterbench::simd
