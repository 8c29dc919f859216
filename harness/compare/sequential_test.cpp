#include "harness/compare/sequential_test.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>

namespace clusterbench {
namespace {

// Quantiles of Student's t for 1, 2, ... degrees of freedom, beyond the table the normal's with the
// first term of its expansion.
double student_99(std::size_t degrees) {
  constexpr std::array kTable = {31.821, 6.965, 4.541, 3.747, 3.365, 3.143, 2.998, 2.896,
                                 2.821,  2.764, 2.718, 2.681, 2.650, 2.624, 2.602, 2.583,
                                 2.567,  2.552, 2.539, 2.528, 2.518, 2.508, 2.500, 2.492};
  constexpr double kNormal = 2.3263;
  const auto f = static_cast<double>(degrees);
  return degrees <= kTable.size() ? kTable[degrees - 1]
                                  : kNormal + (std::pow(kNormal, 3) + kNormal) / (4.0 * f);
}

double student_90(std::size_t degrees) {
  constexpr double kNormal = 1.2816;
  const auto f = static_cast<double>(degrees);
  return kNormal + (std::pow(kNormal, 3) + kNormal) / (4.0 * f);
}

double error_of(const PairEstimate& estimate, std::size_t pairs, const SequentialOptions& options) {
  return std::max(estimate.standard_error,
                  options.noise_floor / std::sqrt(static_cast<double>(pairs)));
}

} // namespace

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

Bounds bounds_of(const PairEstimate& estimate, std::size_t pairs,
                 const SequentialOptions& options) {
  const double reach = student_99(estimate.degrees) * error_of(estimate, pairs, options);
  return {estimate.log_ratio - reach, estimate.log_ratio + reach};
}

GateDecision decide(std::span<const double> log_ratios, const SequentialOptions& options,
                    bool last_look) {
  if (log_ratios.size() < 2) {
    return last_look ? GateDecision::undecided : GateDecision::more;
  }
  const PairEstimate estimate = estimate_pairs(log_ratios);
  const Bounds bounds = bounds_of(estimate, log_ratios.size(), options);
  const double effect = std::log1p(options.min_effect);
  if (bounds.high < effect) {
    return GateDecision::same;
  }
  if (bounds.low > effect / 2.0) {
    return GateDecision::slower;
  }
  if (!last_look) {
    return GateDecision::more;
  }
  if (estimate.log_ratio >= effect && bounds.low > 0.0) {
    return GateDecision::slower;
  }
  const double reach =
      student_90(estimate.degrees) * error_of(estimate, log_ratios.size(), options);
  return estimate.log_ratio + reach < effect ? GateDecision::same : GateDecision::undecided;
}

bool is_look(std::size_t count, const SequentialOptions& options) {
  if (count < options.least_pairs) {
    return false;
  }
  const std::size_t step = count <= 12 ? 2 : count <= 24 ? 4 : count <= 48 ? 8 : 16;
  return count % step == 0 || count >= options.most_pairs;
}

} // namespace clusterbench
