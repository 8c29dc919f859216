#include "harness/report/efficiency_table.hpp"

#include "harness/report/digits.hpp"
#include "harness/report/efficiency.hpp"
#include "harness/report/ranking_table.hpp"

#include <utility>

namespace clusterbench {
namespace {

const char* scaling_text(const Efficiency& efficiency) {
  return efficiency.scaling == Scaling::strong ? "strong" : "weak";
}

// "itself", or the name of the fastest.
std::string beside_text(const Efficiency& efficiency, const TableReport& report) {
  if (efficiency.on_one == OnOne::itself) {
    return "itself";
  }
  return efficiency.value ? report.cells[efficiency.base].spec.variant : "the fastest";
}

std::string value_text(const Efficiency& efficiency) {
  return efficiency.value ? ratio_text(efficiency.value->ratio, efficiency.value->interval,
                                       efficiency.value->is_range)
                          : "–";
}

// Those that have efficiencies: why another has none stands in the ranking.
std::vector<const ReportCell*> cells_of(const TableReport& report, const std::string& problem,
                                        Precision precision) {
  std::vector<const ReportCell*> cells = ranked_cells(report, problem, precision);
  std::erase_if(cells, [](const ReportCell* cell) {
    return cell->efficiencies.empty() || cell->by_iteration.rank == 0;
  });
  return cells;
}

// "kmeans_nccl, 2 GPUs, weak, beside itself: not run on one GPU".
std::string reason(const ReportCell& cell, const Efficiency& efficiency,
                   const TableReport& report) {
  return fmt::format("{}, {}, {}, beside {}: {}", cell.spec.variant, parts_text(*cell.measured),
                     scaling_text(efficiency), beside_text(efficiency, report), efficiency.why_not);
}

} // namespace

TablePart efficiency_table(const TableReport& report, TableForm form, TextStyle style) {
  const bool narrow = form == TableForm::narrow;
  const bool with_machine = report.machines.size() > 1;
  std::vector<TextColumn> columns{
      {"variant"}, {"of"}, {"scaling"}, {"beside"}, {"efficiency [95 %]"}};
  if (with_machine) {
    columns.push_back({"on"});
  }
  if (!narrow) {
    columns.insert(columns.begin(), {"problem"});
  }
  TablePart part;
  std::vector<std::vector<std::string>> lines;
  for (const auto& [id, problem] : report.table.problems) {
    for (const Precision precision : {Precision::f32, Precision::f64}) {
      std::string reasons;
      for (const ReportCell* cell : cells_of(report, id, precision)) {
        for (const Efficiency& efficiency : cell->efficiencies) {
          std::vector<std::string>& line = lines.emplace_back();
          if (!narrow) {
            line.push_back(fmt::format("{} {}", id, to_string(precision)));
          }
          line.insert(line.end(),
                      {cell->spec.variant, parts_text(*cell->measured), scaling_text(efficiency),
                       beside_text(efficiency, report), value_text(efficiency)});
          if (with_machine) {
            line.push_back(report.machines[cell->measured->machine].id);
          }
          if (!efficiency.value && narrow) {
            reasons += wrapped(reason(*cell, efficiency, report), "    ");
          } else if (!efficiency.value) {
            line[5] = efficiency.why_not;
          }
        }
      }
      if (narrow && !lines.empty()) {
        part.table += fmt::format("{}Efficiency: {}, {}\n", part.table.empty() ? "" : "\n",
                                  escaped(id, TextStyle::terminal), to_string(precision)) +
                      text_table(columns, std::exchange(lines, {}), style) +
                      (reasons.empty() ? "" : "  Not known:\n" + reasons);
      }
    }
  }
  if (!lines.empty()) {
    part.table = text_table(columns, lines, style);
  }
  if (!part.table.empty()) {
    part.notes.push_back("Efficiency of R ranks or GPUs: t1 / (R tR) on the same rows (strong "
                         "scaling), t1 / tR where one has 1/R "
                         "of the rows (weak). Beside one process with the threads of all ranks, on "
                         "the same rows, it is t1 / tR.");
  }
  return part;
}

} // namespace clusterbench
