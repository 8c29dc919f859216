#include "harness/report/beside_table.hpp"

#include "harness/report/digits.hpp"

#include <algorithm>

namespace clusterbench {
namespace {

using Line = std::vector<std::string>;

struct Column {
  TextColumn text;
  bool only_full = false;
};

std::vector<Column> columns_of(SpeedupOf speedup_of) {
  const std::string unit = speedup_of == SpeedupOf::run ? "ms" : "ms/iteration";
  return {{{"problem", false}},
          {{"printed as", false}},
          {{"variant", false}},
          {{"printed " + unit, true}},
          {{unit + " here", true}},
          {{"printed ×", true}},
          {{"× here", true}},
          {{"whole answer ms", true}, true},
          {{"% of model bound", true}, true},
          {{"verified", false}, true},
          {{"verdict", false}}};
}

bool across_machines(const ReportCell& cell) {
  return cell.speedup && cell.baseline_machine != cell.measured->machine;
}

// What the article has of a cell is empty in a line of ours.
Line line_of(const TableReport& report, const ReportCell& cell, const BesideRow* beside) {
  const bool per_iteration = report.published->speedup_of == SpeedupOf::iteration;
  Line line = {cell.spec.problem_id,
               "(not in the article)",
               fmt::format("{} {}", cell.spec.variant, to_string(cell.spec.precision)),
               "",
               "",
               "",
               "",
               "",
               "",
               verification_text(cell),
               beside == nullptr && !cell.speedup ? cell.by_iteration.unranked : ""};
  if (cell.ok()) {
    line[4] =
        single_ms_text(*cell.measured, compared_ms(*cell.measured, report.published->speedup_of));
    line[6] = times(cell.speedup) + (across_machines(cell) ? " ‡" : "");
    line[7] = whole_ms_text(*cell.measured);
    line[8] = percent_of_bound_text(*cell.measured);
  }
  if (beside != nullptr) {
    const PrintedCell& printed = beside->printed;
    line[0] = printed.problem;
    line[1] = printed.label;
    line[3] = figure(per_iteration ? printed.ms / *printed.iterations : printed.ms);
    line[5] = times(beside->printed_speedup);
    line[10] = beside->verdict.word;
  }
  return line;
}

// The article's rows of one problem, then ours.
void append_lines(const TableReport& report, const std::string& problem, TableForm form,
                  std::vector<Line>& lines) {
  for (const BesideRow& beside : report.beside) {
    if (beside.printed.column == problem) {
      lines.push_back(line_of(report, report.cells[*beside.cell], &beside));
    }
  }
  if (form != TableForm::full) {
    return;
  }
  for (const ReportCell& cell : report.cells) {
    if (cell.spec.problem_id == problem && cell.label.empty() && cell.measured &&
        cell.shown_first()) {
      lines.push_back(line_of(report, cell, nullptr));
    }
  }
}

std::vector<std::string> problems_of(const Published& published) {
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
      "Printed: {}; its hardware: {}. Times here are of the run from the article's own start. "
      "Speed-ups are of {} ({}), over {} ({}).",
      published.title, published.hardware.empty() ? "not named" : published.hardware,
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

// A table for each problem, which fits a terminal: its heading says the unit, and verdicts are
// shorter than in the notes below it.
std::string narrow_tables(const TableReport& report, TextStyle style) {
  constexpr std::size_t kWidestLabel = 15, kWidestVariant = 24;
  const std::vector<TextColumn> columns = {{"printed as"}, {"variant"},         {"printed", true},
                                           {"here", true}, {"printed ×", true}, {"× here", true},
                                           {"verdict"}};
  const bool per_iteration = report.published->speedup_of == SpeedupOf::iteration;
  std::string text;
  for (const std::string& problem : problems_of(*report.published)) {
    std::vector<Line> lines, shown;
    append_lines(report, problem, TableForm::narrow, lines);
    std::vector<Paint> paints;
    for (const Line& line : lines) {
      const bool is_wrong = line.back() == "published program is wrong";
      shown.push_back({shortened(line[1], kWidestLabel), shortened(line[2], kWidestVariant),
                       line[3], line[4], line[5], line[6],
                       is_wrong ? "program is wrong" : line.back()});
      paints.push_back(is_wrong ? Paint::wrong : Paint::plain);
    }
    text += fmt::format("{}{}: ms per {}, as printed and here\n", text.empty() ? "" : "\n",
                        escaped(problem, TextStyle::terminal), per_iteration ? "iteration" : "run");
    text += text_table(columns, shown, style, paints);
  }
  return text;
}

} // namespace

TablePart beside_table(const TableReport& report, TableForm form, TextStyle style) {
  if (form == TableForm::narrow) {
    return {narrow_tables(report, style), notes_of(report)};
  }
  std::vector<Line> lines;
  for (const std::string& problem : problems_of(*report.published)) {
    append_lines(report, problem, form, lines);
  }
  std::vector<TextColumn> headings;
  std::vector<Line> shown(lines.size());
  std::size_t index = 0;
  for (const Column& column : columns_of(report.published->speedup_of)) {
    if (form == TableForm::full || !column.only_full) {
      headings.push_back(column.text);
      for (std::size_t i = 0; i < lines.size(); ++i) {
        shown[i].push_back(lines[i][index]);
      }
    }
    ++index;
  }
  return {text_table(headings, shown, style), notes_of(report)};
}

} // namespace clusterbench
