#include "harness/report/compare/quiet_part.hpp"

#include <algorithm>
#include <optional>
#include <vector>

namespace clusterbench {
namespace {

// The longest time that the fixed work may take [us]. Its shortest is that of one in fifty, since a clock
// may err. Empty where it was not measured on both sides.
std::optional<double> most_us(const Costs& base, const Costs& fresh) {
  std::vector<double> all;
  for (const Costs* side : {&base, &fresh}) {
    for (const Costs::Round& round : side->rounds) {
      if (round.around.size() != round.ms.size()) {
        return std::nullopt;
      }
      for (const Busyness& around : round.around) {
        all.push_back(around.fixed_work_us);
      }
    }
  }
  return all.empty() ? std::nullopt : std::optional(kQuietFixedWork * quantile(all, 0.02));
}

Costs::Round quiet_samples(const Costs::Round& round, double most) {
  Costs::Round quiet;
  for (std::size_t i = 0; i < round.ms.size(); ++i) {
    if (round.around[i].fixed_work_us <= most && round.around[i].other_tasks <= kQuietOtherTasks) {
      quiet.ms.push_back(round.ms[i]);
      quiet.around.push_back(round.around[i]);
      if (!round.starts.empty()) {
        quiet.starts.push_back(round.starts[i]);
      }
    }
  }
  return quiet;
}

} // namespace

QuietPart::QuietPart(const Costs& base, const Costs& fresh) {
  const std::optional<double> most = most_us(base, fresh);
  for (std::size_t side = 0; side < 2; ++side) {
    const Costs& all = side == 0 ? base : fresh;
    costs[side].starts_of = all.starts_of;
    for (const Costs::Round& round : all.rounds) {
      Costs::Round kept = most ? quiet_samples(round, *most) : round;
      samples[side] += round.ms.size();
      quiet[side] += kept.ms.size();
      if (kept.ms.size() >= std::min(kLeastQuiet, round.ms.size())) {
        costs[side].rounds.push_back(std::move(kept));
      }
    }
  }
}

} // namespace clusterbench
