#include "datasets/errors.hpp"
#include "harness/cli/commands.hpp"
#include "harness/cli/options.hpp"
#include "harness/ledger/ledger.hpp"
#include "harness/problem/table.hpp"
#include "harness/report/page/page_data.hpp"
#include "harness/report/page/page_text.hpp"
#include "harness/system/files.hpp"
#include "harness/system/messages.hpp"
#include "harness/system/program_folder.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <memory>
#include <optional>
#include <set>
#include <utility>

namespace clusterbench {
namespace {

struct ReportArguments {
  std::vector<std::string> paths;
  std::string out;
  std::string source;
};

// The articles' tables of which the ledgers have cells, beside what was printed; not those of
// smaller sizes.
std::vector<TableReport> article_tables(const Measurements& measurements) {
  std::set<std::string> names, quick;
  for (const Measured& cell : measurements.cells) {
    names.insert(cell.representative().table);
    if (std::ranges::any_of(cell.rounds, is_quick)) {
      quick.insert(cell.representative().table);
    }
  }
  std::vector<TableReport> reports;
  for (const std::string& name : table_names()) {
    if (names.contains(name) && !quick.contains(name)) {
      const Table table = load_table(name, /*quick=*/false);
      if (std::optional<Published> published = load_published(table)) {
        Measurements all = measurements;
        std::erase_if(all.cells,
                      [&](const Measured& cell) { return cell.representative().table != name; });
        reports.push_back(make_table_report(table, std::move(all), std::move(published)));
      }
    }
  }
  return reports;
}

ExitCode write_report(const ReportArguments& arguments) {
  const Measurements measurements = read_measurements(ledgers_below(arguments.paths));
  const std::string page = read_page_template(program_folder());
  check_can_write("--out", arguments.out, page_beginning(page));
  const nlohmann::json data = page_data(measurements, variant_texts(measurements, arguments.source),
                                        article_tables(measurements));
  write_text_file(arguments.out, page_text(page, data));
  tell("{} cells: {}\n", measurements.cells.size(), arguments.out);
  for (const std::string& sentence : measurements.edited) {
    tell("{}\n", sentence);
  }
  return measurements.edited.empty() ? ExitCode::ok : ExitCode::environment_mismatch;
}

} // namespace

void add_report_command(CLI::App& app, Action& action) {
  const auto arguments = std::make_shared<ReportArguments>();
  CLI::App* command = app.add_subcommand(
      "report", "Write one HTML file to play with what ledgers hold: filters, a plot, a table");
  command
      ->add_option("ledgers", arguments->paths, "Ledgers, or folders that hold some at any depth")
      ->required();
  command->add_option("--out", arguments->out, "The file to write")->required();
  command->add_option("--source", arguments->source,
                      "Source tree that says what the variants are (default: near the program or "
                      "the working folder)");
  command->callback([&action, arguments, command] {
    action = [arguments, command] {
      check_output_names(*command, {{"--out", "file"}});
      return write_report(*arguments);
    };
  });
}

} // namespace clusterbench
