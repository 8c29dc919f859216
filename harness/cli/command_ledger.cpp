#include "harness/cli/commands.hpp"
#include "harness/cli/options.hpp"
#include "harness/ledger/ledger.hpp"
#include "harness/ledger/repair.hpp"
#include "harness/report/table_json.hpp"
#include "harness/system/messages.hpp"

#include <fmt/format.h>
#include <map>
#include <memory>

namespace clusterbench {
namespace {

struct LedgerArguments {
  std::vector<std::string> paths;
  bool as_json = false;
};

// How many cells of each machine ended how.
std::string summary(const Measurements& measurements) {
  std::string text;
  for (std::size_t i = 0; i < measurements.machines.size(); ++i) {
    const Machine& machine = measurements.machines[i];
    std::map<std::string, int> counts;
    for (const Measured& cell : measurements.cells) {
      counts[cell.representative().status] += cell.machine == i ? 1 : 0;
    }
    text += fmt::format("{}: {} ({})\n", machine.id, machine.name, machine.days());
    if (const std::string unlike = unlike_namesake(measurements.machines, i); !unlike.empty()) {
      text += fmt::format("  {}\n", unlike);
    }
    for (const auto& [status, count] : counts) {
      text += count > 0 ? fmt::format("  {} {}\n", count, status) : "";
    }
  }
  for (const std::string& sentence : measurements.edited) {
    text += sentence + "\n";
  }
  return text;
}

struct RepairArguments {
  std::string ledger, out;
};

// "line 3 is not JSON" of every damaged line, after the ledger's name.
void print_damage(const LedgerScan& scan) {
  for (const DamagedLine& line : scan.damaged) {
    tell("{}: line {} {}\n", scan.file, line.number, line.why);
  }
}

std::string counted(std::size_t count, const char* what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

ExitCode check(const LedgerArguments& arguments) {
  ExitCode code = ExitCode::ok;
  for (const std::string& path : ledgers_below(arguments.paths)) {
    const LedgerScan scan = scan_ledger(path);
    print_damage(scan);
    if (!scan.content.edited.empty()) {
      tell("{}\n", scan.content.edited);
    }
    if (!scan.damaged.empty() || !scan.content.edited.empty()) {
      code = ExitCode::environment_mismatch;
    } else {
      tell("{}: sound: {}\n", scan.file, counted(scan.content.rows.size(), "row"));
    }
  }
  return code;
}

ExitCode repair(const RepairArguments& arguments) {
  const LedgerScan scan = scan_ledger(arguments.ledger);
  if (scan.damaged.empty()) {
    tell("{}: no line is damaged; nothing is written\n", scan.file);
    return ExitCode::ok;
  }
  write_repaired(scan, arguments.out);
  print_damage(scan);
  tell("{}: {} of {}; {}.damaged: {}\n", arguments.out, counted(scan.content.rows.size(), "row"),
       scan.file, arguments.out, counted(scan.damaged.size(), "damaged line"));
  return ExitCode::ok;
}

ExitCode show(const LedgerArguments& arguments) {
  const Measurements measurements = read_measurements(ledgers_below(arguments.paths));
  fmt::print("{}", arguments.as_json ? to_json(measurements).dump() + "\n"
                                     : harmless(summary(measurements)));
  return measurements.edited.empty() ? ExitCode::ok : ExitCode::environment_mismatch;
}

void add_check_command(CLI::App& ledger, Action& action) {
  const auto arguments = std::make_shared<LedgerArguments>();
  CLI::App* command = ledger.add_subcommand(
      "check", "Say which lines are damaged, and why; exit code 4 if one is, or was edited");
  command
      ->add_option("ledgers", arguments->paths, "Ledgers, or folders that hold some at any depth")
      ->required();
  command->footer("Examples:\n"
                  "  clusterbench ledger check out\n"
                  "  clusterbench ledger check results/reference copy.jsonl");
  command->callback([&action, arguments] { action = [arguments] { return check(*arguments); }; });
}

void add_repair_command(CLI::App& ledger, Action& action) {
  const auto arguments = std::make_shared<RepairArguments>();
  CLI::App* command = ledger.add_subcommand(
      "repair", "Write a ledger's sound lines to NEW, which says that it was repaired, and the "
                "damaged ones to NEW.damaged; the ledger stays as it is");
  command->add_option("ledger", arguments->ledger, "A ledger, or a folder that holds one")
      ->required();
  command->add_option("--out", arguments->out, "NEW, a file that is not there yet")
      ->required()
      ->type_name("NEW");
  command->footer("Examples:\n"
                  "  clusterbench ledger repair out --out repaired/ledger.jsonl\n"
                  "  clusterbench ledger repair out/ledger.jsonl --out sound.jsonl");
  command->callback([&action, arguments, command] {
    action = [arguments, command] {
      check_output_names(*command, {{"--out", "file"}});
      return repair(*arguments);
    };
  });
}

} // namespace

void add_ledger_command(CLI::App& app, Action& action) {
  const auto arguments = std::make_shared<LedgerArguments>();
  CLI::App* command = app.add_subcommand(
      "ledger", "Say what ledgers hold, and whether they are as they were written");
  command->add_option("ledgers", arguments->paths,
                      "Ledgers, or folders that hold some at any depth");
  command->add_flag(
      "--json", arguments->as_json,
      "All cells as JSON, with the problem and the trace of each, which plots/make.py reads");
  command->require_subcommand(0, 1);
  add_check_command(*command, action);
  add_repair_command(*command, action);
  command->callback([&action, arguments, command] {
    if (const auto chosen = command->get_subcommands(); !chosen.empty()) {
      if (arguments->as_json || !arguments->paths.empty()) { // they would have no effect
        throw CLI::ValidationError(
            fmt::format("ledger {}", chosen.front()->get_name()),
            fmt::format("{} belongs to `ledger` without it",
                        arguments->as_json ? "--json" : arguments->paths.front()));
      }
      return; // which has set the action
    }
    if (arguments->paths.empty()) {
      throw CLI::RequiredError("ledgers");
    }
    action = [arguments] { return show(*arguments); };
  });
}

} // namespace clusterbench
