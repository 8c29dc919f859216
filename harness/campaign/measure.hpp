// Takes the samples of a cell with Google Benchmark as the engine.
#pragma once

#include "harness/campaign/sampling.hpp"

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace clusterbench {

struct Samples {
  std::vector<double> seconds; ///< every kept sample, in order
  std::vector<double> warm_up; ///< the seconds of those before them, which are not kept
  std::string ended_because;   ///< why no more samples were taken
  nlohmann::json context;      ///< Google Benchmark's description of the machine
  nlohmann::json row;          ///< Google Benchmark's row of the first kept sample
  std::vector<double> cpu_ms;  ///< Google Benchmark's cpu_time of every kept sample
};

/// Calls `timed_run`, which returns its own seconds, as often as next_step() asks; before each time
/// `wait`, which returns how long it waited, and that counts nowhere. Throws what they throw.
Samples take_samples(
    const std::string& name, const SamplingPlan& plan, const std::function<double()>& timed_run,
    const std::function<double()>& wait = [] { return 0.0; });

} // namespace clusterbench
