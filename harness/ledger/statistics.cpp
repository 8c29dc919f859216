#include "harness/ledger/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <stdexcept>
#include <vector>

namespace clusterbench {
namespace {

std::vector<double> sorted(std::span<const double> samples) {
  if (samples.empty()) {
    throw std::invalid_argument("statistics of no samples");
  }
  if (!std::ranges::all_of(samples, [](double x) { return std::isfinite(x); })) {
    throw std::invalid_argument("statistics of a sample that is not finite");
  }
  std::vector<double> result(samples.begin(), samples.end());
  std::ranges::sort(result);
  return result;
}

double quantile_of_sorted(std::span<const double> sorted_samples, double p) {
  const double position = p * static_cast<double>(sorted_samples.size() - 1);
  const auto below = static_cast<std::size_t>(position);
  const std::size_t above = std::min(below + 1, sorted_samples.size() - 1);
  return std::lerp(sorted_samples[below], sorted_samples[above],
                   position - static_cast<double>(below));
}

double median_of_sorted(std::span<const double> sorted_samples) {
  return quantile_of_sorted(sorted_samples, 0.5);
}

} // namespace

double quantile(std::span<const double> samples, double p) {
  if (!(p >= 0.0 && p <= 1.0)) {
    throw std::invalid_argument("a quantile's p is between 0 and 1");
  }
  return quantile_of_sorted(sorted(samples), p);
}

double median(std::span<const double> samples) {
  return median_of_sorted(sorted(samples));
}

double median_absolute_deviation(std::span<const double> samples) {
  const double centre = median(samples);
  std::vector<double> deviations;
  deviations.reserve(samples.size());
  for (const double x : samples) {
    deviations.push_back(std::abs(x - centre));
  }
  return median(deviations);
}

Interval bootstrap_median_interval(std::span<const double> samples, double confidence,
                                   std::size_t resamples, std::uint64_t seed) {
  if (!(confidence > 0.0 && confidence < 1.0) || resamples == 0) {
    throw std::invalid_argument("a bootstrap needs 0 < confidence < 1 and a resample");
  }
  const std::vector<double> ordered = sorted(samples);
  const std::size_t count = ordered.size();

  // Drawing ranks rather than values: how often each order statistic was drawn is enough to find
  // the resample's median in one walk, without sorting it.
  std::mt19937_64 random(seed);
  std::vector<std::size_t> draws(count);
  std::vector<double> medians(resamples);
  for (double& resampled_median : medians) {
    std::ranges::fill(draws, 0);
    for (std::size_t i = 0; i < count; ++i) {
      // Not std::uniform_int_distribution, whose output differs between standard libraries. The
      // bias of the remainder is below 2^-32 for any count that fits 32 bits.
      ++draws[random() % count];
    }
    std::size_t rank = 0;
    std::size_t seen = draws[0];
    while (seen <= (count - 1) / 2) {
      seen += draws[++rank];
    }
    const double lower_middle = ordered[rank];
    while (seen <= count / 2) {
      seen += draws[++rank];
    }
    resampled_median = std::midpoint(lower_middle, ordered[rank]);
  }

  std::ranges::sort(medians);
  const double tail = (1.0 - confidence) / 2.0;
  return {quantile_of_sorted(medians, tail), quantile_of_sorted(medians, 1.0 - tail)};
}

Outliers tukey_outliers(std::span<const double> samples) {
  const std::vector<double> ordered = sorted(samples);
  const double first_quartile = quantile_of_sorted(ordered, 0.25);
  const double third_quartile = quantile_of_sorted(ordered, 0.75);
  const double reach = 1.5 * (third_quartile - first_quartile);
  Outliers outliers;
  for (const double x : ordered) {
    outliers.low += x < first_quartile - reach ? 1 : 0;
    outliers.high += x > third_quartile + reach ? 1 : 0;
  }
  return outliers;
}

Summary summarize(std::span<const double> samples, std::uint64_t seed) {
  const std::vector<double> ordered = sorted(samples);
  Summary summary;
  summary.count = ordered.size();
  summary.minimum = ordered.front();
  summary.median = median_of_sorted(ordered);
  summary.maximum = ordered.back();
  summary.mad = median_absolute_deviation(ordered);
  summary.interval = ordered.size() < kLeastForInterval
                         ? Interval{summary.minimum, summary.maximum}
                         : bootstrap_median_interval(ordered, 0.95, 2000, seed);
  summary.outliers = tukey_outliers(ordered);
  return summary;
}

} // namespace clusterbench
