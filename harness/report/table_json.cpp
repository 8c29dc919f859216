#include "harness/report/table_json.hpp"

#include <cmath>

namespace clusterbench {
namespace {

using nlohmann::json;

void put_if_known(json& object, const char* key, const std::optional<double>& value) {
  if (value && std::isfinite(*value)) {
    object[key] = *value;
  }
}

void put_if_text(json& object, const char* key, const std::string& text) {
  if (!text.empty()) {
    object[key] = text;
  }
}

json machine_json(const Machine& machine) {
  json entry = {{"id", machine.id}, {"name", machine.name}, {"ledgers", machine.ledgers}};
  put_if_text(entry, "cpu", machine.cpu);
  put_if_text(entry, "gpu", machine.gpu);
  put_if_text(entry, "date", machine.last_day);
  if (machine.first_day != machine.last_day) {
    entry["first_date"] = machine.first_day;
  }
  return entry;
}

json published_json(const Published& published) {
  json entry = {{"article", published.article},
                {"title", published.title},
                {"baseline", published.baseline},
                {"baseline_reason", published.baseline_reason},
                {"speedup_of", published.speedup_of == SpeedupOf::run ? "run" : "iteration"},
                {"speedup_reason", published.speedup_reason}};
  put_if_text(entry, "hardware", published.hardware);
  return entry;
}

// What a measurement says, as the ledger has it; of several rounds the median.
void put_measured(json& entry, const Measured& measured, const TableReport& report) {
  const json& row = measured.speaker();
  entry["machine"] = report.machines[measured.machine].id;
  entry["threads"] = measured.threads;
  entry["status"] = row.at("status");
  for (const char* key : {"device", "backend", "message", "arithmetic", "iterations", "early_stop",
                          "limit", "counters", "phases_ms", "chosen_path"}) {
    if (row.contains(key) && row.at(key) != json("") && row.at(key) != json::object()) {
      entry[key] = row.at(key);
    }
  }
  for (const char* key : {"n", "d"}) {
    if (row.at("problem").contains(key)) {
      entry[key] = row.at("problem").at(key);
    }
  }
  entry["rounds"] = measured.rounds.size();
  if (const auto times = measured.times()) {
    entry["mad_ms"] = times->mad;
    entry["interval_ms"] = {times->interval.low, times->interval.high};
  }
  for (const char* key : {"median_ms", "ms_per_iteration", "load_ms", "prepare_ms", "fetch_ms",
                          "limit_ms_per_iteration", "percent_of_limit", "gb_per_second",
                          "gflop_per_second", "point_centroids_per_second"}) {
    put_if_known(entry, key, measured.median_of(key));
  }
  put_if_known(entry, "end_to_end_ms", end_to_end_ms(measured));
  put_if_known(entry, "distances_avoided_percent", distances_avoided_percent(measured));
}

json cell_json(const ReportCell& cell, const TableReport& report) {
  json entry = {{"problem", cell.spec.problem_id},
                {"variant", cell.spec.variant},
                {"precision", to_string(cell.spec.precision)},
                {"shown_first", cell.shown_first},
                {"verified", verification_text(cell)}};
  put_if_text(entry, "article_row", cell.label);
  if (cell.measured) {
    put_measured(entry, *cell.measured, report);
  } else {
    entry["status"] = "not run";
  }
  if (cell.rank != 0) {
    entry["rank"] = cell.rank;
  }
  put_if_text(entry, "unranked", cell.unranked);
  put_if_known(entry, "speedup", cell.speedup);
  if (cell.speedup) {
    entry["baseline_machine"] = report.machines[cell.baseline_machine].id;
  }
  return entry;
}

json beside_json(const BesideRow& row, const json& cells) {
  const PrintedCell& printed = row.printed;
  json entry = {{"label", printed.label},
                {"key", printed.key},
                {"line", printed.line},
                {"column", printed.column},
                {"problem", printed.problem},
                {"variant", printed.variant},
                {"precision", printed.precision},
                {"published_ms", printed.ms},
                {"published_speedup", row.printed_speedup},
                {"factor", printed.factor},
                {"verdict", row.verdict.word},
                {"reasons", row.verdict.reasons}};
  if (printed.iterations) {
    entry["published_iterations"] = *printed.iterations;
    entry["published_ms_per_iteration"] = printed.ms / *printed.iterations;
  }
  if (row.cell) {
    entry["cell"] = *row.cell;
    const json& cell = cells.at(*row.cell);
    for (const char* key :
         {"median_ms", "ms_per_iteration", "iterations", "percent_of_limit", "verified", "machine",
          "threads", "device", "speedup", "baseline_machine"}) {
      if (cell.contains(key)) {
        entry[key] = cell.at(key);
      }
    }
  }
  return entry;
}

} // namespace

json to_json(const TableReport& report) {
  json machines = json::array();
  for (const Machine& machine : report.machines) {
    machines.push_back(machine_json(machine));
  }
  json problems = json::array();
  for (const auto& [id, problem] : report.table.problems) {
    json entry = to_json(problem);
    entry["id"] = id;
    problems.push_back(entry);
  }
  json cells = json::array();
  for (const ReportCell& cell : report.cells) {
    cells.push_back(cell_json(cell, report));
  }
  json beside = json::array();
  for (const BesideRow& row : report.beside) {
    beside.push_back(beside_json(row, cells));
  }
  return {{"type", "table"},
          {"schema", kTableReportSchema},
          {"name", report.table.name},
          {"title", report.table.title},
          {"source", report.table.source},
          {"notes", report.table.notes},
          {"machines", machines},
          {"published", report.published ? published_json(*report.published) : json()},
          {"problems", problems},
          {"beside", beside},
          {"cells", cells}};
}

} // namespace clusterbench
