#include "harness/report/compare/process_test.hpp"

#include "harness/report/compare/quiet_part.hpp"

#include <algorithm>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <map>
#include <stdexcept>
#include <vector>

namespace clusterbench {
namespace {

using boost::math::students_t;

double mean(const std::vector<double>& values) {
  double sum = 0.0;
  for (const double value : values) {
    sum += value;
  }
  return sum / static_cast<double>(values.size());
}

double sum_of_squares(const std::vector<double>& values) {
  const double centre = mean(values);
  double sum = 0.0;
  for (const double value : values) {
    sum += (value - centre) * (value - centre);
  }
  return sum;
}

std::vector<double> logs_of_medians(const Rounds& rounds) {
  std::vector<double> logs = medians_of_rounds(rounds);
  for (double& value : logs) {
    if (!(value > 0.0)) {
      throw std::invalid_argument("a ratio of times that are not positive");
    }
    value = std::log(value);
  }
  return logs;
}

// The trimmed mean of one side's processes.
struct Side {
  double centre = 0.0;
  double variance = 0.0; ///< of one process: that of the centre, times the number of processes
  double degrees = 0.0;
};

Side side_of(std::vector<double> logs) {
  std::ranges::sort(logs);
  const std::size_t cut = logs.size() / 6;
  const std::size_t kept = logs.size() - 2 * cut;
  const std::vector<double> middle(logs.begin() + static_cast<std::ptrdiff_t>(cut),
                                   logs.end() - static_cast<std::ptrdiff_t>(cut));
  // Winsorized: what is cut off counts as the outermost that is kept.
  for (std::size_t i = 0; i < cut; ++i) {
    logs[i] = middle.front();
    logs[logs.size() - 1 - i] = middle.back();
  }
  const auto h = static_cast<double>(kept);
  const double of_centre = sum_of_squares(logs) / (h * (h - 1.0));
  return {mean(middle), of_centre * static_cast<double>(logs.size()), h - 1.0};
}

// Of the side's centre: how far it moves with the starts that were drawn. Where a start costs more than
// another, all processes of the side have met the same ones.
double variance_of_starts(const Costs& costs) {
  std::map<std::size_t, std::vector<double>> by_start;
  for (const Costs::Round& round : costs.rounds) {
    for (std::size_t i = 0; i < round.starts.size(); ++i) {
      by_start[round.starts[i]].push_back(std::log(round.ms[i]));
    }
  }
  std::vector<double> effects;
  for (const auto& [start, logs] : by_start) {
    effects.push_back(median(logs));
  }
  if (effects.size() < kLeastPairs) {
    return 0.0;
  }
  const auto count = static_cast<double>(effects.size());
  return sum_of_squares(effects) / (count * (count - 1.0));
}

} // namespace

std::optional<ProcessTest> ProcessTest::of(const Costs& base, const Costs& fresh) {
  const auto free = free_of_starts(base, fresh);
  const QuietPart part = free ? QuietPart((*free)[0], (*free)[1]) : QuietPart(base, fresh);
  const auto& [base_costs, fresh_costs] = part.costs;
  const auto base_rounds = static_cast<double>(base_costs.rounds.size());
  const auto fresh_rounds = static_cast<double>(fresh_costs.rounds.size());
  if (std::min(base_rounds, fresh_rounds) < static_cast<double>(kLeastProcesses)) {
    return std::nullopt;
  }
  const Side before = side_of(logs_of_medians(base_costs.ms()));
  const Side after = side_of(logs_of_medians(fresh_costs.ms()));
  ProcessTest test;
  test.log_ratio_ = after.centre - before.centre;
  test.degrees_ = before.degrees + after.degrees;
  test.process_variance_ =
      (before.degrees * before.variance + after.degrees * after.variance) / test.degrees_;
  if (constexpr double known = kProcessScatter * kProcessScatter; test.process_variance_ < known) {
    const double degrees = test.degrees_ + kScatterDegrees;
    test.process_variance_ =
        (test.degrees_ * test.process_variance_ + kScatterDegrees * known) / degrees;
    test.degrees_ = degrees;
  }
  const double of_processes =
      test.process_variance_ * (1.0 / base_rounds + 1.0 / fresh_rounds);
  const double of_starts =
      free ? 0.0 : variance_of_starts(base_costs) + variance_of_starts(fresh_costs);
  test.standard_error_ =
      std::sqrt(of_processes + of_starts + kCampaignScatter * kCampaignScatter);
  return test;
}

Interval ProcessTest::interval(double confidence) const {
  const double reach =
      standard_error_ * boost::math::quantile(students_t(degrees_), 0.5 + confidence / 2.0);
  return {std::exp(log_ratio_ - reach), std::exp(log_ratio_ + reach)};
}

double ProcessTest::p_slower() const {
  return boost::math::cdf(boost::math::complement(students_t(degrees_), log_ratio_ / standard_error_));
}

double ProcessTest::p_faster() const {
  return boost::math::cdf(students_t(degrees_), log_ratio_ / standard_error_);
}

std::optional<std::size_t> ProcessTest::rounds_for(double reach, double confidence) const {
  const double t = boost::math::quantile(students_t(degrees_), 0.5 + confidence / 2.0);
  const double left = (reach / t) * (reach / t) - kCampaignScatter * kCampaignScatter;
  if (!(left > 0.0)) {
    return std::nullopt;
  }
  return static_cast<std::size_t>(std::ceil(2.0 * process_variance_ / left));
}

} // namespace clusterbench
