#include "harness/run/campaign.hpp"

#include "datasets/catalog.hpp"
#include "datasets/errors.hpp"
#include "datasets/random_state.hpp"
#include "datasets/sha256.hpp"
#include "harness/cli/progress.hpp"
#include "harness/machine/backends.hpp"
#include "harness/machine/environment.hpp"
#include "harness/machine/provenance.hpp"
#include "harness/messages.hpp"
#include "harness/peer/peers.hpp"
#include "harness/run/answer_files.hpp"
#include "harness/run/files.hpp"
#include "harness/run/ledger.hpp"
#include "harness/run/limits.hpp"
#include "harness/run/process.hpp"
#include "harness/run/shared_memory.hpp"

#include <chrono>
#include <fmt/chrono.h>
#include <fmt/format.h>
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

// The machine's limits, measured in a process of its own: a GPU probe needs a device context.
json measure_limits(int threads) {
  const SharedMemory output("probe");
  ProcessOptions options;
  options.arguments = {own_path(), "probe",     "--quick",
                       "--json",   "--threads", std::to_string(threads)};
  options.output_descriptor = output.fd();
  options.timeout = std::chrono::seconds(120);
  run_process(options);
  auto limits = json::parse(read_all(output.fd()), nullptr, /*allow_exceptions=*/false);
  return limits.is_discarded() ? json::object() : limits;
}

std::string cell_name(const CellSpec& cell) {
  return fmt::format("{}/{}/{}/{}", cell.table, cell.problem_id, cell.variant,
                     to_string(cell.precision));
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
  if (work.initial_rows.size() <= 64) {
    problem["initial_rows"] = work.initial_rows;
  }
  return problem;
}

std::string outcome_line(const json& row) {
  if (!row.contains("median_ms")) {
    return fmt::format("{}: {}", row.at("status").get<std::string>(),
                       row.at("message").get<std::string>());
  }
  std::string line =
      fmt::format("{} {:.4g} ms, {:.4g} ms/iteration", row.at("status").get<std::string>(),
                  row.at("median_ms").get<double>(), row.at("ms_per_iteration").get<double>());
  if (row.at("status") != "ok") {
    line += ": " + row.at("message").get<std::string>();
  }
  return line;
}

ExitCode end_of(const json& row) {
  return exit_code_of(row.at("status").get_ref<const std::string&>());
}

// What Google Benchmark's own tools read: its context, and one row per raw sample.
void write_gbench(const std::filesystem::path& path, const std::vector<json>& rows) {
  json context;
  json benchmarks = json::array();
  for (const json& row : rows) {
    if (row.value("status", "") == "ok" && row.contains("gbench_row")) {
      context = row.at("gbench_context");
      json benchmark = row.at("gbench_row");
      for (std::size_t i = 0; i < row.at("samples_ms").size(); ++i) {
        benchmark["repetition_index"] = i;
        benchmark["real_time"] = row.at("samples_ms").at(i);
        benchmark["cpu_time"] = row.at("cpu_ms").at(i);
        benchmarks.push_back(benchmark);
      }
    }
  }
  if (!context.is_null()) {
    write_text_file(path, json{{"context", context}, {"benchmarks", benchmarks}}.dump(2) + "\n");
  }
}

// Whether running the cell again would tell no more. A crash or a lack of time or memory may have had
// its cause outside, or have it no longer.
bool is_settled(const json& row) {
  const ExitCode end = end_of(row);
  return end == ExitCode::ok || end == ExitCode::wrong_result;
}

// A cell in one round.
std::pair<std::string, int> place_of(const json& row) {
  return {row.at("name"), row.at("round")};
}

// Rows of earlier invocations, the newest for each key, where that is settled: an older one must not
// be re-used beneath it, because readers of the ledger take the newest, too. Looks at all that a
// campaign reads of a ledger, so that a damaged one is found before anything is measured.
std::map<std::string, json> earlier_rows(const std::filesystem::path& ledger) {
  std::map<std::string, json> rows;
  for_each_line(ledger, [&](json& line) {
    if (line.at("type") == "cell") {
      place_of(line);
      const std::string key = line.at("key"); // read before the line is moved from
      if (is_settled(line)) {
        rows[key] = std::move(line);
      } else {
        rows.erase(key);
      }
    }
  });
  return rows;
}

// The newest row of every cell and round, in the order in which the cells came first.
std::vector<json> newest_rows(const std::filesystem::path& ledger) {
  std::vector<json> rows;
  std::map<std::pair<std::string, int>, std::size_t> known;
  for_each_line(ledger, [&](json& line) {
    if (line.at("type") == "cell") {
      const auto [place, is_new] = known.try_emplace(place_of(line), rows.size());
      if (is_new) {
        rows.push_back(std::move(line));
      } else if (line.at("status") != "unavailable") { // another build may have had the backend
        rows[place->second] = std::move(line);
      }
    }
  });
  return rows;
}

// A name that stands in no file is misspelt. One of a backend that is not built is a row that says
// so.
void check_variant(const std::string& name) {
  if (find_variant(name) != nullptr || missing_backend_of(name) != nullptr) {
    return;
  }
  std::vector<std::string> names;
  for (const RegisteredVariant* variant : all_variants()) {
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

// Checks every variant's name and builds every problem once before a file is written or anything is
// measured, so that bad input ends the campaign at its start and leaves nothing behind. Equal
// problems of other variants are the same check.
WorkloadBuilder checked_problems(const CampaignOptions& options) {
  WorkloadBuilder builder;
  std::set<std::string> checked;
  for (const CellSpec& cell : options.cells) {
    const std::string key = to_json(cell.problem).dump() + std::string(to_string(cell.precision));
    try {
      check_variant(cell.variant);
      if (checked.insert(key).second && interrupt_signal() == 0) {
        builder.build(cell.problem, cell.precision);
      }
    } catch (const datasets::InputError& error) {
      if (cell.file.empty()) {
        throw;
      }
      throw datasets::InputError(
          fmt::format("{}: problem {}: {}", cell.file, cell.problem_id, error.what()));
    }
  }
  return builder;
}

class Campaign {
public:
  explicit Campaign(const CampaignOptions& options)
      : options_(options), builder_(checked_problems(options)), ledger_(options.out),
        runner_(options.cell), answers_(options.save, options.cells, options.rounds),
        provenance_(provenance()), environment_hash_(environment_hash(provenance_)),
        binary_hash_(datasets::sha256_file(own_path())) {
    // Read without --resume, too: what is measured must not go where nobody can read it.
    earlier_ = earlier_rows(ledger_.path());
    if (!options.resume) {
      earlier_.clear();
    }
    if (answers_.wanted()) {
      make_output_folder(answers_.folder());
    }
  }

  CampaignResult run() {
    limits_ = options_.probe ? measure_limits(options_.cell.threads) : json::object();
    write_header();
    Progress progress(options_.cells.size() * static_cast<std::size_t>(options_.rounds));
    for (int round = 1; round <= options_.rounds && interrupt_signal() == 0; ++round) {
      for (const std::size_t index : shuffled(round)) {
        const CellSpec& cell = options_.cells[index];
        progress.start(cell_name(cell));
        const json& row = run_cell(cell, round);
        progress.finish(cell_name(cell), outcome_line(row));
        result_.exit_code = graver(result_.exit_code, end_of(row));
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
    write_gbench(options_.out / "gbench.json", newest_rows(ledger_.path()));
    if (interrupt_signal() != 0) {
      result_.exit_code = graver(result_.exit_code, ExitCode::interrupted);
      say("interrupted; {} rows are in {}; the same command with --resume goes on\n",
          result_.rows.size(), ledger_.path().string());
    }
    return std::move(result_);
  }

private:
  void write_header() {
    ledger_.append({{"type", "header"},
                    {"schema", kLedgerSchema},
                    {"time", now_utc()},
                    {"command_line", options_.command_line},
                    {"seed", options_.seed},
                    {"rounds", options_.rounds},
                    {"threads", options_.cell.threads},
                    {"sampling", options_.cell.sampling},
                    {"cache_between_samples", "kept"},
                    {"binary_sha256", binary_hash_},
                    {"environment_hash", environment_hash_},
                    {"provenance", provenance_},
                    {"limits", limits_}});
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

  const json& run_cell(const CellSpec& cell, int round) {
    const RegisteredVariant* variant = find_variant(cell.variant);
    json row = {{"type", "cell"},
                {"schema", kLedgerSchema},
                {"table", cell.table},
                {"name", cell_name(cell)},
                {"variant", cell.variant},
                {"precision", to_string(cell.precision)},
                {"threads", options_.cell.threads},
                {"round", round},
                {"time", now_utc()}};
    if (variant == nullptr) {
      row["device"] = "";
      row["problem"] = problem_json(cell);
      row["key"] = hash_of({cell_name(cell), round, binary_hash_, environment_hash_});
      row["status"] = "unavailable";
      const Backend* backend = missing_backend_of(cell.variant);
      row["message"] = fmt::format("the backend {} is not built here: {}", backend->name,
                                   backend->missing_reason);
      return is_known(row) ? reuse(row) : keep(row);
    }
    const Workload work = builder_.build(cell.problem, cell.precision);
    row["device"] = to_string(variant->meta.device);
    row["backend"] = backend_of(*variant);
    // What keeps a cell from being ranked, for whoever reads the ledger without this build.
    if (variant->meta.arithmetic != Arithmetic::as_data) {
      row["arithmetic"] = to_string(variant->meta.arithmetic);
    }
    if (variant->meta.multiplier != Multiplier::fma) {
      row["multiplier"] = to_string(variant->meta.multiplier);
    }
    if (variant->meta.reseeds_empty) {
      row["reseeds_empty"] = true;
    }
    row["load_ms"] = work.points->load_ms;
    row["problem"] = problem_json(cell, work);
    const Peer* peer = find_peer(cell.variant);
    row["key"] = hash_of({cell.table, cell.problem_id, cell.variant, work.hash, round,
                          options_.cell.threads, options_.cell.sampling, binary_hash_,
                          environment_hash_, peer != nullptr ? fingerprint(*peer) : ""});
    const std::filesystem::path stem = answers_.stem(cell, round);
    if (is_known(row)) {
      if (!lacks_answer(row, stem)) {
        return reuse(row);
      }
      ++unsaved_;
    }
    const CellEnd end = runner_.run(*variant, work, cell_name(cell));
    row.update(end.row);
    add_derived_figures(row, limits_);
    const json& kept = keep(row); // first of all: no disk that is full of answers may cost it
    if (answers_.wanted() && end.save) {
      end.save(stem, row.at("key"));
    }
    return kept;
  }

  // Whether --save asks for more of a known row than there is. Some rows have no answer.
  bool lacks_answer(const json& row, const std::filesystem::path& stem) const {
    const std::string key = row.at("key");
    return answers_.wanted() && earlier_.at(key).contains("answers") &&
           !AnswerFiles::holds(stem, key);
  }

  bool is_known(const json& row) const { return earlier_.contains(row.at("key")); }

  const json& reuse(const json& row) {
    ++reused_;
    return result_.rows.emplace_back(earlier_.at(row.at("key")));
  }

  const json& keep(const json& row) {
    ledger_.append(row);
    return result_.rows.emplace_back(row);
  }

  const CampaignOptions& options_;
  WorkloadBuilder builder_;
  Ledger ledger_;
  CellRunner runner_;
  AnswerFiles answers_;
  json provenance_;
  std::string environment_hash_;
  std::string binary_hash_;
  json limits_;
  std::map<std::string, json> earlier_;
  std::size_t reused_ = 0;
  std::size_t unsaved_ = 0; ///< run again, because their answers are asked for
  CampaignResult result_;
};

} // namespace

ExitCode exit_code_of(std::string_view status) {
  if (status == "wrong") {
    return ExitCode::wrong_result;
  }
  if (status == "interrupted") {
    return ExitCode::interrupted;
  }
  // What a variant declares it cannot do, and what this machine lacks, is no failure.
  const bool fine = status == "ok" || status == "refused" || status == "unavailable";
  return fine ? ExitCode::ok : ExitCode::cells_missing;
}

CampaignResult run_campaign(const CampaignOptions& options) {
  return Campaign(options).run();
}

} // namespace clusterbench
