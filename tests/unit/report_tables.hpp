// A small table whose rows are made up, and the report of it.
#pragma once

#include "harness/report/table_text.hpp"
#include "tests/unit/ledger_rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

namespace clusterbench {

using nlohmann::json;

inline const std::string kTable = "t";
inline const std::string kProblem = "p";

inline ProblemSpec problem() {
  ProblemSpec spec;
  spec.data = "some-data";
  spec.k = 4;
  spec.stop.max_iterations = 10;
  return spec;
}

/// Three runs of 10 passes around a median [ms].
inline json row(const std::string& variant, const std::string& status, double median,
                int round = 1) {
  json line = made_up::row(kTable, variant, status, made_up::problem(problem(), kProblem), round);
  if (status == "ok" || status == "wrong") {
    made_up::put_times(line, {median, median - 0.5, median + 0.5}, 10);
  }
  return line;
}

inline Measurements measured(const std::vector<json>& rows) {
  return measurements_of(made_up::rows_of(rows), kTable);
}

inline Table table_of(const std::vector<std::string>& variants) {
  Table table;
  table.name = kTable;
  table.title = "title";
  table.source = "source";
  table.notes = {"a note"};
  table.problems.emplace_back(kProblem, problem());
  for (const std::string& variant : variants) {
    CellSpec& cell = table.cells.emplace_back();
    cell.table = kTable;
    cell.problem_id = kProblem;
    cell.problem = problem();
    cell.variant = variant;
  }
  return table;
}

inline TableReport report_of(const std::vector<std::string>& variants,
                             const std::vector<json>& rows) {
  return make_table_report(table_of(variants), measured(rows), std::nullopt);
}

inline std::string text_of(const std::vector<std::string>& variants,
                           const std::vector<json>& rows) {
  return table_text(report_of(variants, rows), TableForm::full, TextStyle::markdown);
}

/// The line of a variant, with runs of blanks made one.
inline std::string line_of(const std::string& text, const std::string& variant) {
  const auto at = text.find(fmt::format(" {} ", variant));
  if (at == std::string::npos) {
    return "(no line)";
  }
  const auto begin = text.rfind('\n', at) + 1;
  std::string line = text.substr(begin, text.find('\n', at) - begin);
  line.erase(
      std::unique(line.begin(), line.end(), [](char a, char b) { return a == ' ' && b == ' '; }),
      line.end());
  return line;
}

} // namespace clusterbench
