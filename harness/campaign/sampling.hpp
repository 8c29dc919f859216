// How often a cell is sampled within one process: until its median is known well enough, or its
// budget is spent.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>

namespace clusterbench {

/// More than anybody needs, and few enough for the library that takes them.
inline constexpr std::size_t kMostSamples = 1'000'000;

/// The rules; see docs/timing.md, "Sampling".
struct SamplingPlan {
  std::size_t samples = 9;     ///< kept, at least
  double target = 0.01;        ///< enough if the median's interval is no wider, relative to it
  double min_seconds = 0.1;    ///< the samples add up to, before the target counts
  double budget_seconds = 3.0; ///< of sampling, untimed parts included
  /// That a process may wait in all for other programs to leave the processors alone; not sampling.
  double patience_seconds = 0.0;
  std::size_t max_samples = 199; ///< kept, when no more are taken
  double slow_seconds = 1.0;     ///< a run that takes longer has no samples but
  std::size_t slow_samples = 3;  ///< so many whole answers, 2 at least
};

void to_json(nlohmann::json& json, const SamplingPlan& plan);

/// How many of the first samples are warm-up: those that lie, one after another, above Tukey's
/// upper fence of all samples after them, Q3 + 1.5 IQR, and at least 1 % above Q3. At most a
/// quarter of the samples, beyond which the rest's quartiles would be warm-up themselves; so three
/// samples have none. A drift or a step further on is no warm-up: it stays and widens the interval.
std::size_t warm_up_length(std::span<const double> seconds);

/// What to do after some samples.
struct SamplingStep {
  std::size_t warm_up = 0;   ///< of the samples so far, the first ones are to be dropped
  std::size_t more = 0;      ///< samples to take before the next decision; 0: this is the end
  std::string ended_because; ///< if it is
};

/// seconds: all samples so far, in order. elapsed: seconds since sampling began.
///
/// Starts come in cycles of kStartCycle. A plan for so many samples or more takes whole cycles,
/// those of warm-up counted, also where that is more than its largest number. The budget is
/// exceeded by half a cycle at most; the least number of samples is taken whatever it costs.
SamplingStep next_step(const SamplingPlan& plan, std::span<const double> seconds, double elapsed);

} // namespace clusterbench
