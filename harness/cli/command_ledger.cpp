#include "datasets/errors.hpp"
#include "harness/cli/commands.hpp"
#include "harness/report/table_json.hpp"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <map>
#include <memory>

namespace clusterbench {
namespace {

namespace fs = std::filesystem;

struct LedgerArguments {
  std::vector<std::string> paths;
  bool as_json = false;
};

// Ledgers themselves, and all that lie below folders, in the order of their names.
std::vector<std::string> ledgers_in(const std::vector<std::string>& paths) {
  std::vector<std::string> ledgers;
  for (const std::string& path : paths) {
    if (!fs::is_directory(path)) {
      ledgers.push_back(path);
      continue;
    }
    std::vector<std::string> below;
    for (const auto& entry : fs::recursive_directory_iterator(path)) {
      const std::string name = entry.path().filename();
      if (name.starts_with("ledger") && name.ends_with(".jsonl")) {
        below.push_back(entry.path());
      }
    }
    if (below.empty()) {
      throw datasets::InputError(fmt::format("{}: holds no ledger.jsonl", path));
    }
    std::ranges::sort(below);
    std::ranges::move(below, std::back_inserter(ledgers));
  }
  return ledgers;
}

// How many cells of each machine ended how.
std::string summary(const Measurements& measurements) {
  std::string text;
  for (std::size_t i = 0; i < measurements.machines.size(); ++i) {
    const Machine& machine = measurements.machines[i];
    std::map<std::string, int> counts;
    for (const Measured& cell : measurements.cells) {
      counts[cell.speaker().status] += cell.machine == i ? 1 : 0;
    }
    text += fmt::format("{}: {} ({})\n", machine.id, machine.name, machine.days());
    for (const auto& [status, count] : counts) {
      text += count > 0 ? fmt::format("  {} {}\n", count, status) : "";
    }
  }
  for (const std::string& sentence : measurements.edited) {
    text += sentence + "\n";
  }
  return text;
}

ExitCode show(const LedgerArguments& arguments) {
  const Measurements measurements = read_measurements(ledgers_in(arguments.paths));
  fmt::print("{}", arguments.as_json ? to_json(measurements).dump() + "\n" : summary(measurements));
  return measurements.edited.empty() ? ExitCode::ok : ExitCode::environment_mismatch;
}

} // namespace

void add_ledger_command(CLI::App& app, Action& action) {
  const auto arguments = std::make_shared<LedgerArguments>();
  CLI::App* command = app.add_subcommand(
      "ledger", "Say what ledgers hold, and whether they are as they were written");
  command
      ->add_option("ledgers", arguments->paths, "Ledgers, or folders that hold some at any depth")
      ->required();
  command->add_flag("--json", arguments->as_json,
                    "All cells as JSON, which plots/make.py reads (results/table.schema.json)");
  command->callback([&action, arguments] { action = [arguments] { return show(*arguments); }; });
}

} // namespace clusterbench
