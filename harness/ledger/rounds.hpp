// Samples of one cell from several rounds, that is from several processes: what they say together.
#pragma once

#include "harness/ledger/statistics.hpp"

#include <cstdint>
#include <random>
#include <vector>

namespace clusterbench {

/// The samples of one cell: one list for each round.
using Rounds = std::vector<std::vector<double>>;

/// Of a short cell, where nobody says how many: enough to tell two campaigns of it apart.
inline constexpr std::size_t kUsualRounds = 8;

// Everything here throws as median() does, for an empty round as well as for no round.

std::vector<double> medians_of_rounds(const Rounds& rounds);

/// The median over rounds of the rounds' medians: no round counts more because it has more samples.
double median_of_rounds(const Rounds& rounds);

/// The median of |sample - median_of_rounds()| over all samples of all rounds.
double deviation_of_rounds(const Rounds& rounds);

/// Draws what the median of rounds might have been, in two stages (Davison and Hinkley 1997,
/// section 3.8): rounds are drawn, then samples within each. R drawn rounds vary (R - 1) / R as
/// much as rounds do; the deviations are stretched to make up for it. One round stands for itself:
/// what differs between processes is then unseen.
class RoundsResampler {
public:
  /// Both must outlive this. Times must be positive: their logarithms are what is stretched.
  RoundsResampler(const Rounds& rounds, std::mt19937_64& random);

  /// Logarithm of the median of rounds.
  double centre() const { return centre_; }
  /// Logarithm of a drawn one.
  double draw();

private:
  const Rounds& rounds_;
  std::mt19937_64& random_;
  double centre_;
  double stretch_ = 1.0;
  std::vector<double> medians_, drawn_;
};

/// Of fewer rounds, but for one, nothing is known that holds the median of processes in 95 %.
inline constexpr std::size_t kLeastRoundsForInterval = 4;

/// Whether the rounds are enough for a 95 % interval; of one round, whether its samples are.
bool enough_for_interval(const Rounds& rounds);

/// From the least to the greatest: of the rounds' medians, or of one round's samples.
Interval range_of_rounds(const Rounds& rounds);

/// The rounds of a cell as one figure.
struct PooledRounds {
  double median = 0.0; ///< median_of_rounds()
  double mad = 0.0;    ///< deviation_of_rounds()
  /// 95 %, with what differs between rounds; of one round its own. Where there is not
  /// enough_for_interval(), range_of_rounds().
  Interval interval;
  bool is_range = false; ///< the latter
};
PooledRounds pool_rounds(const Rounds& rounds, std::uint64_t seed = 1);

} // namespace clusterbench
