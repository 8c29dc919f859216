#include "harness/compare/timings.hpp"

#include "datasets/errors.hpp"
#include "harness/machine/environment.hpp"
#include "harness/system/files.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace clusterbench {
namespace {

using datasets::InputError;
using nlohmann::json;

json hardware_of(const json& context) {
  json hardware;
  for (const char* key : {"num_cpus", "caches"}) {
    hardware[key] = context.value(key, json());
  }
  return hardware;
}

CellTimings timings_of(const Measured& cell) {
  const Row& speaker = cell.speaker();
  CellTimings timings;
  timings.status = speaker.status;
  timings.message = speaker.message;
  timings.work = speaker.problem().value("hash", "");
  if (cell.ok() && std::ranges::any_of(cell.rounds, &Row::unsandboxed)) {
    timings.status = "unsandboxed";
    timings.message = "it ran without a sandbox, and its answers vouch for nothing";
  } else if (cell.ok()) {
    timings.runs_ms = cell.runs_ms();
    timings.passes = pass_costs(cell);
  }
  return timings;
}

Timings from_ledger(const std::filesystem::path& path) {
  const Measurements measurements = read_measurements({path.string()});
  Timings timings;
  timings.edited = measurements.edited.empty() ? "" : measurements.edited.front();
  for (const Measured& cell : measurements.cells) {
    timings.cells[{cell.name(), cell.threads()}] = timings_of(cell);
    for (const Row& row : cell.rounds) {
      timings.environments.insert(row.header->environment_hash);
      timings.environment = comparable_environment(row.header->line.at("provenance"));
      if (const json context = row.field("gbench_context"); !context.is_null()) {
        timings.context = hardware_of(context);
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
    CellTimings& cell = timings.cells[{name, 0}];
    if (row.value("error_occurred", false)) {
      cell.status = "error";
      cell.message = row.value("error_message", "");
      cell.runs_ms.clear();
      continue;
    }
    const int repetition = row.value("repetition_index", 0);
    if (cell.runs_ms.empty() || repetition <= last_repetition[name]) {
      cell.runs_ms.emplace_back();
    }
    last_repetition[name] = repetition;
    cell.runs_ms.back().push_back(row.at("real_time").get<double>() *
                                  milliseconds_per(row.value("time_unit", "ns")));
  }
  return timings;
}

} // namespace

Timings read_timings(const std::filesystem::path& path) {
  Timings timings;
  if (path.extension() != ".json" || std::filesystem::is_directory(path)) {
    timings = from_ledger(path);
  } else {
    const json file = read_json_file(path);
    if (!file.is_object() || !file.contains("benchmarks")) {
      throw InputError(fmt::format("{}: it is no JSON of Google Benchmark", path.string()));
    }
    try {
      timings = from_google_benchmark(file);
    } catch (const std::exception& error) { // a field that is missing or odd
      throw InputError(fmt::format("{}: {}", path.string(), error.what()));
    }
  }
  timings.source = path.string();
  return timings;
}

} // namespace clusterbench
