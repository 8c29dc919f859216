#include "datasets/catalog.hpp"
#include "datasets/errors.hpp"
#include "harness/campaign/answer_files.hpp"
#include "harness/campaign/campaign.hpp"
#include "harness/cli/commands.hpp"
#include "harness/cli/options.hpp"
#include "harness/cli/problem_options.hpp"
#include "harness/cli/sampling_options.hpp"
#include "harness/ledger/rounds.hpp"
#include "harness/machine/nvml.hpp"
#include "harness/machine/usable_processors.hpp"
#include "harness/problem/cell_choice.hpp"
#include "harness/problem/programs.hpp"
#include "harness/report/closing.hpp"
#include "harness/report/table_json.hpp"
#include "harness/report/table_text.hpp"
#include "harness/system/harmless.hpp"
#include "harness/system/memory_group.hpp"
#include "harness/system/process.hpp"
#include "harness/system/progress.hpp"
#include "harness/system/shell_words.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <fmt/format.h>
#include <memory>
#include <set>
#include <utility>

namespace clusterbench {
namespace {

using datasets::InputError;

struct RunArguments : ProblemOptions {
  std::vector<std::string> tables;
  std::vector<std::string> precisions;
  std::vector<std::string> variants;
  std::vector<std::string> peers;
  int gpus = 1;
  int ranks = kUsualRanks;
  std::optional<int> rounds; ///< not given: kUsualRounds, or as many as the budget allows
  SamplingOptions sampling;
  double target_percent = 100.0 * SamplingPlan{}.target;
  double min_time = SamplingPlan{}.min_seconds;
  std::string memory, device_memory;
  bool resume = false;
  bool quick = false;
  bool wide = false;
  bool as_json = false;
  bool no_probe = false;
  std::string save;
  std::uint32_t seed = 1;
  std::optional<std::uint32_t> starts_seed;
  bool unsandboxed = false;
};

std::size_t device_memory_limit(const RunArguments& arguments) {
  return arguments.device_memory.empty() ? 0
                                         : parse_memory("--device-memory", arguments.device_memory);
}

void check(const RunArguments& arguments) {
  if (arguments.tables.empty() == arguments.data.empty()) {
    throw InputError("run: name tables, or an ad-hoc problem with --data and --k");
  }
  if (!arguments.data.empty() && arguments.k == 0) {
    throw InputError("--k: at least one cluster is needed");
  }
  if (arguments.resume && arguments.sampling.out.empty()) {
    throw InputError("--resume: --out must name the folder to go on with");
  }
  check_sampling_options(arguments.sampling);
  if (arguments.gpus < 1) {
    throw InputError(fmt::format("--gpus {}: at least 1 is needed", arguments.gpus));
  }
  if (arguments.gpus > 1 && static_cast<unsigned>(arguments.gpus) > gpu_count()) {
    throw InputError(fmt::format(
        "--gpus {}: this machine has {}{}", arguments.gpus, gpu_count(),
        std::getenv("CUDA_VISIBLE_DEVICES") != nullptr ? " that CUDA_VISIBLE_DEVICES shows" : ""));
  }
  if (device_memory_limit(arguments) > 0 && gpu_count() == 0) {
    throw InputError(
        fmt::format("--device-memory {}: this machine has no GPU", arguments.device_memory));
  }
  if (arguments.ranks < 1 || arguments.ranks > most_threads()) {
    throw InputError(fmt::format("--ranks {}: 1 to {} processes can be started here",
                                 arguments.ranks, most_threads()));
  }
  if (arguments.rounds.value_or(1) < 1) {
    throw InputError("--rounds: at least 1 is needed");
  }
  const std::pair<const char*, double> not_negative[] = {{"--target", arguments.target_percent},
                                                         {"--min-time", arguments.min_time}};
  for (const auto& [option, value] : not_negative) {
    if (!(value >= 0.0) || !std::isfinite(value)) { // the ledger holds numbers
      throw InputError(
          fmt::format("{} {}: a number is needed that is not negative", option, value));
    }
  }
}

// An option that would have no effect is a misunderstanding, and said so.
void refuse_contradictions(const CLI::App& command, const RunArguments& arguments) {
  check_problem_options(command, arguments, /*adhoc=*/arguments.tables.empty());
  const auto given = [&](const char* option) { return command.count(option) > 0; };
  if (arguments.tables.empty() && given("--quick")) {
    throw InputError("--quick takes the smaller sizes of a table; an ad-hoc problem has its own");
  }
  check_output_names(command, {{"--out", "folder"}, {"--save", "folder"}});
}

// Without --variant every variant of the family that this machine can run takes the problem.
std::vector<CellSpec> adhoc_cells(const RunArguments& arguments) {
  const ProblemSpec problem = adhoc_problem(arguments);
  const auto chosen =
      arguments.variants.empty() ? all_variants() : match_variants(arguments.variants);
  auto wanted = parse_precisions(arguments.precisions);
  if (wanted.empty()) {
    wanted = {Precision::f32};
  }
  std::vector<CellSpec> cells;
  for (const KnownVariant* variant : chosen) {
    const bool asked_for_by_name = !arguments.variants.empty();
    for (const Precision precision : wanted) {
      const bool fits = variant->meta.family == problem.family && supports(*variant, precision);
      if (asked_for_by_name || fits) {
        cells.push_back({"adhoc", adhoc_name(problem), problem, precision, variant->meta.name});
      }
    }
  }
  if (cells.empty()) {
    throw InputError("run: no variant of this build takes the problem");
  }
  return cells;
}

// The cells in the form of a table, for printing; all of them have one problem.
Table adhoc_table(const std::vector<CellSpec>& cells) {
  Table table;
  table.name = cells.front().table;
  table.title = cells.front().problem_id;
  table.problems.emplace_back(cells.front().problem_id, cells.front().problem);
  table.cells = cells;
  return table;
}

std::vector<CellSpec> table_cells(const RunArguments& arguments, const std::vector<Table>& tables) {
  const auto wanted_precisions = parse_precisions(arguments.precisions);
  std::vector<std::string> wanted_variants;
  if (!arguments.variants.empty()) {
    for (const KnownVariant* variant : match_variants(arguments.variants)) {
      wanted_variants.push_back(variant->meta.name);
    }
  }
  std::vector<CellSpec> cells;
  for (const Table& table : tables) {
    for (const CellSpec& cell : table.cells) {
      const bool precision_fits =
          wanted_precisions.empty() ||
          std::ranges::find(wanted_precisions, cell.precision) != wanted_precisions.end();
      const bool variant_fits =
          wanted_variants.empty() ||
          std::ranges::find(wanted_variants, cell.variant) != wanted_variants.end();
      if (precision_fits && variant_fits) {
        cells.push_back(cell);
      }
    }
  }
  if (cells.empty()) {
    throw InputError(fmt::format("run: no cell of these tables fits --variant and --precision: {}",
                                 why_no_cell_fits(tables, arguments.variants, wanted_precisions)));
  }
  return cells;
}

void print_json(const std::vector<TableReport>& reports, const CampaignOptions& options,
                ExitCode code) {
  nlohmann::json tables = nlohmann::json::array();
  for (const TableReport& report : reports) {
    tables.push_back(to_json(report));
  }
  fmt::print("{}\n", nlohmann::json{{"schema", 2},
                                    {"type", "run"},
                                    {"exit_code", static_cast<int>(code)},
                                    {"ledger", (options.out / "ledger.jsonl").string()},
                                    {"tables", tables}}
                         .dump(2));
}

// The last lines: where the files are, and what may be done with them. At most four.
std::string files_and_next(const RunArguments& arguments, const CampaignOptions& options,
                           const CampaignResult& result,
                           std::chrono::steady_clock::time_point begin) {
  const std::string out = quoted_for_shell(options.out.string());
  std::string text =
      fmt::format("ledger: {}, after {}{}\n", (options.out / "ledger.jsonl").string(),
                  rough_time(std::chrono::steady_clock::now() - begin),
                  result.exit_code == ExitCode::nothing_measured
                      ? "; nothing was measured: every cell is refused or not available here"
                  : options.save.empty() ? std::string()
                                         : "; answers: " + options.save.string());
  if (result.exit_code == ExitCode::cells_missing) {
    text += "next: the same command with --out " + out +
            " --resume runs again what crashed or took too long\n";
  }
  text +=
      fmt::format("next: clusterbench report {} --out report.html    a page to play with\n", out);
  if (!arguments.tables.empty()) {
    text += fmt::format("next: clusterbench table {} --from {}{} --wide    all columns\n",
                        quoted_for_shell(arguments.tables.front()), out,
                        arguments.quick ? " --quick" : "");
  }
  return text;
}

ExitCode run(const RunArguments& arguments) {
  check(arguments);
  std::vector<Table> tables;
  std::vector<std::optional<Published>> published;
  std::set<std::string> named;
  for (const std::string& name : arguments.tables) {
    if (!named.insert(name).second) {
      continue; // its cells are there
    }
    tables.push_back(load_table(name, arguments.quick));
    published.push_back(published_part(tables.back(), arguments.quick));
  }
  take_in_variants(tables, arguments.variants, parse_precisions(arguments.precisions));
  CampaignOptions options;
  options.cells = tables.empty() ? adhoc_cells(arguments) : table_cells(arguments, tables);
  options.cell = cell_options(arguments.sampling);
  options.cell.gpus = arguments.gpus;
  options.cell.ranks = arguments.ranks;
  SamplingPlan& sampling = options.cell.sampling;
  sampling.target = arguments.target_percent / 100.0;
  sampling.min_seconds = arguments.min_time;
  options.rounds = arguments.rounds.value_or(1);
  if (!arguments.rounds && arguments.save.empty()) { // one answer is enough to save
    options.rounds = static_cast<int>(kUsualRounds);
    constexpr double kWithJudging = 3.0; // judging a round's answers takes longer than sampling it
    options.rounds_seconds = kWithJudging * sampling.budget_seconds;
    sampling.budget_seconds /= static_cast<double>(kUsualRounds);
    constexpr double kMostPatience = 1.0; // a machine that is busy for longer stays busy
    sampling.patience_seconds = std::min(2.0 * sampling.budget_seconds, kMostPatience);
  }
  options.cell.memory_limit =
      arguments.memory.empty() ? 0 : parse_memory("--memory", arguments.memory);
  if (options.cell.memory_limit > 0) {
    options.cell.memory_group = std::make_shared<MemoryGroup>(options.cell.memory_limit);
  }
  options.cell.device_memory_limit = device_memory_limit(arguments);
  options.seed = arguments.seed;
  options.out = run_folder(arguments.sampling.out);
  options.starts_seed = arguments.starts_seed;
  options.cell.sandboxed = !arguments.unsandboxed;
  options.resume = arguments.resume;
  options.probe = !arguments.no_probe;
  options.save = arguments.save;
  options.command_line = own_command_line();
  AnswerFiles(options.save, options.cells, options.rounds).spare_inputs(options.cells);
  install_interrupt_handler();
  const auto begin = std::chrono::steady_clock::now();
  const CampaignResult result = run_campaign(options);
  if (tables.empty()) {
    tables.push_back(adhoc_table(options.cells));
    published.emplace_back();
  }
  std::vector<TableReport> reports;
  for (std::size_t i = 0; i < tables.size(); ++i) {
    Measurements measurements = measurements_of(result.rows, tables[i].name);
    measurements.edited = result.edited;
    reports.push_back(make_table_report(tables[i], std::move(measurements), published[i]));
  }
  if (arguments.as_json) {
    print_json(reports, options, result.exit_code);
    return result.exit_code;
  }
  const TextStyle style = text_style(false);
  for (const TableReport& report : reports) {
    fmt::print("{}\n",
               table_text(report, arguments.wide ? TableForm::full : TableForm::narrow, style));
  }
  fmt::print("{}{}{}", closing_text(reports, style), unavailable_text(result.rows, style),
             harmless(files_and_next(arguments, options, result, begin)));
  return result.exit_code;
}

} // namespace

void add_run_command(CLI::App& app, Action& action) {
  const auto arguments = std::make_shared<RunArguments>();
  CLI::App* command = app.add_subcommand("run", "Run tables, or an ad-hoc problem");
  command->add_option("tables", arguments->tables, "Names of tables (see `list`)");
  add_problem_options(*command, *arguments);
  command->add_option("--precision", arguments->precisions, "f32 | f64 (repeatable)");
  command->add_option("--peer", arguments->peers,
                      "Program that holds variants, see docs/peers.md (repeatable)");
  command->add_option("--variant", arguments->variants, "Shell glob of variants (repeatable)");
  add_sampling_options(
      *command, arguments->sampling,
      {.samples = "Samples per cell and round, at least",
       .budget = "Seconds of sampling per cell and round after which no more is taken; without "
                 "--rounds, what all rounds of a cell may take together"});
  command->add_option("--gpus", arguments->gpus, "GPUs of a variant for several of them")
      ->capture_default_str();
  command
      ->add_option("--ranks", arguments->ranks,
                   "Processes of a variant for several of them, which share the threads")
      ->capture_default_str();
  command->add_option(
      "--rounds", arguments->rounds,
      "Run every cell so often, in fresh processes (default: 8 times, or as often as "
      "fits into three times --budget)");
  command
      ->add_option("--target", arguments->target_percent,
                   "Sample until the median's 95 % interval is no wider than PERCENT of it")
      ->type_name("PERCENT")
      ->capture_default_str();
  command
      ->add_option("--min-time", arguments->min_time,
                   "Seconds that the samples add up to before --target counts")
      ->capture_default_str();
  command
      ->add_option(
          "--memory", arguments->memory,
          "Leave the points in their file (.npy or .fbin), and hold no more than LIMIT (such as "
          "512M or 2G) in memory: for variants that stream, have ranks, or compute on GPUs")
      ->type_name("LIMIT");
  command
      ->add_option(
          "--device-memory", arguments->device_memory,
          "Leave a GPU variant no more than LIMIT (such as 512M or 2G) of each GPU's memory, "
          "its points included unless it leaves them in host memory")
      ->type_name("LIMIT");
  command->add_flag(
      "--resume", arguments->resume,
      "Re-use equal rows of the folder's ledger; what crashed or timed out runs again");
  CLI::Option* wide =
      command->add_flag("--wide", arguments->wide, "Print all columns of the tables");
  command
      ->add_flag("--json", arguments->as_json,
                 "Print the tables as JSON, with the exit code and the ledger's place")
      ->excludes(wide);
  command->add_flag("--quick", arguments->quick, "The tables' smaller sizes");
  command->add_flag("--no-probe", arguments->no_probe,
                    "Do not measure the machine's rates first; no model bound is shown then");
  command->add_option(
      "--save", arguments->save,
      "Folder for labels, centroids and traces: VARIANT.labels.npy, ...; where the run has "
      "several problems, precisions or rounds, "
      "TABLE/PROBLEM/VARIANT.PRECISION.roundN.labels.npy, ...");
  command->add_option("--seed", arguments->seed, "Seed of the order of the cells")
      ->check(whole_number())
      ->capture_default_str();
  command
      ->add_option(
          "--starts", arguments->starts_seed,
          "Seed of the starts of timed runs, which pairs two campaigns in `compare`; without "
          "it they are drawn, and the ledger says the seed")
      ->check(whole_number());
  command->add_flag("--unsandboxed", arguments->unsandboxed,
                    "For sanitizers, profilers and debuggers: variants may do what they like, and "
                    "no answer is ranked");
  command->callback([&action, arguments, command] {
    action = [arguments, command] {
      refuse_contradictions(*command, *arguments);
      std::ranges::for_each(arguments->peers, add_program);
      return run(*arguments);
    };
  });
}

} // namespace clusterbench
