#include "harness/cli/commands.hpp"
#include "harness/cli/report.hpp"
#include "harness/run/ledger.hpp"
#include "harness/run/limits.hpp"

#include <fmt/format.h>
#include <memory>

namespace clusterbench {
namespace {

struct TableArguments {
  std::string name;
  std::vector<std::string> ledgers;
  bool quick = false;
  bool markdown = false;
  std::string splice;
};

ExitCode show_table(const TableArguments& arguments) {
  const Table table = load_table(arguments.name, arguments.quick);
  std::vector<nlohmann::json> rows;
  for (const std::string& ledger : arguments.ledgers) {
    // Figures follow from the recorded samples and limits by the rules of this program, also where
    // an older one wrote the ledger.
    nlohmann::json limits = nlohmann::json::object();
    for (nlohmann::json& line : read_ledger(ledger)) {
      if (line.value("type", "") == "header") {
        limits = line.at("limits");
      } else {
        add_derived_figures(line, limits);
        rows.push_back(std::move(line));
      }
    }
  }
  if (!arguments.splice.empty()) {
    splice(arguments.splice, "table " + table.name,
           render_table(table, rows, ReportStyle::markdown));
    return ExitCode::ok;
  }
  fmt::print("{}",
             render_table(table, rows,
                          arguments.markdown ? ReportStyle::markdown : ReportStyle::terminal));
  return ExitCode::ok;
}

} // namespace

void add_table_command(CLI::App& app, Action& action) {
  const auto arguments = std::make_shared<TableArguments>();
  CLI::App* command = app.add_subcommand("table", "Print a table from ledgers, running nothing");
  command->add_option("name", arguments->name, "Name of the table")->required();
  command->add_option("--from", arguments->ledgers, "Ledger or folder that holds one (repeatable)")
      ->required();
  command->add_flag("--quick", arguments->quick, "The table's smaller sizes");
  command->add_flag("--markdown", arguments->markdown, "As Markdown");
  command->add_option("--splice", arguments->splice,
                      "Write it into FILE between <!-- table NAME begin --> and end markers");
  command->callback(
      [&action, arguments] { action = [arguments] { return show_table(*arguments); }; });
}

} // namespace clusterbench
