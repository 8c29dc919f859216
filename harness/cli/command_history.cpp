#include "datasets/errors.hpp"
#include "harness/cli/commands.hpp"
#include "harness/cli/options.hpp"
#include "harness/ledger/ledger.hpp"
#include "harness/report/compare/history_report.hpp"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <iterator>
#include <memory>
#include <set>

namespace clusterbench {
namespace {

struct HistoryArguments {
  std::vector<std::string> campaigns;
  std::vector<std::string> cells; ///< globs; empty: all
  double min_effect_percent = 2.0;
  bool as_json = false;
};

// A folder with a ledger.jsonl is a campaign. Any other stands for all ledgers below it, in the
// order of time.
std::vector<Timings> campaigns_of(const std::string& path) {
  if (!std::filesystem::is_directory(path) ||
      std::filesystem::exists(std::filesystem::path(path) / "ledger.jsonl")) {
    return {read_timings(path)};
  }
  std::vector<Timings> campaigns;
  std::ranges::transform(ledgers_below({path}), std::back_inserter(campaigns), read_timings);
  std::ranges::stable_sort(campaigns, {}, &Timings::started);
  return campaigns;
}

// Those that two folders hold, or that are named twice, count once.
void drop_duplicates(std::vector<Timings>& campaigns) {
  std::set<std::filesystem::path> seen;
  std::erase_if(campaigns, [&](const Timings& campaign) {
    return !seen.insert(std::filesystem::weakly_canonical(ledger_file(campaign.source))).second;
  });
}

ExitCode show_history(const HistoryArguments& arguments) {
  if (!(arguments.min_effect_percent >= 0.0)) {
    throw datasets::InputError("--min-effect: a percentage that is not negative is needed");
  }
  std::vector<Timings> campaigns;
  for (const std::string& path : arguments.campaigns) {
    std::ranges::move(campaigns_of(path), std::back_inserter(campaigns));
  }
  drop_duplicates(campaigns);
  std::vector<Timings*> all;
  std::ranges::transform(campaigns, std::back_inserter(all), [](Timings& each) { return &each; });
  keep_cells(all, arguments.cells);
  CompareOptions options;
  options.min_effect = arguments.min_effect_percent / 100.0;
  const std::vector<CellHistory> cells = history_of(campaigns, options);
  const std::vector<std::string> edited = edited_of(campaigns);
  const std::string order = order_of(campaigns);
  fmt::print("{}", arguments.as_json ? to_json(cells, edited, order).dump(2) + "\n"
                                     : render_history(cells, edited, order, text_style(false)));
  return edited.empty() ? ExitCode::ok : ExitCode::environment_mismatch;
}

} // namespace

void add_history_command(CLI::App& app, Action& action) {
  const auto arguments = std::make_shared<HistoryArguments>();
  CLI::App* command = app.add_subcommand(
      "history", "Follow cells over many campaigns, the earliest first, and mark where a time "
                 "changed; running nothing");
  command
      ->add_option("campaigns", arguments->campaigns,
                   "Folders, their ledger.jsonl or their gbench.json; a folder without a ledger "
                   "stands for those below it, in the order of time")
      ->required();
  command
      ->add_option("--min-effect", arguments->min_effect_percent,
                   "Changes below so many percent count as none")
      ->capture_default_str();
  command->add_option(
      "--cells", arguments->cells,
      "Shell glob of cells, TABLE/PROBLEM/VARIANT/PRECISION (repeatable; default: all)");
  command->add_flag("--json", arguments->as_json, "As JSON");
  command->callback(
      [&action, arguments] { action = [arguments] { return show_history(*arguments); }; });
}

} // namespace clusterbench
