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

// Of the series as two means.
struct Split {
  std::size_t at;
  double change;                 ///< of the mean
  std::vector<double> residuals; ///< from the mean of their side

  Split(std::span<const double> logs, std::size_t place)
      : at(place), change(mean_of(logs.subspan(place)) - mean_of(logs.first(place))) {
    const double before = mean_of(logs.first(place));
    for (std::size_t i = 0; i < logs.size(); ++i) {
      residuals.push_back(logs[i] - before - (i < place ? 0.0 : change));
    }
  }

  double standard_error(double scatter) const {
    const auto count = static_cast<double>(residuals.size());
    const auto before = static_cast<double>(at);
    const double squares =
        std::inner_product(residuals.begin(), residuals.end(), residuals.begin(), 0.0);
    const double variance = std::max(squares / (count - 2.0), scatter * scatter);
    return std::sqrt(variance / before + variance / (count - before));
  }

  // By how many times fewer the campaigns are that are independent. Of few campaigns their
  // correlation comes out too small (Kendall 1954).
  double stretch() const {
    constexpr double kMost = 0.9;
    const auto count = static_cast<double>(residuals.size());
    const double squares =
        std::inner_product(residuals.begin(), residuals.end(), residuals.begin(), 0.0);
    if (!(squares > 0.0)) {
      return 1.0;
    }
    const double products =
        std::inner_product(residuals.begin() + 1, residuals.end(), residuals.begin(), 0.0);
    const double found = products / squares;
    const double correlation = std::clamp(found + (1.0 + 4.0 * found) / count, 0.0, kMost);
    return (1.0 + correlation) / (1.0 - correlation);
  }
};

Step step_of(const Split& split, double scatter, std::size_t places) {
  const double stretch = split.stretch();
  const double error = split.standard_error(scatter) * std::sqrt(stretch);
  const auto count = static_cast<double>(split.residuals.size());
  const students_t distribution(std::max(count / stretch - 2.0, 1.0));
  const double reach = error * boost::math::quantile(distribution, 0.975);
  const double tail =
      boost::math::cdf(boost::math::complement(distribution, std::abs(split.change) / error));
  return {split.at,
          std::exp(split.change),
          {std::exp(split.change - reach), std::exp(split.change + reach)},
          std::min(2.0 * tail * static_cast<double>(places), 1.0)};
}

} // namespace

std::optional<Step> clearest_step(const std::vector<double>& logs, double scatter,
                                  double min_effect, double level) {
  if (logs.size() < 2 * kLeastCampaigns || !(scatter > 0.0)) {
    return std::nullopt;
  }
  const std::size_t places = logs.size() - 2 * kLeastCampaigns + 1;
  std::optional<Split> clearest;
  double most = -1.0;
  for (std::size_t i = 0; i < places; ++i) {
    Split split(logs, kLeastCampaigns + i);
    const double t = std::abs(split.change) / split.standard_error(scatter);
    if (t > most) {
      most = t;
      clearest = std::move(split);
    }
  }
  const Step step = step_of(*clearest, scatter, places);
  const bool is_large = std::abs(clearest->change) >= std::log1p(min_effect);
  return is_large && step.p <= level ? std::optional(step) : std::nullopt;
}

} // namespace clusterbench
