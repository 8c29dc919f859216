#include "harness/report/variants_table.hpp"

#include "harness/report/digits.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <functional>

namespace clusterbench {
namespace {

constexpr std::size_t kMostAcross = 12; ///< problems side by side

struct VariantRow {
  std::string variant;
  Precision precision = Precision::f32;
  std::vector<const ReportCell*> cells; ///< by problem; nullptr where the table has none
};

std::vector<VariantRow> rows_of(const TableReport& report) {
  std::vector<VariantRow> rows;
  const auto& problems = report.table.problems;
  for (const ReportCell& cell : report.cells) {
    if (!cell.shown_first() || !cell.measured) {
      continue;
    }
    auto row = std::ranges::find_if(rows, [&](const VariantRow& known) {
      return known.variant == cell.spec.variant && known.precision == cell.spec.precision;
    });
    if (row == rows.end()) {
      row = rows.insert(rows.end(), {cell.spec.variant, cell.spec.precision,
                                     std::vector<const ReportCell*>(problems.size())});
    }
    const auto column = std::ranges::find(problems, cell.spec.problem_id,
                                          &std::pair<std::string, ProblemSpec>::first);
    row->cells[static_cast<std::size_t>(column - problems.begin())] = &cell;
  }
  return rows;
}

std::string mark(const Place& place, bool approximate) {
  return place.rank == 1 && !approximate ? "¹" : place.rank == 0 ? " †" : "";
}

// "0.0234¹ (45.1 %); 12.3": time per iteration with its share of the model bound, and whole answer.
std::string time_of(const ReportCell& cell) {
  if (!cell.ok()) {
    return verification_text(cell);
  }
  const Measured& measured = *cell.measured;
  std::string text = (cell.approximate() ? "≈ " : "") + pass_ms_text(measured) +
                     mark(cell.by_iteration, cell.approximate());
  if (const std::string share = percent_of_bound_text(measured); !share.empty()) {
    text += fmt::format(" ({} %)", share);
  }
  const std::string whole = whole_ms_text(measured);
  return whole.empty() ? text : text + "; " + whole + mark(cell.by_whole, cell.approximate());
}

// Why a time of the cell has no rank, or what it differs by.
std::string note_of(const ReportCell& cell) {
  if (!cell.ok()) {
    return {};
  }
  const std::string& all = cell.by_iteration.unranked;
  const std::string& whole = cell.by_whole.unranked;
  const std::string differs = cell.approximate() ? "≈ " + verification_text(cell) : "";
  return !all.empty() ? "† " + all : !whole.empty() ? "† whole answer: " + whole : differs;
}

std::string machines_of(const TableReport& report, const VariantRow& row) {
  std::string ids;
  for (const ReportCell* cell : row.cells) {
    if (cell != nullptr) {
      const std::string& id = report.machines[cell->measured->machine].id;
      if (ids.find(id) == std::string::npos) {
        ids += (ids.empty() ? "" : ", ") + id;
      }
    }
  }
  return ids;
}

/// The same with problems below one another and variants side by side. Problems that nothing ran
/// are counted in a note.
TablePart turned(const std::vector<TextColumn>& columns,
                 const std::vector<std::vector<std::string>>& lines, std::vector<std::string> notes,
                 TextStyle style) {
  std::vector<TextColumn> across = {{columns.front().heading, false}};
  for (const auto& line : lines) {
    across.push_back({line.front(), true});
  }
  std::vector<std::vector<std::string>> down;
  std::size_t empty = 0;
  for (std::size_t column = 1; column < columns.size(); ++column) {
    std::vector<std::string> found = {columns[column].heading};
    for (const auto& line : lines) {
      found.push_back(line[column]);
    }
    if (std::all_of(found.begin() + 1, found.end(), std::mem_fn(&std::string::empty))) {
      ++empty;
    } else {
      down.push_back(std::move(found));
    }
  }
  if (empty > 0) {
    notes.push_back(fmt::format("Nothing ran {} more of the table's problems.", empty));
  }
  return {text_table(across, down, style), notes};
}

} // namespace

TablePart variants_table(const TableReport& report, TextStyle style) {
  const bool several = report.machines.size() > 1;
  std::vector<TextColumn> columns = {{"ms/iteration (% of model bound); whole answer ms", false},
                                     {"precision", false}};
  if (several) {
    columns.push_back({"on", false});
  }
  for (const auto& [id, problem] : report.table.problems) {
    columns.push_back({id, true});
  }
  std::vector<std::vector<std::string>> lines;
  std::vector<std::string> notes = {
      "¹ The first of its problem and precision, by either; several where their rounds do not tell "
      "them apart."};
  for (const VariantRow& row : rows_of(report)) {
    std::vector<std::string> line = {row.variant, std::string(to_string(row.precision))};
    if (several) {
      line.push_back(machines_of(report, row));
    }
    for (const ReportCell* cell : row.cells) {
      line.push_back(cell == nullptr ? "" : time_of(*cell));
      if (const std::string note = cell == nullptr ? "" : note_of(*cell); !note.empty()) {
        notes.push_back(fmt::format("{} {}, {}: {}.", row.variant, to_string(row.precision),
                                    cell->spec.problem_id, note));
      }
    }
    lines.push_back(std::move(line));
  }
  if (report.table.problems.size() > std::max(kMostAcross, lines.size())) {
    return turned(columns, lines, notes, style);
  }
  return {text_table(columns, lines, style), notes};
}

} // namespace clusterbench
