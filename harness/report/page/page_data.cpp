#include "harness/report/page/page_data.hpp"

#include "harness/ledger/ratio.hpp"
#include "harness/machine/build_info.hpp"
#include "harness/report/equal_work.hpp"
#include "harness/report/table_json.hpp"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <map>
#include <optional>

namespace clusterbench {
namespace {

using nlohmann::json;

// What the page does not show; it would make it larger.
constexpr std::array kUnseen = {"trace",
                                "by_round",
                                "interval_ms",
                                "mad_ms",
                                "start_ms",
                                "context_ms",
                                "upload_ms",
                                "prepare_ms",
                                "download_ms",
                                "cold_ms",
                                "load_ms",
                                "gb_per_second",
                                "gflop_per_second",
                                "point_centroids_per_second",
                                "own_start_ms",
                                "own_start_ms_per_iteration",
                                "own_start_iterations",
                                "table",
                                "n",
                                "d",
                                "warm_up_percent"};

// Six digits are more than a clock has, and make the page small.
double six_digits(double value) {
  return std::stod(fmt::format("{:.6g}", value));
}

json six_digits(const Rounds& rounds) {
  json lists = json::array();
  for (const std::vector<double>& round : rounds) {
    json& list = lists.emplace_back(json::array());
    for (const double value : round) {
      list.push_back(six_digits(value));
    }
  }
  return lists;
}

// Low, high, and whether they are a range rather than an interval of 95 %.
json interval_json(const Interval& interval, bool is_range) {
  return {six_digits(interval.low), six_digits(interval.high), is_range};
}

// How many passes each sample made: one number where it is the same of all, for which the intervals
// of run and iteration differ by that factor alone.
std::optional<std::size_t> common_passes(const Measured& measured) {
  const std::size_t first = measured.rounds.front().sample_iterations.at(0);
  for (const Row& row : measured.rounds) {
    if (std::ranges::any_of(row.sample_iterations,
                            [&](std::size_t each) { return each != first; })) {
      return std::nullopt;
    }
  }
  return first;
}

// The samples of the runs and of the whole answers, round by round, and the intervals of medians.
// `cell` has the runs' interval already.
void put_samples(json& cell, const Measured& measured) {
  if (const Rounds runs = measured.runs_ms(); !runs.empty()) {
    const bool is_range = !enough_for_interval(runs);
    const Interval interval{cell.at("interval_ms").at(0), cell.at("interval_ms").at(1)};
    cell["samples"]["run"] = six_digits(runs);
    cell["intervals"]["run"] = interval_json(interval, is_range);
    if (const auto passes = common_passes(measured)) {
      const auto count = static_cast<double>(std::max<std::size_t>(*passes, 1));
      cell["intervals"]["iteration"] =
          interval_json({interval.low / count, interval.high / count}, is_range);
      cell["samples"]["passes"] = *passes;
    } else {
      const PooledRounds pooled = pool_rounds(pass_costs(measured).ms());
      cell["intervals"]["iteration"] = interval_json(pooled.interval, pooled.is_range);
      for (const Row& row : measured.rounds) {
        cell["samples"]["passes"].push_back(row.sample_iterations);
      }
    }
  }
  if (const Rounds whole = whole_costs(measured).ms(); !whole.empty()) {
    const PooledRounds pooled = pool_rounds(whole);
    cell["samples"]["whole"] = six_digits(whole);
    cell["intervals"]["whole"] = interval_json(pooled.interval, pooled.is_range);
  }
}

// The definition of a problem: what is the same for all rows of one.
json definition_of(const Row& row) {
  json definition = row.problem();
  for (const char* told : {"hash", "data_sha256", "weights_sha256", "n", "d", "initial_rows"}) {
    definition.erase(told);
  }
  definition["table"] = row.table;
  return definition;
}

// Which problem each cell is of, and what the cells of a problem in one precision have in common.
struct Problems {
  json definitions = json::array();
  std::vector<std::size_t> of_cell;
  std::map<std::pair<std::size_t, std::string>, std::vector<const Measured*>> groups;

  explicit Problems(const std::vector<Measured>& cells) {
    std::map<std::string, std::size_t> places;
    for (const Measured& cell : cells) {
      const json definition = definition_of(cell.representative());
      const auto [place, is_new] = places.try_emplace(definition.dump(), definitions.size());
      if (is_new) {
        definitions.push_back(definition);
      }
      for (const char* size : {"n", "d"}) { // which a row tells only if its data were built
        const json told = cell.representative().problem().value(size, json());
        if (!told.is_null() && !definitions[place->second].contains(size)) {
          definitions[place->second][size] = told;
        }
      }
      of_cell.push_back(place->second);
      groups[{place->second, cell.representative().precision}].push_back(&cell);
    }
  }
};

bool is_definition(const json& problem) {
  return problem.value("stop", json()).is_string() &&
         problem.value("max_iterations", json()).is_number();
}

// How the work of each cell that is ok differs from what most cells of its problem did.
std::map<const Measured*, OtherWork> other_works(const Problems& problems) {
  std::map<const Measured*, OtherWork> others;
  for (const auto& [key, cells] : problems.groups) {
    const json& definition = problems.definitions.at(key.first);
    if (!is_definition(definition)) {
      continue;
    }
    const CommonWork common = common_work(definition, cells);
    for (const Measured* cell : cells) {
      if (cell->ok()) {
        others[cell] = other_work(*cell, common);
      }
    }
  }
  return others;
}

// What runs whose inertias may be compared have in common: the points with their weights, and the
// number of clusters.
std::string points_of(const json& problem) {
  json points = json::object();
  for (const char* key : {"data", "data_sha256", "take", "last_column_is_label", "weights",
                          "weights_sha256", "k", "n", "d"}) {
    points[key] = problem.value(key, json());
  }
  return points.dump();
}

std::vector<double> inertias_of(const json& cell) {
  std::vector<double> inertias;
  const json trace = cell.value("trace", json());
  if (cell.at("status") == "ok" && trace.is_object() && trace.value("inertia", json()).is_array()) {
    for (const json& inertia : trace.at("inertia")) {
      if (!inertia.is_number()) {
        return {};
      }
      inertias.push_back(inertia.get<double>());
    }
  }
  return inertias;
}

// Into every cell with a trace: the time from the problem's own start until its inertia is within 1
// % of the least that any run on the same points reached. A pass tells the inertia of the centroids
// that enter it.
void put_times_to_quality(json& cells) {
  constexpr double kWithin = 0.01;
  std::map<std::string, double> best;
  for (const json& cell : cells) {
    for (const double inertia : inertias_of(cell)) {
      double& known = best.try_emplace(points_of(cell.at("problem")), inertia).first->second;
      known = std::min(known, inertia);
    }
  }
  for (json& cell : cells) {
    const std::vector<double> inertias = inertias_of(cell);
    if (inertias.empty() || !cell.contains("own_start_ms_per_iteration")) {
      continue;
    }
    const double goal = best.at(points_of(cell.at("problem"))) * (1.0 + kWithin);
    const auto reached = std::ranges::find_if(inertias, [&](double each) { return each <= goal; });
    if (reached != inertias.end()) {
      const auto passes = static_cast<double>(reached - inertias.begin() + 1);
      cell["quality_ms"] = passes * cell.at("own_start_ms_per_iteration").get<double>();
    }
  }
}

json verdicts_json(const std::vector<TableReport>& tables) {
  json verdicts = json::array();
  for (const TableReport& table : tables) {
    if (const json report = to_json(table); !report.at("beside").empty()) {
      verdicts.push_back({{"table", table.table.name},
                          {"title", table.table.title},
                          {"per", report.at("published").at("speedup_of")},
                          {"rows", report.at("beside")}});
    }
  }
  return verdicts;
}

json variants_json(const std::vector<VariantText>& variants) {
  json entries = json::array();
  for (const VariantText& text : variants) {
    entries.push_back({{"name", text.name},
                       {"idea", text.idea},
                       {"source", text.source},
                       {"previous", text.previous},
                       {"file", text.file}});
  }
  return entries;
}

} // namespace

bool is_quick(const Row& row) {
  const json words = row.header ? row.header->line.value("command_line", json::array()) : json();
  return std::ranges::find(words, json("--quick")) != words.end();
}

json page_data(const Measurements& measurements, const std::vector<VariantText>& variants,
               const std::vector<TableReport>& articles) {
  json data = to_json(measurements);
  put_times_to_quality(data["cells"]);
  const Problems problems(measurements.cells);
  const std::map<const Measured*, OtherWork> others = other_works(problems);
  for (std::size_t i = 0; i < measurements.cells.size(); ++i) {
    const Measured& measured = measurements.cells[i];
    const Row& row = measured.representative();
    json& cell = data["cells"][i];
    cell["problem"] = problems.of_cell[i];
    cell["time"] = row.time;
    cell["ledger"] = row.header ? row.header->ledger : "";
    if (std::ranges::any_of(measured.rounds, is_quick)) {
      cell["quick"] = true;
    }
    put_samples(cell, measured);
    for (const char* unseen : kUnseen) {
      cell.erase(unseen);
    }
    if (const auto other = others.find(&measured); other != others.end()) {
      if (!other->second.iterations.empty()) {
        cell["other_iterations"] = other->second.iterations;
      }
      if (!other->second.no.empty()) {
        cell["other_work"] = other->second.no;
      }
    }
  }
  data["type"] = "report";
  data["version"] = build_info::version();
  data["problems"] = problems.definitions;
  data["variants"] = variants_json(variants);
  data["verdicts"] = verdicts_json(articles);
  return data;
}

} // namespace clusterbench
