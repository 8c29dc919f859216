#include "datasets/errors.hpp"
#include "harness/cli/commands.hpp"
#include "harness/cli/compare_report.hpp"
#include "harness/system/messages.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <memory>

namespace clusterbench {
namespace {

struct CompareArguments {
  std::string base, fresh;
  double min_effect_percent = 2.0;
  bool across_environments = false;
  bool markdown = false;
  bool as_json = false;
};

ExitCode compare(const CompareArguments& arguments) {
  if (!(arguments.min_effect_percent >= 0.0)) {
    throw datasets::InputError("--min-effect: a percentage that is not negative is needed");
  }
  const Timings base = read_timings(arguments.base);
  const Timings fresh = read_timings(arguments.fresh);
  if (const auto mismatch = environment_mismatch(base, fresh); !mismatch.empty()) {
    say("clusterbench: {} and {} differ in their environment:\n  {}\n", base.source, fresh.source,
        fmt::join(mismatch, "\n  "));
    if (!arguments.across_environments) {
      say("times of different environments tell nothing about a change of the "
          "program; --across-environments compares them all the same\n");
      return ExitCode::environment_mismatch;
    }
  }
  CompareOptions options;
  options.min_effect = arguments.min_effect_percent / 100.0;
  const Comparison comparison = compare_timings(base, fresh, options);
  if (comparison.cells.empty()) {
    throw datasets::InputError(fmt::format("{}: no cells", base.source));
  }
  if (arguments.as_json) {
    fmt::print("{}\n", to_json(comparison).dump(2));
  } else {
    fmt::print("{}", render_comparison(comparison, arguments.markdown ? TextStyle::markdown
                                                                      : TextStyle::terminal));
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
  command->add_flag("--across-environments", arguments->across_environments,
                    "Compare also what different machines or settings measured");
  CLI::Option* markdown = command->add_flag("--markdown", arguments->markdown, "As Markdown");
  command->add_flag("--json", arguments->as_json, "As JSON")->excludes(markdown);
  command->callback([&action, arguments] { action = [arguments] { return compare(*arguments); }; });
}

} // namespace clusterbench
