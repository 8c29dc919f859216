// The arithmetic of time to quality: when one start gets there, and what restarting costs.
#pragma once

#include "harness/report/quality/attempts.hpp"

#include <limits>
#include <span>

namespace clusterbench {

inline constexpr double kNever = std::numeric_limits<double>::infinity();

/// When an attempt first holds centroids whose inertia is at most a goal.
struct Reached {
  std::size_t passes = 0; ///< 0: never
  double ms = kNever;     ///< a whole answer of so many passes at the run's mean time per pass
};

/// At least one pass counts: labels come out of a pass. An attempt whose passes are not recorded
/// can only get there at its end. One that is not ok never gets there.
Reached time_to_quality(const Attempt& attempt, double goal);

/// What one start of a series costs.
struct StartCost {
  double full_ms = kNever; ///< the whole answer: known once it has ended without success
  double reached_ms = kNever;
};

/// Expected time [ms] of starting again, in the order of the seeds, until a start gets there: the
/// whole runs that fail and the time of the one that succeeds, averaged over the cyclic orders
/// (each seed is the first once). Infinite if none gets there, or if a start without a time is met.
/// Throws std::invalid_argument without starts.
double time_with_restarts(std::span<const StartCost> starts);

/// The middle value, or the mean of the two middle ones; unlike median() it takes infinite values,
/// which sort last. Throws std::invalid_argument without values.
double median_or_never(std::vector<double> values);

} // namespace clusterbench
