#include "datasets/errors.hpp"
#include "harness/cli/commands.hpp"
#include "harness/cli/options.hpp"
#include "harness/cli/problem_options.hpp"
#include "harness/cli/sampling_options.hpp"
#include "harness/report/page/page_data.hpp"
#include "harness/report/page/page_text.hpp"
#include "harness/report/submission/submission_text.hpp"
#include "harness/submission/submission.hpp"
#include "harness/system/files.hpp"
#include "harness/system/messages.hpp"
#include "harness/system/process.hpp"
#include "harness/system/program_folder.hpp"

#include <cstdio>
#include <fmt/format.h>
#include <memory>

namespace clusterbench {
namespace {

using datasets::InputError;

struct JudgeArguments : ProblemOptions {
  std::vector<std::string> files;
  std::vector<std::string> variants;
  std::string table;
  bool quick = false;
  std::vector<std::string> precisions;
  std::vector<std::string> beside;
  bool alone = false;
  SamplingOptions sampling{.samples = 5, .budget = 0.4, .timeout = 120.0};
  bool as_json = false;
  std::string html;
  bool no_probe = false;
  bool unsandboxed = false;
};

void check(const CLI::App& command, const JudgeArguments& arguments) {
  check_problem_options(command, arguments, /*adhoc=*/!arguments.data.empty());
  if (!arguments.data.empty() && !arguments.table.empty()) {
    throw InputError("--data excludes --table");
  }
  if (!arguments.data.empty() && arguments.k == 0) {
    throw InputError("--k: at least one cluster is needed");
  }
  if (arguments.quick && arguments.table.empty()) {
    throw InputError("--quick takes the smaller sizes of a --table");
  }
  check_sampling_options(arguments.sampling);
}

SubmissionOptions options_of(const JudgeArguments& arguments) {
  SubmissionOptions options;
  options.files.assign(arguments.files.begin(), arguments.files.end());
  options.variants = arguments.variants;
  options.table = arguments.table;
  options.quick = arguments.quick;
  if (!arguments.data.empty()) {
    options.problem = adhoc_problem(arguments);
  }
  options.precisions = parse_precisions(arguments.precisions);
  options.beside = arguments.beside;
  options.alone = arguments.alone;
  CampaignOptions& campaign = options.campaign;
  campaign.cell = cell_options(arguments.sampling);
  campaign.cell.sandboxed = !arguments.unsandboxed;
  campaign.probe = !arguments.no_probe;
  campaign.out = run_folder(arguments.sampling.out);
  campaign.command_line = own_command_line();
  return options;
}

std::string first_verdict(const FirstVerdict& verdict) {
  const std::string name = fmt::format("{} {}", verdict.variant, to_string(verdict.precision));
  return verdict.status == "ok"
             ? fmt::format("{}: right on the small awkward problems; now larger ones, timed\n",
                           name)
             : fmt::format("{}: {} on the small awkward problems: {}\n", name, verdict.status,
                           verdict.message);
}

ExitCode judge(const JudgeArguments& arguments) {
  install_interrupt_handler();
  // Read before anything is run: what is missing, or cannot be written, is said at once.
  const std::string page = arguments.html.empty() ? "" : read_page_template(program_folder());
  if (!arguments.html.empty()) {
    check_can_write("--html", arguments.html, page_beginning(page));
  }
  const SubmissionOptions options = options_of(arguments);
  const Judged judged = judge_files(options, [&](const FirstVerdict& verdict) {
    if (arguments.as_json) {
      say("{}", first_verdict(verdict));
    } else {
      fmt::print("{}", harmless(first_verdict(verdict)));
      std::fflush(stdout);
    }
  });
  const Measurements measurements = measurements_of(judged.campaign.rows, judged.table.name);
  const TableReport report = make_table_report(judged.table, measurements, std::nullopt);
  const std::string ledger = (options.campaign.out / "ledger.jsonl").string();
  nlohmann::json entries = nlohmann::json::array();
  std::string text;
  for (const SubmissionReport& submitted :
       make_submission_reports(report, judged.variants, judged.campaign.rows)) {
    entries.push_back(to_json(submitted));
    text += (text.empty() ? "" : "\n") + submission_text(submitted);
  }
  if (!page.empty()) {
    nlohmann::json data = page_data(measurements, variant_texts(measurements, ""));
    data["judged"] = text;
    write_text_file(arguments.html, page_text(page, data));
  }
  if (arguments.as_json) {
    fmt::print("{}\n", nlohmann::json{{"type", "judge"},
                                      {"schema", kSubmissionSchema},
                                      {"exit_code", static_cast<int>(judged.campaign.exit_code)},
                                      {"ledger", ledger},
                                      {"variants", entries}}
                           .dump(2));
  } else {
    fmt::print("\n{}\nledger: {}\n", text, harmless(ledger));
  }
  return judged.campaign.exit_code;
}

} // namespace

void add_judge_command(CLI::App& app, Action& action) {
  const auto arguments = std::make_shared<JudgeArguments>();
  CLI::App* command = app.add_subcommand(
      "judge",
      "Say of a file from anywhere whether it is right, how fast it is, and how it ranks here");
  command
      ->add_option(
          "files", arguments->files,
          "A .cpp or .cu that includes the contract, a shared library, or a program of the "
          "protocol (docs/judge.md)")
      ->required();
  command
      ->add_option("--variant", arguments->variants,
                   "Shell glob of the file's variants (repeatable); all of them unless given")
      ->allow_extra_args(false);
  command->add_option("--table", arguments->table, "Take the problems of a table");
  command->add_flag("--quick", arguments->quick, "The table's smaller sizes");
  add_problem_options(*command, *arguments);
  command->add_option("--precision", arguments->precisions, "f32 | f64 (repeatable)")
      ->allow_extra_args(false);
  CLI::Option* beside =
      command
          ->add_option(
              "--beside", arguments->beside,
              "Shell glob of the variants to stand beside (repeatable); else the two fastest of "
              "its kind, and a program of another ecosystem")
          ->allow_extra_args(false);
  command->add_flag("--alone", arguments->alone, "Compare with no other variant")->excludes(beside);
  add_sampling_options(*command, arguments->sampling,
                       {.timeout = "Seconds after which a process is given up"});
  command->add_flag("--json", arguments->as_json, "Print the report as JSON");
  command->add_option("--html", arguments->html,
                      "Also write one page to FILE, to look at and to keep");
  command->add_flag("--no-probe", arguments->no_probe,
                    "Do not measure the machine's rates first; no model bound is shown then");
  command->add_flag("--unsandboxed", arguments->unsandboxed,
                    "The file may do what it likes, and no answer is ranked");
  command->callback([&action, arguments, command] {
    action = [arguments, command] {
      check_output_names(*command, {{"--out", "folder"}, {"--html", "file"}});
      check(*command, *arguments);
      return judge(*arguments);
    };
  });
}

} // namespace clusterbench
