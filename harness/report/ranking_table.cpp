#include "harness/report/ranking_table.hpp"

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

Column rank(const char* heading, Place ReportCell::*place) {
  return {{heading, true},
          [place](const ReportCell& cell) {
            const std::size_t number = (cell.*place).rank;
            return number == 0 ? "–" : fmt::format("{}{}", cell.approximate() ? "≈" : "", number);
          },
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
  const auto& [low, high] = cell.over_first->interval;
  const std::string range = cell.over_first->is_range
                                ? fmt::format(" ({} .. {})", times(low), times(high))
                                : fmt::format(" [{}, {}]", times(low), times(high));
  return times(cell.over_first->ratio) + (cell.by_iteration.rank == 1 ? "" : range);
}

std::string unranked(const ReportCell& cell) {
  const std::string& all = cell.by_iteration.unranked;
  const std::string& whole = cell.by_whole.unranked;
  return !all.empty() || whole.empty() ? all : "whole answer: " + whole;
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
  columns.push_back(field("ms/iteration", "ms_per_iteration"));
  columns.push_back({{"× the first [95 %]", true}, over_first});
  columns.push_back(field("whole answer ms", "whole_ms"));
  columns.push_back(field("run ms", "median_ms"));
  columns.push_back({{"± MAD", true}, [](const ReportCell& cell) {
                       return figure(deviation_of_rounds(cell.measured->runs_ms()));
                     }});
  columns.push_back(field("iterations", "iterations"));
  columns.push_back({{"% of limit", true}, [](const ReportCell& cell) {
                       return percentage(cell.measured->median_of("percent_of_limit"));
                     }});
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
  columns.push_back({{"not ranked because", false}, unranked, false});
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

std::vector<std::string> notes_of(const TableReport& report) {
  std::vector<std::string> notes;
  if (any(report, [](const Measured& cell) { return cell.speaker().approximate_within > 0.0; })) {
    notes.push_back("≈ Approximate: claims no exact labels, and is ranked apart.");
  }
  if (std::ranges::any_of(report.cells, [](const ReportCell& cell) {
        return cell.by_iteration.rank > 1 && cell.over_first && !cell.over_first->paired;
      })) {
    notes.push_back("Cells with fewer than three starts in common are compared by their medians.");
  }
  return notes;
}

} // namespace

TablePart ranking_table(const TableReport& report, TextStyle style) {
  const std::vector<Column> columns = columns_of(report);
  std::vector<std::vector<std::string>> lines;
  for (const auto& [id, problem] : report.table.problems) {
    for (const Precision precision : {Precision::f32, Precision::f64}) {
      std::vector<const ReportCell*> cells;
      for (const ReportCell& cell : report.cells) {
        if (cell.spec.problem_id == id && cell.spec.precision == precision && cell.measured) {
          cells.push_back(&cell);
        }
      }
      std::ranges::stable_sort(cells, stands_before);
      for (const ReportCell* cell : cells) {
        std::vector<std::string> line;
        for (const Column& column : columns) {
          line.push_back(column.needs_ok && !cell->ok() ? "" : column.show(*cell));
        }
        lines.push_back(std::move(line));
      }
    }
  }
  std::vector<TextColumn> headings;
  for (const Column& column : columns) {
    headings.push_back(column.text);
  }
  return {text_table(headings, lines, style), notes_of(report)};
}

} // namespace clusterbench
