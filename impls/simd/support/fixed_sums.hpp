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
// Both are within the rounding that is allowed to any sum of floats. What is neither, a cluster
// that is almost zero in a feature, is to be summed anew, in double.
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

  /// points [n, d], which the threads are to look() at.
  FixedSums(std::span<const float> points, std::size_t d, std::size_t threads)
      : points_(points), d_(d), scales_(padded<double>(d)), units_(padded<double>(d)),
        ranges_(threads, Ranges{std::vector<std::uint32_t>(values_of_block()), {}}) {}

  /// Thread t looks at `count` of its points, from point i on: all of its share, in order,
  /// multiples of kRoundUp at a time, so that they are in the cache for whoever reads them next.
  void look(std::size_t t, std::size_t i, std::size_t count) {
    std::uint32_t* most = ranges_[t].largest.data();
    each_block(i, count, [&](const float* x, std::size_t values) {
      std::uint32_t least = std::numeric_limits<std::uint32_t>::max();
      for (std::size_t c = 0; c < values; ++c) {
        const std::uint32_t bits = std::bit_cast<std::uint32_t>(x[c]) & 0x7fffffffu;
        most[c] = bits > most[c] ? bits : most[c];
        least = bits < least ? bits : least;
      }
      ranges_[t].least.push_back(least);
    });
  }

  /// All points were looked at: decides the units.
  void settle(Team& team) {
    const std::size_t n = points_.size() / d_;
    std::vector<std::uint32_t> largest(d_);
    for (const Ranges& part : ranges_) {
      for (std::size_t c = 0; c < part.largest.size(); ++c) {
        largest[c % d_] = std::max(largest[c % d_], part.largest[c]);
      }
    }
    const int room = 62 - static_cast<int>(std::bit_width(n));
    for (std::size_t f = 0; f < d_; ++f) {
      const float most = std::bit_cast<float>(largest[f]);
      if (!std::isfinite(most)) {
        return;
      }
      const int digits = std::min(room, kMostDigits) - (most > 0.0f ? std::ilogb(most) + 1 : 0);
      scales_[f] = std::ldexp(1.0, digits);
      units_[f] = std::ldexp(1.0, -digits);
    }
    small_ = most_small(n, team);
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

  /// What one thread found: magnitudes as the bits of floats, which are in the same order; infinity
  /// and what is not a number are above all others.
  struct alignas(64) Ranges {
    std::vector<std::uint32_t> largest; ///< by place in a block
    std::vector<std::uint32_t> least;   ///< of each of its blocks
  };

  /// A share of kRoundUp, so that blocks are the same wherever a thread's reading pauses.
  std::size_t rows_of_block() const {
    return std::bit_floor(std::clamp<std::size_t>(kValues / d_, 1, kRoundUp));
  }
  std::size_t values_of_block() const { return rows_of_block() * d_; }

  /// work(first value, values), block after block. Rows side by side make loops that the compiler
  /// turns into vectors, however few features there are.
  template <class Work>
  void each_block(std::size_t i, std::size_t count, Work work) const {
    const std::size_t rows = rows_of_block();
    for (std::size_t r = 0; r < count; r += rows) {
      work(&points_[(i + r) * d_], std::min(rows, count - r) * d_);
    }
  }

  /// Reads again the blocks with values that are small in some feature: few, unless there are
  /// zeros.
  double most_small(std::size_t n, Team& team) const {
    const std::size_t block = values_of_block();
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
    team.run([&](std::size_t t) {
      std::uint32_t *small = found[t].small.data(), *rounded = found[t].rounded.data();
      auto least = ranges_[t].least.begin();
      const auto [begin, end] = share_of(n, t, team.size());
      for (std::size_t i = begin; i < end; i += kRoundUp) {
        each_block(i, std::min(kRoundUp, end - i), [&](const float* x, std::size_t values) {
          if (*least++ >= small_below) {
            return;
          }
          for (std::size_t c = 0; c < values; ++c) {
            const double scaled = double{x[c]} * scale[c];
            small[c] += std::abs(scaled) < 0x1p23 ? 1 : 0;
            rounded[c] |= (scaled + kIntegersFrom) - kIntegersFrom != scaled ? 1 : 0;
          }
        });
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
  std::vector<Ranges> ranges_; // by thread
  double small_ = 0.0;
  bool usable_ = false;
};

} // namespace clusterbench::simd
