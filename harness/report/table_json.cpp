#include "harness/report/table_json.hpp"

#include "harness/report/digits.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>

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
  json entry = {{"id", machine.id},
                {"name", machine.name},
                {"ledgers", machine.ledgers},
                {"environment", machine.environment},
                {"cpu_shares", machine.cpu_shares},
                {"limits", machine.limits}};
  put_if_text(entry, "cpu", machine.cpu);
  put_if_text(entry, "gpu", machine.gpu);
  put_if_text(entry, "date", machine.last_day);
  if (machine.first_day != machine.last_day) {
    entry["first_date"] = machine.first_day;
  }
  return entry;
}

json machines_json(const std::vector<Machine>& machines) {
  json entries = json::array();
  std::ranges::transform(machines, std::back_inserter(entries), machine_json);
  return entries;
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
void put_measured(json& entry, const Measured& measured, const std::vector<Machine>& machines) {
  const Row& row = measured.representative();
  entry["machine"] = machines[measured.machine].id;
  entry["threads"] = measured.threads();
  if (measured.gpus() > 0) {
    entry["gpus"] = measured.gpus();
  }
  if (measured.ranks() > 0) {
    entry["ranks"] = measured.ranks();
  }
  entry["status"] = row.status;
  put_if_text(entry, "device", row.device);
  put_if_text(entry, "message", row.message);
  for (const char* key : {"backend", "arithmetic", "centres_apart", "early_stop", "limit",
                          "counters", "phases_ms", "chosen_path"}) {
    if (const json value = row.field(key);
        !value.is_null() && value != json("") && value != json::object()) {
      entry[key] = value;
    }
  }
  const json problem = row.problem();
  for (const char* key : {"n", "d"}) {
    if (problem.contains(key)) {
      entry[key] = problem.at(key);
    }
  }
  entry["rounds"] = measured.rounds.size();
  for (const Row& round : measured.rounds) {
    entry["times"].push_back(round.time);
    entry["runs"].push_back(round.samples_ms.size());
    entry["whole_answers"].push_back(round.whole.size());
  }
  if (const Rounds runs = measured.runs_ms(); !runs.empty()) {
    const PooledRounds pooled = pool_rounds(runs);
    entry["mad_ms"] = pooled.mad;
    entry["interval_ms"] = {pooled.interval.low, pooled.interval.high};
    entry["digits"] = {{"ms_per_iteration", pass_ms_digits(measured)},
                       {"whole_ms", whole_ms_digits(measured)}};
    entry["warm_up_percent"] = warm_up_percent(measured);
  }
  for (const char* key :
       {"median_ms", "ms_per_iteration", "iterations", "start_ms", "context_ms", "upload_ms",
        "prepare_ms", "download_ms", "whole_ms", "cold_ms", "load_ms", "limit_ms_per_iteration",
        "percent_of_limit", "gb_per_second", "gflop_per_second", "point_centroids_per_second"}) {
    put_if_known(entry, key, measured.median_of(key));
  }
  put_if_known(entry, "own_start_ms", measured.own_ms());
  put_if_known(entry, "own_start_ms_per_iteration", measured.own_ms_per_iteration());
  if (row.own_start) {
    entry["own_start_iterations"] = row.own_start->iterations;
  }
  put_if_known(entry, "distances_avoided_percent", distances_avoided_percent(measured));
  if (row.approximate_within > 0.0) {
    const auto [labels, gap] = approximation_of(measured);
    json& approximate = entry["approximate"] = {{"within", row.approximate_within}};
    put_if_known(approximate, "labels_differ", labels);
    put_if_known(approximate, "objective_gap", gap);
  }
  if (row.unsandboxed) {
    entry["unsandboxed"] = true;
  }
}

void put_place(json& entry, const std::string& rank, const std::string& unranked,
               const Place& place) {
  if (place.rank != 0) {
    entry[rank] = place.rank;
    if (place.tied) {
      entry[rank + "_tied"] = true;
    }
  }
  put_if_text(entry, unranked.c_str(), place.unranked);
}

json ratio_json(const Ratio& ratio) {
  return {{"ratio", ratio.ratio},
          {"interval", {ratio.interval.low, ratio.interval.high}},
          {"interval_is_range", ratio.is_range},
          {"paired", ratio.paired}};
}

json efficiency_json(const Efficiency& efficiency, const TableReport& report) {
  json entry = json::object();
  if (efficiency.value) {
    const ReportCell& base = report.cells[efficiency.base];
    entry = ratio_json(*efficiency.value);
    entry["base_problem"] = base.spec.problem_id;
    entry["base_variant"] = base.spec.variant;
    entry["base_threads"] = base.measured->threads();
  }
  entry["scaling"] = efficiency.scaling == Scaling::strong ? "strong" : "weak";
  entry["on_one"] = efficiency.on_one == OnOne::itself ? "itself" : "fastest";
  put_if_text(entry, "why_not", efficiency.why_not);
  return entry;
}

json cell_json(const ReportCell& cell, const TableReport& report) {
  json entry = {{"problem", cell.spec.problem_id},
                {"variant", cell.spec.variant},
                {"precision", to_string(cell.spec.precision)},
                {"shown_first", cell.shown_first()},
                {"verified", verification_text(cell)}};
  put_if_text(entry, "article_row", cell.label);
  if (cell.measured) {
    put_measured(entry, *cell.measured, report.machines);
  } else {
    entry["status"] = "not run";
  }
  put_place(entry, "rank", "unranked", cell.by_iteration);
  put_place(entry, "whole_rank", "whole_unranked", cell.by_whole);
  if (cell.over_first) {
    entry["over_first"] = ratio_json(*cell.over_first);
  }
  for (const Efficiency& efficiency : cell.efficiencies) {
    entry["efficiency"].push_back(efficiency_json(efficiency, report));
  }
  put_if_known(entry, "speedup", cell.speedup);
  if (cell.speedup) {
    entry["baseline_machine"] = report.machines[cell.baseline_machine].id;
  }
  return entry;
}

json beside_json(const BesideRow& row, const json& cells) {
  const PrintedCell& printed = row.printed;
  json entry = {{"label", printed.label},        {"key", printed.key},
                {"column", printed.column},      {"problem", printed.problem},
                {"variant", printed.variant},    {"precision", printed.precision},
                {"published_ms", printed.ms},    {"published_speedup", row.printed_speedup},
                {"factor", printed.factor},      {"verdict", row.verdict.word},
                {"reasons", row.verdict.reasons}};
  if (printed.iterations) {
    entry["published_iterations"] = *printed.iterations;
    entry["published_ms_per_iteration"] = printed.ms / *printed.iterations;
  }
  if (row.cell) {
    entry["cell"] = *row.cell;
    const json& cell = cells.at(*row.cell);
    for (const char* key :
         {"own_start_ms", "own_start_ms_per_iteration", "own_start_iterations", "percent_of_limit",
          "verified", "machine", "threads", "device", "speedup", "baseline_machine"}) {
      if (cell.contains(key)) {
        entry[key] = cell.at(key);
      }
    }
  }
  return entry;
}

} // namespace

json to_json(const TableReport& report) {
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
          {"machines", machines_json(report.machines)},
          {"edited", report.edited},
          {"published", report.published ? published_json(*report.published) : json()},
          {"problems", problems},
          {"beside", beside},
          {"cells", cells}};
}

json to_json(const Measurements& measurements) {
  json cells = json::array();
  for (const Measured& measured : measurements.cells) {
    const Row& row = measured.representative();
    json entry = {{"name", row.name},           {"table", row.table},
                  {"variant", row.variant},     {"precision", row.precision},
                  {"problem", row.problem()},   {"shown_first", measured.shown_first},
                  {"trace", row.field("trace")}};
    put_measured(entry, measured, measurements.machines);
    entry["by_round"] = json::object(); // ms per iteration
    for (const Row& round : measured.rounds) {
      if (const auto ms = round.number("ms_per_iteration")) {
        entry["by_round"][std::to_string(round.round)] = *ms;
      }
    }
    cells.push_back(std::move(entry));
  }
  return {{"type", "ledgers"},
          {"schema", kTableReportSchema},
          {"machines", machines_json(measurements.machines)},
          {"edited", measurements.edited},
          {"cells", cells}};
}

} // namespace clusterbench
