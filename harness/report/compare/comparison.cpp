#include "harness/report/compare/comparison.hpp"

#include "harness/report/compare/rank_test.hpp"
#include "harness/machine/environment.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace clusterbench {
namespace {

// What two cells' costs say when they are taken for equal ones.
struct RankTest {
  double p = 1.0, least_p = 1.0;
  bool overlap = true; ///< not all costs of one side are above all of the other
};

// Pairs of one process each are asked by pair: their differences are the only independent ones.
RankTest test_of_pairs(const std::vector<double>& base, const std::vector<double>& fresh) {
  std::vector<double> differences;
  for (std::size_t i = 0; i < base.size(); ++i) {
    differences.push_back(std::log(fresh[i] / base[i]));
  }
  const auto [least, most] = std::ranges::minmax(differences);
  return {signed_rank_p(differences), least_signed_rank_p(differences.size()),
          least <= 0.0 && most >= 0.0};
}

RankTest test_of_samples(const std::vector<double>& before, const std::vector<double>& after) {
  return {mann_whitney_p(before, after), least_mann_whitney_p(before.size(), after.size()),
          std::ranges::min(before) <= std::ranges::max(after) &&
              std::ranges::min(after) <= std::ranges::max(before)};
}

// What is independent of one another: the rounds' medians, because the samples of a process have in
// common what processes differ by; single processes can only be asked about their samples.
RankTest rank_test(const Costs& base, const Costs& fresh) {
  const auto paired = pair_by_start(base, fresh);
  const Rounds before = paired ? (*paired)[0] : base.ms();
  const Rounds after = paired ? (*paired)[1] : fresh.ms();
  if (before.size() > 1 || after.size() > 1) {
    return test_of_samples(medians_of_rounds(before), medians_of_rounds(after));
  }
  return paired ? test_of_pairs(before.front(), after.front())
                : test_of_samples(before.front(), after.front());
}

bool positive(const Rounds& rounds) {
  return !rounds.empty() && median_of_rounds(rounds) > 0.0;
}

ComparedCell without_ratio(const std::string& name, const std::string& verdict,
                           const std::string& message) {
  return {verdict, name, message, std::nullopt};
}

bool is_wrong(const CellTimings& cell) {
  return cell.status == "wrong" || cell.status == "cheated";
}

// The same cell in another campaign, with other threads if there is no other.
const std::pair<const CellName, CellTimings>* counterpart(const Timings& timings,
                                                          const CellName& cell) {
  auto found = timings.cells.find(cell);
  if (found == timings.cells.end()) {
    found = timings.cells.lower_bound({cell.name, 0});
  }
  return found == timings.cells.end() || found->first.name != cell.name ? nullptr : &*found;
}

// A cell that was measured with several numbers of threads is named with them.
std::string shown_name(const Timings& timings, const CellName& cell) {
  const auto first = timings.cells.lower_bound({cell.name, 0});
  const auto next = first == timings.cells.end() ? first : std::next(first);
  const bool several = next != timings.cells.end() && next->first.name == cell.name;
  return several ? fmt::format("{}, {} threads", cell.name, cell.threads) : cell.name;
}

double passes_of(const CellTimings& cell) {
  return median_of_rounds(cell.runs_ms) / median_of_rounds(cell.passes.ms());
}

// Passes are what is compared, where both campaigns have recorded them.
ComparedCell compare_cells(const std::string& name, const CellTimings& base,
                           const CellTimings& fresh, std::uint64_t seed) {
  const bool by_pass = !base.passes.rounds.empty() && !fresh.passes.rounds.empty();
  const auto runs = [](const CellTimings& timings) {
    Costs costs;
    for (const std::vector<double>& round : timings.runs_ms) {
      costs.rounds.push_back({round, {}});
    }
    return costs;
  };
  const Costs before = by_pass ? base.passes : runs(base);
  const Costs after = by_pass ? fresh.passes : runs(fresh);
  const Ratio ratio = ratio_of(before, after, 2000, seed);
  const RankTest test = rank_test(before, after);
  ComparedCell cell = without_ratio(name, "", "");
  if (by_pass && std::abs(passes_of(fresh) / passes_of(base) - 1.0) > 1e-3) {
    cell.message = fmt::format("of one pass: {:.4g} passes before, {:.4g} now", passes_of(base),
                               passes_of(fresh));
  }
  Change& change = cell.change.emplace();
  change.base_ms = median_of_rounds(base.runs_ms);
  change.new_ms = median_of_rounds(fresh.runs_ms);
  change.ratio = ratio.ratio;
  change.interval = ratio.interval;
  change.is_range = ratio.is_range;
  change.paired = ratio.paired;
  change.log_draws = ratio.log_draws;
  change.p = test.p;
  change.least_p = test.least_p;
  change.overlap = test.overlap;
  return cell;
}

// A cell that one of the campaigns cannot give a time for; empty where both can.
std::optional<ComparedCell> finding(const std::string& name, const CellTimings& base,
                                    const CellTimings& fresh, bool other_threads) {
  if (fresh.status == "ok" && base.status != "ok") {
    return without_ratio(name, "new", fmt::format("the base's was {}", base.status));
  }
  if (fresh.status != "ok") {
    if (base.status == fresh.status) {
      return without_ratio(name, "not_compared", fmt::format("{}, as before", fresh.status));
    }
    const std::string text = fmt::format("{}: {}", fresh.status, fresh.message);
    const bool only_worse = base.status != "ok"; // it failed before, in another way
    return without_ratio(name,
                         is_wrong(fresh) ? "wrong"
                         : only_worse    ? "not_compared"
                                         : "failed",
                         text);
  }
  if (other_threads || (!base.work.empty() && !fresh.work.empty() && base.work != fresh.work)) {
    return without_ratio(name, "different_work",
                         "the problem, its data or the number of threads differ");
  }
  if (!positive(base.runs_ms) || !positive(fresh.runs_ms)) {
    return without_ratio(name, "failed", "a median time is not positive");
  }
  return std::nullopt;
}

// Runs of many seconds leave three samples, whose U test cannot reach the level whatever they are:
// then it is enough that they do not overlap, by a distance that processes alone hardly make.
std::string verdict_of(const Change& change, const CompareOptions& options) {
  constexpr double kClear = 5.0;
  const double most = 1.0 + options.min_effect;
  const double clear = 1.0 + kClear * options.min_effect;
  const bool significant =
      change.q <= options.level || (change.few_samples && !change.overlap &&
                                    std::max(change.ratio, 1.0 / change.ratio) >= clear);
  if (significant && change.ratio >= most && change.interval.low > 1.0) {
    return "slower";
  }
  if (significant && change.ratio <= 1.0 / most && change.interval.high < 1.0) {
    return "faster";
  }
  const bool within = change.interval.low > 1.0 / most && change.interval.high < most;
  return within ? "same" : "inconclusive";
}

// The mean of the cells' logarithms, drawn as often as the cells' own ratios were.
void add_geometric_mean(Comparison& comparison) {
  double sum = 0.0;
  std::vector<double> means;
  for (const ComparedCell& cell : comparison.cells) {
    if (cell.change) {
      ++comparison.ratios;
      sum += std::log(cell.change->ratio);
      means.resize(cell.change->log_draws.size(), 0.0);
      std::ranges::transform(means, cell.change->log_draws, means.begin(), std::plus());
    }
  }
  if (comparison.ratios == 0) {
    return;
  }
  const auto count = static_cast<double>(comparison.ratios);
  comparison.geometric_mean = std::exp(sum / count);
  comparison.geometric_mean_interval = {std::exp(quantile(means, 0.025) / count),
                                        std::exp(quantile(means, 0.975) / count)};
}

std::vector<std::string> hardware_mismatch(const Timings& base, const Timings& fresh) {
  if (base.context.is_null() || fresh.context.is_null()) {
    return {};
  }
  return environment_differences(base.context, fresh.context);
}

} // namespace

ExitCode Comparison::exit_code() const {
  // Where the base has a time for none of the cells, nothing was compared, however good the new
  // campaign is.
  const bool nothing_compared = std::ranges::all_of(cells, [](const ComparedCell& cell) {
    return cell.verdict == "new" || cell.verdict == "not_compared";
  });
  ExitCode code = nothing_compared ? ExitCode::cells_missing : ExitCode::ok;
  if (!edited.empty()) {
    code = graver(code, ExitCode::environment_mismatch);
  }
  for (const ComparedCell& cell : cells) {
    if (cell.verdict == "wrong") {
      code = graver(code, ExitCode::wrong_result);
    } else if (cell.verdict == "missing" || cell.verdict == "failed" ||
               cell.verdict == "different_work") {
      code = graver(code, ExitCode::cells_missing);
    } else if (cell.verdict == "slower") {
      code = graver(code, ExitCode::regression);
    } else if (cell.verdict == "inconclusive" &&
               cell.change->interval.high >= 1.0 + options.min_effect) {
      code = graver(code, ExitCode::inconclusive);
    }
  }
  return code;
}

std::vector<std::string> environment_mismatch(const Timings& base, const Timings& fresh) {
  if (base.environments.empty() || fresh.environments.empty()) {
    return hardware_mismatch(base, fresh); // Google Benchmark's JSON knows no more
  }
  for (const Timings* timings : {&base, &fresh}) {
    if (timings->environments.size() > 1) {
      return {fmt::format("{} was written in {} environments", timings->source,
                          timings->environments.size())};
    }
  }
  if (base.environments == fresh.environments) {
    return {};
  }
  std::vector<std::string> differences =
      environment_differences(base.environment, fresh.environment);
  if (differences.empty()) {
    differences.push_back("environment_hash");
  }
  return differences;
}

Comparison compare_timings(const Timings& base, const Timings& fresh,
                           const CompareOptions& options) {
  Comparison comparison;
  comparison.base = base.source;
  comparison.fresh = fresh.source;
  comparison.options = options;
  std::vector<double> p_values;
  for (const auto& [key, old] : base.cells) {
    const std::string name = shown_name(base, key);
    const auto* found = counterpart(fresh, key);
    if (found == nullptr) {
      const bool had_one = old.status == "ok";
      comparison.cells.push_back(without_ratio(name, had_one ? "missing" : "not_compared",
                                               had_one ? "the new campaign lacks it"
                                                       : fmt::format("the base's was {}, the new "
                                                                     "campaign lacks it",
                                                                     old.status)));
      continue;
    }
    const auto& [their_key, theirs] = *found;
    const bool other_threads =
        key.threads != 0 && their_key.threads != 0 && key.threads != their_key.threads;
    if (auto cell = finding(name, old, theirs, other_threads)) {
      comparison.cells.push_back(*cell);
      continue;
    }
    // Another seed for each cell, so that the draws of the geometric mean are independent.
    comparison.cells.push_back(compare_cells(name, old, theirs, comparison.cells.size() + 1));
    comparison.one_process =
        comparison.one_process || old.runs_ms.size() == 1 || theirs.runs_ms.size() == 1;
    p_values.push_back(comparison.cells.back().change->p);
  }
  const std::vector<double> adjusted = benjamini_hochberg(p_values);
  std::size_t next = 0;
  for (ComparedCell& cell : comparison.cells) {
    if (cell.change) {
      Change& change = *cell.change;
      change.q = adjusted[next++];
      // Alone among so many cells.
      change.few_samples = change.least_p * static_cast<double>(adjusted.size()) > options.level;
      cell.verdict = verdict_of(change, options);
      if (change.few_samples && change.q > options.level) {
        cell.message += cell.message.empty() ? "" : "; ";
        cell.message += "too few samples for a test";
      }
    }
  }
  for (const auto& [key, cell] : fresh.cells) {
    if (counterpart(base, key) == nullptr) {
      comparison.cells.push_back(
          without_ratio(shown_name(fresh, key), is_wrong(cell) ? "wrong" : "new",
                        cell.status == "ok" ? "the base lacks it" : cell.message));
    }
  }
  for (const Timings* timings : {&base, &fresh}) {
    if (!timings->edited.empty()) {
      comparison.edited.push_back(timings->edited);
    }
  }
  add_geometric_mean(comparison);
  return comparison;
}

} // namespace clusterbench
