#include "datasets/errors.hpp"
#include "harness/cli/commands.hpp"
#include "harness/cli/options.hpp"
#include "harness/ledger/ledger.hpp"
#include "harness/machine/environment.hpp"
#include "harness/report/compare/compare_report.hpp"
#include "harness/system/messages.hpp"

#include <filesystem>
#include <fmt/format.h>
#include <memory>
#include <string>
#include <vector>

namespace clusterbench {
namespace {

struct CompareArguments {
  std::string base, fresh;
  std::vector<std::string> cells; ///< globs; empty: all
  double min_effect_percent = 2.0;
  bool across = false;
  bool wide = false;
  bool markdown = false;
  bool as_json = false;
};

ExitCode compare(const CompareArguments& arguments) {
  if (!(arguments.min_effect_percent >= 0.0)) {
    throw datasets::InputError("--min-effect: a percentage that is not negative is needed");
  }
  std::error_code none; // what is missing its reader names
  if (std::filesystem::equivalent(ledger_file(arguments.base), ledger_file(arguments.fresh),
                                  none)) {
    say("clusterbench: {} and {} are the same campaign, which tells no change\n", arguments.base,
        arguments.fresh);
  }
  Timings base = read_timings(arguments.base);
  Timings fresh = read_timings(arguments.fresh);
  keep_cells({&base, &fresh}, arguments.cells);
  std::string differences;
  if (const auto mismatch = environment_mismatch(base, fresh); !mismatch.empty()) {
    differences = listed(mismatch);
    if (!arguments.across) {
      say("clusterbench: {} and {} are of different environments: {}\n"
          "such times tell nothing about a change of the program; --across compares them all the "
          "same\n",
          base.source, fresh.source, differences);
      return ExitCode::environment_mismatch;
    }
  }
  CompareOptions options;
  options.min_effect = arguments.min_effect_percent / 100.0;
  Comparison comparison = compare_timings(base, fresh, options);
  comparison.environments_differ = differences;
  if (comparison.cells.empty()) {
    throw datasets::InputError(fmt::format("{}: no cells", base.source));
  }
  if (arguments.as_json) {
    fmt::print("{}\n", to_json(comparison).dump(2));
  } else {
    fmt::print("{}", render_comparison(comparison, text_style(arguments.markdown), arguments.wide));
  }
  return comparison.exit_code();
}

} // namespace

void add_compare_command(CLI::App& app, Action& action) {
  const auto arguments = std::make_shared<CompareArguments>();
  CLI::App* command = app.add_subcommand(
      "compare", "Compare two campaigns cell by cell, start by start where both had the same "
                 "starts, running nothing");
  command
      ->add_option("base", arguments->base,
                   "The earlier campaign: a folder, its ledger.jsonl or its gbench.json")
      ->required();
  command->add_option("new", arguments->fresh, "The later campaign")->required();
  command
      ->add_option("--min-effect", arguments->min_effect_percent,
                   "Changes below so many percent count as none")
      ->capture_default_str();
  command->add_option(
      "--cells", arguments->cells,
      "Shell glob of cells, TABLE/PROBLEM/VARIANT/PRECISION (repeatable; default: all)");
  command->add_flag("--across", arguments->across,
                    "Compare also what different machines or settings measured");
  CLI::Option* wide = command->add_flag("--wide", arguments->wide,
                                        "One table with all columns, beyond the 100 of a terminal");
  CLI::Option* markdown = command->add_flag("--markdown", arguments->markdown, "As Markdown");
  command->add_flag("--json", arguments->as_json, "As JSON")->excludes(markdown)->excludes(wide);
  command->callback([&action, arguments] { action = [arguments] { return compare(*arguments); }; });
}

} // namespace clusterbench
