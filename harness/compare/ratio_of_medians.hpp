// The ratio of two cells' medians with its interval, the rounds of each cell taken into account.
#pragma once

#include "harness/run/rounds.hpp"

#include <cstdint>
#include <vector>

namespace clusterbench {

struct RatioOfMedians {
  double ratio = 1.0; ///< new / base
  Interval interval;  ///< 95 % bootstrap interval, or the range
  bool is_range =
      false; ///< one side has not enough_for_interval(): least new / greatest base, and so on
  std::vector<double> log_draws; ///< the bootstrap's logarithms of the ratio, in order of drawing
};

/// Bootstraps new / base with RoundsResampler. Throws std::invalid_argument for an empty round or a
/// median that is not positive.
RatioOfMedians ratio_of_medians(const Rounds& base, const Rounds& fresh,
                                std::size_t resamples = 2000, std::uint64_t seed = 1);

} // namespace clusterbench
