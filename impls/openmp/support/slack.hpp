// Bounds of distances that hold in spite of rounding: the arithmetic of every skipped distance.
//
// u: unit roundoff of T. D: a squared distance, exact; D': as computed, by differences. Each term
// of its sum is off by (1 + u)^3, the sum by (1 + u)^(d-1) in whatever order, and squares that
// underflow by t = d 2^-149 (in double d 2^-1074) in all:
//   |D' - D| <= g D + t,  g = (d + 2) u / (1 - (d + 2) u) <= 1.07 (d + 2) u  for d <= 2^20.
// So sqrt(D) <= (sqrt(D') + sqrt(t)) (1 - g)^(-1/2)
// and sqrt(D) >= (sqrt(D') - sqrt(t)) (1 + g)^(-1/2).
// r = 2 (d + 16) u exceeds g / 2 by more than 20 u, which pays for the roundings of the bound
// itself, and kTiny exceeds 2 sqrt(t). A bound is never negative, since distances are not.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

namespace clusterbench::openmp {

/// The largest d for which the constants above hold.
constexpr std::size_t kMaxD = std::size_t{1} << 20;

template <typename T>
class Slack {
public:
  explicit Slack(std::size_t d)
      : more_(1 + static_cast<T>(d + 16) * kEpsilon), less_(1 - static_cast<T>(d + 16) * kEpsilon) {
  }

  /// At least the distance whose computed square this is.
  T upper(T squared) const { return std::sqrt(squared) * more_ + kTiny; }

  /// At most that distance.
  T lower(T squared) const { return std::max(std::sqrt(squared) * less_ - kTiny, T{0}); }

  /// An upper bound after its centroid has moved, or the sum of two upper bounds.
  T plus(T upper, T moved) const { return (upper + moved) * (1 + 2 * kEpsilon); }

  /// A lower bound after its centroid has moved.
  T minus(T lower, T moved) const { return std::max((lower - moved) * (1 - 2 * kEpsilon), T{0}); }

  /// A lower bound that never has to be touched while its centroid moves: raised by the way that
  /// the centroid has gone until now, it is compared after subtracting the way gone until then.
  /// Ways are sums by plus(), so their difference is at least the way between.
  T since(T lower, T way) const { return (lower + way) * (1 - 2 * kEpsilon); }

  /// What a lower bound must exceed for its centroid to be farther than the one with this upper
  /// bound not only exactly, but as computed too, D'_a < D'_j: from l > upper (1 + r) + kTiny,
  ///   D'_j >= l^2 (1 - g) - t >= upper^2 (1 + r)^2 (1 - g) + kTiny^2 (1 - g) - t
  ///        >  upper^2 (1 + g) + t >= D'_a,
  /// as (1 + r)^2 (1 - g) > 1 + g with room for the rounding of the difference in since().
  /// Half of a lower bound of the distance between both centroids may take the place of l: if
  /// s > upper, then the distance to the other is at least 2 s - upper > s.
  T must_exceed(T upper) const { return upper * more_ + kTiny; }

private:
  static constexpr T kEpsilon = std::numeric_limits<T>::epsilon(); // 2 u
  static constexpr T kTiny = sizeof(T) == sizeof(float) ? T(0x1p-60) : T(0x1p-500);
  T more_, less_; // 1 + r, 1 - r: exact
};

} // namespace clusterbench::openmp
