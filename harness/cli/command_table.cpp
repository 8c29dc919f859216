#include "datasets/errors.hpp"
#include "harness/cli/commands.hpp"
#include "harness/cli/options.hpp"
#include "harness/report/closing.hpp"
#include "harness/report/splice.hpp"
#include "harness/report/table_json.hpp"
#include "harness/report/table_text.hpp"

#include <fmt/format.h>
#include <memory>

namespace clusterbench {
namespace {

struct TableArguments {
  std::string name;
  std::vector<std::string> ledgers;
  bool quick = false;
  bool compact = false;
  bool wide = false;
  bool markdown = false;
  bool as_json = false;
  std::string splice;
};

// The command that prints what is spliced.
std::string command_of(const TableArguments& arguments) {
  std::string command = "clusterbench table " + arguments.name;
  for (const std::string& ledger : arguments.ledgers) {
    command += " --from " + ledger;
  }
  command += arguments.quick ? " --quick" : "";
  command += arguments.compact ? " --compact" : "";
  return command + " --markdown";
}

ExitCode show_table(const TableArguments& arguments) {
  if (arguments.as_json &&
      (arguments.markdown || arguments.compact || arguments.wide || !arguments.splice.empty())) {
    throw datasets::InputError("--json excludes --markdown, --compact, --wide and --splice");
  }
  const Table table = load_table(arguments.name, arguments.quick);
  const TableReport report =
      make_table_report(table, read_measurements(arguments.ledgers, table.name),
                        published_part(table, arguments.quick));
  if (arguments.as_json) {
    fmt::print("{}\n", to_json(report).dump(2));
    return ExitCode::ok;
  }
  const bool narrow = !arguments.wide && !arguments.markdown && arguments.splice.empty();
  const TableForm form = arguments.compact ? TableForm::compact
                         : narrow          ? TableForm::narrow
                                           : TableForm::full;
  if (!arguments.splice.empty()) {
    splice(arguments.splice, "table " + table.name,
           table_text(report, form, TextStyle::markdown, command_of(arguments)));
    return ExitCode::ok;
  }
  const TextStyle style = text_style(arguments.markdown);
  fmt::print("{}", table_text(report, form, style));
  if (!arguments.markdown && !arguments.compact) {
    fmt::print("\n{}", closing_text({report}, style));
  }
  return ExitCode::ok;
}

} // namespace

void add_table_command(CLI::App& app, Action& action) {
  const auto arguments = std::make_shared<TableArguments>();
  CLI::App* command = app.add_subcommand(
      "table", "Print a table from ledgers beside the article's, running nothing");
  command->add_option("name", arguments->name, "Name of the table")->required();
  command
      ->add_option("--from", arguments->ledgers,
                   "Ledger or folder that holds one (repeatable; the first machine that has a cell "
                   "speaks for it, of those with its processors and GPUs the newest)")
      ->required();
  command->add_flag("--quick", arguments->quick, "The table's smaller sizes");
  command->add_flag("--compact", arguments->compact,
                    "The article's rows, and one line for each variant: time per iteration and "
                    "whole answer");
  command->add_flag("--wide", arguments->wide, "All columns, beyond the 100 of a terminal");
  command->add_flag("--markdown", arguments->markdown, "As Markdown");
  command->add_flag("--json", arguments->as_json, "As JSON (results/table.schema.json)");
  command->add_option("--splice", arguments->splice,
                      "Write it into FILE between <!-- table NAME begin --> and end markers");
  command->callback([&action, arguments, command] {
    action = [arguments, command] {
      check_output_names(*command, {{"--splice", "file"}});
      return show_table(*arguments);
    };
  });
}

} // namespace clusterbench
