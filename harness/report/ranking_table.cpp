#include "harness/report/ranking_table.hpp"

#include "harness/report/digits.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <set>
#include <tuple>

namespace clusterbench {
namespace {

// What a column shows of a cell that was measured.
struct Column {
  TextColumn text;
  std::function<std::string(const ReportCell&)> show;
  bool needs_ok = true; ///< empty for a cell that has no right result
};

Column field(const char* heading, const char* name) {
  return {{heading, true},
          [name](const ReportCell& cell) { return figure(cell.measured->median_of(name)); }};
}

Column time(const char* heading, std::string (*text)(const Measured&)) {
  return {{heading, true}, [text](const ReportCell& cell) { return text(*cell.measured); }};
}

Column rank(const char* heading, Place ReportCell::*place) {
  return {{heading, true},
          [place](const ReportCell& cell) { return rank_text(cell, cell.*place); },
          false};
}

bool any(const TableReport& report, const std::function<bool(const Measured&)>& has) {
  return std::ranges::any_of(
      report.cells, [&](const ReportCell& cell) { return cell.ok() && has(*cell.measured); });
}

bool several_threads(const TableReport& report) {
  std::set<int> counts;
  for (const ReportCell& cell : report.cells) {
    if (cell.measured) {
      counts.insert(cell.measured->threads());
    }
  }
  return counts.size() > 1;
}

// "1.034 [1.021, 1.047]", or a range: "1.034 (1.021 .. 1.047)".
std::string over_first(const ReportCell& cell) {
  if (!cell.over_first) {
    return {};
  }
  const auto& [ratio, interval, is_range, paired, draws] = *cell.over_first;
  const bool is_first = cell.by_iteration.rank == 1 && ratio == 1.0;
  return is_first ? times(ratio) : ratio_text(ratio, interval, is_range);
}

std::vector<Column> columns_of(const TableReport& report) {
  std::vector<Column> columns;
  columns.push_back({{"problem", false},
                     [](const ReportCell& cell) {
                       return fmt::format("{} {}", cell.spec.problem_id,
                                          to_string(cell.spec.precision));
                     },
                     false});
  columns.push_back(rank("rank, iteration", &ReportCell::by_iteration));
  columns.push_back(rank("rank, whole answer", &ReportCell::by_whole));
  columns.push_back(
      {{"variant", false}, [](const ReportCell& cell) { return cell.spec.variant; }, false});
  if (report.machines.size() > 1) {
    columns.push_back(
        {{"on", false},
         [&report](const ReportCell& cell) { return report.machines[cell.measured->machine].id; },
         false});
  }
  if (several_threads(report)) {
    columns.push_back(
        {{"threads", true},
         [](const ReportCell& cell) { return fmt::format("{}", cell.measured->threads()); },
         false});
  }
  if (std::ranges::any_of(report.cells, [](const ReportCell& cell) {
        return cell.measured && cell.measured->gpus() > 1;
      })) {
    columns.push_back(
        {{"GPUs", true},
         [](const ReportCell& cell) { return fmt::format("{}", cell.measured->gpus()); },
         false});
  }
  if (std::ranges::any_of(report.cells, [](const ReportCell& cell) {
        return cell.measured && cell.measured->ranks() > 1;
      })) {
    columns.push_back({{"ranks", true},
                       [](const ReportCell& cell) {
                         const int ranks = cell.measured->ranks();
                         return ranks > 0 ? fmt::format("{}", ranks) : std::string();
                       },
                       false});
  }
  columns.push_back(time("ms/iteration", pass_ms_text));
  columns.push_back({{"× the first [95 %]", true}, over_first});
  columns.push_back(time("whole answer ms", whole_ms_text));
  columns.push_back(time("run ms", run_ms_text));
  columns.push_back({{"± MAD", true}, [](const ReportCell& cell) {
                       return with_digits(deviation_of_rounds(cell.measured->runs_ms()), 2);
                     }});
  columns.push_back(field("iterations", "iterations"));
  columns.push_back({{"% of model bound", true},
                     [](const ReportCell& cell) { return percent_of_bound_text(*cell.measured); }});
  if (any(report,
          [](const Measured& cell) { return distances_avoided_percent(cell).has_value(); })) {
    columns.push_back({{"% of distances avoided", true}, [](const ReportCell& cell) {
                         return percentage(distances_avoided_percent(*cell.measured));
                       }});
  }
  if (any(report, [](const Measured& cell) { return warm_up_percent(cell) > 0.0; })) {
    columns.push_back({{"% warm-up", true}, [](const ReportCell& cell) {
                         const double percent = warm_up_percent(*cell.measured);
                         return percent > 0.0 ? percentage(percent) : std::string();
                       }});
  }
  columns.push_back({{"verified", false}, verification_text, false});
  columns.push_back({{"not ranked because", false}, why_unranked, false});
  return columns;
}

// By rank, the approximate below the exact; below the line by time, and last what has none.
bool stands_before(const ReportCell* a, const ReportCell* b) {
  const auto key = [](const ReportCell* cell) {
    const std::size_t rank = cell->by_iteration.rank;
    const std::optional<double> ms =
        cell->ok() ? cell->measured->median_of("ms_per_iteration") : std::nullopt;
    return std::tuple(rank == 0, cell->approximate(), rank,
                      ms.value_or(std::numeric_limits<double>::infinity()));
  };
  return key(a) < key(b);
}

} // namespace

std::string rank_text(const ReportCell& cell, const Place& place) {
  return place.rank == 0 ? "–"
                         : fmt::format("{}{}{}", cell.approximate() ? "≈" : "", place.rank,
                                       place.tied ? "=" : "");
}

Paint paint_of(const ReportCell& cell) {
  if (cell.ok()) {
    return cell.by_iteration.rank == 1 && !cell.approximate() ? Paint::best : Paint::plain;
  }
  const bool took_part =
      cell.measured && exit_code_of(cell.measured->representative().status) != ExitCode::ok;
  return took_part ? Paint::wrong : Paint::refused;
}

std::string why_unranked(const ReportCell& cell) {
  const std::string& all = cell.by_iteration.unranked;
  const std::string& whole = cell.by_whole.unranked;
  return !all.empty() || whole.empty() ? all : "whole answer: " + whole;
}

std::vector<const ReportCell*> ranked_cells(const TableReport& report, const std::string& problem,
                                            Precision precision) {
  std::vector<const ReportCell*> cells;
  for (const ReportCell& cell : report.cells) {
    if (cell.spec.problem_id == problem && cell.spec.precision == precision && cell.measured) {
      cells.push_back(&cell);
    }
  }
  std::ranges::stable_sort(cells, stands_before);
  return cells;
}

std::vector<std::string> ranking_notes(const TableReport& report) {
  std::vector<std::string> notes;
  if (any(report,
          [](const Measured& cell) { return cell.representative().approximate_within > 0.0; })) {
    notes.push_back("≈ Approximate: claims no exact labels, and is ranked apart.");
  }
  if (std::ranges::any_of(report.cells, [](const ReportCell& cell) {
        return cell.by_iteration.tied || cell.by_whole.tied;
      })) {
    notes.push_back("= Others have the same rank: these rounds do not tell them apart.");
  }
  if (std::ranges::any_of(report.cells, [](const ReportCell& cell) {
        const bool is_other = cell.by_iteration.rank > 1 || cell.by_iteration.tied;
        return is_other && cell.over_first && !cell.over_first->paired;
      })) {
    notes.push_back("Cells with fewer than three starts in common are compared by their medians.");
  }
  if (any(report,
          [](const Measured& cell) { return cell.median_of("percent_of_limit").has_value(); })) {
    notes.push_back(
        "The model bound is the least time that a model of this machine, with rates that were "
        "probed on it, allows a pass over all points and centroids.");
  }
  return notes;
}

TablePart ranking_table(const TableReport& report, TextStyle style) {
  const std::vector<Column> columns = columns_of(report);
  std::vector<std::vector<std::string>> lines;
  std::vector<Paint> paints;
  for (const auto& [id, problem] : report.table.problems) {
    for (const Precision precision : {Precision::f32, Precision::f64}) {
      for (const ReportCell* cell : ranked_cells(report, id, precision)) {
        std::vector<std::string> line;
        for (const Column& column : columns) {
          line.push_back(column.needs_ok && !cell->ok() ? "" : column.show(*cell));
        }
        lines.push_back(std::move(line));
        paints.push_back(paint_of(*cell));
      }
    }
  }
  std::vector<TextColumn> headings;
  for (const Column& column : columns) {
    headings.push_back(column.text);
  }
  return {text_table(headings, lines, style, paints), ranking_notes(report)};
}

} // namespace clusterbench
