#include "harness/campaign/sampling.hpp"

#include "harness/ledger/statistics.hpp"
#include "harness/problem/starts.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

namespace clusterbench {
namespace {

bool takes_cycles(const SamplingPlan& plan) {
  return plan.samples >= kStartCycle;
}

// `wanted` more runs, or so many that all of them are whole cycles.
std::size_t whole_cycles(const SamplingPlan& plan, std::size_t runs, std::size_t wanted) {
  const std::size_t whole = (runs + wanted + kStartCycle - 1) / kStartCycle * kStartCycle;
  return takes_cycles(plan) ? whole - runs : wanted;
}

// What can be afforded: a cycle if half of it can, or at least one run of plans without cycles.
std::size_t affordable_runs(const SamplingPlan& plan, double affordable) {
  if (!takes_cycles(plan)) {
    return std::max<std::size_t>(1, static_cast<std::size_t>(affordable));
  }
  const double cycles = std::round(affordable / static_cast<double>(kStartCycle));
  return static_cast<std::size_t>(cycles) * kStartCycle;
}

} // namespace

void to_json(nlohmann::json& json, const SamplingPlan& plan) {
  json = {{"samples", plan.samples},
          {"target", plan.target},
          {"min_seconds", plan.min_seconds},
          {"budget_seconds", plan.budget_seconds},
          {"patience_seconds", plan.patience_seconds},
          {"max_samples", plan.max_samples},
          {"slow_seconds", plan.slow_seconds},
          {"slow_samples", plan.slow_samples}};
}

std::size_t warm_up_length(std::span<const double> seconds) {
  constexpr double kLeastExcess = 0.01; // samples that hardly differ have a fence of no width
  std::size_t length = 0;
  while (length < seconds.size() / 4) {
    const std::span<const double> rest = seconds.subspan(length + 1);
    const double third_quartile = quantile(rest, 0.75);
    const double reach = 1.5 * (third_quartile - quantile(rest, 0.25));
    if (!(seconds[length] > third_quartile + std::max(reach, kLeastExcess * third_quartile))) {
      break;
    }
    ++length;
  }
  return length;
}

SamplingStep next_step(const SamplingPlan& plan, std::span<const double> seconds, double elapsed) {
  SamplingStep step;
  if (seconds.empty()) {
    step.more = 1; // how long a run takes decides how many there will be
    return step;
  }
  step.warm_up = warm_up_length(seconds);
  const std::span<const double> kept = seconds.subspan(step.warm_up);
  const double each = elapsed / static_cast<double>(seconds.size());
  const double affordable = (plan.budget_seconds - elapsed) / std::max(each, 1e-9);
  if (kept.size() < plan.samples) {
    const std::size_t lacking = plan.samples - kept.size();
    const std::size_t whole = whole_cycles(plan, seconds.size(), lacking);
    step.more = static_cast<double>(whole) <= affordable ? whole : lacking;
    return step;
  }
  const Interval interval = bootstrap_median_interval(kept);
  const bool narrow = interval.high - interval.low <= plan.target * median(kept) &&
                      std::accumulate(kept.begin(), kept.end(), 0.0) >= plan.min_seconds;
  if (narrow) {
    step.ended_because = "the interval is narrow";
  } else if (elapsed >= plan.budget_seconds) {
    step.ended_because = "the budget is spent";
  } else if (kept.size() >= plan.max_samples) {
    step.ended_because = "largest number of samples";
  } else {
    // Half as many again, so that there are few decisions and none comes much too late.
    const std::size_t half = std::min(kept.size() / 2 + 1, plan.max_samples - kept.size());
    const std::size_t wanted = whole_cycles(plan, seconds.size(), half);
    step.more =
        affordable < static_cast<double>(wanted) ? affordable_runs(plan, affordable) : wanted;
    step.ended_because = step.more == 0 ? "the budget is spent" : "";
  }
  return step;
}

} // namespace clusterbench
