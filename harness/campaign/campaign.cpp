#include "harness/campaign/campaign.hpp"

#include "datasets/catalog.hpp"
#include "datasets/errors.hpp"
#include "datasets/random_state.hpp"
#include "datasets/sha256.hpp"
#include "harness/campaign/answer_files.hpp"
#include "harness/campaign/earlier_rows.hpp"
#include "harness/campaign/gbench_file.hpp"
#include "harness/ledger/collapse_text.hpp"
#include "harness/ledger/ledger.hpp"
#include "harness/ledger/limits.hpp"
#include "harness/ledger/measurements.hpp"
#include "harness/machine/backends.hpp"
#include "harness/machine/environment.hpp"
#include "harness/machine/measured_limits.hpp"
#include "harness/machine/nvml.hpp"
#include "harness/machine/provenance.hpp"
#include "harness/problem/programs.hpp"
#include "harness/system/files.hpp"
#include "harness/system/messages.hpp"
#include "harness/system/process.hpp"
#include "harness/system/process_limits.hpp"
#include "harness/system/program_folder.hpp"
#include "harness/system/progress.hpp"
#include "harness/system/shared_memory.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <functional>
#include <iterator>
#include <map>
#include <numeric>
#include <set>
#include <sstream>

namespace clusterbench {
namespace {

using nlohmann::json;

std::string now_utc() {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::chrono::system_clock::to_time_t(
                                                  std::chrono::system_clock::now())));
}

std::string hash_of(const json& value) {
  const std::string text = value.dump();
  return datasets::sha256_hex(std::as_bytes(std::span(text)));
}

json problem_json(const CellSpec& cell) {
  json problem = to_json(cell.problem);
  problem["id"] = cell.problem_id;
  return problem;
}

json problem_json(const CellSpec& cell, const Workload& work) {
  json problem = problem_json(cell);
  problem["n"] = work.n;
  problem["d"] = work.d;
  problem["hash"] = work.hash;
  problem["data_sha256"] = work.points->sha256;
  if (!work.points->weights_sha256.empty()) {
    problem["weights_sha256"] = work.points->weights_sha256;
  }
  if (work.initial_rows.size() <= 64) {
    problem["initial_rows"] = work.initial_rows;
  }
  return problem;
}

// What keeps a cell from being ranked, for whoever reads the ledger without this build.
void add_what_it_computes(json& row, const Meta& meta) {
  if (meta.arithmetic != Arithmetic::as_data) {
    row["arithmetic"] = to_string(meta.arithmetic);
  }
  if (meta.multiplier != Multiplier::fma) {
    row["multiplier"] = to_string(meta.multiplier);
  }
  if (meta.approximate_within > 0.0) {
    row["approximate_within"] = meta.approximate_within;
  }
  if (meta.reseeds_empty) {
    row["reseeds_empty"] = true;
  }
}

void add_conversions(json& row, const PointSet& points) {
  row["load_ms"] = points.load_ms;
  if (!points.conversion.empty()) {
    row["conversion"] = points.conversion;
  }
  if (!points.weights_conversion.empty()) {
    row["weights_conversion"] = points.weights_conversion;
  }
}

// Empty for a cell without a time. Why it has none is in its row, and in the table.
std::string figures_text(const Row& row) {
  if (row.samples_ms.empty()) {
    return {};
  }
  const double others = row.gpus_used_by_others.value_or(0.0);
  return fmt::format(
      " {:.3g} ms/iteration, whole answer {:.3g} ms{}{}",
      row.number("ms_per_iteration").value_or(0.0), row.number("whole_ms").value_or(0.0),
      collapse_text(row),
      others > kMostUseByOthers
          ? fmt::format("; other programs use the GPU ({:.0f} % of the time)", 100.0 * others)
          : "");
}

// A name that stands in no file is misspelt. One of a backend that is not built is a row that says
// so.
void check_variant(const std::string& name) {
  if (find_variant(name) != nullptr || missing_backend_of(name) != nullptr) {
    return;
  }
  std::vector<std::string> names;
  for (const KnownVariant* variant : all_variants()) {
    names.push_back(variant->meta.name);
  }
  for (const Backend& backend : backends()) {
    std::istringstream files{std::string(backend.missing_files)};
    names.insert(names.end(), std::istream_iterator<std::string>(files), {});
  }
  throw datasets::InputError(fmt::format(
      "unknown variant \"{}\"; did you mean {}? (--peer names a program that holds more)", name,
      datasets::nearest(name, names)));
}

// Checks every variant's name and every problem once before a file is written or anything is
// measured, so that bad input ends the campaign at its start and leaves nothing behind. Equal
// problems of other variants are the same check. Where there is one dataset, and no row of before
// may make it needless, making it now leaves even less behind.
WorkloadBuilder checked_problems(const CampaignOptions& options) {
  WorkloadBuilder builder(options.cell.memory_limit);
  const bool is_one =
      !options.resume && std::ranges::all_of(options.cells, [&](const CellSpec& cell) {
        return cell.problem.data == options.cells.front().problem.data;
      });
  std::set<std::string> checked;
  for (const CellSpec& cell : options.cells) {
    const std::string key = to_json(cell.problem).dump() + std::string(to_string(cell.precision));
    try {
      check_variant(cell.variant);
      if (checked.insert(key).second && interrupt_signal() == 0) {
        if (is_one) {
          builder.build(cell.problem, cell.precision);
        } else {
          builder.check(cell.problem, cell.precision);
        }
      }
    } catch (const datasets::InputError& error) {
      if (cell.file.empty()) {
        throw;
      }
      throw datasets::InputError(
          fmt::format("{}: problem {}: {}", cell.file, cell.problem_id, error.what()));
    } catch (const std::exception& error) {
      if (!is_out_of_memory(error)) { // else its cells will have rows that say so
        throw;
      }
    }
  }
  return builder;
}

CellOptions cell_options(const CampaignOptions& options, std::uint64_t seed) {
  CellOptions cell = options.cell;
  cell.starts_seed = seed;
  cell.hidden.push_back(std::filesystem::absolute(options.out)); // the seed is in its ledger
  return cell;
}

// What a cell's rounds have taken.
class Spent {
public:
  void add(const Row& row) {
    const double waited_ms = row.number("waited_for_quiet_ms").value_or(0.0);
    const double seconds = (row.number("took_ms").value_or(0.0) - waited_ms) * 1e-3;
    sum_ += seconds;
    longest_ = std::max(longest_, seconds);
    goes_on_ = row.status == "ok";
  }
  // What has failed is not tried again for the sake of another figure.
  bool leaves_another(double allowed) const { return goes_on_ && sum_ + longest_ <= allowed; }

private:
  double sum_ = 0.0, longest_ = 0.0;
  bool goes_on_ = true;
};

class Campaign {
public:
  explicit Campaign(const CampaignOptions& options)
      : options_(options), builder_(checked_problems(options)), ledger_(options.out),
        // Read without --resume, too: what is measured must not go where nobody can read it.
        earlier_(read_ledger(ledger_.path())), starts_seed_(starts_seed(options, earlier_)),
        runner_(cell_options(options, starts_seed_)),
        answers_(options.save, options.cells, options.rounds), provenance_(provenance()),
        environment_hash_(environment_hash(provenance_)),
        binary_hash_(hash_of({datasets::sha256_file(own_path()),
                              datasets::sha256_file(program_folder() / "clusterbench-runner")})) {
    if (!earlier_.edited.empty()) {
      say("clusterbench: {}\n", earlier_.edited);
    }
    if (options.resume) {
      settled_ = settled_rows(std::move(earlier_.rows), options.cell.sandboxed);
    }
    if (answers_.wanted()) {
      make_output_folder(answers_.folder());
    }
  }

  CampaignResult run() {
    limits_ = options_.probe ? measure_limits(options_.cell.threads) : json::object();
    write_header();
    const bool counted = std::isinf(options_.rounds_seconds);
    Progress progress(options_.cells.size() *
                      (counted ? static_cast<std::size_t>(options_.rounds) : 1));
    std::vector<Spent> spent(options_.cells.size());
    for (int round = 1; round <= options_.rounds && interrupt_signal() == 0; ++round) {
      std::vector<std::size_t> order = shuffled(round);
      if (!counted && round > 1) {
        std::erase_if(order, [&](std::size_t index) {
          return !spent[index].leaves_another(options_.rounds_seconds);
        });
        progress.expect(order.size());
      }
      for (const std::size_t index : order) {
        const CellSpec& cell = options_.cells[index];
        progress.start(cell_name(cell));
        const Row& row = run_cell(cell, round);
        progress.finish(cell_name(cell), row.status, figures_text(row));
        result_.exit_code = graver(result_.exit_code, exit_code_of(row.status));
        spent[index].add(row);
        if (interrupt_signal() != 0) {
          break;
        }
      }
    }
    if (options_.resume) {
      say("re-used {} rows of {}\n", reused_, ledger_.path().string());
    }
    if (unsaved_ > 0) {
      say("ran {} cells again whose answers were not in {}\n", unsaved_,
          answers_.folder().string());
    }
    const bool none =
        !result_.rows.empty() && std::ranges::all_of(result_.rows, [](const Row& row) {
          return row.status == "refused" || row.status == "unavailable";
        });
    if (none) {
      result_.exit_code = graver(result_.exit_code, ExitCode::nothing_measured);
    }
    if (reused_ > 0 && !earlier_.edited.empty()) { // a reader of it, as others are
      result_.edited.push_back(earlier_.edited);
      result_.exit_code = graver(result_.exit_code, ExitCode::environment_mismatch);
    }
    if (ledger_is_there()) {
      write_for_other_tools();
    }
    if (interrupt_signal() != 0) {
      result_.exit_code = graver(result_.exit_code, ExitCode::interrupted);
      say("interrupted; {} rows are in {}; the same command with --resume goes on\n",
          result_.rows.size(), ledger_.path().string());
    }
    return std::move(result_);
  }

private:
  // At the end. If it is not, the rows in memory are still worth a table.
  bool ledger_is_there() {
    try {
      ledger_.check_undisturbed();
      return true;
    } catch (const datasets::OutputError& error) {
      say("clusterbench: {}\n", error.what());
      result_.exit_code = graver(result_.exit_code, ExitCode::cannot_write);
      return false;
    }
  }

  void write_for_other_tools() {
    const std::filesystem::path path = options_.out / "gbench.json";
    try {
      write_gbench(path, rows_that_count(read_ledger(ledger_.path()).rows));
    } catch (const datasets::OutputError& error) { // all that it says is in the ledger
      say("clusterbench: {}: {}; the ledger is whole\n", path.string(), error.what());
      result_.exit_code = graver(result_.exit_code, ExitCode::cannot_write);
    }
  }

  void write_header() {
    const json line = {{"type", "header"},
                       {"schema", kLedgerSchema},
                       {"time", now_utc()},
                       {"command_line", options_.command_line},
                       {"seed", options_.seed},
                       {"rounds", options_.rounds},
                       {"threads", options_.cell.threads},
                       {"gpus", options_.cell.gpus},
                       {"ranks", options_.cell.ranks},
                       {"sampling", options_.cell.sampling},
                       {"cache_between_samples", "kept"},
                       {"starts_seed", starts_seed_},
                       {"binary_sha256", binary_hash_},
                       {"environment_hash", environment_hash_},
                       {"provenance", provenance_},
                       {"limits", limits_}};
    ledger_.append(line);
    header_ = std::make_shared<const Header>(line, options_.out.string());
  }

  // Cells that follow one another share the machine's mood of the moment; another order in every
  // round spreads it over all of them.
  std::vector<std::size_t> shuffled(int round) const {
    std::vector<std::size_t> order(options_.cells.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    datasets::RandomState random(options_.seed + static_cast<std::uint32_t>(round));
    random.shuffle(std::span(order));
    return order;
  }

  json begun_row(const CellSpec& cell, int round) const {
    return {{"type", "cell"},
            {"schema", kLedgerSchema},
            {"table", cell.table},
            {"name", cell_name(cell)},
            {"variant", cell.variant},
            {"precision", to_string(cell.precision)},
            {"threads", options_.cell.threads},
            {"round", round},
            {"time", now_utc()}};
  }

  struct Devices {
    int gpus, ranks; ///< 0: the variant knows of none
  };

  // Where the variant comes from, and what it runs on.
  Devices add_devices(json& row, const KnownVariant& variant) const {
    row["device"] = to_string(variant.meta.device);
    row["backend"] = variant.backend;
    if (!variant.submission.is_null()) {
      row["submission"] = variant.submission;
    }
    const Devices devices = {gpus_of(variant.meta, options_.cell.gpus),
                             ranks_of(variant.meta, options_.cell.ranks, options_.cell.gpus)};
    if (devices.gpus > 0) {
      row["gpus"] = devices.gpus;
    } else if (devices.ranks > 0) { // ranks with a GPU each are as many as GPUs
      row["ranks"] = devices.ranks;
      row["threads"] = std::max(options_.cell.threads, devices.ranks); // a rank has at least one
    }
    return devices;
  }

  // The row of a cell that ends before its data are there, which its key cannot name then.
  void end_without_data(json& row, const CellSpec& cell, const char* status,
                        const std::string& message) const {
    row["problem"] = problem_json(cell);
    row["key"] = hash_of({cell_name(cell), row.at("round"), binary_hash_, environment_hash_});
    row["status"] = status;
    row["message"] = message;
  }

  const Row& run_cell(const CellSpec& cell, int round) {
    const KnownVariant* variant = find_variant(cell.variant);
    json row = begun_row(cell, round);
    if (variant == nullptr) {
      const Backend* backend = missing_backend_of(cell.variant);
      row["device"] = "";
      end_without_data(row, cell, "unavailable",
                       fmt::format("the backend {} is not built here: {}", backend->name,
                                   backend->missing_reason));
      return is_known(row) ? reuse(row) : keep(row);
    }
    const Devices devices = add_devices(row, *variant);
    row["build"] = hash_of({binary_hash_, fingerprint(*variant)});
    const auto key_with = [&](const std::string& problem_hash) {
      return hash_of({cell.table, cell.problem_id, cell.variant, problem_hash, round,
                      options_.cell.threads, devices.gpus, devices.ranks,
                      options_.cell.memory_limit, options_.cell.device_memory_limit,
                      options_.cell.sampling, binary_hash_, environment_hash_,
                      fingerprint(*variant), starts_seed_});
    };
    const std::filesystem::path stem = answers_.stem(cell, round);
    if (const Row* known = known_without_data(cell, key_with)) {
      row["key"] = known->key;
      if (!lacks_answer(row, stem)) {
        return reuse(row);
      }
    }
    std::optional<Workload> built;
    try {
      built = builder_.build(cell.problem, cell.precision);
    } catch (const std::exception& error) {
      // Input was right at the start; and a cache that is full ends no cells whose data are there.
      if (!is_out_of_memory(error) &&
          dynamic_cast<const datasets::InputError*>(&error) == nullptr &&
          dynamic_cast<const datasets::OutputError*>(&error) == nullptr) {
        throw;
      }
      end_without_data(row, cell, is_out_of_memory(error) ? "out_of_memory" : "error",
                       fmt::format("the problem's data: {}", words_of(error)));
      return keep(row);
    }
    const Workload& work = *built;
    add_what_it_computes(row, variant->meta);
    add_conversions(row, *work.points);
    row["problem"] = problem_json(cell, work);
    row["key"] = key_with(work.hash);
    if (is_known(row)) {
      if (!lacks_answer(row, stem)) {
        return reuse(row);
      }
      ++unsaved_;
    }
    const auto begin = std::chrono::steady_clock::now();
    const CellEnd end = runner_.run(*variant, work, cell_name(cell));
    row.update(end.row);
    if (!options_.cell.sandboxed &&
        exit_code_of(row.at("status").get<std::string>()) == ExitCode::wrong_result) {
      row["unsandboxed"] = true; // whatever has found it wrong
    }
    row["took_ms"] =
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
    add_derived_figures(row, limits_);
    const Row& kept = keep(row); // first of all: no disk that is full of answers may cost it
    if (answers_.wanted() && end.save) {
      end.save(stem, row.at("key"));
    }
    return kept;
  }

  // Whether --save asks for more of a known row than there is. Some rows have no answer.
  bool lacks_answer(const json& row, const std::filesystem::path& stem) const {
    const std::string key = row.at("key");
    return answers_.wanted() && !settled_.at(key).field("answers_judged").is_null() &&
           !AnswerFiles::holds(stem, key);
  }

  // A settled row of the same work, as far as that is certain before the data are there: what a
  // build generates is always the same, and a row's key names the build.
  const Row*
  known_without_data(const CellSpec& cell,
                     const std::function<std::string(const std::string&)>& key_with) const {
    if (!datasets::is_known(cell.problem.data) || !cell.problem.weights.empty() ||
        cell.problem.last_column_is_label || cell.problem.init.kind == InitSpec::Kind::file) {
      return nullptr;
    }
    const std::string name = cell_name(cell),
                      definition = definition_of(to_json(cell.problem).dump());
    for (const auto& [key, row] : settled_) {
      if (row.name == name && row.identity.definition == definition &&
          key == key_with(row.identity.hash)) {
        return &row;
      }
    }
    return nullptr;
  }

  bool is_known(const json& row) const { return settled_.contains(row.at("key")); }

  const Row& reuse(const json& row) {
    ++reused_;
    return result_.rows.emplace_back(settled_.at(row.at("key")));
  }

  const Row& keep(const json& row) {
    ledger_.append(row);
    return result_.rows.emplace_back(row, header_);
  }

  const CampaignOptions& options_;
  WorkloadBuilder builder_;
  Ledger ledger_;
  LedgerContent earlier_;
  std::uint64_t starts_seed_;
  CellRunner runner_;
  AnswerFiles answers_;
  json provenance_;
  std::string environment_hash_;
  std::string binary_hash_;
  json limits_;
  std::shared_ptr<const Header> header_;
  std::map<std::string, Row> settled_;
  std::size_t reused_ = 0;
  std::size_t unsaved_ = 0; ///< run again, because their answers are asked for
  CampaignResult result_;
};

} // namespace

CampaignResult run_campaign(const CampaignOptions& options) {
  require_open_files();
  return Campaign(options).run();
}

} // namespace clusterbench
