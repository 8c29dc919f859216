#include "harness/report/digits.hpp"
#include "harness/report/submission/submission_report.hpp"
#include "harness/report/table_part.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <map>

namespace clusterbench {
namespace {

/// What a pass of a problem is bound by.
enum class Bound { memory, arithmetic, comparing, latency, instructions };

constexpr double kNearTheLimit = 60.0; ///< percent of it
constexpr double kLatencyOfCpu = 0.02; ///< ms: what waking threads and waiting for them costs
constexpr double kLatencyOfGpu = 0.01; ///< ms: what launches and barriers of a pass cost

Bound bound_of(const SubmissionCell& cell) {
  if (*cell.percent_of_limit >= kNearTheLimit) {
    return cell.limit == "read bandwidth"       ? Bound::memory
           : cell.limit == "comparison rate"    ? Bound::comparing
           : cell.limit == "exchange of a pass" ? Bound::latency
                                                : Bound::arithmetic;
  }
  const double latency = cell.device == "cpu" ? kLatencyOfCpu : kLatencyOfGpu;
  return *cell.limit_ms < latency && (cell.device != "cpu" || cell.threads > 1)
             ? Bound::latency
             : Bound::instructions;
}

std::string sentence(Bound bound, const SubmissionCell& cell) {
  const bool is_cpu = cell.device == "cpu";
  const std::string where =
      fmt::format("{} % of the {}", percent_of_bound_text(cell.percent_of_limit), cell.limit);
  switch (bound) {
  case Bound::memory:
    return fmt::format(
        "bound by memory ({}): read less, as by a narrower copy of the points, or by bounds "
        "that skip points; arithmetic is free here",
        where);
  case Bound::arithmetic:
    return fmt::format(
        "bound by its products ({}): make fewer, as by bounds that skip distances, or "
        "{}",
        where, is_cpu ? "faster ones" : "make them on tensor cores");
  case Bound::comparing:
    return fmt::format("bound by its comparisons ({}): make fewer, as by bounds or boxes that skip "
                       "centroids; neither reading nor multiplying is what takes the time",
                       where);
  case Bound::latency:
    return fmt::format(
        "bound by latency ({}, and that limit is {} ms): a pass is over before {}; use fewer {} "
        "for each pass",
        where, with_digits(cell.limit_ms, 2),
        is_cpu ? "all threads are awake" : "launches and barriers are paid for",
        is_cpu ? "parallel regions and barriers, or fewer threads,"
               : "launches, barriers and copies");
  case Bound::instructions:
    return fmt::format(
        "bound by instructions ({}): it issues more than the products and the reading need; "
        "{}",
        where,
        is_cpu ? "look for vector registers, several sums side by side, and centroids that "
                 "stay in registers or in the first cache"
               : "look for centroids in registers or shared memory, several points for each "
                 "thread, and atomics that collide");
  }
  return {};
}

} // namespace

std::vector<std::string> advice_for(const std::vector<SubmissionCell>& cells) {
  std::vector<std::pair<Bound, const SubmissionCell*>>
      worst; // the problem that is farthest from its limit
  std::map<Bound, std::string> problems;
  for (const SubmissionCell& cell : cells) {
    if (cell.status != "ok" || !cell.percent_of_limit || !cell.limit_ms) {
      continue;
    }
    const Bound bound = bound_of(cell);
    problems[bound] += fmt::format("{}{}", problems[bound].empty() ? "" : "; ", cell.problem);
    const auto known =
        std::ranges::find(worst, bound, &std::pair<Bound, const SubmissionCell*>::first);
    if (known == worst.end()) {
      worst.emplace_back(bound, &cell);
    } else if (*cell.percent_of_limit < *known->second->percent_of_limit) {
      known->second = &cell;
    }
  }
  std::vector<std::string> advice;
  for (const auto& [bound, cell] : worst) {
    advice.push_back(fmt::format("{}: {}", problems[bound], sentence(bound, *cell)));
  }
  for (const SubmissionCell& cell : cells) {
    constexpr double kMuch = 50.0; // percent of the time
    const auto is_not_assignment = [](const std::string& phase) {
      return phase.find("assign") == std::string::npos && phase.find("fused") == std::string::npos;
    };
    if (cell.status == "ok" && cell.phases.size() > 1 && cell.phases.front().second > kMuch &&
        is_not_assignment(cell.phases.front().first)) {
      advice.push_back(fmt::format("{}: {} % of the time goes to `{}`, which is not the distances",
                                   cell.problem, percentage(cell.phases.front().second),
                                   cell.phases.front().first));
      break;
    }
  }
  for (const SubmissionCell& cell : cells) {
    constexpr double kFarBehind = 1.5;
    if (cell.over_best && cell.over_best->ratio.ratio > kFarBehind) {
      advice.push_back(
          fmt::format("{}: `{}` is {} times faster; `clusterbench explain {}` says how it "
                      "works",
                      cell.problem, cell.over_best->variant, times_text(cell.over_best->ratio),
                      cell.over_best->variant));
      break;
    }
  }
  return advice;
}

} // namespace clusterbench
