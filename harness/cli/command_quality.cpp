#include "datasets/errors.hpp"
#include "harness/campaign/campaign.hpp"
#include "harness/cli/commands.hpp"
#include "harness/cli/options.hpp"
#include "harness/cli/sampling_options.hpp"
#include "harness/problem/programs.hpp"
#include "harness/report/quality/plan.hpp"
#include "harness/report/quality/quality_json.hpp"
#include "harness/report/quality/quality_text.hpp"
#include "harness/system/files.hpp"
#include "harness/system/messages.hpp"
#include "harness/system/process.hpp"

#include <fmt/format.h>
#include <memory>

namespace clusterbench {
namespace {

using datasets::InputError;

struct QualityArguments {
  std::vector<std::string> tables;
  bool quick = false;
  std::vector<std::string> data;
  std::vector<std::size_t> k;
  std::vector<std::size_t> take;
  std::vector<std::string> inits = {"random", "kmeans++"};
  std::string seeds = "1..5";
  std::string stop = "labels";
  std::size_t max_iterations = 300;
  std::vector<std::string> variants;
  std::vector<std::string> precisions = {"f32"};
  std::vector<std::string> peers;
  std::vector<std::string> best;
  std::vector<std::string> ledgers;
  SamplingOptions sampling{.samples = 3, .budget = 0.5};
  bool resume = false;
  bool markdown = false;
  std::string json_file;
};

// An option that would have no effect is a misunderstanding, and said so.
void check(const CLI::App& command, const QualityArguments& arguments) {
  if (!arguments.ledgers.empty()) {
    for (const char* option : {"tables", "--quick", "--data", "--k", "--take", "--init", "--seeds",
                               "--stop", "--max-iterations", "--precision", "--peer", "--threads",
                               "--samples", "--budget", "--timeout", "--out", "--resume"}) {
      if (command.count(option) > 0) {
        throw InputError(fmt::format("{}: --from reads ledgers and runs nothing", option));
      }
    }
    return;
  }
  if (arguments.tables.empty() == arguments.data.empty()) {
    throw InputError("quality: name tables, or problems with --data and --k, or ledgers with "
                     "--from");
  }
  if (arguments.data.size() != arguments.k.size()) {
    throw InputError(fmt::format("--data, --k: {} and {} were given; every problem needs both",
                                 arguments.data.size(), arguments.k.size()));
  }
  if (!arguments.take.empty() && arguments.take.size() != arguments.data.size()) {
    throw InputError(fmt::format("--take: {} were given for {} problems; 0 takes all rows",
                                 arguments.take.size(), arguments.data.size()));
  }
  if (!arguments.data.empty() && arguments.quick) {
    throw InputError("--quick takes the smaller sizes of a table");
  }
}

void check_figures(const QualityArguments& arguments) {
  if (arguments.resume && arguments.sampling.out.empty()) {
    throw InputError("--resume: --out must name the folder to go on with");
  }
  check_sampling_options(arguments.sampling);
}

QualityPlan plan_of(const QualityArguments& arguments) {
  QualityPlan plan;
  for (std::size_t i = 0; i < arguments.data.size(); ++i) {
    ProblemSpec& problem = plan.problems.emplace_back();
    problem.data = arguments.data[i];
    problem.k = arguments.k[i];
    problem.take = arguments.take.empty() ? 0 : arguments.take[i];
  }
  for (const std::string& name : arguments.tables) {
    std::ranges::move(quality_problems(load_table(name, arguments.quick)),
                      std::back_inserter(plan.problems));
  }
  const StopRule stop = parse_stop(arguments.stop, arguments.max_iterations);
  for (ProblemSpec& problem : plan.problems) {
    problem.stop = stop;
  }
  plan.inits = arguments.inits;
  plan.seeds = parse_seeds(arguments.seeds);
  plan.variants = arguments.variants;
  plan.precisions = parse_precisions(arguments.precisions);
  return plan;
}

CampaignOptions campaign_of(const QualityArguments& arguments) {
  CampaignOptions options;
  options.cells = quality_cells(plan_of(arguments));
  options.cell = cell_options(arguments.sampling);
  options.out = arguments.sampling.out;
  options.resume = arguments.resume;
  options.probe = false; // no share of the model bound is shown
  options.command_line = own_command_line();
  return options;
}

// What to_json() gives begins so, and no other file of the program does.
constexpr std::string_view kReportBeginning = "{\n  \"attempts\": [";

ExitCode show(const QualityArguments& arguments, const Measurements& measurements,
              const std::vector<std::string>& only) {
  std::vector<GivenBest> given;
  std::ranges::transform(arguments.best, std::back_inserter(given), parse_best);
  const QualityReport report =
      make_quality_report(make_attempts(measurements, only), measurements.machines, given);
  if (!arguments.json_file.empty()) {
    write_text_file(arguments.json_file, to_json(report).dump(2) + "\n");
  }
  fmt::print("{}", quality_text(report, text_style(arguments.markdown)));
  return report.exit_code;
}

ExitCode from_ledgers(const QualityArguments& arguments) {
  const Measurements measurements = read_measurements(arguments.ledgers);
  if (measurements.machines.size() > 1) {
    say("clusterbench: quality: the ledgers are of different machines or environments, "
        "whose times have no common scale: {} and {}\n",
        measurements.machines[0].ledgers.front(), measurements.machines[1].ledgers.front());
    return ExitCode::environment_mismatch;
  }
  return show(arguments, measurements, arguments.variants);
}

ExitCode run(QualityArguments arguments) {
  if (arguments.sampling.out.empty()) {
    throw InputError("--out: name the folder that keeps the runs; --from computes from it again");
  }
  std::ranges::for_each(arguments.best, parse_best); // before anything is run
  install_interrupt_handler();
  const CampaignOptions options = campaign_of(arguments);
  const CampaignResult result = run_campaign(options);
  if (result.exit_code == ExitCode::interrupted) {
    return result.exit_code;
  }
  Measurements measurements = measurements_of(result.rows);
  measurements.edited = result.edited;
  const ExitCode exit_code = show(arguments, measurements, {});
  tell("ledger: {}\n", (options.out / "ledger.jsonl").string());
  return graver(result.exit_code, exit_code);
}

} // namespace

void add_quality_command(CLI::App& app, Action& action) {
  const auto arguments = std::make_shared<QualityArguments>();
  CLI::App* command = app.add_subcommand(
      "quality", "Time until k-means is within 1 % and 0.1 % of the best known inertia");
  command->add_option("tables", arguments->tables, "Tables whose k-means problems are taken");
  command->add_flag("--quick", arguments->quick, "The tables' smaller sizes");
  command->add_option("--data", arguments->data, "Dataset name or file (repeatable)")
      ->allow_extra_args(false);
  command->add_option("--k", arguments->k, "Number of clusters, one for each --data")
      ->allow_extra_args(false)
      ->check(whole_number());
  command->add_option("--take", arguments->take, "First rows of each --data; 0: all")
      ->allow_extra_args(false)
      ->check(whole_number());
  command->add_option("--init", arguments->inits, "random,kmeans++")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->capture_default_str();
  command->add_option("--seeds", arguments->seeds, "A..B, of every initialisation")
      ->capture_default_str();
  command
      ->add_option("--stop", arguments->stop,
                   "When a run ends: labels | iterations | loss:EPS | shift:TOL")
      ->capture_default_str();
  command->add_option("--max-iterations", arguments->max_iterations, "Bound of every run")
      ->check(whole_number())
      ->capture_default_str();
  command->add_option("--precision", arguments->precisions, "f32 | f64 (repeatable)")
      ->allow_extra_args(false)
      ->capture_default_str();
  command->add_option("--peer", arguments->peers,
                      "Program that holds variants, see docs/peers.md (repeatable)");
  command
      ->add_option("--variant", arguments->variants,
                   "Shell glob of variants (repeatable); all of k-means unless given")
      ->allow_extra_args(false);
  add_sampling_options(*command, arguments->sampling);
  command->add_flag(
      "--resume", arguments->resume,
      "Re-use equal rows of the folder's ledger; what crashed or timed out runs again");
  command
      ->add_option("--best", arguments->best,
                   "DATA:K=INERTIA known from elsewhere (repeatable); counts where it is less. "
                   "DATA:K,ROWS=INERTIA tells several --take of the data apart")
      ->allow_extra_args(false);
  command
      ->add_option("--from", arguments->ledgers,
                   "Compute from a ledger or a folder that holds one, running nothing (repeatable)")
      ->allow_extra_args(false);
  command->add_flag("--markdown", arguments->markdown, "Tables as Markdown");
  command->add_option("--json", arguments->json_file,
                      "Also write the report to FILE (results/quality.schema.json)");
  command->callback([&action, arguments, command] {
    action = [arguments, command] {
      check_output_names(*command, {{"--out", "folder"}, {"--json", "file"}});
      check(*command, *arguments);
      if (!arguments->json_file.empty()) {
        check_can_write("--json", arguments->json_file, kReportBeginning);
      }
      if (!arguments->ledgers.empty()) {
        return from_ledgers(*arguments);
      }
      check_figures(*arguments);
      std::ranges::for_each(arguments->peers, add_program);
      return run(*arguments);
    };
  });
}

} // namespace clusterbench
