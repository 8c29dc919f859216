#include "harness/submission/submission.hpp"

#include "datasets/errors.hpp"
#include "datasets/sha256.hpp"
#include "harness/problem/description.hpp"
#include "harness/submission/choice.hpp"
#include "harness/submission/compiler.hpp"
#include "harness/submission/inspection.hpp"
#include "harness/system/messages.hpp"
#include "harness/worker/scratch_folder.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fnmatch.h>
#include <set>

namespace clusterbench {
namespace {

using datasets::InputError;
using nlohmann::json;
namespace fs = std::filesystem;

constexpr std::chrono::duration<double> kMostPatience{20}; // until a file has described itself

// What nobody should have to do without who runs a stranger's file.
void require_whole_sandbox(const fs::path& file, const std::vector<std::string>& lacks) {
  std::vector<std::string> grave;
  for (const std::string& what : lacks) {
    if (!what.starts_with(
            "Landlock's scopes")) { // signals are kept from the parent by seccomp, too
      grave.push_back(what);
    }
  }
  if (!grave.empty()) {
    throw InputError(fmt::format("{}: this machine has no whole sandbox to run it in ({}); "
                                 "--unsandboxed runs it all the same, with all rights of yours",
                                 file.string(), fmt::join(grave, "; ")));
  }
}

// "c++ -std=c++20 -O3 ...", without the places of files.
std::string flags_of(const std::vector<std::string>& command) {
  const auto end = std::ranges::find(command, "-I");
  return fmt::format("{}", fmt::join(command.begin(), end, " "));
}

/// The files, made ready to run.
class Submissions {
public:
  explicit Submissions(const SubmissionOptions& options) : options_(options) {}

  /// Compiles and inspects the file and makes its variants known; returns their names.
  std::vector<std::string> add(const fs::path& given) {
    FileKind kind = kind_of(given);
    const fs::path file = fs::canonical(given);
    json facts = {{"file", file.filename().string()},
                  {"sha256", datasets::sha256_file(file)},
                  {"kind", to_string(kind)}};
    fs::path runnable = file;
    if (kind == FileKind::cpp || kind == FileKind::cuda) {
      const fs::path folder = scratch_.path() / std::to_string(count_++);
      fs::create_directory(folder);
      const Compilation compilation = compile(file, kind, folder);
      facts["compiled_with"] = flags_of(compilation.command);
      facts["compile_s"] = compilation.seconds;
      say("{}: compiled in {:.1f} s\n", given.string(), compilation.seconds);
      runnable = compilation.module;
      kind = FileKind::module;
    }
    std::vector<std::string> names;
    for (KnownVariant& variant : described(given, runnable, kind)) {
      variant.file = file;
      variant.backend = "outside";
      variant.submission = facts;
      if (kind == FileKind::module) {
        variant.module = runnable;
      }
      const std::string name = variant.meta.name;
      if (is_chosen(name)) {
        add_variant(std::move(variant));
        names.push_back(name);
      }
    }
    if (names.empty()) {
      throw InputError(fmt::format("{}: --variant {}: it holds no such variant", given.string(),
                                   fmt::join(options_.variants, ", ")));
    }
    return names;
  }

private:
  std::vector<KnownVariant> described(const fs::path& given, const fs::path& runnable,
                                      FileKind kind) const {
    const bool sandboxed = options_.campaign.cell.sandboxed;
    Inspection found;
    try {
      found = inspect(runnable, kind, sandboxed,
                      std::min(options_.campaign.cell.timeout, kMostPatience));
    } catch (const InputError& error) { // names the compiled file, which nobody knows
      const std::string message = error.what();
      const std::string place = runnable.string();
      throw InputError(message.starts_with(place) ? given.string() + message.substr(place.size())
                                                  : message);
    }
    if (sandboxed) {
      require_whole_sandbox(given, found.sandbox_lacks);
    }
    if (kind == FileKind::program) {
      return variants_from(found.description, fs::canonical(given));
    }
    try {
      std::vector<KnownVariant> variants;
      for (const json& each : found.description.value("variants", json::array())) {
        variants.push_back(variant_from(each, given));
      }
      return variants;
    } catch (const InputError& error) {
      throw InputError(fmt::format("{}: its registration: {}", given.string(), error.what()));
    }
  }

  bool is_chosen(const std::string& name) const {
    return options_.variants.empty() ||
           std::ranges::any_of(options_.variants, [&](const std::string& glob) {
             return fnmatch(glob.c_str(), name.c_str(), 0) == 0;
           });
  }

  const SubmissionOptions& options_;
  ScratchFolder scratch_;
  std::size_t count_ = 0;
};

std::vector<Precision> precisions_of(const KnownVariant& variant,
                                     const SubmissionOptions& options) {
  if (!options.precisions.empty()) {
    return options.precisions;
  }
  return {supports(variant, Precision::f32) ? Precision::f32 : Precision::f64};
}

// The problems that the variant is judged on, as a table without cells.
Table problems_for(const KnownVariant& variant, const SubmissionOptions& options) {
  Table table;
  if (options.problem) {
    table.name = "judge";
    table.title = adhoc_name(*options.problem);
    table.problems.emplace_back(table.title, *options.problem);
  } else {
    table = options.table.empty() ? default_problems(variant)
                                  : load_table(options.table, options.quick);
  }
  table.cells.clear();
  std::erase_if(table.problems,
                [&](const auto& problem) { return problem.second.family != variant.meta.family; });
  if (table.problems.empty()) {
    throw InputError(fmt::format("{}: {} is a variant of {}, and {} has no problem of that family",
                                 variant.file.string(), variant.meta.name,
                                 to_string(variant.meta.family),
                                 options.problem ? "--family" : "table " + options.table));
  }
  return table;
}

std::vector<const KnownVariant*> company_of(const KnownVariant& variant, Precision precision,
                                            const SubmissionOptions& options) {
  if (options.alone) {
    return {};
  }
  if (options.beside.empty()) {
    return usual_company(variant, precision, options.problem && !options.problem->weights.empty());
  }
  std::vector<const KnownVariant*> company = match_variants(options.beside, "--beside");
  std::erase_if(company, [&](const KnownVariant* other) {
    return other->meta.family != variant.meta.family || !supports(*other, precision);
  });
  if (company.empty()) {
    throw InputError(fmt::format("--beside {}: none of these is a variant of {} in {}",
                                 fmt::join(options.beside, ", "), to_string(variant.meta.family),
                                 to_string(precision)));
  }
  return company;
}

/// The cells of a judgement, each once, and their problems.
class Plan {
public:
  explicit Plan(Table& table) : table_(table) {}

  void add(const KnownVariant& variant, Precision precision, const Table& problems,
           const std::vector<const KnownVariant*>& company, bool first_problem_only) {
    for (const auto& [id, problem] : problems.problems) {
      if (std::ranges::find(table_.problems, id, &std::pair<std::string, ProblemSpec>::first) ==
          table_.problems.end()) {
        table_.problems.emplace_back(id, problem);
      }
      add_cell(variant, precision, id, problem);
      if (first_problem_only) {
        break;
      }
      for (const KnownVariant* other : company) {
        add_cell(*other, precision, id, problem);
      }
    }
  }

private:
  void add_cell(const KnownVariant& variant, Precision precision, const std::string& id,
                const ProblemSpec& problem) {
    const std::string& name = variant.meta.name;
    if (added_.insert(fmt::format("{}/{}/{}", id, name, to_string(precision))).second) {
      table_.cells.push_back({table_.name, id, problem, precision, name});
    }
  }

  Table& table_;
  std::set<std::string> added_;
};

// The others may fail as they like: it is not they who are judged.
ExitCode exit_code_for(const std::vector<std::string>& variants, const CampaignResult& result) {
  ExitCode code = ExitCode::ok;
  bool any_measured = false;
  for (const Row& row : result.rows) {
    if (std::ranges::find(variants, row.variant) != variants.end()) {
      code = graver(code, exit_code_of(row.status));
      any_measured = any_measured || (row.status != "refused" && row.status != "unavailable");
    }
  }
  if (!any_measured) {
    code = graver(code, ExitCode::nothing_measured);
  }
  for (const ExitCode of_campaign : {ExitCode::cannot_write, ExitCode::interrupted}) {
    code = result.exit_code == of_campaign ? graver(code, of_campaign) : code;
  }
  return code;
}

} // namespace

Judged judge_files(const SubmissionOptions& options,
                   const std::function<void(const FirstVerdict&)>& tell) {
  if (options.problem) { // bad input is found before anything else is done
    WorkloadBuilder().build(
        *options.problem, options.precisions.empty() ? Precision::f32 : options.precisions.front());
  }
  Submissions submissions(options); // what it has compiled is needed until the end
  Judged judged;
  for (const fs::path& file : options.files) {
    for (std::string& name : submissions.add(file)) {
      judged.variants.push_back(std::move(name));
    }
  }
  judged.table.name = "judge";
  judged.table.title = fmt::format("{}", fmt::join(judged.variants, ", "));
  judged.table.source = "judge";
  Plan plan(judged.table);
  CellRunner qualifier(options.campaign.cell);
  bool any_qualified = false;
  for (const std::string& name : judged.variants) {
    const KnownVariant& variant = *find_variant(name);
    const Table problems = problems_for(variant, options);
    for (const Precision precision : precisions_of(variant, options)) {
      const auto company = company_of(variant, precision, options);
      FirstVerdict verdict{name, precision, "refused",
                           fmt::format("the variant has no {} form", to_string(precision))};
      if (supports(variant, precision)) {
        const CellEnd end = qualifier.qualify(variant, precision);
        verdict.status = end.row.at("status");
        verdict.message = end.row.at("message");
      }
      tell(verdict);
      const bool qualified = verdict.status == "ok";
      any_qualified = any_qualified || qualified;
      plan.add(variant, precision, problems, company, !qualified);
    }
  }
  CampaignOptions campaign = options.campaign;
  campaign.cells = judged.table.cells;
  campaign.probe = campaign.probe && any_qualified;
  judged.campaign = run_campaign(campaign);
  judged.campaign.exit_code = exit_code_for(judged.variants, judged.campaign);
  return judged;
}

} // namespace clusterbench
