#include "harness/explain/cell_shift.hpp"

#include "harness/run/ledger.hpp"
#include "harness/run/limits.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fnmatch.h>
#include <map>
#include <nlohmann/json.hpp>

namespace clusterbench {
namespace {

using nlohmann::json;

// Rows of both variants on one cell of one machine: of several of one round the newest.
struct Pair {
  CellShift shift;
  std::map<int, json> before, after;
};

std::string machine_of(const json& header) {
  const json& provenance = header.at("provenance");
  const json model = provenance.at("cpu").value("model", json());
  std::string name = model.is_string() ? model.get<std::string>() : "unknown processor";
  for (const json& gpu : provenance.at("gpu").at("devices")) {
    name = gpu.value("name", "unknown GPU") + ", " + name;
  }
  return name;
}

std::optional<double> median_of(const std::map<int, json>& rounds, const char* field) {
  std::vector<double> values;
  for (const auto& [round, row] : rounds) {
    if (!row.contains(field)) {
      return std::nullopt;
    }
    values.push_back(row.at(field));
  }
  return median(values);
}

CellFigures figures_of(const std::map<int, json>& rounds) {
  CellFigures figures;
  Rounds samples;
  for (const auto& [round, row] : rounds) {
    samples.push_back(row.at("samples_ms"));
  }
  const json& last = rounds.rbegin()->second;
  figures.run_ms = pool_rounds(samples);
  figures.iterations = last.at("iterations");
  figures.ms_per_iteration = median_of(rounds, "ms_per_iteration").value_or(0.0);
  figures.percent_of_limit = median_of(rounds, "percent_of_limit");
  figures.limit = last.value("limit", "");
  figures.stopped_early = last.value("early_stop", false);
  return figures;
}

// Phases of the newest round, in order of name.
std::vector<PhaseShift> phases_of(const json& before, const json& after) {
  std::map<std::string, PhaseShift> phases;
  const auto add = [&](const json& row, std::optional<double> PhaseShift::*side) {
    const double passes = std::max(row.value("recorded_passes", 0.0), 1.0);
    for (const auto& [name, milliseconds] : row.at("phases_ms").items()) {
      phases[name].phase = name;
      phases[name].*side = milliseconds.get<double>() / passes;
    }
  };
  add(before, &PhaseShift::before);
  add(after, &PhaseShift::after);
  std::vector<PhaseShift> result;
  for (auto& [name, phase] : phases) {
    result.push_back(std::move(phase));
  }
  return result;
}

} // namespace

std::vector<CellShift> cell_shifts(const std::vector<std::string>& ledgers,
                                   const std::string& before, const std::string& after,
                                   const std::string& cell) {
  std::vector<Pair> pairs; // in the order of the ledgers
  std::map<std::string, std::size_t> known;
  for (const std::string& ledger : ledgers) {
    json limits = json::object();
    std::string environment = ledger;
    std::string machine = "unknown machine";
    for_each_line(ledger, [&](json& line) {
      if (line.at("type") == "header") {
        limits = line.at("limits");
        environment = line.value("environment_hash", ledger);
        machine = machine_of(line);
        return;
      }
      const bool is_before = line.value("variant", "") == before;
      if (!is_before && line.at("variant") != after) {
        return;
      }
      const std::string name =
          fmt::format("{}/{}/{}", line.at("table").get<std::string>(),
                      line.at("problem").value("id", ""), line.at("precision").get<std::string>());
      if (line.at("status") != "ok" || fnmatch(cell.c_str(), name.c_str(), 0) != 0) {
        return;
      }
      const int threads = line.at("threads");
      const auto [place, is_new] =
          known.try_emplace(fmt::format("{}\n{}\n{}", environment, threads, name), pairs.size());
      if (is_new) {
        CellShift& shift = pairs.emplace_back().shift;
        shift.cell = name;
        shift.machine = machine;
        shift.threads = line.at("device") == "cpu" ? threads : 0;
      }
      Pair& pair = pairs[place->second];
      add_derived_figures(line, limits);
      const int round = line.at("round");
      (is_before ? pair.before : pair.after)[round] = std::move(line);
    });
  }
  std::vector<CellShift> shifts;
  for (Pair& pair : pairs) {
    if (!pair.before.empty() && !pair.after.empty()) {
      pair.shift.before = figures_of(pair.before);
      pair.shift.after = figures_of(pair.after);
      pair.shift.phases = phases_of(pair.before.rbegin()->second, pair.after.rbegin()->second);
      shifts.push_back(std::move(pair.shift));
    }
  }
  return shifts;
}

} // namespace clusterbench
