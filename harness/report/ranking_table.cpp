#include "harness/report/ranking_table.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <set>

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

bool any_avoids(const TableReport& report) {
  return std::ranges::any_of(report.cells, [](const ReportCell& cell) {
    return cell.ok() && distances_avoided_percent(*cell.measured);
  });
}

bool several_threads(const TableReport& report) {
  std::set<int> counts;
  for (const ReportCell& cell : report.cells) {
    if (cell.measured) {
      counts.insert(cell.measured->threads);
    }
  }
  return counts.size() > 1;
}

std::vector<Column> columns_of(const TableReport& report) {
  std::vector<Column> columns;
  columns.push_back({{"problem", false},
                     [](const ReportCell& cell) {
                       return fmt::format("{} {}", cell.spec.problem_id,
                                          to_string(cell.spec.precision));
                     },
                     false});
  columns.push_back({{"rank", true},
                     [](const ReportCell& cell) {
                       return cell.rank == 0 ? "–" : fmt::format("{}", cell.rank);
                     },
                     false});
  columns.push_back(
      {{"variant", false}, [](const ReportCell& cell) { return cell.spec.variant; }, false});
  if (report.machines.size() > 1) {
    columns.push_back({{"on", false},
                       [&report](const ReportCell& cell) {
                         return report.machines[cell.measured->machine].id;
                       },
                       false});
  }
  if (several_threads(report)) {
    columns.push_back(
        {{"threads", true},
         [](const ReportCell& cell) { return fmt::format("{}", cell.measured->threads); },
         false});
  }
  columns.push_back(field("ms", "median_ms"));
  columns.push_back({{"± MAD", true}, [](const ReportCell& cell) {
                       const auto times = cell.measured->times();
                       return figure(times ? times->mad : cell.measured->median_of("mad_ms"));
                     }});
  columns.push_back({{"iterations", true}, [](const ReportCell& cell) {
                       const auto count =
                           cell.measured->speaker().at("iterations").get<std::size_t>();
                       return fmt::format("{}", count);
                     }});
  columns.push_back(field("ms/iteration", "ms_per_iteration"));
  columns.push_back({{"end to end ms", true}, [](const ReportCell& cell) {
                       return figure(end_to_end_ms(*cell.measured));
                     }});
  columns.push_back({{"% of limit", true}, [](const ReportCell& cell) {
                       return percentage(cell.measured->median_of("percent_of_limit"));
                     }});
  if (any_avoids(report)) {
    columns.push_back({{"% of distances avoided", true}, [](const ReportCell& cell) {
                         return percentage(distances_avoided_percent(*cell.measured));
                       }});
  }
  columns.push_back({{"verified", false}, verification_text, false});
  columns.push_back({{"not ranked because", false},
                     [](const ReportCell& cell) { return cell.unranked; },
                     false});
  return columns;
}

// By rank; below the line by time, and last what has none.
bool stands_before(const ReportCell* a, const ReportCell* b) {
  const auto key = [](const ReportCell* cell) {
    const double unknown = std::numeric_limits<double>::infinity();
    return std::pair(cell->rank == 0 ? std::numeric_limits<std::size_t>::max() : cell->rank,
                     cell->ok() ? cell->measured->median_of("median_ms") : unknown);
  };
  return key(a) < key(b);
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
  return {text_table(headings, lines, style), {}};
}

} // namespace clusterbench
