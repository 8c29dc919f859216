#include "datasets/errors.hpp"
#include "harness/cli/commands.hpp"
#include "harness/cli/options.hpp"
#include "harness/gate/instructions.hpp"
#include "harness/judge/interruption.hpp"
#include "harness/machine/build_info.hpp"
#include "harness/machine/environment.hpp"
#include "harness/machine/provenance.hpp"
#include "harness/machine/usable_processors.hpp"
#include "harness/problem/cell_choice.hpp"
#include "harness/report/gate_report.hpp"
#include "harness/system/files.hpp"
#include "harness/system/messages.hpp"
#include "harness/system/process.hpp"
#include "harness/system/progress.hpp"
#include "harness/system/protocol_version.hpp"
#include "harness/system/short_answer.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <functional>
#include <initializer_list>
#include <memory>
#include <nlohmann/json.hpp>
#include <unistd.h>

namespace clusterbench {
namespace {

using datasets::InputError;
using datasets::OutputError;
namespace fs = std::filesystem;

struct GateArguments {
  std::string base, fresh;
  std::vector<std::string> cells;
  double min_effect_percent = 2.0;
  int threads = default_threads();
  double cell_seconds = 40.0;
  bool full = false;
  bool calibrate = false;
  bool instructions = false;
  bool wide = false;
  bool markdown = false;
  bool as_json = false;
  std::string out;
};

// A build's folder: named itself, or by its program, or the source tree that it was built in, or
// where it is installed.
fs::path build_folder(const std::string& named, const char* option) {
  std::error_code none;
  const fs::path program = fs::canonical(named, none); // installed ones are called by a link
  for (const fs::path& candidate :
       {fs::path(named), fs::path(named).parent_path(), fs::path(named) / "build" / "release",
        program.parent_path(), fs::path(named) / "lib" / "clusterbench"}) {
    if (fs::is_regular_file(candidate / "clusterbench-runner")) {
      return fs::canonical(candidate);
    }
  }
  throw InputError(
      fmt::format("{} {}: neither a build nor its program: there is no "
                  "clusterbench-runner, as in builds from before the gate's protocol {}",
                  option, named, kProtocol));
}

// Before anything else is asked of it. An interrupt is the business of whoever asks next.
void require_protocol(const fs::path& build, const char* option) {
  const std::string runner = (build / "clusterbench-runner").string();
  constexpr std::chrono::seconds kPatience{5}; // for a program that prints one number
  std::string said;
  const auto is_ours = [&](const std::string& line) {
    said += said.size() < 200 ? line + " " : "";
    return said == fmt::format("{} ", kProtocol);
  };
  const ShortAnswer answer = ask_shortly(
      {.command = {runner, "--protocol"}, .text = "", .hears_errors = true, .patience = kPatience},
      is_ours);
  if (!answer.failure.empty() && interrupt_signal() == 0) {
    throw InputError(fmt::format(
        "{} {}: its clusterbench-runner does not speak the gate's protocol "
        "{}; asked for its own it says: {}",
        option, build.string(), kProtocol, said.empty() ? "nothing: " + answer.failure : said));
  }
}

void check(const GateArguments& arguments) {
  if (arguments.fresh.empty() && !arguments.calibrate) {
    throw InputError("--new is missing: the build to be compared with the base");
  }
  if (!(arguments.min_effect_percent > 0.0) || !std::isfinite(arguments.min_effect_percent)) {
    throw InputError("--min-effect: a positive percentage is needed");
  }
  check_threads(arguments.threads);
  if (!(arguments.cell_seconds > 0.0) || !std::isfinite(arguments.cell_seconds)) {
    throw InputError(
        fmt::format("--cell-seconds {}: seconds are needed, above 0", arguments.cell_seconds));
  }
}

// An option that would have no effect is a misunderstanding, and said so.
void refuse_contradictions(const CLI::App& command, const GateArguments& arguments) {
  const auto refuse = [&](std::initializer_list<const char*> options, const char* why) {
    for (const char* option : options) {
      if (command.count(option) > 0) {
        throw InputError(fmt::format("{}: {}", option, why));
      }
    }
  };
  if (arguments.calibrate) {
    refuse({"--new", "--instructions", "--min-effect", "--cell-seconds", "--markdown", "--json",
            "--out"},
           "--calibrate compares nothing: it runs the base alone, and keeps what it finds in the "
           "cache folder");
  }
  if (arguments.instructions) {
    refuse({"--threads", "--cell-seconds"}, "--instructions counts one run of one thread");
  }
}

// What cannot be written is found before hours are spent, not after.
void require_output_folder(const fs::path& folder) {
  make_output_folder(folder);
  if (access(folder.c_str(), W_OK | X_OK) != 0) {
    throw OutputError(
        fmt::format("--out {}: cannot be written: {}", folder.string(), std::strerror(errno)));
  }
}

// Prints the report first: should the files fail, it has been seen.
template <typename Cell>
void deliver(const GateArguments& arguments, const std::vector<Cell>& cells,
             const GateOptions& options) {
  // The last words of a process may be no UTF-8.
  const std::string json =
      to_json(cells, options).dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  const TextStyle style = text_style(arguments.markdown);
  fmt::print("{}", arguments.as_json ? json : render_gate(cells, options, style, arguments.wide));
  if (!arguments.out.empty()) {
    write_text_file(fs::path(arguments.out) / "gate.json", json);
    write_text_file(fs::path(arguments.out) / "gate.md",
                    render_gate(cells, options, TextStyle::markdown));
  }
}

// Every cell that was asked for has its line in the report, also those that an interrupt left out.
template <typename Cell>
std::vector<Cell> run_all(const std::vector<CellSpec>& cells,
                          const std::function<Cell(const CellSpec&)>& run) {
  std::vector<Cell> all;
  Progress progress(cells.size());
  for (const CellSpec& cell : cells) {
    Cell& done = all.emplace_back();
    if (interrupt_signal() != 0) {
      done.name = cell_name(cell);
      done.verdict = "interrupted";
      continue;
    }
    progress.start(cell_name(cell));
    done = run(cell);
    hold_results(); // the report is written at the end
    progress.finish(done.name, done.verdict);
  }
  return all;
}

// A cell that fails costs itself alone, and what is found is kept at once.
ExitCode calibrate(const GateOptions& options, const std::vector<CellSpec>& cells,
                   const std::string& environment) {
  constexpr std::size_t kPairs = 20;
  Gate gate(options);
  NoiseFloor floor = options.floor;
  std::size_t stored = 0;
  ExitCode code = ExitCode::ok;
  Progress progress(cells.size());
  for (const CellSpec& cell : cells) {
    const std::string name = cell_name(cell);
    progress.start(name);
    try {
      const double pair_sd = gate.calibrate(cell, kPairs);
      floor = store_noise_floor(environment, {{name, pair_sd}});
      ++stored;
      hold_results(); // what was stored is told at the end
      progress.finish(name, "calibrated",
                      fmt::format(": a pair varies by {:.2f} %", pair_sd * 100.0));
    } catch (const WorkerFailure& failure) {
      if (failure.status() == "interrupted") {
        code = graver(code, ExitCode::interrupted);
        break;
      }
      progress.finish(name, failure.status());
      say("{}: {}\n", name, failure.what()); // there is no report that would
      code = lacks_the_cell(failure) ? code : graver(code, ExitCode::cells_missing);
    } catch (const Interrupted&) {
      code = graver(code, ExitCode::interrupted);
      break;
    }
  }
  if (stored == 0) {
    fmt::print("no cell was calibrated\n");
    return graver(code, ExitCode::cells_missing);
  }
  fmt::print("{}: {} cells, median {:.2f} %; {} of them from this run, of {} asked for\n",
             noise_floor_file(environment).string(), floor.cells.size(), floor.pair_sd * 100.0,
             stored, cells.size());
  return code;
}

ExitCode count(const GateArguments& arguments, const GateOptions& options,
               const std::vector<CellSpec>& cells) {
  const fs::path valgrind = find_valgrind();
  if (std::string_view(build_info::march()) != "x86-64-v3") {
    say("clusterbench: this program was built for {}; valgrind before 3.22 does not "
        "know AVX-512: count on builds with -DCLUSTERBENCH_MARCH=x86-64-v3\n",
        build_info::march());
  }
  WorkloadBuilder builder;
  const auto counted = run_all<CountedCell>(cells, [&](const CellSpec& cell) {
    return count_instructions(valgrind, options.builds, cell, builder, options.test.min_effect);
  });
  deliver(arguments, counted, options);
  return exit_code_of(verdicts_of(counted));
}

ExitCode compare(const GateArguments& arguments, const GateOptions& options,
                 const std::vector<CellSpec>& cells) {
  Gate gate(options);
  const auto gated =
      run_all<GatedCell>(cells, [&](const CellSpec& cell) { return gate.run(cell); });
  deliver(arguments, gated, options);
  return exit_code_of(verdicts_of(gated));
}

ExitCode gate(const GateArguments& arguments) {
  check(arguments);
  const fs::path base = build_folder(arguments.base, "--base");
  const std::string environment = environment_hash(provenance());
  GateOptions options;
  options.builds = {base, arguments.calibrate ? base : build_folder(arguments.fresh, "--new")};
  options.threads = arguments.threads;
  options.test.min_effect = arguments.min_effect_percent / 100.0;
  options.floor = load_noise_floor(environment);
  options.cell_seconds = arguments.cell_seconds;
  options.whole_runs = arguments.full;
  const std::vector<CellSpec> cells = choose_cells(arguments.cells, !arguments.full);
  options.cells = cells.size();
  if (!arguments.out.empty()) {
    require_output_folder(arguments.out);
  }
  install_interrupt_handler();
  require_protocol(options.builds[0], "--base");
  require_protocol(options.builds[1], "--new");
  const ExitCode code = arguments.calibrate      ? calibrate(options, cells, environment)
                        : arguments.instructions ? count(arguments, options, cells)
                                                 : compare(arguments, options, cells);
  return interrupt_signal() != 0 ? graver(ExitCode::interrupted, code) : code;
}

} // namespace

void add_gate_command(CLI::App& app, Action& action) {
  const auto arguments = std::make_shared<GateArguments>();
  CLI::App* command =
      app.add_subcommand("gate", "Two builds on this machine: did the new one become slower?");
  command
      ->add_option("cells", arguments->cells,
                   "Tables (their CPU cells), or shell globs of table/problem/variant/precision; "
                   "one that fits no row of a table means any variant of this build on the tables' "
                   "problems (default: the articles' CPU cells)")
      ->type_name("CELL");
  command->add_option("--base", arguments->base, "The earlier build: its program or its folder")
      ->required();
  command->add_option("--new", arguments->fresh, "The later build");
  command
      ->add_option("--min-effect", arguments->min_effect_percent,
                   "The slowdown that must be found, in percent")
      ->capture_default_str();
  command->add_option("--threads", arguments->threads, "CPU threads a variant may use")
      ->capture_default_str();
  command
      ->add_option("--cell-seconds", arguments->cell_seconds,
                   "Seconds after which a batch of pairs of one cell comes to an end")
      ->capture_default_str();
  command->add_flag("--full", arguments->full,
                    "The tables' full sizes and whole runs, not the quick ones cut to a few "
                    "milliseconds");
  command->add_flag("--calibrate", arguments->calibrate,
                    "Run the base against itself and store this machine's noise floor; without "
                    "--new");
  command->add_flag("--instructions", arguments->instructions,
                    "Count instructions of one thread with valgrind instead of taking times");
  command->add_flag("--wide", arguments->wide,
                    "One table with all columns, beyond the 100 of a terminal");
  CLI::Option* markdown = command->add_flag("--markdown", arguments->markdown, "As Markdown");
  command->add_flag("--json", arguments->as_json, "As JSON")->excludes(markdown);
  command->add_option("--out", arguments->out, "Folder for gate.json and gate.md");
  command->callback([&action, arguments, command] {
    action = [arguments, command] {
      check_output_names(*command, {{"--out", "folder"}});
      refuse_contradictions(*command, *arguments);
      return gate(*arguments);
    };
  });
}

} // namespace clusterbench
