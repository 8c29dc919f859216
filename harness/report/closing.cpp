#include "harness/report/closing.hpp"

#include "harness/report/digits.hpp"
#include "harness/report/ranking_table.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <utility>

namespace clusterbench {
namespace {

constexpr std::size_t kWidth = 100;
constexpr std::size_t kMostReasons = 3;
constexpr std::size_t kMostProblems = 5;

using Cells = std::vector<const ReportCell*>;

// "right", "approximate", or the status.
std::string end_of(const ReportCell& cell) {
  if (!cell.ok()) {
    return cell.measured->representative().status;
  }
  return cell.approximate() ? "approximate" : "right";
}

Paint paint_of_end(const std::string& end) {
  return end == "right" || end == "approximate" ? Paint::plain
         : exit_code_of(end) == ExitCode::ok    ? Paint::refused
                                                : Paint::wrong;
}

// What is right first, what took no part last, and the gravest between them.
int order_of(const std::string& end) {
  return end == "right" ? 0 : end == "approximate" ? 1 : paint_of_end(end) == Paint::wrong ? 2 : 3;
}

struct ByEnd {
  bool operator()(const std::string& a, const std::string& b) const {
    return std::pair(order_of(a), a) < std::pair(order_of(b), b);
  }
};
using Ends = std::map<std::string, Cells, ByEnd>;

std::string counts_line(const Ends& ends, std::size_t all, TextStyle style) {
  std::string text = fmt::format("{} cell{}", all, all == 1 ? "" : "s");
  for (const auto& [end, cells] : ends) {
    text += text.find(':') == std::string::npos ? ": " : ", ";
    text += painted(fmt::format("{} {}", cells.size(), end), paint_of_end(end), style);
  }
  return text + ".\n";
}

// "  wrong: kmeans_x f32, kmeans_y f32 and 3 more": why stands in the table.
std::string failures(const Ends& ends, TextStyle style) {
  std::string lines;
  std::size_t shown = 0;
  for (const auto& [end, cells] : ends) {
    if (paint_of_end(end) != Paint::wrong || shown == kMostReasons) {
      continue;
    }
    ++shown;
    std::string text = fmt::format("  {}: ", end);
    std::vector<std::string> names;
    for (const ReportCell* cell : cells) {
      std::string name = fmt::format("{} {}", cell->spec.variant, to_string(cell->spec.precision));
      if (std::ranges::find(names, name) == names.end()) {
        names.push_back(std::move(name));
      }
    }
    for (std::size_t i = 0; i < names.size(); ++i) {
      const std::string name = escaped(names[i], TextStyle::terminal);
      if (width_of(text) + width_of(name) + 16 > kWidth) {
        text += i == 0 ? shortened(name, kWidth - width_of(text))
                       : fmt::format(" and {} more", names.size() - i);
        break;
      }
      text += (i == 0 ? "" : ", ") + name;
    }
    lines += painted(text, Paint::wrong, style) + "\n";
  }
  return lines;
}

// The first of each problem and precision, in the order of the tables.
Cells fastest(const std::vector<TableReport>& reports) {
  Cells found;
  for (const TableReport& report : reports) {
    for (const auto& [id, problem] : report.table.problems) {
      for (const Precision precision : {Precision::f32, Precision::f64}) {
        for (const ReportCell* cell : ranked_cells(report, id, precision)) {
          if (cell->by_iteration.rank == 1 && !cell->approximate()) {
            found.push_back(cell);
            break;
          }
        }
      }
    }
  }
  return found;
}

std::string fastest_table(const Cells& cells, bool several_tables, TextStyle style) {
  if (cells.empty()) {
    return {};
  }
  std::vector<std::vector<std::string>> lines;
  for (const ReportCell* cell : cells) {
    if (lines.size() == kMostProblems) {
      break;
    }
    const std::string table = several_tables ? cell->spec.table + " " : "";
    lines.push_back({shortened(table + cell->spec.problem_id, 30),
                     std::string(to_string(cell->spec.precision)),
                     shortened(cell->spec.variant, 31) + (cell->by_iteration.tied ? "=" : ""),
                     pass_ms_text(*cell->measured), whole_ms_text(*cell->measured)});
  }
  const std::vector<Paint> paints(lines.size(), Paint::best);
  const std::size_t left = cells.size() - lines.size();
  return text_table(
             {{"fastest on"}, {""}, {"by iteration"}, {"ms/iteration", true}, {"whole ms", true}},
             lines, style, paints) +
         (left == 0 ? ""
                    : fmt::format("  and {} more problem{} above\n", left, left == 1 ? "" : "s"));
}

} // namespace

std::string closing_text(const std::vector<TableReport>& reports, TextStyle style) {
  Ends ends;
  std::size_t all = 0;
  for (const TableReport& report : reports) {
    for (const ReportCell& cell : report.cells) {
      if (cell.measured) {
        ++all;
        ends[end_of(cell)].push_back(&cell);
      }
    }
  }
  return counts_line(ends, all, style) + failures(ends, style) +
         fastest_table(fastest(reports), reports.size() > 1, style);
}

std::string unavailable_text(const std::vector<Row>& rows, TextStyle style) {
  // in the order of the rows
  std::vector<std::pair<std::string, std::vector<std::string>>> by_reason;
  for (const Row& row : rows) {
    if (row.status != "unavailable") {
      continue;
    }
    auto found = std::ranges::find(by_reason, row.message,
                                   &std::pair<std::string, std::vector<std::string>>::first);
    if (found == by_reason.end()) {
      found = by_reason.insert(found, {row.message, {}});
    }
    if (std::ranges::find(found->second, row.variant) == found->second.end()) {
      found->second.push_back(row.variant);
    }
  }
  std::string text;
  for (const auto& [reason, names] : by_reason) {
    const std::string others =
        names.size() == 1 ? "" : fmt::format(" and {} more", names.size() - 1);
    text += painted(wrapped(fmt::format("cannot run here: {}{}: {}", escaped(names.front(), style),
                                        others, escaped(reason, style)),
                            "  "),
                    Paint::refused, style);
  }
  return text;
}

} // namespace clusterbench
