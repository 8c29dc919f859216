#include "harness/report/beside_table.hpp"

#include <algorithm>

namespace clusterbench {
namespace {

using Line = std::vector<std::string>;

// One line of the table before it is known which columns are shown.
struct Row {
  std::string problem, label, variant, printed, here, printed_speedup, speedup, limit, verified,
      verdict;
};

bool across_machines(const ReportCell& cell) {
  return cell.speedup && cell.baseline_machine != cell.measured->machine;
}

void put_ours(const TableReport& report, const ReportCell& cell, Row& row) {
  row.variant = fmt::format("{} {}", cell.spec.variant, to_string(cell.spec.precision));
  row.verified = verification_text(cell);
  if (cell.ok()) {
    row.here = figure(compared_ms(*cell.measured, report.published->speedup_of));
    row.limit = percentage(cell.measured->median_of("percent_of_limit"));
    row.speedup = times(cell.speedup) + (across_machines(cell) ? " ‡" : "");
  }
}

Row printed_row(const TableReport& report, const BesideRow& beside) {
  const PrintedCell& printed = beside.printed;
  const bool per_iteration = report.published->speedup_of == SpeedupOf::iteration;
  Row row;
  row.problem = printed.problem;
  row.label = printed.label;
  row.printed = figure(per_iteration ? printed.ms / *printed.iterations : printed.ms);
  row.printed_speedup = times(beside.printed_speedup);
  row.verdict = beside.verdict.word;
  put_ours(report, report.cells[*beside.cell], row);
  return row;
}

// The article's rows of one problem, then ours.
void append_column(const TableReport& report, const std::string& problem, TableForm form,
                   std::vector<Row>& rows) {
  for (const BesideRow& beside : report.beside) {
    if (beside.printed.column == problem) {
      rows.push_back(printed_row(report, beside));
    }
  }
  if (form == TableForm::compact) {
    return;
  }
  for (const ReportCell& cell : report.cells) {
    if (cell.spec.problem_id == problem && cell.label.empty() && cell.shown_first &&
        cell.measured) {
      Row row;
      row.problem = problem;
      row.label = "(not in the article)";
      put_ours(report, cell, row);
      row.verdict = cell.speedup ? "" : cell.unranked;
      rows.push_back(std::move(row));
    }
  }
}

std::vector<std::string> columns_of(const Published& published) {
  std::vector<std::string> problems;
  for (const PrintedCell& cell : published.cells) {
    if (std::ranges::find(problems, cell.column) == problems.end()) {
      problems.push_back(cell.column);
    }
  }
  return problems;
}

// What stands behind the verdicts, each once for all problems that it is said of.
std::vector<std::string> verdict_notes(const std::vector<BesideRow>& rows) {
  struct Note {
    std::string label, problems, text;
  };
  std::vector<Note> found;
  for (const BesideRow& row : rows) {
    std::string text = row.verdict.word;
    for (const std::string& reason : row.verdict.reasons) {
      text += (&reason == &row.verdict.reasons.front() ? ": " : "; ") + reason;
    }
    if (row.verdict.reasons.empty() || row.verdict.word == "not run") {
      continue;
    }
    const auto known = std::ranges::find_if(found, [&](const Note& note) {
      return note.label == row.printed.label && note.text == text;
    });
    if (known == found.end()) {
      found.push_back({row.printed.label, row.printed.problem, text});
    } else {
      known->problems += ", " + row.printed.problem;
    }
  }
  std::vector<std::string> notes;
  for (const Note& note : found) {
    notes.push_back(fmt::format("{} ({}): {}.", note.label, note.problems, note.text));
  }
  return notes;
}

std::vector<std::string> notes_of(const TableReport& report) {
  const Published& published = *report.published;
  std::vector<std::string> notes;
  notes.push_back(fmt::format(
      "Printed: {}; its hardware: {}. Speed-ups are of {} ({}), over {} ({}).", published.title,
      published.hardware.empty() ? "not named" : published.hardware,
      published.speedup_of == SpeedupOf::run ? "whole runs" : "single iterations",
      published.speedup_reason, published.baseline, published.baseline_reason));
  for (const ReportCell& cell : report.cells) {
    if (across_machines(cell)) {
      notes.push_back("‡ The baseline was measured on another machine than the row.");
      break;
    }
  }
  for (const std::string& note : verdict_notes(report.beside)) {
    notes.push_back(note);
  }
  return notes;
}

} // namespace

TablePart beside_table(const TableReport& report, TableForm form, TextStyle style) {
  std::vector<Row> rows;
  for (const std::string& problem : columns_of(*report.published)) {
    append_column(report, problem, form, rows);
  }
  const bool full = form == TableForm::full;
  const std::string unit =
      report.published->speedup_of == SpeedupOf::run ? "ms" : "ms/iteration";
  std::vector<TextColumn> columns = {{"problem", false},
                                     {"printed as", false},
                                     {"variant", false},
                                     {"printed " + unit, true},
                                     {unit + " here", true},
                                     {"printed ×", true},
                                     {"× here", true}};
  if (full) {
    columns.push_back({"% of limit", true});
    columns.push_back({"verified", false});
  }
  columns.push_back({"verdict", false});
  std::vector<Line> lines;
  for (const Row& row : rows) {
    Line line = {row.problem, row.label,          row.variant, row.printed,
                 row.here,    row.printed_speedup, row.speedup};
    if (full) {
      line.push_back(row.limit);
      line.push_back(row.verified);
    }
    line.push_back(row.verdict);
    lines.push_back(std::move(line));
  }
  return {text_table(columns, lines, style), notes_of(report)};
}

} // namespace clusterbench
