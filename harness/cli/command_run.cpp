#include "datasets/catalog.hpp"
#include "datasets/errors.hpp"
#include "harness/cli/commands.hpp"
#include "harness/machine/usable_processors.hpp"
#include "harness/problem/programs.hpp"
#include "harness/report/table_text.hpp"
#include "harness/campaign/campaign.hpp"
#include "harness/system/process.hpp"

#include <chrono>
#include <cmath>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <memory>
#include <utility>

namespace clusterbench {
namespace {

using datasets::InputError;

struct RunArguments {
  std::vector<std::string> tables;
  std::string data;
  std::size_t k = 0;
  std::size_t take = 0;
  bool last_column_is_label = false;
  std::string init = "first";
  std::size_t iterations = 0;
  std::size_t max_iterations = 0;
  std::string stop;
  std::string family = "kmeans";
  double fuzzifier = 2.0;
  std::vector<std::string> precisions;
  std::vector<std::string> variants;
  std::vector<std::string> peers;
  int threads = default_threads();
  int rounds = 1;
  SamplingPlan sampling;
  double target_percent = 100.0 * sampling.target;
  double timeout = 900.0;
  std::string out;
  bool resume = false;
  bool quick = false;
  bool no_probe = false;
  std::string save;
  std::uint32_t seed = 1;
  std::optional<std::uint32_t> starts_seed;
  bool unsandboxed = false;
};

void check(const RunArguments& arguments) {
  if (arguments.tables.empty() == arguments.data.empty()) {
    throw InputError("run: name tables, or an ad-hoc problem with --data and --k");
  }
  if (!arguments.data.empty() && arguments.k == 0) {
    throw InputError("--k: at least one cluster is needed");
  }
  if (arguments.resume && arguments.out.empty()) {
    throw InputError("--resume: --out must name the folder to go on with");
  }
  if (arguments.threads < 1) {
    throw InputError(fmt::format("--threads {}: at least 1 is needed", arguments.threads));
  }
  if (arguments.rounds < 1 || arguments.sampling.samples < 1) {
    throw InputError("--rounds, --samples: at least 1 is needed");
  }
  if (!(arguments.timeout > 0.0)) {
    throw InputError("--timeout must be positive");
  }
  const std::pair<const char*, double> not_negative[] = {
      {"--target", arguments.target_percent},
      {"--budget", arguments.sampling.budget_seconds},
      {"--min-time", arguments.sampling.min_seconds}};
  for (const auto& [option, value] : not_negative) {
    if (!(value >= 0.0) || !std::isfinite(value)) { // the ledger holds numbers
      throw InputError(
          fmt::format("{} {}: a number is needed that is not negative", option, value));
    }
  }
}

// An option that would have no effect is a misunderstanding, and said so.
void refuse_contradictions(const CLI::App& command, const RunArguments& arguments) {
  const auto given = [&](const char* option) { return command.count(option) > 0; };
  for (const char* option : {"--k", "--take", "--last-column-is-label", "--init", "--iterations",
                             "--stop", "--max-iterations", "--family", "--fuzzifier"}) {
    if (!arguments.tables.empty() && given(option)) {
      throw InputError(
          fmt::format("{} describes an ad-hoc problem; a table states its own", option));
    }
  }
  if (arguments.tables.empty() && given("--quick")) {
    throw InputError("--quick takes the smaller sizes of a table; an ad-hoc problem has its own");
  }
  if (given("--iterations") && (given("--stop") || given("--max-iterations"))) {
    throw InputError("--iterations excludes --stop and --max-iterations; bound a --stop rule with "
                     "--max-iterations");
  }
  for (const char* option : {"--iterations", "--max-iterations"}) {
    if (given(option) && command.get_option(option)->as<std::size_t>() == 0) {
      throw InputError(fmt::format("{}: at least 1 is needed", option));
    }
  }
  for (const char* option : {"--out", "--save"}) {
    if (given(option) && command.get_option(option)->as<std::string>().empty()) {
      throw InputError(fmt::format("{}: the name of a folder is missing", option));
    }
  }
  if (given("--fuzzifier") && parse_family(arguments.family) == Family::kmeans) {
    throw InputError("--fuzzifier belongs to --family fcm");
  }
}

StopRule stop_rule(const RunArguments& arguments) {
  constexpr std::size_t kDefaultMaxIterations = 300;
  if (arguments.stop.empty()) {
    const std::size_t iterations =
        arguments.iterations != 0 ? arguments.iterations : arguments.max_iterations;
    return parse_stop("iterations", iterations != 0 ? iterations : kDefaultMaxIterations);
  }
  return parse_stop(arguments.stop, arguments.max_iterations != 0 ? arguments.max_iterations
                                                                  : kDefaultMaxIterations);
}

ProblemSpec adhoc_problem(const RunArguments& arguments) {
  ProblemSpec spec;
  spec.family = parse_family(arguments.family);
  spec.data = arguments.data;
  spec.take = arguments.take;
  spec.last_column_is_label = arguments.last_column_is_label;
  spec.k = arguments.k;
  spec.init = parse_init(arguments.init);
  spec.stop = stop_rule(arguments);
  spec.fuzzifier = arguments.fuzzifier;
  return spec;
}

std::vector<Precision> precisions(const RunArguments& arguments) {
  std::vector<Precision> parsed;
  for (const std::string& text : arguments.precisions) {
    parsed.push_back(parse_precision(text));
  }
  return parsed;
}

// Without --variant every variant of the family that this machine can run takes the problem.
std::vector<CellSpec> adhoc_cells(const RunArguments& arguments) {
  const ProblemSpec problem = adhoc_problem(arguments);
  const auto chosen =
      arguments.variants.empty() ? all_variants() : match_variants(arguments.variants);
  auto wanted = precisions(arguments);
  if (wanted.empty()) {
    wanted = {Precision::f32};
  }
  std::vector<CellSpec> cells;
  for (const KnownVariant* variant : chosen) {
    const bool asked_for_by_name = !arguments.variants.empty();
    for (const Precision precision : wanted) {
      const bool fits = variant->meta.family == problem.family && supports(*variant, precision);
      if (asked_for_by_name || fits) {
        cells.push_back({"adhoc", problem.data, problem, precision, variant->meta.name});
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
  const auto wanted_precisions = precisions(arguments);
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
    throw InputError("run: no cell of these tables fits --variant and --precision");
  }
  return cells;
}

std::filesystem::path output_folder(const RunArguments& arguments) {
  if (!arguments.out.empty()) {
    return arguments.out;
  }
  const auto now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  return std::filesystem::path("results") / "runs" /
         fmt::format("{:%Y%m%dT%H%M%SZ}", fmt::gmtime(now));
}

ExitCode run(const RunArguments& arguments) {
  check(arguments);
  std::vector<Table> tables;
  std::vector<std::optional<Published>> published;
  for (const std::string& name : arguments.tables) {
    tables.push_back(load_table(name, arguments.quick));
    published.push_back(published_part(tables.back(), arguments.quick));
  }
  CampaignOptions options;
  options.cells = tables.empty() ? adhoc_cells(arguments) : table_cells(arguments, tables);
  options.cell.threads = arguments.threads;
  SamplingPlan& sampling = options.cell.sampling = arguments.sampling;
  sampling.target = arguments.target_percent / 100.0;
  sampling.max_samples = std::max(sampling.max_samples, sampling.samples);
  options.cell.timeout = std::chrono::duration<double>(arguments.timeout);
  options.rounds = arguments.rounds;
  options.seed = arguments.seed;
  options.out = output_folder(arguments);
  options.starts_seed = arguments.starts_seed;
  options.cell.sandboxed = !arguments.unsandboxed;
  options.resume = arguments.resume;
  options.probe = !arguments.no_probe;
  options.save = arguments.save;
  options.command_line = own_command_line();
  install_interrupt_handler();
  const CampaignResult result = run_campaign(options);
  if (tables.empty()) {
    tables.push_back(adhoc_table(options.cells));
    published.emplace_back();
  }
  for (std::size_t i = 0; i < tables.size(); ++i) {
    const TableReport report = make_table_report(
        tables[i], measurements_of(result.rows, tables[i].name), published[i]);
    fmt::print("{}\n", table_text(report, TableForm::full, TextStyle::terminal));
  }
  fmt::print("ledger: {}\n", (options.out / "ledger.jsonl").string());
  return result.exit_code;
}

// The library reads "-1" as the largest unsigned number.
const CLI::Validator kNotNegative(
    [](const std::string& text) { return text.starts_with('-') ? text + " is negative" : ""; }, "");

} // namespace

void add_run_command(CLI::App& app, Action& action) {
  const auto arguments = std::make_shared<RunArguments>();
  CLI::App* command = app.add_subcommand("run", "Run tables, or an ad-hoc problem");
  command->add_option("tables", arguments->tables, "Names of tables (see `list`)");
  command->add_option("--data", arguments->data, "Dataset name or file (.npy .csv .fvecs .bvecs)");
  command->add_option("--k", arguments->k, "Number of clusters")->check(kNotNegative);
  command->add_option("--take", arguments->take, "Use only the first rows of the data")
      ->check(kNotNegative);
  command->add_flag("--last-column-is-label", arguments->last_column_is_label,
                    "The last column of a csv file is no feature");
  command
      ->add_option("--init", arguments->init,
                   "rows:1,3,6,8 | first | random:SEED | kmeans++:SEED | memberships:SEED | "
                   "file:FILE.npy")
      ->capture_default_str();
  command->add_option("--iterations", arguments->iterations, "Run so many iterations")
      ->check(kNotNegative);
  command->add_option("--stop", arguments->stop, "loss:EPS | labels | shift:TOL");
  command
      ->add_option("--max-iterations", arguments->max_iterations,
                   "Bound of a --stop rule (default 300)")
      ->check(kNotNegative);
  command->add_option("--family", arguments->family, "kmeans | fcm")->capture_default_str();
  command->add_option("--fuzzifier", arguments->fuzzifier, "m of fuzzy c-means, greater than 1")
      ->capture_default_str();
  command->add_option("--precision", arguments->precisions, "f32 | f64 (repeatable)");
  command->add_option("--peer", arguments->peers,
                      "Program that holds variants, see docs/peers.md (repeatable)");
  command->add_option("--variant", arguments->variants, "Shell glob of variants (repeatable)");
  command->add_option("--threads", arguments->threads, "CPU threads a variant may use")
      ->capture_default_str();
  command->add_option("--rounds", arguments->rounds, "Run every cell so often, in fresh processes")
      ->capture_default_str();
  command
      ->add_option("--samples", arguments->sampling.samples, "Samples per cell and round, at least")
      ->check(kNotNegative)
      ->capture_default_str();
  command
      ->add_option("--target", arguments->target_percent,
                   "Sample until the median's 95 % interval is no wider than PERCENT of it")
      ->type_name("PERCENT")
      ->capture_default_str();
  command
      ->add_option("--budget", arguments->sampling.budget_seconds,
                   "Seconds of sampling per cell and round after which no more is taken")
      ->capture_default_str();
  command
      ->add_option("--min-time", arguments->sampling.min_seconds,
                   "Seconds that the samples add up to before --target counts")
      ->capture_default_str();
  command->add_option("--timeout", arguments->timeout, "Seconds after which a cell is given up")
      ->capture_default_str();
  command->add_option("--out", arguments->out, "Folder for ledger.jsonl and gbench.json");
  command->add_flag(
      "--resume", arguments->resume,
      "Re-use equal rows of the folder's ledger; what crashed or timed out runs again");
  command->add_flag("--quick", arguments->quick, "The tables' smaller sizes");
  command->add_flag("--no-probe", arguments->no_probe, "Do not measure the machine's limits first");
  command->add_option(
      "--save", arguments->save,
      "Folder for labels, centroids and traces: VARIANT.labels.npy, ...; where the run has "
      "several problems, precisions or rounds, "
      "TABLE/PROBLEM/VARIANT.PRECISION.roundN.labels.npy, ...");
  command->add_option("--seed", arguments->seed, "Seed of the order of the cells")
      ->check(kNotNegative)
      ->capture_default_str();
  command
      ->add_option("--starts", arguments->starts_seed,
                   "Seed of the starts of timed runs, which pairs two campaigns in `compare`; without "
                   "it they are drawn, and the ledger says the seed")
      ->check(kNotNegative);
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
