#include "harness/report/compare/google_benchmark.hpp"

#include "datasets/errors.hpp"
#include "harness/system/json_words.hpp"

#include <cmath>
#include <cstdint>
#include <fmt/format.h>

namespace clusterbench {
namespace {

using datasets::InputError;
using nlohmann::json;

std::int64_t repetition_of(const json& row) {
  const json index = row.value("repetition_index", json(0));
  if (!index.is_number_integer()) {
    throw InputError(fmt::format("repetition_index: {} is no whole number", index.dump()));
  }
  return index.get<std::int64_t>();
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

// Of our own files, what `name` does not tell: an older one, or another program's, tells nothing of
// it.
CellName cell_of(const json& row) {
  const std::string name = row.at("name");
  if (!row.contains("cell")) {
    return {name, 0, {}};
  }
  const json& told = row.at("cell");
  CellName cell{name_with_devices(told.at("name"), told.value("gpus", 0), told.value("ranks", 0)),
                told.at("threads"),
                {told.value("definition", ""), told.value("hash", ""), std::nullopt}};
  if (told.contains("limits")) {
    cell.problem.limits = told.at("limits").get<std::string>();
  }
  return cell;
}

void add_repetition(const json& row, Timings& timings,
                    std::map<CellName, std::int64_t>& last_repetition) {
  if (row.value("run_type", "iteration") != "iteration") {
    return;
  }
  const CellName name = cell_of(row);
  CellTimings& cell = timings.cells[name];
  if (row.value("error_occurred", false)) {
    cell.status = "error";
    cell.message = row.value("error_message", "");
    cell.runs_ms.clear();
    return;
  }
  if (cell.status != "ok") {
    return; // a round that failed speaks for the cell
  }
  const std::int64_t repetition = repetition_of(row);
  if (cell.runs_ms.empty() || repetition <= last_repetition[name]) {
    cell.runs_ms.emplace_back();
  }
  last_repetition[name] = repetition;
  cell.runs_ms.back().push_back(row.at("real_time").get<double>() *
                                milliseconds_per(row.value("time_unit", "ns")));
}

} // namespace

json google_benchmark_hardware(const json& context) {
  json hardware;
  for (const char* key : {"num_cpus", "caches"}) {
    hardware[key] = context.value(key, json());
  }
  return hardware;
}

Timings timings_of_google_benchmark(const json& file) {
  if (!file.is_object() || !file.contains("benchmarks") || !file.at("benchmarks").is_array() ||
      !file.contains("context") || !file.at("context").is_object()) {
    throw InputError("it is no JSON of Google Benchmark");
  }
  Timings timings;
  timings.context = google_benchmark_hardware(file.at("context"));
  std::map<CellName, std::int64_t> last_repetition;
  const json& rows = file.at("benchmarks");
  for (std::size_t i = 0; i < rows.size(); ++i) {
    try {
      add_repetition(rows[i], timings, last_repetition);
    } catch (const json::exception& error) {
      throw InputError(fmt::format("benchmarks[{}]: {}", i, words_of(error)));
    } catch (const InputError& error) {
      throw InputError(fmt::format("benchmarks[{}]: {}", i, error.what()));
    }
  }
  return timings;
}

} // namespace clusterbench
