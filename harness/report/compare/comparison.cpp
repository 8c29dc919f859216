#include "harness/report/compare/comparison.hpp"

#include "harness/machine/environment.hpp"
#include "harness/report/compare/machine_state.hpp"
#include "harness/report/compare/process_test.hpp"
#include "harness/system/shell_words.hpp"

#include <algorithm>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <numeric>
#include <set>

namespace clusterbench {
namespace {

// Of one sample that is none no logarithm can be taken, whatever the median.
bool positive(const Rounds& rounds) {
  return !rounds.empty() && std::ranges::all_of(rounds, [](const std::vector<double>& round) {
    return !round.empty() && std::ranges::all_of(round, [](double ms) { return ms > 0.0; });
  });
}

ComparedCell without_ratio(const std::string& name, const std::string& verdict,
                           const std::string& message) {
  return {verdict, name, message, std::nullopt};
}

bool is_wrong(const CellTimings& cell) {
  return cell.status == "wrong" || cell.status == "cheated";
}

using NamedCell = std::pair<const CellName, CellTimings>;

// All cells of a name.
std::vector<const NamedCell*> cells_named(const Timings& timings, const std::string& name) {
  std::vector<const NamedCell*> cells;
  for (auto cell = timings.cells.lower_bound({name, 0, {}});
       cell != timings.cells.end() && cell->first.name == name; ++cell) {
    cells.push_back(&*cell);
  }
  return cells;
}

int likeness(const CellName& a, const CellName& b) {
  return (a.problem.same_definition(b.problem) ? 8 : 0) + (a.same_threads(b) ? 4 : 0) +
         (a.problem.same_work(b.problem) ? 2 : 0) + (a.problem.may_be(b.problem) ? 1 : 0);
}

const NamedCell* most_alike(const Timings& timings, const CellName& cell) {
  const NamedCell* best = nullptr;
  for (const NamedCell* other : cells_named(timings, cell.name)) {
    if (best == nullptr || likeness(other->first, cell) > likeness(best->first, cell)) {
      best = other;
    }
  }
  return best;
}

// The same cell in another campaign, with other threads or of another problem if there is no other.
// Another problem's is none where its own counterpart is there.
const NamedCell* counterpart(const Timings& theirs, const CellName& cell, const Timings& mine) {
  const NamedCell* best = most_alike(theirs, cell);
  const bool of_another = best != nullptr && !best->first.problem.may_be(cell.problem);
  return of_another && most_alike(mine, best->first)->first != cell ? nullptr : best;
}

// A cell that was measured with several numbers of threads, or of several problems, is named with
// them.
std::string shown_name(const Timings& timings, const CellName& cell) {
  std::vector<CellName> names;
  for (const NamedCell* other : cells_named(timings, cell.name)) {
    names.push_back(other->first);
  }
  return shown_name(cell, names);
}

double passes_of(const CellTimings& cell) {
  return median_of_rounds(cell.runs_ms) / median_of_rounds(cell.passes.ms());
}

Costs costs_of_runs(const CellTimings& timings) {
  Costs costs;
  for (const std::vector<double>& round : timings.runs_ms) {
    costs.rounds.push_back({round, {}});
  }
  return costs;
}

// What all processes of a campaign may meet, and no sample shows; changes are tested by its
// scatter.
struct Unseen {
  double scatter;
  std::string_view why, how;     ///< a change is left open; one would find out
  std::string_view how_of_table; ///< the same of a cell that the gate can run
};
constexpr Unseen kCrowd{kCrowdedScatter, "it needs all processors of a virtual machine",
                        "fewer --threads would tell",
                        "fewer --threads or `clusterbench gate` would tell"};
constexpr Unseen kShortRuns{kShortScatter, "its runs take less than a millisecond",
                            "longer runs would tell", "`clusterbench gate` would tell"};

// A cell that both campaigns have a time for. Passes are what is compared, where both have recorded
// them.
struct MeasuredTwice {
  std::size_t index; ///< among the compared cells
  Costs base, fresh;
  std::string unlike_machine;            ///< why that is no comparison; or empty
  std::optional<ProcessTest> test;       ///< empty: that, or a side has too few processes
  const Unseen* unseen;                  ///< or nullptr
  std::optional<ProcessTest> of_changes; ///< by the scatter of that
};

MeasuredTwice measured_twice(std::size_t index, const CellTimings& base, const CellTimings& fresh,
                             const Unseen* unseen, double campaign_scatter) {
  const bool by_pass = !base.passes.rounds.empty() && !fresh.passes.rounds.empty();
  MeasuredTwice cell{index,
                     by_pass ? base.passes : costs_of_runs(base),
                     by_pass ? fresh.passes : costs_of_runs(fresh),
                     "",
                     std::nullopt,
                     unseen,
                     std::nullopt};
  cell.unlike_machine = unlike_machine(cell.base, cell.fresh);
  if (cell.unlike_machine.empty()) {
    cell.test = ProcessTest::of(cell.base, cell.fresh, campaign_scatter);
    if (unseen != nullptr) {
      cell.of_changes = ProcessTest::of(cell.base, cell.fresh, unseen->scatter);
    }
  }
  return cell;
}

// Whether a campaign says that it ran on one. Google Benchmark's JSON does not tell.
bool on_virtual_machine(const nlohmann::json& environment) {
  return environment.is_object() && environment.value("system", nlohmann::json::object())
                                            .value("virtual_machine", nlohmann::json()) == true;
}

// What the samples of a campaign's cell do not show; or nullptr.
const Unseen* unseen_by(const CellTimings& cell, const nlohmann::json& environment) {
  constexpr double kShare = 0.75, kShortMs = 1.0;
  if (!on_virtual_machine(environment)) {
    return nullptr; // nobody else is on the host
  }
  const nlohmann::json online =
      environment.value("cpu", nlohmann::json::object()).value("online", nlohmann::json());
  if (!cell.on_gpus && !cell.runs_ms.empty() && median_of_rounds(cell.runs_ms) < kShortMs) {
    return &kShortRuns;
  }
  const bool crowds = online.is_number() && cell.processors > kShare * online.get<double>();
  return crowds ? &kCrowd : nullptr;
}

// Of two campaigns' that of the larger scatter.
const Unseen* worse(const Unseen* one, const Unseen* other) {
  if (one == nullptr || other == nullptr) {
    return one == nullptr ? other : one;
  }
  return one->scatter < other->scatter ? other : one;
}

constexpr std::size_t kMostRounds = 64; // more take longer than the gate

std::string why_no_test(const MeasuredTwice& cell) {
  return !cell.unlike_machine.empty()
             ? cell.unlike_machine
             : fmt::format("fewer than {} processes cannot tell what processes differ by",
                           kLeastProcesses);
}

Change change_of(const MeasuredTwice& cell, const CellTimings& base, const CellTimings& fresh) {
  Change change;
  change.base_ms = median_of_rounds(base.runs_ms);
  change.new_ms = median_of_rounds(fresh.runs_ms);
  change.paired = pair_by_start(cell.base, cell.fresh).has_value();
  if (const auto& test = cell.test) {
    change.ratio = std::exp(test->log_ratio());
    change.interval = test->interval(0.95);
    const ProcessTest& of_changes = cell.of_changes ? *cell.of_changes : *test;
    change.p = std::min(of_changes.p_slower(), of_changes.p_faster());
    change.campaign_scatter = of_changes.campaign_scatter();
  } else {
    change.ratio = point_ratio(cell.base, cell.fresh);
    const Interval before = range_of_rounds(cell.base.ms()),
                   after = range_of_rounds(cell.fresh.ms());
    change.interval = {std::min(after.low / before.high, change.ratio),
                       std::max(after.high / before.low, change.ratio)};
    change.is_range = true;
  }
  return change;
}

// A cell that one of the campaigns cannot give a time for; empty where both can.
std::optional<ComparedCell> finding(const std::string& name, const CellTimings& base,
                                    const CellTimings& fresh, bool other_work) {
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
  if (other_work) {
    return without_ratio(name, "different_work",
                         "the problem, its data or the number of threads differ");
  }
  if (!positive(base.runs_ms) || !positive(fresh.runs_ms)) {
    return without_ratio(name, "failed", "a time is not positive");
  }
  return std::nullopt;
}

bool beyond(const Change& change, const CompareOptions& options) {
  const double most = 1.0 + options.min_effect;
  return change.ratio >= most || change.ratio <= 1.0 / most;
}

std::string verdict_of(const Change& change, const CompareOptions& options) {
  const double most = 1.0 + options.min_effect;
  if (change.is_range) {
    return "inconclusive";
  }
  if (change.q <= options.level && change.ratio >= most) {
    return "slower";
  }
  if (change.q <= options.level && change.ratio <= 1.0 / most) {
    return "faster";
  }
  const double bound = 1.0 + options.same_within();
  const bool is_certain = change.interval.low > 1.0 / bound && change.interval.high < bound;
  return !beyond(change, options) && is_certain ? "same" : "inconclusive";
}

// The p-values of a family of tests, adjusted so that the smallest true one is rejected by mistake
// as seldom as the level says (Holm 1979). In the order given.
std::vector<double> holm(const std::vector<double>& p_values) {
  std::vector<std::size_t> order(p_values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t i) { return p_values[i]; });
  std::vector<double> adjusted(p_values.size());
  double largest = 0.0;
  for (std::size_t rank = 0; rank < order.size(); ++rank) {
    const double q = p_values[order[rank]] * static_cast<double>(order.size() - rank);
    largest = std::max(largest, std::min(q, 1.0));
    adjusted[order[rank]] = largest;
  }
  return adjusted;
}

// A change beyond the minimum effect needs an interval that leaves out 1, among so many cells; a
// smaller one needs an interval within which nothing has changed. At least half as many again as
// there are, which did not tell.
std::optional<std::size_t> rounds_that_tell(const MeasuredTwice& cell, std::size_t cells,
                                            const CompareOptions& options) {
  const std::size_t have = std::min(cell.base.rounds.size(), cell.fresh.rounds.size());
  const std::size_t least = std::max(kUsualRounds, have + (have + 1) / 2);
  const auto& test = cell.test;
  if (!test) { // of as many as there are, where the machine was busy
    return std::max(kUsualRounds, have);
  }
  const double effect = std::log1p(options.min_effect);
  const double size = std::abs(test->log_ratio());
  return size >= effect
             ? test->rounds_for(size, 1.0 - 2.0 * options.level / static_cast<double>(cells), least,
                                kMostRounds)
             : test->rounds_for(std::log1p(options.same_within()) - size, 0.95, least, kMostRounds);
}

// What would tell whether an inconclusive cell has changed. unseen: what its samples do not show.
std::string how_to_tell(const MeasuredTwice& measured, const ComparedCell& cell,
                        const Unseen* unseen) {
  const bool gate_can = !cell.of_table.empty();
  if (!measured.unlike_machine.empty()) {
    return "run both again while it is quiet";
  }
  if (unseen != nullptr) {
    return std::string(gate_can ? unseen->how_of_table : unseen->how);
  }
  if (cell.change->rounds_needed) {
    return fmt::format("{} rounds would tell", *cell.change->rounds_needed);
  }
  return fmt::format("too close for {} rounds{}", kMostRounds,
                     gate_can ? ": `clusterbench gate` would tell" : "");
}

// Of the mean of cells' logarithms. Only what processes differ by is estimated, of each cell from
// its own (Satterthwaite 1946).
struct VarianceOfMean {
  double sum = 0.0, sum_of_squares_by_degrees = 0.0;

  void add(const ProcessTest& test) {
    const double all = std::pow(test.standard_error(), 2);
    sum += all - std::pow(test.campaign_scatter(), 2);
    sum_of_squares_by_degrees += all * all / test.degrees();
  }

  double reach_of_95_percent(double cells, double campaign_scatter) const {
    const double variance = sum / (cells * cells) + campaign_scatter * campaign_scatter;
    const double degrees = variance * variance * std::pow(cells, 4) / sum_of_squares_by_degrees;
    return std::sqrt(variance) *
           boost::math::quantile(boost::math::students_t(std::clamp(degrees, 1.0, 1e6)), 0.975);
  }
};

// Adds what takes all cells to say: verdicts, and the mean of the cells' logarithms.
void judge(const std::vector<MeasuredTwice>& measured, Comparison& comparison) {
  std::vector<double> p_values;
  double sum = 0.0, campaign_scatter = kCampaignScatter;
  VarianceOfMean of_processes;
  bool has_scatter = true;
  for (const MeasuredTwice& cell : measured) {
    const Change& change = *comparison.cells[cell.index].change;
    if (cell.test) { // the others are no tests
      p_values.push_back(change.p);
    }
    sum += std::log(change.ratio);
    if (cell.test) {
      campaign_scatter = std::max(campaign_scatter, cell.test->campaign_scatter());
      of_processes.add(*cell.test);
    }
    has_scatter = has_scatter && cell.test;
  }
  const std::vector<double> adjusted = holm(p_values);
  auto q = adjusted.begin();
  for (std::size_t i = 0; i < measured.size(); ++i) {
    ComparedCell& cell = comparison.cells[measured[i].index];
    cell.change->q = measured[i].test ? *q++ : 1.0;
    cell.verdict = verdict_of(*cell.change, comparison.options);
    if (cell.verdict != "inconclusive") {
      continue;
    }
    // What no sample shows no rounds tell.
    const Unseen* unseen = measured[i].of_changes && beyond(*cell.change, comparison.options)
                               ? measured[i].unseen
                               : nullptr;
    cell.change->rounds_needed =
        unseen != nullptr ? std::nullopt
                          : rounds_that_tell(measured[i], measured.size(), comparison.options);
    const std::string why(!measured[i].test   ? why_no_test(measured[i])
                          : unseen != nullptr ? unseen->why
                                              : "");
    const std::string how = how_to_tell(measured[i], cell, unseen);
    for (const std::string& part : {why, how}) {
      cell.message += fmt::format("{}{}", cell.message.empty() || part.empty() ? "" : "; ", part);
    }
  }
  comparison.ratios = measured.size();
  if (measured.empty()) {
    return;
  }
  const auto count = static_cast<double>(measured.size());
  comparison.geometric_mean = std::exp(sum / count);
  if (has_scatter) { // the machine of a minute later is the same for all cells
    const double reach = of_processes.reach_of_95_percent(count, campaign_scatter);
    comparison.geometric_mean_interval = {std::exp(sum / count - reach),
                                          std::exp(sum / count + reach)};
  }
}

// The variants whose cells need more rounds, or none where all cells of the base do.
std::set<std::string> variants_to_run(const Comparison& comparison, const Timings& base) {
  std::set<std::string> needed;
  for (const ComparedCell& cell : comparison.cells) {
    if (cell.verdict == "inconclusive" && cell.change->rounds_needed) {
      needed.insert(cell.variant);
    }
  }
  return needed == base.variants || needed.contains("") ? std::set<std::string>() : needed;
}

// As a shell takes it: the base's command, for those variants alone that need the rounds. Other
// commands than `run` take none.
std::string command_for(const Comparison& comparison, const Timings& base) {
  const auto rounds = comparison.rounds_needed();
  if (!rounds || base.command.size() < 2 || base.command[1] != "run") {
    return "";
  }
  const std::set<std::string> variants = variants_to_run(comparison, base);
  std::string text;
  bool names_variants = false; // the option takes all words up to the next option
  for (const std::string& word : base.command) {
    if (word.starts_with("-")) {
      names_variants = word == "--variant" || word.starts_with("--variant=");
    }
    if (names_variants && !variants.empty()) {
      continue;
    }
    text += fmt::format("{}{}", text.empty() ? "" : " ", quoted_for_shell(word));
  }
  for (const std::string& variant : variants) {
    text += fmt::format(" --variant {}", quoted_for_shell(variant));
  }
  return fmt::format("{} --rounds {} --starts 1 --out FOLDER", text, *rounds);
}

// As a shell takes it: for the cells of tables that rounds of `run` do not settle.
std::string gate_command_for(const Comparison& comparison, const Timings& base) {
  std::string cells;
  for (const ComparedCell& cell : comparison.cells) {
    const bool is_open =
        cell.verdict == "slower" || (cell.verdict == "inconclusive" && !cell.change->rounds_needed);
    if (is_open && !cell.of_table.empty()) {
      cells += fmt::format(" {}", quoted_for_shell(cell.of_table));
    }
  }
  const bool full = std::ranges::find(base.command, "--quick") == base.command.end();
  return cells.empty() ? ""
                       : fmt::format("clusterbench gate --base BUILD --new BUILD{}{}",
                                     full ? " --full" : "", cells);
}

// A probe's rates scatter with what else runs, but not like this.
std::vector<std::string> mismatch_of_rates(const Timings& base, const Timings& fresh) {
  constexpr double kMostScatter = 2.0;
  std::vector<std::string> differences;
  for (const auto& [name, rate] : base.rates) {
    const auto found = fresh.rates.find(name);
    if (found != fresh.rates.end() &&
        std::max(rate / found->second, found->second / rate) > kMostScatter) {
      differences.push_back(fmt::format("{}: {:.3g}, {:.3g}", name, rate, found->second));
    }
  }
  return differences;
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
               (cell.change->is_range || cell.change->ratio >= 1.0 + options.min_effect ||
                cell.change->interval.high >= 1.0 + options.same_within())) {
      code = graver(code, ExitCode::inconclusive);
    }
  }
  return code;
}

std::optional<std::size_t> Comparison::rounds_needed() const {
  std::optional<std::size_t> most;
  for (const ComparedCell& cell : cells) {
    if (cell.verdict == "inconclusive" && cell.change->rounds_needed) {
      most = std::max(most.value_or(0), *cell.change->rounds_needed);
    }
  }
  return most;
}

std::vector<std::string> environment_mismatch(const Timings& base, const Timings& fresh) {
  if (base.environments.empty() || fresh.environments.empty()) {
    return hardware_mismatch(base, fresh); // Google Benchmark's JSON knows no more
  }
  for (const Timings* timings : {&base, &fresh}) {
    if (timings->environments.size() > 1) {
      return {fmt::format(
          "{} was written in {} environments, and of a cell of several the last "
          "counts: {}",
          timings->source, timings->environments.size(),
          listed(environment_differences(timings->earlier_environment, timings->environment)))};
    }
  }
  if (base.environments == fresh.environments) {
    return mismatch_of_rates(base, fresh);
  }
  const std::vector<std::string> differences =
      environment_differences(base.environment, fresh.environment);
  return differences.empty() ? mismatch_of_rates(base, fresh) : differences;
}

Comparison compare_timings(const Timings& base, const Timings& fresh,
                           const CompareOptions& options) {
  Comparison comparison;
  comparison.base = base.source;
  comparison.fresh = fresh.source;
  comparison.options = options;
  comparison.left_out = base.left_out;
  const auto may_be_virtual = [](const Timings& timings) { // where it is not known, too
    return !timings.environment.is_object() || on_virtual_machine(timings.environment);
  };
  const bool is_virtual = may_be_virtual(base) || may_be_virtual(fresh);
  std::vector<MeasuredTwice> measured;
  for (const auto& [key, old] : base.cells) {
    const std::string name = shown_name(base, key);
    const auto* found = counterpart(fresh, key, base);
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
    const bool other_work =
        !key.same_threads(their_key) || !key.problem.same_work(their_key.problem);
    if (auto cell = finding(name, old, theirs, other_work)) {
      comparison.cells.push_back(*cell);
      continue;
    }
    measured.push_back(measured_twice(
        comparison.cells.size(), old, theirs,
        worse(unseen_by(old, base.environment), unseen_by(theirs, fresh.environment)),
        is_virtual && !old.on_gpus ? kVirtualScatter : kCampaignScatter));
    ComparedCell& cell = comparison.cells.emplace_back(without_ratio(name, "", ""));
    cell.change = change_of(measured.back(), old, theirs);
    cell.variant = old.variant;
    if (!key.name.starts_with("adhoc/") && base.environment.is_object()) {
      cell.of_table = key.name;
    }
    if (!old.passes.rounds.empty() && !theirs.passes.rounds.empty() &&
        std::abs(passes_of(theirs) / passes_of(old) - 1.0) > 1e-3) {
      cell.message = fmt::format("of one pass: {:.4g} passes before, {:.4g} now", passes_of(old),
                                 passes_of(theirs));
    }
  }
  judge(measured, comparison);
  comparison.command = command_for(comparison, base);
  comparison.gate_command = gate_command_for(comparison, base);
  for (const auto& [key, cell] : fresh.cells) {
    if (counterpart(base, key, fresh) == nullptr) {
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
  return comparison;
}

} // namespace clusterbench
