#include "harness/report/narrow_table.hpp"

#include "harness/report/digits.hpp"
#include "harness/report/efficiency.hpp"
#include "harness/report/ranking_table.hpp"
#include "harness/report/text_table.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <tuple>

namespace clusterbench {
namespace {

constexpr std::size_t kWidestName = 36, kWidthOfThreads = 9; ///< columns

// How many times the first's time, "first" for itself, empty without a rank.
std::string over_first(const ReportCell& cell) {
  if (!cell.over_first) {
    return {};
  }
  return cell.by_iteration.rank == 1 ? "first" : times_text(*cell.over_first);
}

// Columns that only some tables have.
struct Shown {
  bool machine = false, parts = false, threads = false;
};

// Whether a variant is there with several numbers of threads on a machine, so that its lines would
// look alike.
bool differ_by_threads(const TableReport& report) {
  std::map<std::tuple<std::size_t, std::string, std::string, Precision>, int> known;
  return std::ranges::any_of(report.cells, [&](const ReportCell& cell) {
    if (!cell.measured) {
      return false;
    }
    const int threads = cell.measured->threads();
    const CellSpec& spec = cell.spec;
    return known
               .try_emplace({cell.measured->machine, spec.problem_id, spec.variant, spec.precision},
                            threads)
               .first->second != threads;
  });
}

std::string named(const ReportCell& cell, Shown shown) {
  return shown.threads && cell.measured
             ? fmt::format("{}, {} threads", cell.spec.variant, cell.measured->threads())
             : cell.spec.variant;
}

std::vector<std::string> line_of(const ReportCell& cell, Shown shown, const TableReport& report) {
  const auto of = [&](std::string (*text)(const Measured&)) {
    return cell.ok() ? text(*cell.measured) : std::string();
  };
  const std::string verdict = verification_text(cell);
  std::vector<std::string> line{
      rank_text(cell, cell.by_iteration),
      rank_text(cell, cell.by_whole),
      shortened(cell.spec.variant, shown.threads ? kWidestName - kWidthOfThreads : kWidestName),
      of(pass_ms_text),
      cell.ok() ? over_first(cell) : "",
      of(whole_ms_text),
      of(percent_of_bound_text),
      verdict.substr(0, verdict.find_first_of(":("))};
  if (shown.threads) {
    line.insert(line.begin() + 3, fmt::format("{}", cell.measured->threads()));
  }
  if (shown.parts) {
    line.insert(line.begin() + 3, parts_text(*cell.measured));
  }
  if (shown.machine) {
    line.push_back(report.machines[cell.measured->machine].id);
  }
  return line;
}

} // namespace

TablePart narrow_table(const TableReport& report, TextStyle style) {
  const Shown shown{report.machines.size() > 1, has_several_parts(report),
                    differ_by_threads(report)};
  std::vector<TextColumn> columns{{"rank", true},         {"whole", true},    {"variant", false},
                                  {"ms/iteration", true}, {"× first", true},  {"whole ms", true},
                                  {"% bound", true},      {"verified", false}};
  if (shown.threads) {
    columns.insert(columns.begin() + 3, {"threads", true});
  }
  if (shown.parts) {
    columns.insert(columns.begin() + 3, {"of", false});
  }
  if (shown.machine) {
    columns.push_back({"on", false});
  }
  TablePart part;
  for (const auto& [id, problem] : report.table.problems) {
    for (const Precision precision : {Precision::f32, Precision::f64}) {
      const std::vector<const ReportCell*> cells = ranked_cells(report, id, precision);
      if (cells.empty()) {
        continue;
      }
      std::vector<std::vector<std::string>> lines;
      std::vector<Paint> paints;
      std::string reasons;
      for (const ReportCell* cell : cells) {
        lines.push_back(line_of(*cell, shown, report));
        paints.push_back(paint_of(*cell));
        if (cell->approximate()) { // how far from right it is
          reasons += wrapped(named(*cell, shown) + ": " + verification_text(*cell), "    ");
        }
        if (const std::string why = why_unranked(*cell); !why.empty()) {
          reasons +=
              wrapped(named(*cell, shown) + ": " + escaped(why, TextStyle::terminal), "    ");
        }
      }
      part.table += fmt::format("{}{}, {}\n", part.table.empty() ? "" : "\n",
                                escaped(id, TextStyle::terminal), to_string(precision)) +
                    text_table(columns, lines, style, paints) +
                    (reasons.empty() ? "" : "  Not ranked, or apart:\n" + reasons);
    }
  }
  part.notes = ranking_notes(report);
  return part;
}

} // namespace clusterbench
