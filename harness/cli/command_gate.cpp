#include "datasets/errors.hpp"
#include "harness/cli/commands.hpp"
#include "harness/cli/gate_report.hpp"
#include "harness/cli/progress.hpp"
#include "harness/compare/instructions.hpp"
#include "harness/machine/build_info.hpp"
#include "harness/machine/environment.hpp"
#include "harness/machine/provenance.hpp"
#include "harness/problem/cell_choice.hpp"
#include "harness/run/files.hpp"
#include "harness/run/process.hpp"

#include <fmt/format.h>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>
#include <unistd.h>

namespace clusterbench {
namespace {

using datasets::InputError;
namespace fs = std::filesystem;

struct GateArguments {
  std::string base, fresh;
  std::vector<std::string> cells;
  double min_effect_percent = 2.0;
  int threads = static_cast<int>(std::thread::hardware_concurrency());
  double cell_seconds = 20.0;
  bool full = false;
  bool calibrate = false;
  bool instructions = false;
  bool markdown = false;
  bool as_json = false;
  std::string out;
};

// A build's program: named itself, or the folder that it was built in.
fs::path executable(const std::string& named, const char* option) {
  for (const fs::path& candidate : {fs::path(named), fs::path(named) / "clusterbench",
                                    fs::path(named) / "build" / "release" / "clusterbench"}) {
    if (fs::is_regular_file(candidate) && access(candidate.c_str(), X_OK) == 0) {
      return fs::absolute(candidate);
    }
  }
  throw InputError(
      fmt::format("{} {}: neither a program nor a folder with a clusterbench", option, named));
}

void check(const GateArguments& arguments) {
  if (arguments.fresh.empty() && !arguments.calibrate) {
    throw InputError("--new is missing: the build to be compared with the base");
  }
  if (!(arguments.min_effect_percent > 0.0)) {
    throw InputError("--min-effect: a positive percentage is needed");
  }
  if (arguments.threads < 1 || !(arguments.cell_seconds > 0.0)) {
    throw InputError("--threads must be at least 1, --cell-seconds positive");
  }
}

ExitCode calibrate(const GateOptions& options, const std::vector<CellSpec>& cells,
                   const std::string& environment) {
  constexpr std::size_t kPairs = 20;
  Gate gate(options);
  std::map<std::string, double> found;
  Progress progress(cells.size());
  for (const CellSpec& cell : cells) {
    progress.start(cell_name(cell));
    found[cell_name(cell)] = gate.calibrate(cell, kPairs);
    progress.finish(cell_name(cell),
                    fmt::format("a pair varies by {:.2f} %", found[cell_name(cell)] * 100.0));
  }
  const NoiseFloor floor = store_noise_floor(environment, found);
  fmt::print("{}: {} cells, median {:.2f} %\n", noise_floor_file(environment).string(),
             floor.cells.size(), floor.pair_sd * 100.0);
  return ExitCode::ok;
}

ExitCode count(const GateOptions& options, const std::vector<CellSpec>& cells, bool as_json) {
  const fs::path valgrind = find_valgrind();
  if (std::string_view(build_info::march()) != "x86-64-v3") {
    fmt::print(stderr,
               "clusterbench: this program was built for {}; valgrind before 3.22 does not "
               "know AVX-512: count on builds with -DCLUSTERBENCH_MARCH=x86-64-v3\n",
               build_info::march());
  }
  WorkloadBuilder builder;
  std::vector<std::vector<std::string>> lines;
  nlohmann::json entries = nlohmann::json::array();
  ExitCode code = ExitCode::ok;
  for (const CellSpec& cell : cells) {
    const CountedCell counted =
        count_instructions(valgrind, options.executables, cell, builder, options.test.min_effect);
    code = graver(code, exit_code_of(counted));
    const auto& [base, fresh] = counted.instructions;
    lines.push_back({counted.name, fmt::format("{:.0f}", base), fmt::format("{:.0f}", fresh),
                     base > 0.0 ? fmt::format("{:+.2f} %", (fresh / base - 1.0) * 100.0) : "",
                     counted.message.empty()
                         ? counted.verdict
                         : fmt::format("{} ({})", counted.verdict, counted.message)});
    entries.push_back({{"name", counted.name},
                       {"verdict", counted.verdict},
                       {"message", counted.message},
                       {"instructions", counted.instructions}});
  }
  if (as_json) {
    fmt::print("{}\n", nlohmann::json{{"schema", 1}, {"cells", entries}}.dump(2));
  } else {
    fmt::print("{}", text_table({{"cell", false},
                                 {"base instructions", true},
                                 {"new", true},
                                 {"change", true},
                                 {"verdict", false}},
                                lines, TextStyle::terminal));
  }
  return code;
}

ExitCode gate(const GateArguments& arguments) {
  check(arguments);
  const fs::path base = executable(arguments.base, "--base");
  const std::string environment = environment_hash(provenance());
  GateOptions options;
  options.executables = {base,
                         arguments.fresh.empty() ? base : executable(arguments.fresh, "--new")};
  options.threads = arguments.threads;
  options.test.min_effect = arguments.min_effect_percent / 100.0;
  options.floor = load_noise_floor(environment);
  options.cell_seconds = arguments.cell_seconds;
  options.whole_runs = arguments.full;
  const std::vector<CellSpec> cells = choose_cells(arguments.cells, !arguments.full);
  install_interrupt_handler();
  if (arguments.calibrate) {
    return calibrate(options, cells, environment);
  }
  if (arguments.instructions) {
    return count(options, cells, arguments.as_json);
  }
  Gate gate(options);
  std::vector<GatedCell> gated;
  Progress progress(cells.size());
  for (const CellSpec& cell : cells) {
    progress.start(cell_name(cell));
    gated.push_back(gate.run(cell));
    progress.finish(cell_name(cell), gated.back().verdict);
    if (interrupt_signal() != 0) {
      break;
    }
  }
  const nlohmann::json result = to_json(gated, options);
  if (!arguments.out.empty()) {
    make_output_folder(arguments.out);
    write_text_file(fs::path(arguments.out) / "gate.json", result.dump(2) + "\n");
    write_text_file(fs::path(arguments.out) / "gate.md",
                    render_gate(gated, options, TextStyle::markdown));
  }
  if (arguments.as_json) {
    fmt::print("{}\n", result.dump(2));
  } else {
    fmt::print("{}", render_gate(gated, options,
                                 arguments.markdown ? TextStyle::markdown : TextStyle::terminal));
  }
  return interrupt_signal() != 0 ? graver(ExitCode::interrupted, exit_code_of(gated))
                                 : exit_code_of(gated);
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
  command->add_flag("--full", arguments->full, "The tables' full sizes and whole runs, not the quick ones cut to a few milliseconds");
  command->add_flag("--calibrate", arguments->calibrate,
                    "Run the base against itself and store this machine's noise floor");
  command->add_flag("--instructions", arguments->instructions,
                    "Count instructions of one thread with valgrind instead of taking times");
  CLI::Option* markdown = command->add_flag("--markdown", arguments->markdown, "As Markdown");
  command->add_flag("--json", arguments->as_json, "As JSON")->excludes(markdown);
  command->add_option("--out", arguments->out, "Folder for gate.json and gate.md");
  command->callback([&action, arguments] { action = [arguments] { return gate(*arguments); }; });
}

} // namespace clusterbench
