// What sieve_columns needs: points and centroids seen from the mean of the points, and a bound of
// what rounding can do to a score. With the origin at the mean the bound depends on the spread of
// the data and not on where it lies.
//
// Score: s = |c'|^2 / 2 - x'.c', x' = x - m, c' = c - m. Computed from x^ = fl(x'), c^ = fl(c'); u is
// the unit roundoff, a = d u / (1 - d u) the bound of d roundings in a row.
//   x^, c^ are off by u each:   |x'.c' - x^.c^| <= (2 u + u^2) |x^| |c^|, |c'|^2 / 2 by as many |c^|^2 / 2
//   |c^|^2 / 2 in the widest arithmetic, rounded:         at most (d + 2) u of itself
//   d multiplications and additions, fused or not, to it: a(d + 1) (|x^| |c^| + |c^|^2 / 2)
//   up to three last bits replaced:                       7 units in the last place, <= 14 u of it
//   products that underflow:                              half the smallest number each
// So a score is off by less than a(d + 19) |x^| C + a(2 d + 21) C^2 / 2 + tiny, C = max |c^|. If s_c is
// the nearest centroid's and s_a the least, s_c is at most s_a plus twice that; u of each for the
// rounding of that sum. The bound is infinite if a score might overflow: then nothing is ruled out.
#pragma once

#include "impls/simd/support/columns.hpp"

#include <cmath>
#include <limits>

namespace clusterbench::simd {

/// Twice the rounding of d steps, rounded up; infinite if there are too many of them.
template <typename T>
double twice_rounding(double steps) {
  const double share = steps * static_cast<double>(std::numeric_limits<T>::epsilon()) / 2;
  return share < 0.5 ? 2.0 * share / (1.0 - share) * (1.0 + 1e-6)
                     : std::numeric_limits<double>::infinity();
}

/// The mean of points [n, d], rounded.
template <typename T>
std::vector<T> mean_of(std::span<const T> points, std::size_t n, std::size_t d) {
  std::vector<double> sums(d);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t f = 0; f < d; ++f) {
      sums[f] += double{points[i * d + f]};
    }
  }
  std::vector<T> mean(d);
  std::ranges::transform(sums, mean.begin(),
                         [n](double sum) { return static_cast<T>(sum / static_cast<double>(n)); });
  return mean;
}

template <typename T>
class SieveMaker {
public:
  SieveMaker() = default;

  /// points [n, d]; group and lanes are the kernels'. parts: threads that pack().
  SieveMaker(std::span<const T> points, std::size_t n, std::size_t d, std::size_t k,
             std::size_t group, std::size_t lanes, std::size_t parts)
      : d_(d), k_(k), group_(group), groups_((k + group - 1) / group),
        origin_(mean_of(points, n, d)), columns_(as_columns(points, n, d, lanes, origin_.data())),
        norms_(rounded_up(n)), panels_(groups_ * group * d),
        halves_(groups_ * group, std::numeric_limits<T>::max() / 2), longest_centroid_(parts) {
    for (std::size_t i = 0; i < norms_.size(); ++i) {
      const T* x = &points[std::min(i, n - 1) * d];
      double squares = 0.0;
      for (std::size_t f = 0; f < d; ++f) {
        const double value{x[f] - origin_[f]};
        squares += value * value;
      }
      norms_[i] = rounded_up_to_norm(squares);
      longest_point_ =
          norms_[i] > longest_point_ || std::isnan(norms_[i]) ? norms_[i] : longest_point_;
    }
  }

  const T* columns(std::size_t i) const { return &columns_[i * d_]; }
  const T* norms(std::size_t i) const { return &norms_[i]; }

  /// Packs the share of part `part` of the centroids [k, d]; all parts must be done before sieve().
  void pack(const std::vector<T>& centroids, std::size_t part) {
    const std::size_t parts = longest_centroid_.size();
    double longest = 0.0;
    for (std::size_t g = groups_ * part / parts; g < groups_ * (part + 1) / parts; ++g) {
      for (std::size_t t = 0; t < group_ && g * group_ + t < k_; ++t) {
        double squares = 0.0;
        for (std::size_t f = 0; f < d_; ++f) {
          const T value = centroids[(g * group_ + t) * d_ + f] - origin_[f];
          panels_[(g * d_ + f) * group_ + t] = -value;
          squares += double{value} * double{value};
        }
        halves_[g * group_ + t] = static_cast<T>(squares / 2);
        const double length{rounded_up_to_norm(squares)};
        longest = length > longest || std::isnan(length) ? length : longest;
      }
    }
    longest_centroid_[part].value = longest;
  }

  Sieve<T> sieve() const {
    double longest = 0.0;
    for (const Padded& part : longest_centroid_) {
      longest = part.value > longest || std::isnan(part.value) ? part.value : longest;
    }
    const auto d = static_cast<double>(d_);
    const double half = longest * longest / 2;
    const double per_norm = twice_rounding<T>(d + 20) * longest;
    const double always = twice_rounding<T>(2 * d + 22) * half +
                          2 * (d + 12) * double{std::numeric_limits<T>::denorm_min()};
    const bool fits =
        double{longest_point_} * longest + half < double{std::numeric_limits<T>::max()} / 4;
    constexpr T kInfinite = std::numeric_limits<T>::infinity();
    constexpr double kUp = 1.0 + 4.0 * std::numeric_limits<T>::epsilon();
    return {panels_.data(), halves_.data(), groups_, fits ? static_cast<T>(per_norm * kUp) : T{0},
            fits ? static_cast<T>(always * kUp) : kInfinite};
  }

private:
  struct alignas(64) Padded {
    double value = 0.0;
  };

  /// At least the length whose square was added up in d steps of double, some of which may have
  /// underflowed.
  T rounded_up_to_norm(double squares) const {
    const double steps = static_cast<double>(d_) * std::numeric_limits<double>::epsilon();
    const double lost = static_cast<double>(d_) * std::numeric_limits<double>::min();
    return static_cast<T>(std::sqrt(squares + lost) *
                          (1.0 + steps + 2.0 * std::numeric_limits<T>::epsilon()));
  }

  std::size_t d_ = 0, k_ = 0, group_ = 1, groups_ = 0;
  std::vector<T> origin_;  // [d]
  std::vector<T> columns_; // [n, d] in blocks of lanes, less the origin
  std::vector<T> norms_;   // [n] at least the lengths of those
  std::vector<T> panels_, halves_;
  std::vector<Padded> longest_centroid_; // by part
  T longest_point_ = 0;
};

} // namespace clusterbench::simd
