#include "harness/report/table_report.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace clusterbench {
namespace {

using nlohmann::json;

// The cells of the table, each once for every machine and number of threads that it was measured
// with. A machine that lacks the backend says nothing where another has it.
std::vector<ReportCell> cells_of(const Table& table, const std::vector<Measured>& measured) {
  std::vector<ReportCell> cells;
  for (const CellSpec& spec : table.cells) {
    const std::size_t first = cells.size();
    for (const Measured& found : measured) {
      if (found.problem == spec.problem_id && found.variant == spec.variant &&
          found.precision == to_string(spec.precision) &&
          found.speaker().at("status") != "unavailable") {
        cells.emplace_back().spec = spec;
        cells.back().measured = found;
      }
    }
    if (cells.size() == first) {
      cells.emplace_back().spec = spec;
    }
    // Of several machines the first whose result is right; there, the most threads.
    const auto better = [](const ReportCell& a, const ReportCell& b) {
      return a.ok() != b.ok() ? a.ok()
             : a.ok() && a.measured->machine == b.measured->machine &&
                   a.measured->threads > b.measured->threads;
    };
    std::min_element(cells.begin() + static_cast<std::ptrdiff_t>(first), cells.end(), better)
        ->shown_first = true;
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

std::string status_reason(const ReportCell& cell) {
  if (!cell.measured) {
    return "not run";
  }
  const json& row = cell.measured->speaker();
  const std::string status = row.at("status");
  const std::string message = row.value("message", "");
  return status + (message.empty() ? "" : ": " + message);
}

std::string joined(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) {
    text += (text.empty() ? "" : "; ") + part;
  }
  return text;
}

// Ranks the cells of one problem in one precision.
void rank_cells(const ProblemSpec& problem, std::vector<ReportCell*> cells) {
  std::vector<const Measured*> measured;
  for (const ReportCell* cell : cells) {
    if (cell->measured) {
      measured.push_back(&*cell->measured);
    }
  }
  const CommonWork common = common_work(to_json(problem), measured);
  std::vector<ReportCell*> ranked;
  for (ReportCell* cell : cells) {
    if (!cell->ok()) {
      cell->unranked = status_reason(*cell);
      continue;
    }
    cell->work = other_work(*cell->measured, common);
    if (cell->work.equal()) {
      ranked.push_back(cell);
    } else {
      cell->unranked = joined(cell->work.reasons());
    }
  }
  std::ranges::stable_sort(
      ranked, {}, [](const ReportCell* cell) { return cell->measured->median_of("median_ms"); });
  for (std::size_t i = 0; i < ranked.size(); ++i) {
    ranked[i]->rank = i + 1;
  }
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
  return cell.ok() && cell.work.no.empty() &&
         (speedup_of == SpeedupOf::iteration || cell.work.iterations.empty());
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
    const bool same_threads = candidate.measured->threads == cell.measured->threads;
    const int score =
        4 * same_machine + 2 * (same_machine && same_threads) + (candidate.shown_first ? 1 : 0);
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
      cell.speedup = compared_ms(*baseline->measured, published.speedup_of) /
                     compared_ms(*cell.measured, published.speedup_of);
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
      if (!cell.shown_first) {
        continue;
      }
      row.cell = i;
      row.speedup = compared.speedup = cell.speedup;
      if (cell.measured) {
        compared.missing = cell.unranked.empty() ? "the baseline was not run" : cell.unranked;
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
  const json& row = cell.measured->speaker();
  if (!cell.ok()) {
    return row.at("status");
  }
  return row.value("oracle", "") == "whole run" ? "right" : "right (single steps)";
}

double compared_ms(const Measured& cell, SpeedupOf speedup_of) {
  return cell.median_of(speedup_of == SpeedupOf::run ? "median_ms" : "ms_per_iteration");
}

std::optional<double> end_to_end_ms(const Measured& cell) {
  const json& row = cell.speaker();
  const double data = row.value("load_ms", 0.0);
  const double libraries = row.contains("peer") ? row.at("peer").value("load_ms", 0.0) : 0.0;
  return cell.median_of("end_to_end_ms") + data + libraries;
}

std::optional<double> distances_avoided_percent(const Measured& cell) {
  const json& row = cell.speaker();
  const json counters = row.value("counters", json::object());
  const double passes = row.value("recorded_passes", 0.0);
  if (!counters.contains("distances") || !counters.at("distances").is_number() || !(passes > 0.0)) {
    return std::nullopt;
  }
  const json& problem = row.at("problem");
  const double all =
      problem.at("n").get<double>() * problem.at("k").get<double>() * passes;
  return 100.0 * (1.0 - counters.at("distances").get<double>() / all);
}

TableReport make_table_report(const Table& table, Measurements measurements,
                              std::optional<Published> published) {
  TableReport report;
  report.table = table;
  report.machines = std::move(measurements.machines);
  report.cells = cells_of(table, measurements.cells);
  drop_unused_machines(report);
  rank_all(report);
  report.published = std::move(published);
  if (report.published) {
    add_speedups(report);
    add_beside_rows(report);
  }
  return report;
}

} // namespace clusterbench
