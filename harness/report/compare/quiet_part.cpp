#include "harness/report/compare/quiet_part.hpp"

#include <algorithm>
#include <limits>
#include <vector>

namespace clusterbench {
namespace {

// The longest time that the fixed work may take [us]. Its shortest is that of one in fifty, since a clock
// may err. Empty where it was not measured: no longest.
double most_us(const Costs& base, const Costs& fresh) {
  std::vector<double> all;
  for (const Costs* side : {&base, &fresh}) {
    for (const Costs::Round& round : side->rounds) {
      if (round.fixed_work_us.size() != round.ms.size()) {
        return std::numeric_limits<double>::infinity();
      }
      all.insert(all.end(), round.fixed_work_us.begin(), round.fixed_work_us.end());
    }
  }
  return all.empty() ? std::numeric_limits<double>::infinity()
                     : kQuietFixedWork * quantile(all, 0.02);
}

Costs::Round quiet_samples(const Costs::Round& round, double most) {
  if (round.fixed_work_us.empty()) {
    return round;
  }
  Costs::Round quiet;
  for (std::size_t i = 0; i < round.ms.size(); ++i) {
    if (round.fixed_work_us[i] <= most) {
      quiet.ms.push_back(round.ms[i]);
      quiet.fixed_work_us.push_back(round.fixed_work_us[i]);
      if (!round.starts.empty()) {
        quiet.starts.push_back(round.starts[i]);
      }
    }
  }
  return quiet;
}

} // namespace

QuietPart::QuietPart(const Costs& base, const Costs& fresh) {
  const double most = most_us(base, fresh);
  for (std::size_t side = 0; side < 2; ++side) {
    const Costs& all = side == 0 ? base : fresh;
    costs[side].starts_of = all.starts_of;
    for (const Costs::Round& round : all.rounds) {
      Costs::Round kept = quiet_samples(round, most);
      samples[side] += round.ms.size();
      quiet[side] += kept.ms.size();
      if (kept.ms.size() >= std::min(kLeastQuiet, round.ms.size())) {
        costs[side].rounds.push_back(std::move(kept));
      }
    }
  }
}

} // namespace clusterbench
