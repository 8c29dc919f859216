#include "harness/compare/timings.hpp"

#include "datasets/errors.hpp"
#include "harness/machine/environment.hpp"
#include "harness/run/files.hpp"
#include "harness/run/ledger.hpp"

#include <fmt/format.h>

namespace clusterbench {
namespace {

using datasets::InputError;
using nlohmann::json;

// A row together with the header that it follows.
struct LedgerRow {
  json row;
  std::size_t header = 0;
};

json hardware_of(const json& context) {
  json hardware;
  for (const char* key : {"num_cpus", "caches"}) {
    hardware[key] = context.value(key, json());
  }
  return hardware;
}

void add_round(CellTimings& cell, const json& row) {
  const std::string status = row.at("status");
  if (status != "ok") {
    cell.status = status;
    cell.message = row.value("message", "");
    cell.rounds_ms.clear();
  } else if (cell.status == "ok") {
    cell.rounds_ms.push_back(row.at("samples_ms").get<std::vector<double>>());
  }
  cell.work =
      fmt::format("{}, {} threads", row.at("problem").value("hash", ""), row.value("threads", 0));
}

Timings from_ledger(const std::filesystem::path& path) {
  Timings timings;
  timings.source = path.string();
  std::vector<json> headers;
  std::map<std::string, std::map<int, LedgerRow>> newest;
  for (json& line : read_ledger(path)) {
    if (line.value("type", "") == "header") {
      headers.push_back(std::move(line));
      continue;
    }
    if (headers.empty()) {
      throw InputError(fmt::format("{}: a cell comes before any header", path.string()));
    }
    LedgerRow& known = newest[line.at("name")][line.value("round", 1)];
    // Another machine may have had what this one lacks.
    if (known.row.is_null() || line.at("status") != "unavailable") {
      known = {std::move(line), headers.size() - 1};
    }
  }
  for (const auto& [name, rounds] : newest) {
    for (const auto& [round, entry] : rounds) {
      add_round(timings.cells[name], entry.row);
      const json& header = headers[entry.header];
      timings.environment_hashes.insert(header.at("environment_hash").get<std::string>());
      timings.environment = comparable_environment(header.at("provenance"));
      if (entry.row.contains("gbench_context")) {
        timings.context = hardware_of(entry.row.at("gbench_context"));
      }
    }
  }
  return timings;
}

double milliseconds_per(const std::string& unit) {
  static const std::map<std::string, double> kUnits = {
      {"ns", 1e-6}, {"us", 1e-3}, {"ms", 1.0}, {"s", 1e3}};
  const auto known = kUnits.find(unit);
  if (known == kUnits.end()) {
    throw InputError(fmt::format("unknown time_unit \"{}\"", unit));
  }
  return known->second;
}

// Raw repetitions, not the library's aggregates. A repetition index that does not grow begins
// another round.
Timings from_google_benchmark(const json& file) {
  Timings timings;
  timings.context = hardware_of(file.at("context"));
  std::map<std::string, int> last_repetition;
  for (const json& row : file.at("benchmarks")) {
    if (row.value("run_type", "iteration") != "iteration") {
      continue;
    }
    const std::string name = row.at("name");
    CellTimings& cell = timings.cells[name];
    if (row.value("error_occurred", false)) {
      cell.status = "error";
      cell.message = row.value("error_message", "");
      cell.rounds_ms.clear();
      continue;
    }
    const int repetition = row.value("repetition_index", 0);
    if (cell.rounds_ms.empty() || repetition <= last_repetition[name]) {
      cell.rounds_ms.emplace_back();
    }
    last_repetition[name] = repetition;
    cell.rounds_ms.back().push_back(row.at("real_time").get<double>() *
                                    milliseconds_per(row.value("time_unit", "ns")));
  }
  return timings;
}

} // namespace

Timings read_timings(const std::filesystem::path& path) {
  try {
    if (path.extension() != ".json" || std::filesystem::is_directory(path)) {
      return from_ledger(std::filesystem::is_directory(path) ? path / "ledger.jsonl" : path);
    }
    const json file = read_json_file(path);
    if (!file.is_object() || !file.contains("benchmarks")) {
      throw InputError("it is no JSON of Google Benchmark");
    }
    Timings timings = from_google_benchmark(file);
    timings.source = path.string();
    return timings;
  } catch (const json::exception& error) {
    throw InputError(fmt::format("{}: {}", path.string(), error.what()));
  } catch (const InputError& error) {
    const std::string message = error.what();
    throw InputError(message.starts_with(path.string())
                         ? message
                         : fmt::format("{}: {}", path.string(), message));
  }
}

} // namespace clusterbench
