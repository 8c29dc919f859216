#include "harness/compare/ratio_of_medians.hpp"

#include <cmath>
#include <random>
#include <stdexcept>

namespace clusterbench {
RatioOfMedians ratio_of_medians(const Rounds& base, const Rounds& fresh, std::size_t resamples,
                                std::uint64_t seed) {
  if (!(median_of_rounds(base) > 0.0) || !(median_of_rounds(fresh) > 0.0)) {
    throw std::invalid_argument("a ratio of times that are not positive");
  }
  std::mt19937_64 random(seed);
  RoundsResampler of_base(base, random);
  RoundsResampler of_fresh(fresh, random);
  RatioOfMedians result;
  result.ratio = std::exp(of_fresh.centre() - of_base.centre());
  for (std::size_t i = 0; i < resamples; ++i) {
    const double fresh_draw = of_fresh.draw();
    result.log_draws.push_back(fresh_draw - of_base.draw());
  }
  if (!enough_for_interval(base) || !enough_for_interval(fresh)) {
    const Interval before = range_of_rounds(base);
    const Interval after = range_of_rounds(fresh);
    result.interval = {after.low / before.high, after.high / before.low};
    result.is_range = true;
    return result;
  }
  result.interval = {std::exp(quantile(result.log_draws, 0.025)),
                     std::exp(quantile(result.log_draws, 0.975))};
  return result;
}

} // namespace clusterbench
