#include "harness/compare/comparison.hpp"

#include "harness/compare/rank_test.hpp"
#include "harness/machine/environment.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace clusterbench {
namespace {

// What is independent of one another: the rounds' medians, because the samples of a process have in
// common what processes differ by; single processes can only be asked about their samples.
std::array<std::vector<double>, 2> independent(const Rounds& base, const Rounds& fresh) {
  if (base.size() == 1 && fresh.size() == 1) {
    return {base.front(), fresh.front()};
  }
  return {medians_of_rounds(base), medians_of_rounds(fresh)};
}

bool positive(const Rounds& rounds) {
  return !rounds.empty() && median_of_rounds(rounds) > 0.0;
}

ComparedCell without_ratio(const std::string& name, const std::string& verdict,
                           const std::string& message) {
  return {verdict, name, message, std::nullopt};
}

// A cell that one of the campaigns cannot give a time for; empty where both can.
std::optional<ComparedCell> finding(const std::string& name, const CellTimings& base,
                                    const CellTimings& fresh) {
  if (fresh.status == "ok" && base.status != "ok") {
    return without_ratio(name, "new", fmt::format("the base's was {}", base.status));
  }
  if (fresh.status != "ok") {
    if (base.status == fresh.status) {
      return without_ratio(name, "not_compared", fmt::format("{}, as before", fresh.status));
    }
    const std::string text = fmt::format("{}: {}", fresh.status, fresh.message);
    const bool wrong = fresh.status == "wrong";
    const bool only_worse = base.status != "ok"; // it failed before, in another way
    return without_ratio(name, wrong ? "wrong" : only_worse ? "not_compared" : "failed", text);
  }
  if (!base.work.empty() && !fresh.work.empty() && base.work != fresh.work) {
    return without_ratio(name, "different_work",
                         "the problem, its data or the number of threads differ");
  }
  if (!positive(base.rounds_ms) || !positive(fresh.rounds_ms)) {
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
void add_geometric_mean(Comparison& comparison, const std::vector<std::vector<double>>& log_draws) {
  comparison.ratios = log_draws.size();
  if (log_draws.empty()) {
    return;
  }
  const auto count = static_cast<double>(log_draws.size());
  double sum = 0.0;
  for (const ComparedCell& cell : comparison.cells) {
    sum += cell.change ? std::log(cell.change->ratio) : 0.0;
  }
  comparison.geometric_mean = std::exp(sum / count);
  std::vector<double> means(log_draws.front().size(), 0.0);
  for (const std::vector<double>& draws : log_draws) {
    for (std::size_t i = 0; i < means.size(); ++i) {
      means[i] += draws[i] / count;
    }
  }
  comparison.geometric_mean_interval = {std::exp(quantile(means, 0.025)),
                                        std::exp(quantile(means, 0.975))};
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
  if (base.environment_hashes.empty() || fresh.environment_hashes.empty()) {
    return hardware_mismatch(base, fresh); // Google Benchmark's JSON knows no more
  }
  for (const Timings* timings : {&base, &fresh}) {
    if (timings->environment_hashes.size() > 1) {
      return {fmt::format("{} was written in {} environments", timings->source,
                          timings->environment_hashes.size())};
    }
  }
  if (base.environment_hashes == fresh.environment_hashes) {
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
  Comparison comparison{base.source, fresh.source, options, {}, 0, false, 1.0, {1.0, 1.0}};
  std::vector<double> p_values, least_p;
  std::vector<std::vector<double>> log_draws;
  for (const auto& [name, old] : base.cells) {
    const auto found = fresh.cells.find(name);
    if (found == fresh.cells.end()) {
      const bool had_one = old.status == "ok";
      comparison.cells.push_back(without_ratio(name, had_one ? "missing" : "not_compared",
                                               had_one ? "the new campaign lacks it"
                                                       : fmt::format("the base's was {}, the new "
                                                                     "campaign lacks it",
                                                                     old.status)));
      continue;
    }
    if (auto cell = finding(name, old, found->second)) {
      comparison.cells.push_back(*cell);
      continue;
    }
    // Another seed for each cell, so that the draws of the geometric mean are independent.
    const RatioOfMedians ratio =
        ratio_of_medians(old.rounds_ms, found->second.rounds_ms, 2000, comparison.cells.size() + 1);
    Change change;
    change.base_ms = median_of_rounds(old.rounds_ms);
    change.new_ms = median_of_rounds(found->second.rounds_ms);
    change.ratio = ratio.ratio;
    change.interval = ratio.interval;
    change.is_range = ratio.is_range;
    comparison.one_process =
        comparison.one_process || old.rounds_ms.size() == 1 || found->second.rounds_ms.size() == 1;
    const auto [before, after] = independent(old.rounds_ms, found->second.rounds_ms);
    change.p = mann_whitney_p(before, after);
    change.overlap = std::ranges::min(before) <= std::ranges::max(after) &&
                     std::ranges::min(after) <= std::ranges::max(before);
    least_p.push_back(least_mann_whitney_p(before.size(), after.size()));
    p_values.push_back(change.p);
    log_draws.push_back(ratio.log_draws);
    comparison.cells.push_back({"", name, "", change});
  }
  const std::vector<double> adjusted = benjamini_hochberg(p_values);
  std::size_t next = 0;
  for (ComparedCell& cell : comparison.cells) {
    if (cell.change) {
      Change& change = *cell.change;
      change.q = adjusted[next];
      // Alone among so many cells.
      change.few_samples = least_p[next++] * static_cast<double>(adjusted.size()) > options.level;
      cell.verdict = verdict_of(change, options);
      if (change.few_samples && change.q > options.level) {
        cell.message = "too few samples for a test";
      }
    }
  }
  for (const auto& [name, cell] : fresh.cells) {
    if (!base.cells.contains(name)) {
      const bool wrong = cell.status == "wrong";
      comparison.cells.push_back(without_ratio(
          name, wrong ? "wrong" : "new", cell.status == "ok" ? "the base lacks it" : cell.message));
    }
  }
  add_geometric_mean(comparison, log_draws);
  return comparison;
}

} // namespace clusterbench
