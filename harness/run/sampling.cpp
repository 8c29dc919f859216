#include "harness/run/sampling.hpp"

#include "harness/run/statistics.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

namespace clusterbench {

void to_json(nlohmann::json& json, const SamplingPlan& plan) {
  json = {{"samples", plan.samples},          {"target", plan.target},
          {"min_seconds", plan.min_seconds},  {"budget_seconds", plan.budget_seconds},
          {"max_samples", plan.max_samples},  {"slow_seconds", plan.slow_seconds},
          {"slow_samples", plan.slow_samples}};
}

void from_json(const nlohmann::json& json, SamplingPlan& plan) {
  json.at("samples").get_to(plan.samples);
  json.at("target").get_to(plan.target);
  json.at("min_seconds").get_to(plan.min_seconds);
  json.at("budget_seconds").get_to(plan.budget_seconds);
  json.at("max_samples").get_to(plan.max_samples);
  json.at("slow_seconds").get_to(plan.slow_seconds);
  json.at("slow_samples").get_to(plan.slow_samples);
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

std::size_t most_runs(const SamplingPlan& plan) {
  const std::size_t kept = std::max(plan.samples, plan.max_samples);
  return kept + kept / 3 + 1; // a quarter of all may be warm-up
}

SamplingStep next_step(const SamplingPlan& plan, std::span<const double> seconds, double elapsed) {
  SamplingStep step;
  if (seconds.empty()) {
    step.more = 1; // how long a run takes decides how many there will be
    return step;
  }
  if (seconds.front() > plan.slow_seconds) { // warming up cannot matter
    const std::size_t wanted = std::min(plan.slow_samples, plan.samples);
    step.more = wanted - std::min(wanted, seconds.size());
    step.ended_because = step.more == 0 ? "one run takes long: fewer samples" : "";
    return step;
  }
  step.warm_up = warm_up_length(seconds);
  const std::span<const double> kept = seconds.subspan(step.warm_up);
  if (kept.size() < plan.samples) {
    step.more = plan.samples - kept.size();
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
    const double each = elapsed / static_cast<double>(seconds.size());
    const double affordable = (plan.budget_seconds - elapsed) / std::max(each, 1e-9);
    // Half as many again, so that there are few decisions and none comes much too late.
    const std::size_t wanted = std::min(kept.size() / 2 + 1, plan.max_samples - kept.size());
    step.more = affordable < static_cast<double>(wanted)
                    ? std::max<std::size_t>(1, static_cast<std::size_t>(affordable))
                    : wanted;
  }
  return step;
}

} // namespace clusterbench
