// The ratio of two cells' medians with its interval, the rounds of each cell taken into account.
#pragma once

#include "harness/run/statistics.hpp"

#include <cstdint>
#include <vector>

namespace clusterbench {

/// The samples of one cell: one list for each round, that is for each process.
using Rounds = std::vector<std::vector<double>>;

/// The median over rounds of the rounds' medians. Throws as median() does.
double median_of_rounds(const Rounds& rounds);

struct RatioOfMedians {
  double ratio = 1.0;            ///< new / base
  Interval interval;             ///< 95 % bootstrap interval
  std::vector<double> log_draws; ///< the bootstrap's logarithms of the ratio, in order of drawing
};

/// Bootstraps new / base in two stages (Davison and Hinkley 1997, section 3.8): rounds are drawn,
/// then samples within each. R drawn rounds vary (R - 1) / R as much as rounds do; the deviations
/// are stretched to make up for it. One round stands for itself: what differs between processes is
/// then unseen. Throws std::invalid_argument for an empty round or a median that is not positive.
RatioOfMedians ratio_of_medians(const Rounds& base, const Rounds& fresh,
                                std::size_t resamples = 2000, std::uint64_t seed = 1);

} // namespace clusterbench
