#include "harness/ledger/ratio.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <map>
#include <random>
#include <stdexcept>

namespace clusterbench {
namespace {

// Equal seeds and problems mean equal starts; of how many samples the own start is one is the
// plan's.
std::string starts_of(const Measured& cell) {
  std::string common;
  for (const Row& row : cell.rounds) {
    const nlohmann::json hash = row.problem().value("hash", nlohmann::json());
    if (!row.header || !row.header->starts_seed || !hash.is_string()) {
      return {};
    }
    const nlohmann::json plan = row.header->line.value("sampling", nlohmann::json());
    const std::string text =
        fmt::format("{} {} {}", *row.header->starts_seed, hash.get<std::string>(),
                    plan.is_object() ? plan.value("samples", 0) : 0);
    if (!common.empty() && text != common) {
      return {};
    }
    common = text;
  }
  return common;
}

struct CostOfStart {
  double log = 0.0; // of the milliseconds
  std::optional<Busyness> around;
};

// One round's costs by start.
std::map<std::size_t, CostOfStart> by_start(const Costs::Round& round) {
  std::map<std::size_t, CostOfStart> costs;
  for (std::size_t i = 0; i < round.starts.size(); ++i) {
    if (round.ms[i] > 0.0) {
      costs[round.starts[i]] = {std::log(round.ms[i]), round.around.empty()
                                                           ? std::nullopt
                                                           : std::optional(round.around[i])};
    }
  }
  return costs;
}

// What a start costs: the mean over all rounds, of the starts that all of them have.
std::map<std::size_t, double>
effects_of_starts(const std::vector<std::map<std::size_t, CostOfStart>>& rounds) {
  std::map<std::size_t, double> effects;
  for (const auto& [start, unused] : rounds.front()) {
    double sum = 0.0;
    const bool everywhere = std::ranges::all_of(rounds, [&](const auto& round) {
      const auto found = round.find(start);
      sum += found == round.end() ? 0.0 : found->second.log;
      return found != round.end();
    });
    if (everywhere) {
      effects[start] = sum / static_cast<double>(rounds.size());
    }
  }
  return effects;
}

// Dividing by a mean of which a cost is one part of `rounds` takes that share off its deviation.
Rounds stretched(Rounds rounds, std::size_t all_rounds) {
  const auto count = static_cast<double>(all_rounds);
  const double stretch = std::sqrt(count / (count - 1.0));
  for (std::vector<double>& round : rounds) {
    const double centre = median(round);
    for (double& value : round) {
      value = centre * std::pow(value / centre, stretch);
    }
  }
  return rounds;
}

double checked_median(const Rounds& rounds) {
  const double value = median_of_rounds(rounds);
  if (!(value > 0.0)) {
    throw std::invalid_argument("a ratio of times that are not positive");
  }
  return value;
}

} // namespace

Rounds Costs::ms() const {
  Rounds all;
  for (const Round& round : rounds) {
    all.push_back(round.ms);
  }
  return all;
}

Costs pass_costs(const Measured& cell) {
  Costs costs{starts_of(cell), {}};
  for (const Row& row : cell.rounds) {
    Costs::Round& round = costs.rounds.emplace_back();
    for (std::size_t i = 0; i < row.samples_ms.size(); ++i) {
      const auto passes = static_cast<double>(std::max<std::size_t>(row.sample_iterations[i], 1));
      round.ms.push_back(row.samples_ms[i] / passes);
    }
    round.starts = row.sample_starts;
    for (std::size_t i = 0; i < row.fixed_work_us.size(); ++i) {
      round.around.push_back(
          {row.fixed_work_us[i], row.other_tasks.empty() ? 0.0 : row.other_tasks[i]});
    }
    if (row.gpus_used_by_others) {
      round.around.assign(round.ms.size(), {1.0, *row.gpus_used_by_others});
    }
    if (round.ms.empty()) {
      return {};
    }
  }
  return costs;
}

Costs whole_costs(const Measured& cell) {
  Costs costs{starts_of(cell), {}};
  for (const Row& row : cell.rounds) {
    Costs::Round& round = costs.rounds.emplace_back();
    for (const WholeAnswer& answer : row.whole) {
      round.ms.push_back(answer.ms);
      round.starts.push_back(answer.start);
    }
    if (round.ms.empty()) {
      return {};
    }
  }
  return costs;
}

std::optional<std::array<Costs, 2>> free_of_starts(const Costs& base, const Costs& fresh) {
  if (base.starts_of.empty() || base.starts_of != fresh.starts_of) {
    return std::nullopt;
  }
  std::vector<std::map<std::size_t, CostOfStart>> rounds;
  for (const Costs* side : {&base, &fresh}) {
    std::ranges::transform(side->rounds, std::back_inserter(rounds), by_start);
  }
  const std::map<std::size_t, double> effects = effects_of_starts(rounds);
  if (effects.size() < kLeastPairs) {
    return std::nullopt;
  }
  double middle = 0.0; // of the starts, so that what comes out are milliseconds still
  for (const auto& [start, effect] : effects) {
    middle += effect / static_cast<double>(effects.size());
  }
  std::array<Costs, 2> free;
  for (std::size_t r = 0; r < rounds.size(); ++r) {
    Costs::Round& round = free[r < base.rounds.size() ? 0 : 1].rounds.emplace_back();
    for (const auto& [start, effect] : effects) {
      const CostOfStart& cost = rounds[r].at(start);
      round.ms.push_back(std::exp(cost.log - effect + middle));
      if (cost.around) {
        round.around.push_back(*cost.around);
      }
    }
  }
  return free;
}

std::optional<std::array<Rounds, 2>> pair_by_start(const Costs& base, const Costs& fresh) {
  const auto free = free_of_starts(base, fresh);
  return free ? std::optional(std::array<Rounds, 2>{(*free)[0].ms(), (*free)[1].ms()})
              : std::nullopt;
}

double point_ratio(const Costs& base, const Costs& fresh) {
  if (const auto paired = pair_by_start(base, fresh)) {
    return checked_median((*paired)[1]) / checked_median((*paired)[0]);
  }
  return checked_median(fresh.ms()) / checked_median(base.ms());
}

Ratio ratio_of(const Costs& base, const Costs& fresh, std::size_t resamples, std::uint64_t seed) {
  const auto paired = pair_by_start(base, fresh);
  const Rounds before = paired ? (*paired)[0] : base.ms();
  const Rounds after = paired ? (*paired)[1] : fresh.ms();
  Ratio result;
  result.paired = paired.has_value();
  result.ratio = checked_median(after) / checked_median(before);
  const std::size_t count = before.size() + after.size();
  const Rounds base_spread = paired ? stretched(before, count) : before;
  const Rounds fresh_spread = paired ? stretched(after, count) : after;
  std::mt19937_64 random(seed);
  RoundsResampler of_base(base_spread, random);
  RoundsResampler of_fresh(fresh_spread, random);
  for (std::size_t i = 0; i < resamples; ++i) {
    const double fresh_draw = of_fresh.draw();
    result.log_draws.push_back(fresh_draw - of_base.draw());
  }
  if (!enough_for_interval(before) || !enough_for_interval(after)) {
    const Interval least = range_of_rounds(before);
    const Interval most = range_of_rounds(after);
    result.interval = {most.low / least.high, most.high / least.low};
    result.is_range = true;
    return result;
  }
  result.interval = {std::exp(quantile(result.log_draws, 0.025)),
                     std::exp(quantile(result.log_draws, 0.975))};
  return result;
}

} // namespace clusterbench
