#include "harness/report/table_report.hpp"

#include "harness/report/efficiency.hpp"

#include <algorithm>
#include <fmt/ranges.h>
#include <map>
#include <set>

namespace clusterbench {
namespace {

using nlohmann::json;

// Whether a cell is of the problem as the table defines it, and not of one of that name, of other
// sizes say.
bool is_of(const Measured& cell, const ProblemSpec& problem) {
  return cell.identity().definition == definition_of(to_json(problem).dump());
}

// The cells of the table, each once for every machine and number of threads that it was measured
// with. A machine that lacks the backend says nothing where another has it.
std::vector<ReportCell> cells_of(const Table& table, const std::vector<Measured>& measured) {
  std::multimap<std::string, const Measured*> by_name;
  for (const Measured& found : measured) {
    if (found.representative().status != "unavailable") {
      by_name.emplace(found.name(), &found);
    }
  }
  std::vector<ReportCell> cells;
  for (const CellSpec& spec : table.cells) {
    const auto [begin, end] = by_name.equal_range(cell_name(spec));
    const auto is_own = [&](const auto& entry) { return is_of(*entry.second, spec.problem); };
    const bool has_own = std::any_of(begin, end, is_own);
    for (auto found = begin; found != end; ++found) {
      cells.emplace_back().spec = spec;
      cells.back().measured = *found->second;
      cells.back().measured->shown_first =
          found->second->shown_first && (!has_own || is_own(*found));
    }
    if (begin == end) {
      cells.emplace_back().spec = spec;
    }
    by_name.erase(begin, end);
  }
  // What a variant without a row of its own has done on the table's problems.
  for (const auto& [name, found] : by_name) {
    const Row& row = found->representative();
    const std::string id = row.problem().value("id", "");
    const auto problem =
        std::ranges::find(table.problems, id, &std::pair<std::string, ProblemSpec>::first);
    if (problem != table.problems.end()) {
      ReportCell& cell = cells.emplace_back();
      cell.spec = {table.name, id, problem->second, parse_precision(row.precision), row.variant};
      cell.measured = *found;
    }
  }
  return cells;
}

// Machines that none of the cells was measured on would only be in the way.
void drop_unused_machines(TableReport& report) {
  std::set<std::size_t> used;
  for (const ReportCell& cell : report.cells) {
    if (cell.measured) {
      used.insert(cell.measured->machine);
    }
  }
  std::map<std::size_t, std::size_t> moved;
  std::vector<Machine> kept;
  for (const std::size_t old : used) {
    moved[old] = kept.size();
    kept.push_back(report.machines[old]);
    kept.back().id = machine_id(kept.size() - 1);
  }
  report.machines = std::move(kept);
  for (ReportCell& cell : report.cells) {
    if (cell.measured) {
      cell.measured->machine = moved.at(cell.measured->machine);
    }
  }
}

// In one line, however many findings there are.
std::string status_reason(const ReportCell& cell) {
  if (!cell.measured) {
    return "not run";
  }
  const Row& row = cell.measured->representative();
  std::string reason = row.status + (row.message.empty() ? "" : ": " + row.message);
  for (std::size_t at = 0; (at = reason.find('\n', at)) != std::string::npos;) {
    reason.replace(at, 1, "; ");
  }
  return reason;
}

using CostsOf = Costs (*)(const Measured&);

// Whether the interval of their ratio holds 1. A range of few rounds is no interval: one round that
// was disturbed would make anything equal.
bool are_tied(const Costs& first, const Costs& other) {
  const Ratio ratio = ratio_of(first, other, kTableResamples);
  return !ratio.is_range && ratio.interval.low <= 1.0;
}

// Of cells in the order of their costs. One that is tied with all that have a rank shares it; one
// alone, whose rounds are far apart, would be tied with too many.
void give_ranks(const std::vector<ReportCell*>& cells, CostsOf costs_of, Place ReportCell::*place) {
  std::size_t first = 0;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const Costs costs = costs_of(*cells[i]->measured);
    const bool shares = i > first && std::all_of(&cells[first], &cells[i], [&](ReportCell* other) {
                          return are_tied(costs_of(*other->measured), costs);
                        });
    first = shares ? first : i;
    (cells[i]->*place).rank = first + 1;
    (cells[i]->*place).tied = shares;
    if (shares) {
      (cells[first]->*place).tied = true;
    }
  }
}

// Gives places by the ratio of each cell's costs to those of one of them: start by start, if they
// had the same starts.
std::vector<ReportCell*> rank_by(std::vector<ReportCell*> cells, CostsOf costs_of,
                                 Place ReportCell::*place) {
  std::erase_if(cells, [&](ReportCell* cell) {
    if ((cell->*place).unranked.empty() && costs_of(*cell->measured).rounds.empty()) {
      (cell->*place).unranked = "not timed";
    }
    return !(cell->*place).unranked.empty();
  });
  const auto order = [&](const auto& key) {
    std::map<const ReportCell*, double> keys;
    for (const ReportCell* cell : cells) {
      keys[cell] = key(costs_of(*cell->measured));
    }
    std::ranges::stable_sort(cells, {}, [&](const ReportCell* cell) { return keys.at(cell); });
  };
  if (!cells.empty()) {
    order([](const Costs& costs) { return median_of_rounds(costs.ms()); });
    const Costs first = costs_of(*cells.front()->measured);
    order([&](const Costs& costs) { return point_ratio(first, costs); });
  }
  give_ranks(cells, costs_of, place);
  return cells;
}

// Ranks cells of one problem in one precision that are exact, or that are approximate. Where passes
// differ, the cost of one is still comparable, but no whole answer.
void rank_alike(const std::vector<ReportCell*>& cells) {
  for (ReportCell* cell : cells) {
    cell->by_iteration.unranked = fmt::format("{}", fmt::join(cell->work.no, "; "));
    cell->by_whole.unranked =
        cell->by_iteration.unranked.empty() ? cell->work.iterations : cell->by_iteration.unranked;
  }
  const auto ranked = rank_by(cells, pass_costs, &ReportCell::by_iteration);
  rank_by(cells, whole_costs, &ReportCell::by_whole);
  for (ReportCell* cell : ranked) {
    cell->over_first = ratio_of(pass_costs(*ranked.front()->measured), pass_costs(*cell->measured),
                                kTableResamples);
  }
}

void rank_cells(const ProblemSpec& problem, const std::vector<ReportCell*>& cells) {
  std::vector<const Measured*> measured;
  for (const ReportCell* cell : cells) {
    if (cell->measured) {
      measured.push_back(&*cell->measured);
    }
  }
  const auto is_own = [&](const Measured* cell) { return is_of(*cell, problem); };
  if (std::ranges::any_of(measured, is_own)) { // what others have in common is no measure
    std::erase_if(measured, [&](const Measured* cell) { return !is_own(cell); });
  }
  const CommonWork common = common_work(to_json(problem), measured);
  std::vector<ReportCell*> exact, approximate;
  for (ReportCell* cell : cells) {
    if (cell->ok()) {
      cell->work = other_work(*cell->measured, common);
      (cell->approximate() ? approximate : exact).push_back(cell);
    } else {
      cell->by_iteration.unranked = cell->by_whole.unranked = status_reason(*cell);
    }
  }
  rank_alike(exact);
  rank_alike(approximate);
}

void rank_all(TableReport& report) {
  for (const auto& [id, problem] : report.table.problems) {
    for (const Precision precision : {Precision::f32, Precision::f64}) {
      std::vector<ReportCell*> cells;
      for (ReportCell& cell : report.cells) {
        if (cell.spec.problem_id == id && cell.spec.precision == precision) {
          cells.push_back(&cell);
        }
      }
      rank_cells(problem, cells);
    }
  }
}

// Whether a speed-up may be made of the cell's time.
bool comparable(const ReportCell& cell, SpeedupOf speedup_of) {
  return cell.ok() && !cell.approximate() && cell.work.no.empty() &&
         (speedup_of == SpeedupOf::iteration || cell.work.iterations.empty()) &&
         compared_ms(*cell.measured, speedup_of).has_value();
}

// Why it may not.
std::string incomparable_because(const ReportCell& cell) {
  return cell.approximate()                    ? "approximate"
         : !cell.by_iteration.unranked.empty() ? cell.by_iteration.unranked
         : !cell.by_whole.unranked.empty()     ? cell.by_whole.unranked
                                               : "the baseline was not run";
}

const PrintedCell& baseline_of(const Published& published, const std::string& column) {
  return *std::ranges::find_if(published.cells, [&](const PrintedCell& cell) {
    return cell.column == column && cell.label == published.baseline;
  });
}

bool stands_for(const ReportCell& cell, const PrintedCell& printed) {
  return cell.spec.problem_id == printed.problem && cell.spec.variant == printed.variant &&
         to_string(cell.spec.precision) == printed.precision;
}

// The baseline's cell for another cell: of the same machine if that has one, and with as many
// threads if there is a choice; otherwise the one that is shown first.
const ReportCell* baseline_for(const TableReport& report, const ReportCell& cell,
                               const PrintedCell& baseline) {
  const SpeedupOf speedup_of = report.published->speedup_of;
  const ReportCell* best = nullptr;
  int best_score = -1;
  for (const ReportCell& candidate : report.cells) {
    if (!stands_for(candidate, baseline) || !comparable(candidate, speedup_of)) {
      continue;
    }
    const bool same_machine = candidate.measured->machine == cell.measured->machine;
    const bool same_threads = candidate.measured->threads() == cell.measured->threads();
    const int score =
        4 * same_machine + 2 * (same_machine && same_threads) + (candidate.shown_first() ? 1 : 0);
    if (score > best_score) {
      best = &candidate;
      best_score = score;
    }
  }
  return best;
}

void add_speedups(TableReport& report) {
  const Published& published = *report.published;
  for (ReportCell& cell : report.cells) {
    const auto printed =
        std::ranges::find(published.cells, cell.spec.problem_id, &PrintedCell::problem);
    if (printed == published.cells.end() || !comparable(cell, published.speedup_of)) {
      continue;
    }
    const ReportCell* baseline =
        baseline_for(report, cell, baseline_of(published, printed->column));
    if (baseline != nullptr) {
      cell.speedup = *compared_ms(*baseline->measured, published.speedup_of) /
                     *compared_ms(*cell.measured, published.speedup_of);
      cell.baseline_machine = baseline->measured->machine;
    }
  }
}

double printed_ms(const PrintedCell& cell, SpeedupOf speedup_of) {
  return speedup_of == SpeedupOf::iteration ? cell.ms / *cell.iterations : cell.ms;
}

void add_beside_rows(TableReport& report) {
  const Published& published = *report.published;
  std::vector<ComparedRow> rows; // of one column
  std::size_t first = 0;
  const auto judge_column = [&] {
    for (std::size_t i = 0; i < rows.size(); ++i) {
      report.beside[first + i].verdict = judge_row(rows, i);
    }
    first = report.beside.size();
    rows.clear();
  };
  for (const PrintedCell& printed : published.cells) {
    if (!rows.empty() && report.beside.back().printed.column != printed.column) {
      judge_column();
    }
    BesideRow row;
    row.printed = printed;
    const PrintedCell& baseline = baseline_of(published, printed.column);
    row.printed_speedup =
        printed_ms(baseline, published.speedup_of) / printed_ms(printed, published.speedup_of);
    ComparedRow compared;
    compared.label = printed.label;
    compared.printed_speedup = row.printed_speedup;
    compared.missing = "not run";
    compared.is_baseline = printed.label == published.baseline;
    compared.factor = printed.factor;
    compared.factor_reason = printed.factor_reason;
    compared.wrong = printed.wrong;
    compared.other_work = printed.other_work;
    for (std::size_t i = 0; i < report.cells.size(); ++i) {
      ReportCell& cell = report.cells[i];
      if (!stands_for(cell, printed)) {
        continue;
      }
      cell.label = printed.label;
      if (!cell.shown_first()) {
        continue;
      }
      row.cell = i;
      row.speedup = compared.speedup = cell.speedup;
      if (cell.measured) {
        compared.missing = incomparable_because(cell);
      }
    }
    rows.push_back(std::move(compared));
    report.beside.push_back(std::move(row));
  }
  judge_column();
}

} // namespace

std::string verification_text(const ReportCell& cell) {
  if (!cell.measured) {
    return "not run";
  }
  const Row& row = cell.measured->representative();
  if (!row.ok()) {
    return row.status;
  }
  if (cell.approximate()) {
    const auto [labels, gap] = approximation_of(*cell.measured);
    return "approximate" +
           (labels ? fmt::format(": {:.3g} % of labels differ", 100.0 * *labels) : "") +
           (gap ? fmt::format(", objective {:+.2g}", *gap) : "");
  }
  return row.field("oracle") == "whole run" ? "right" : "right (single steps)";
}

std::optional<double> compared_ms(const Measured& cell, SpeedupOf speedup_of) {
  return speedup_of == SpeedupOf::run ? cell.own_ms() : cell.own_ms_per_iteration();
}

Approximation approximation_of(const Measured& cell) {
  const Row& row = cell.representative();
  Approximation found;
  const auto number = [](const json& entry, const char* field) {
    const json value = entry.value(field, json());
    return value.is_number() ? std::optional(value.get<double>()) : std::nullopt;
  };
  for (const json& entry : row.field("verification")) { // the last is of the problem's own start
    found.labels_differ = number(entry, "labels_differ");
    found.objective_gap = number(entry, "relative_difference");
  }
  return found;
}

std::optional<double> distances_avoided_percent(const Measured& cell) {
  const Row& row = cell.representative();
  const json counters = row.field("counters");
  const double passes = row.number("recorded_passes").value_or(0.0);
  if (!counters.contains("distances") || !counters.at("distances").is_number() || !(passes > 0.0)) {
    return std::nullopt;
  }
  const json problem = row.problem();
  if (!problem.contains("n") || !problem.contains("k")) {
    return std::nullopt;
  }
  const double all = problem.at("n").get<double>() * problem.at("k").get<double>() * passes;
  return 100.0 * (1.0 - counters.at("distances").get<double>() / all);
}

double warm_up_percent(const Measured& cell) {
  return 100.0 * *cell.median_of([](const Row& row) { return std::optional(row.warm_up_share()); });
}

TableReport make_table_report(const Table& table, Measurements measurements,
                              std::optional<Published> published) {
  TableReport report;
  report.table = table;
  report.machines = std::move(measurements.machines);
  report.edited = std::move(measurements.edited);
  report.cells = cells_of(table, measurements.cells);
  drop_unused_machines(report);
  rank_all(report);
  add_efficiencies(report);
  report.published = std::move(published);
  if (report.published) {
    add_speedups(report);
    add_beside_rows(report);
  }
  return report;
}

} // namespace clusterbench
