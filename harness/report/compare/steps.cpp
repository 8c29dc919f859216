#include "harness/report/compare/steps.hpp"

#include <algorithm>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <numeric>
#include <span>

namespace clusterbench {
namespace {

using boost::math::students_t;

double mean_of(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double squares_about_mean(std::span<const double> values) {
  const double mean = mean_of(values);
  return std::accumulate(values.begin(), values.end(), 0.0, [&](double sum, double value) {
    return sum + (value - mean) * (value - mean);
  });
}

Step step_at(std::span<const double> logs, std::size_t at, double scatter) {
  const auto before = logs.first(at), after = logs.subspan(at);
  const double degrees = static_cast<double>(logs.size()) - 2.0;
  const double variance = std::max(
      (squares_about_mean(before) + squares_about_mean(after)) / degrees, scatter * scatter);
  const double error = std::sqrt(variance / static_cast<double>(before.size()) +
                                 variance / static_cast<double>(after.size()));
  const double change = mean_of(after) - mean_of(before);
  const students_t distribution(degrees);
  const double reach = error * boost::math::quantile(distribution, 0.975);
  const double tail =
      boost::math::cdf(boost::math::complement(distribution, std::abs(change) / error));
  return {at, std::exp(change), {std::exp(change - reach), std::exp(change + reach)}, 2.0 * tail};
}

} // namespace

std::optional<Step> clearest_step(const std::vector<double>& logs, double scatter,
                                  double min_effect, double level) {
  if (logs.size() < 2 * kLeastCampaigns || !(scatter > 0.0)) {
    return std::nullopt;
  }
  std::optional<Step> clearest;
  const std::size_t places = logs.size() - 2 * kLeastCampaigns + 1;
  for (std::size_t i = 0; i < places; ++i) {
    const Step step = step_at(logs, kLeastCampaigns + i, scatter);
    if (!clearest || step.p < clearest->p) {
      clearest = step;
    }
  }
  clearest->p = std::min(clearest->p * static_cast<double>(places), 1.0);
  const bool is_large = std::abs(std::log(clearest->ratio)) >= std::log1p(min_effect);
  return is_large && clearest->p <= level ? clearest : std::nullopt;
}

} // namespace clusterbench
