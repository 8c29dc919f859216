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

  /// As far as the residuals tell it.
  double standard_error() const {
    const double squares =
        std::inner_product(residuals.begin(), residuals.end(), residuals.begin(), 0.0);
    return standard_error(std::sqrt(squares / (static_cast<double>(residuals.size()) - 2.0)));
  }

  /// Where campaigns scatter so much.
  double standard_error(double scatter) const {
    const auto count = static_cast<double>(residuals.size());
    const auto before = static_cast<double>(at);
    return scatter * std::sqrt(1.0 / before + 1.0 / (count - before));
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

// The variance of the residuals is an estimate, and their correlation stretches it. The assumed one
// is neither: where it is the larger, degrees of freedom are added (Satterthwaite 1946).
Step step_of(const Split& split, double scatter, std::size_t places) {
  constexpr double kMostDegrees = 1e6;
  const double stretch = split.stretch();
  const double own = split.standard_error() * std::sqrt(stretch);
  const double error = std::max(own, split.standard_error(scatter));
  const double share = std::pow(own / error, 2);
  const auto count = static_cast<double>(split.residuals.size());
  const double degrees = std::max(count / stretch - 2.0, 1.0);
  const students_t distribution(std::min(degrees / std::max(share * share, 1e-6), kMostDegrees));
  const double reach = error * boost::math::quantile(distribution, 0.975);
  const double tail =
      boost::math::cdf(boost::math::complement(distribution, std::abs(split.change) / error));
  return {split.at,
          std::exp(split.change),
          {std::exp(split.change - reach), std::exp(split.change + reach)},
          std::min(2.0 * tail * static_cast<double>(places), 1.0)};
}

// The first look is at the fewest campaigns that there can be a step in. Sums to 1, however many
// looks follow; half of it has gone after twenty.
double share_of_look(std::size_t campaigns) {
  constexpr double kHalf = 20.0;
  const auto look = static_cast<double>(campaigns - 2 * kLeastCampaigns + 1);
  return kHalf / ((kHalf + look - 1.0) * (kHalf + look));
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
    const double t =
        std::abs(split.change) / std::max(split.standard_error(), split.standard_error(scatter));
    if (t > most) {
      most = t;
      clearest = std::move(split);
    }
  }
  const Step step = step_of(*clearest, scatter, places);
  const bool is_large = std::abs(clearest->change) >= std::log1p(min_effect);
  return is_large && step.p <= level * share_of_look(logs.size()) ? std::optional(step)
                                                                  : std::nullopt;
}

} // namespace clusterbench
