#include "harness/report/table_text.hpp"

#include "harness/ledger/collapse_text.hpp"
#include "harness/report/beside_table.hpp"
#include "harness/report/efficiency_table.hpp"
#include "harness/report/narrow_table.hpp"
#include "harness/report/ranking_table.hpp"
#include "harness/report/variants_table.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace clusterbench {
namespace {

std::string in_brackets(const std::string& text) {
  return text.empty() ? "" : " (" + text + ")";
}

std::string title(const TableReport& report, TextStyle style) {
  const Table& table = report.table;
  const std::string source = in_brackets(table.source);
  return style == TextStyle::markdown
             ? fmt::format("**{}** — {}{}\n", table.name, table.title, source)
             : fmt::format("{} — {}{}\n", table.name, table.title, source);
}

// Where the times come from, and whether they are as they were measured.
std::vector<std::string> source_notes(const TableReport& report) {
  std::vector<std::string> notes;
  for (std::size_t i = 0; i < report.machines.size(); ++i) {
    const Machine& machine = report.machines[i];
    const std::string unlike = unlike_namesake(report.machines, i);
    notes.push_back(fmt::format("{}: {}{}{}.", machine.id, machine.name,
                                in_brackets(machine.days()), unlike.empty() ? "" : "; " + unlike));
  }
  for (const std::string& sentence : report.edited) {
    notes.push_back(sentence + ".");
  }
  return notes;
}

std::vector<std::string> not_run_note(const TableReport& report) {
  std::vector<std::string> names;
  for (const ReportCell& cell : report.cells) {
    if (!cell.measured) {
      const std::string name =
          fmt::format("{} {}", cell.spec.variant, to_string(cell.spec.precision));
      if (std::ranges::find(names, name) == names.end()) {
        names.push_back(name);
      }
    }
  }
  if (names.empty()) {
    return {};
  }
  std::string text = "Not run, or not everywhere: ";
  for (const std::string& name : names) {
    text += (&name == &names.front() ? "" : ", ") + name;
  }
  return {text + "."};
}

// How far variants that read their points from a file keep up with the disk.
std::vector<std::string> plain_read_notes(const TableReport& report) {
  std::vector<std::string> notes;
  for (const ReportCell& cell : report.cells) {
    if (const auto percent =
            cell.ok() ? cell.measured->median_of("percent_of_plain_read") : std::nullopt) {
      notes.push_back(fmt::format("{} {}, {}: reads its file at {:.0f} % of the speed of plain "
                                  "sequential reads in between.",
                                  cell.spec.variant, to_string(cell.spec.precision),
                                  cell.spec.problem_id, *percent));
    }
  }
  return notes;
}

// Problems of fuzzy c-means whose centres coincide: a right answer, of which a reader should know.
std::vector<std::string> collapse_notes(const TableReport& report) {
  std::vector<std::string> notes;
  for (const ReportCell& cell : report.cells) {
    const std::string text = cell.ok() ? collapse_text(cell.measured->representative()) : "";
    const std::string note = text.empty() ? "" : cell.spec.problem_id + ":" + text.substr(1) + ".";
    if (!note.empty() && std::ranges::find(notes, note) == notes.end()) {
      notes.push_back(note);
    }
  }
  return notes;
}

std::string paragraphs(const std::vector<std::string>& notes, TableForm form, TextStyle style) {
  std::string text;
  for (const std::string& note : notes) {
    text += form == TableForm::narrow ? wrapped(note, "  ")
                                      : (style == TextStyle::markdown ? "\n" : "  ") + note + "\n";
  }
  return text;
}

} // namespace

std::string table_text(const TableReport& report, TableForm form, TextStyle style,
                       const std::string& command) {
  std::string text = title(report, style);
  const auto append = [&](const TablePart& part) {
    text += "\n" + part.table + paragraphs(part.notes, form, style);
  };
  if (report.published) {
    append(beside_table(report, form, style));
  }
  append(form == TableForm::full     ? ranking_table(report, style)
         : form == TableForm::narrow ? narrow_table(report, style)
                                     : variants_table(report, style));
  if (const TablePart part = efficiency_table(report, form, style); !part.table.empty()) {
    append(part);
  }
  text += paragraphs(plain_read_notes(report), form, style);
  text += paragraphs(collapse_notes(report), form, style);
  text += paragraphs(not_run_note(report), form, style);
  text += paragraphs(report.table.notes, form, style);
  text += paragraphs(source_notes(report), form, style);
  if (!command.empty()) {
    text += fmt::format("\nMade by `{}`\n", command);
  }
  return text;
}

} // namespace clusterbench
