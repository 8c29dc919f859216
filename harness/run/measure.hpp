// Takes the samples of a cell with Google Benchmark as the engine.
#pragma once

#include "harness/run/job.hpp"

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace clusterbench {

struct Samples {
  std::vector<double> seconds; ///< every kept sample, in order
  double warm_up_seconds = 0;  ///< the first run, dropped unless it was slow; 0 if kept
  std::string ended_because;   ///< why no more samples were taken
  nlohmann::json context;      ///< Google Benchmark's description of the machine
  nlohmann::json row;          ///< Google Benchmark's row of the first kept sample
  std::vector<double> cpu_ms;  ///< Google Benchmark's cpu_time of every kept sample
};

/// Calls `timed_run`, which returns its own seconds, as often as the plan asks. The first run warms
/// up and is dropped, unless it is slower than plan.slow_seconds, where warming up cannot matter.
/// Throws what `timed_run` throws.
Samples take_samples(const std::string& name, const SamplingPlan& plan,
                     const std::function<double()>& timed_run);

} // namespace clusterbench
