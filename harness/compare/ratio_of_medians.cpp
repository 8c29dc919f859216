#include "harness/compare/ratio_of_medians.hpp"

#include <algorithm>
#include <cmath>
#include <random>
#include <stdexcept>

namespace clusterbench {
namespace {

double middle_of(std::vector<double>& values) {
  const auto half = static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, values.begin() + half);
  if (values.size() % 2 == 1) {
    return values[static_cast<std::size_t>(half)];
  }
  return std::midpoint(*std::max_element(values.begin(), values.begin() + half),
                       values[static_cast<std::size_t>(half)]);
}

// Draws logarithms of a cell's median.
class Resampler {
public:
  Resampler(const Rounds& rounds, std::mt19937_64& random)
      : rounds_(rounds), random_(random), centre_(std::log(median_of_rounds(rounds))) {
    const auto count = static_cast<double>(rounds.size());
    stretch_ = rounds.size() > 1 ? std::sqrt(count / (count - 1.0)) : 1.0;
  }

  double centre() const { return centre_; }

  double draw() {
    medians_.clear();
    for (std::size_t r = 0; r < rounds_.size(); ++r) {
      const std::vector<double>& round = rounds_[random_() % rounds_.size()];
      drawn_.resize(round.size());
      for (double& value : drawn_) {
        value = round[random_() % round.size()];
      }
      medians_.push_back(middle_of(drawn_));
    }
    return centre_ + stretch_ * (std::log(middle_of(medians_)) - centre_);
  }

private:
  const Rounds& rounds_;
  std::mt19937_64& random_;
  double centre_;
  double stretch_ = 1.0;
  std::vector<double> medians_, drawn_;
};

} // namespace

double median_of_rounds(const Rounds& rounds) {
  std::vector<double> medians;
  for (const std::vector<double>& round : rounds) {
    medians.push_back(median(round));
  }
  return median(medians);
}

RatioOfMedians ratio_of_medians(const Rounds& base, const Rounds& fresh, std::size_t resamples,
                                std::uint64_t seed) {
  if (!(median_of_rounds(base) > 0.0) || !(median_of_rounds(fresh) > 0.0)) {
    throw std::invalid_argument("a ratio of times that are not positive");
  }
  std::mt19937_64 random(seed);
  Resampler of_base(base, random);
  Resampler of_fresh(fresh, random);
  RatioOfMedians result;
  result.ratio = std::exp(of_fresh.centre() - of_base.centre());
  for (std::size_t i = 0; i < resamples; ++i) {
    const double fresh_draw = of_fresh.draw();
    result.log_draws.push_back(fresh_draw - of_base.draw());
  }
  result.interval = {std::exp(quantile(result.log_draws, 0.025)),
                     std::exp(quantile(result.log_draws, 0.975))};
  return result;
}

} // namespace clusterbench
