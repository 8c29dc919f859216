// Sums of float values as integers, so that what is taken away again leaves nothing behind.
//
// The unit of a feature is a power of two: its largest value is less than 2^b units, as many values
// as there are points still sum to less than 2^62, and b is at most 50. A value that is no multiple
// of the unit is rounded; that can only be one of less than 2^23 units, since a float has 24 bits.
// A sum is off by half a unit for each such value in it, whatever came and went before.
//
// Which sums are near enough: let `small` be the most values of less than 2^23 units, zeros among
// them, that a feature has which is rounded at all.
//   More than 2 small points:    half of them are 2^23 units at least, and at most as many again
//                                were rounded. The sum is off by 2^-24 of their magnitudes.
//   A mean of 2^22 units:        half a unit for each point is 2^-23 of it.
// Both are within the rounding that is allowed to any sum of floats. What is neither, a cluster that
// is almost zero in a feature, is to be summed anew, in double.
#pragma once

#include "impls/simd/support/aligned.hpp"
#include "impls/simd/support/team.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

namespace clusterbench::simd {

/// Units of the features of points, and what sums in these units mean.
class FixedSums {
public:
  FixedSums() = default;

  /// points [n, d]
  FixedSums(std::span<const float> points, std::size_t n, std::size_t d, Team& team)
      : points_(points), d_(d), scales_(padded<double>(d)), units_(padded<double>(d)) {
    const Ranges ranges = ranges_of(n, team);
    const int room = 62 - static_cast<int>(std::bit_width(n));
    for (std::size_t f = 0; f < d; ++f) {
      const float most = std::bit_cast<float>(ranges.largest[f]);
      if (!std::isfinite(most)) {
        return;
      }
      const int digits = std::min(room, kMostDigits) - (most > 0.0f ? std::ilogb(most) + 1 : 0);
      scales_[f] = std::ldexp(1.0, digits);
      units_[f] = std::ldexp(1.0, -digits);
    }
    small_ = most_small(n, ranges, team);
    usable_ = true;
  }

  /// False for values that are not finite: there are no such sums then.
  bool usable() const { return usable_; }

  /// What the kernel needs.
  FixedPoint kernel() const { return {scales_.data(), points_.data() + points_.size()}; }

  /// Values of a row of sums: padded to whole registers.
  std::size_t width() const { return scales_.size(); }

  /// The sum of feature f over `count` points, from the integers that the kernel added up.
  double value(std::uint64_t sum, double count, std::size_t f) const {
    const auto constants =
        static_cast<std::uint64_t>(count) * std::bit_cast<std::uint64_t>(kIntegersFrom);
    return static_cast<double>(static_cast<std::int64_t>(sum - constants)) * units_[f];
  }

  /// Whether a sum over `count` points is as near as a sum of floats has to be.
  bool near_enough(double sum, double count, std::size_t f) const {
    return count > 2.0 * small_ || std::abs(sum) >= 0x1p22 * count * units_[f];
  }

private:
  static constexpr int kMostDigits = 50;
  static constexpr std::size_t kValues = 1024; ///< that are looked at side by side

  /// Magnitudes as the bits of floats, which are in the same order; infinity and what is not a number
  /// are above all others.
  struct Ranges {
    std::vector<std::uint32_t> largest;            ///< by feature
    std::vector<std::vector<std::uint32_t>> least; ///< by thread, of each of its blocks
  };

  /// work(thread, block of the thread, its first value, values), over all points. Rows side by side
  /// make loops that the compiler turns into vectors, however few features there are.
  template <class Work>
  void each_block(std::size_t n, Team& team, Work work) const {
    const std::size_t rows = rows_of_block();
    team.run([&](std::size_t t) {
      const auto [begin, end] = share_of(n, t, team.size());
      for (std::size_t i = begin, block = 0; i < end; i += rows, ++block) {
        work(t, block, &points_[i * d_], std::min(rows, end - i) * d_);
      }
    });
  }

  std::size_t rows_of_block() const { return std::max<std::size_t>(kValues / d_, 1); }

  Ranges ranges_of(std::size_t n, Team& team) const {
    const std::size_t block = rows_of_block() * d_;
    std::vector<std::vector<std::uint32_t>> found(team.size(), std::vector<std::uint32_t>(block));
    Ranges ranges{std::vector<std::uint32_t>(d_), {}};
    ranges.least.resize(team.size());
    each_block(n, team, [&](std::size_t t, std::size_t, const float* x, std::size_t count) {
      std::uint32_t* most = found[t].data();
      std::uint32_t least = std::numeric_limits<std::uint32_t>::max();
      for (std::size_t c = 0; c < count; ++c) {
        const std::uint32_t bits = std::bit_cast<std::uint32_t>(x[c]) & 0x7fffffffu;
        most[c] = bits > most[c] ? bits : most[c];
        least = bits < least ? bits : least;
      }
      ranges.least[t].push_back(least);
    });
    for (const auto& part : found) {
      for (std::size_t c = 0; c < block; ++c) {
        ranges.largest[c % d_] = std::max(ranges.largest[c % d_], part[c]);
      }
    }
    return ranges;
  }

  /// Reads again the blocks with values that are small in some feature: few, unless there are zeros.
  double most_small(std::size_t n, const Ranges& ranges, Team& team) const {
    const std::size_t block = rows_of_block() * d_;
    std::vector<double> scale(block);
    for (std::size_t c = 0; c < block; ++c) {
      scale[c] = scales_[c % d_];
    }
    const auto limit = static_cast<float>(0x1p23 * *std::ranges::max_element(units_));
    const std::uint32_t small_below = std::max(std::bit_cast<std::uint32_t>(limit), 1u); // zero is
    struct Found {
      std::vector<std::uint32_t> small, rounded;
    };
    std::vector<Found> found(
        team.size(), {std::vector<std::uint32_t>(block), std::vector<std::uint32_t>(block)});
    each_block(n, team, [&](std::size_t t, std::size_t b, const float* x, std::size_t count) {
      if (ranges.least[t][b] >= small_below) {
        return;
      }
      std::uint32_t *small = found[t].small.data(), *rounded = found[t].rounded.data();
      for (std::size_t c = 0; c < count; ++c) {
        const double scaled = double{x[c]} * scale[c];
        small[c] += std::abs(scaled) < 0x1p23 ? 1 : 0;
        rounded[c] |= (scaled + kIntegersFrom) - kIntegersFrom != scaled ? 1 : 0;
      }
    });
    double most = 0.0;
    for (std::size_t f = 0; f < d_; ++f) {
      double small = 0.0;
      bool rounded = false;
      for (const Found& part : found) {
        for (std::size_t c = f; c < block; c += d_) {
          small += part.small[c];
          rounded |= part.rounded[c] != 0;
        }
      }
      most = rounded ? std::max(most, small) : most;
    }
    return most;
  }

  std::span<const float> points_;
  std::size_t d_ = 0;
  AlignedVector<double> scales_; // units in 1, by feature; 0 beyond the last
  AlignedVector<double> units_;
  double small_ = 0.0;
  bool usable_ = false;
};

} // namespace clusterbench::simd
