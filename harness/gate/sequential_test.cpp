#include "harness/gate/sequential_test.hpp"

#include <algorithm>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <stdexcept>

namespace clusterbench {
namespace {

// How far a one-sided bound is from the estimate if it may err so often in all looks together.
double reach(const PairEstimate& estimate, std::size_t pairs, const SequentialOptions& options,
             double error, bool last_look) {
  constexpr double kShareOfLast = 0.5, kShareOfAnother = 0.05;
  const boost::math::students_t student(static_cast<double>(estimate.degrees));
  const double level = error * (last_look ? kShareOfLast : kShareOfAnother);
  const double standard_error = std::max(
      estimate.standard_error, options.noise_floor / std::sqrt(static_cast<double>(pairs)));
  return boost::math::quantile(boost::math::complement(student, level)) * standard_error;
}

} // namespace

SequentialOptions confirming(const SequentialOptions& first, std::size_t cells) {
  SequentialOptions second = first;
  second.error = 0.01;
  second.alarm_error = 0.05 / static_cast<double>(std::max<std::size_t>(cells, 1));
  return second;
}

PairEstimate estimate_pairs(std::span<const double> log_ratios) {
  const std::size_t count = log_ratios.size();
  if (count < 2) {
    throw std::invalid_argument("an estimate from fewer than two pairs");
  }
  constexpr std::size_t kTrimmedOf = 5; // a fifth on each side
  const std::size_t trimmed = count / kTrimmedOf;
  std::vector<double> sorted(log_ratios.begin(), log_ratios.end());
  std::ranges::sort(sorted);
  const std::size_t kept = count - 2 * trimmed;
  PairEstimate estimate;
  for (std::size_t i = trimmed; i < trimmed + kept; ++i) {
    estimate.log_ratio += sorted[i] / static_cast<double>(kept);
  }
  double mean = 0.0;
  std::vector<double> winsorised = sorted;
  for (std::size_t i = 0; i < count; ++i) {
    winsorised[i] = sorted[std::clamp(i, trimmed, trimmed + kept - 1)];
    mean += winsorised[i] / static_cast<double>(count);
  }
  double squares = 0.0;
  for (const double x : winsorised) {
    squares += (x - mean) * (x - mean);
  }
  const auto n = static_cast<double>(count);
  const auto h = static_cast<double>(kept);
  estimate.standard_error = std::sqrt(squares / (n - 1.0)) * std::sqrt(n) / h;
  estimate.degrees = kept - 1;
  return estimate;
}

Bounds bounds_of(const PairEstimate& estimate, std::size_t pairs, const SequentialOptions& options,
                 bool last_look) {
  const double half = reach(estimate, pairs, options, options.error, last_look);
  return {estimate.log_ratio - half, estimate.log_ratio + half};
}

GateDecision decide(std::span<const double> log_ratios, const SequentialOptions& options,
                    bool last_look) {
  const std::size_t pairs = log_ratios.size();
  if (pairs < 2) {
    return last_look ? GateDecision::undecided : GateDecision::more;
  }
  const PairEstimate estimate = estimate_pairs(log_ratios);
  const double effect = std::log1p(options.min_effect);
  if (bounds_of(estimate, pairs, options, last_look).high < effect) {
    return GateDecision::same;
  }
  const double low =
      estimate.log_ratio - reach(estimate, pairs, options, options.alarm_error, last_look);
  if (low > effect / 2.0 || (last_look && estimate.log_ratio >= effect && low > 0.0)) {
    return GateDecision::slower;
  }
  return last_look ? GateDecision::undecided : GateDecision::more;
}

bool is_look(std::size_t count, const SequentialOptions& options) {
  if (count < options.least_pairs) {
    return false;
  }
  const std::size_t step = count <= 12   ? 2
                           : count <= 24 ? 4
                           : count <= 48 ? 8
                           : count <= 96 ? 16
                                         : 32;
  return count % step == 0 || count >= options.most_pairs;
}

} // namespace clusterbench
