#include "harness/cli/report.hpp"

#include "datasets/errors.hpp"
#include "harness/run/files.hpp"
#include "harness/run/statistics.hpp"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <fstream>
#include <map>
#include <sstream>

namespace clusterbench {
namespace {

using nlohmann::json;

constexpr std::size_t kColumns = 9;
using Line = std::array<std::string, kColumns>;
constexpr std::size_t kFirstNumber = 3;
constexpr std::size_t kAfterNumbers = 8;

const Line kHeadings = {"problem",    "variant",      "precision",  "ms",      "± MAD",
                        "iterations", "ms/iteration", "% of limit", "verified"};

std::string figure(double value) {
  return fmt::format("{:.4g}", value);
}

double median_of(const std::vector<json>& rounds, const char* field) {
  std::vector<double> values;
  for (const json& row : rounds) {
    values.push_back(row.at(field).get<double>());
  }
  return median(values);
}

std::string verification(const json& row) {
  const std::string status = row.at("status");
  if (status != "ok") {
    return status;
  }
  std::string text = row.value("oracle", "") == "whole run" ? "right" : "right (single steps)";
  if (row.value("early_stop", false)) {
    text += ", stopped early";
  }
  return text;
}

// One line of the table from all rounds of one cell. A round that failed speaks for the cell.
Line line_of(const std::string& problem, const std::string& variant, const std::string& precision,
             const std::vector<json>& rounds) {
  Line line = {problem, variant, precision, "", "", "", "", "", "not run"};
  if (rounds.empty()) {
    return line;
  }
  const auto failed =
      std::ranges::find_if(rounds, [](const json& row) { return row.at("status") != "ok"; });
  const json& speaker = failed == rounds.end() ? rounds.back() : *failed;
  line[8] = verification(speaker);
  if (failed != rounds.end()) {
    return line;
  }
  line[3] = figure(median_of(rounds, "median_ms"));
  line[4] = figure(median_of(rounds, "mad_ms"));
  line[5] = fmt::format("{}", speaker.at("iterations").get<std::size_t>());
  line[6] = figure(median_of(rounds, "ms_per_iteration"));
  if (speaker.contains("percent_of_limit")) {
    line[7] = fmt::format("{:.1f}", median_of(rounds, "percent_of_limit"));
  }
  return line;
}

// Width on screen: continuation bytes of UTF-8 take no place of their own.
std::size_t width(const std::string& text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; }));
}

std::string render(const std::vector<Line>& lines, ReportStyle style) {
  std::array<std::size_t, kColumns> widths{};
  const auto widen = [&](const Line& line) {
    for (std::size_t c = 0; c < kColumns; ++c) {
      widths[c] = std::max(widths[c], width(line[c]));
    }
  };
  widen(kHeadings);
  std::ranges::for_each(lines, widen);
  const bool markdown = style == ReportStyle::markdown;
  const auto is_number = [](std::size_t c) { return c >= kFirstNumber && c < kAfterNumbers; };

  std::string text;
  const auto put = [&](const Line& line) {
    for (std::size_t c = 0; c < kColumns; ++c) {
      const std::string padding(widths[c] - width(line[c]), ' ');
      text += c == 0 ? (markdown ? "| " : "  ") : (markdown ? " | " : "  ");
      text += is_number(c) ? padding + line[c] : line[c] + padding;
    }
    text += markdown ? " |\n" : "\n";
  };
  put(kHeadings);
  if (markdown) {
    for (std::size_t c = 0; c < kColumns; ++c) {
      text += is_number(c) ? "| --: " : "| --- ";
    }
    text += "|\n";
  }
  std::ranges::for_each(lines, put);
  return text;
}

std::string cell_key(const std::string& problem, const std::string& variant,
                     const std::string& precision) {
  return fmt::format("{}\t{}\t{}", problem, variant, precision);
}

// Rows of one table by cell; of several rows of one cell and round, the newest.
std::map<std::string, std::vector<json>> rows_by_cell(const std::string& table,
                                                      const std::vector<json>& rows) {
  std::map<std::string, std::map<int, json>> newest;
  for (const json& row : rows) {
    if (row.value("type", "") == "cell" && row.at("table") == table) {
      const std::string key =
          cell_key(row.at("problem").value("id", ""), row.at("variant"), row.at("precision"));
      json& known = newest[key][row.at("round")];
      // Another machine may have had what this one lacks.
      if (known.is_null() || row.at("status") != "unavailable") {
        known = row;
      }
    }
  }
  std::map<std::string, std::vector<json>> cells;
  for (const auto& [key, rounds] : newest) {
    for (const auto& [round, row] : rounds) {
      cells[key].push_back(row);
    }
  }
  return cells;
}

} // namespace

std::string render_table(const Table& table, const std::vector<json>& rows, ReportStyle style) {
  const auto cells = rows_by_cell(table.name, rows);
  std::vector<Line> lines;
  for (const CellSpec& cell : table.cells) {
    const std::string precision(to_string(cell.precision));
    const auto found = cells.find(cell_key(cell.problem_id, cell.variant, precision));
    lines.push_back(line_of(cell.problem_id, cell.variant, precision,
                            found == cells.end() ? std::vector<json>{} : found->second));
  }
  std::string text =
      style == ReportStyle::markdown
          ? fmt::format("**{}** — {} ({})\n\n", table.name, table.title, table.source)
          : fmt::format("{} — {} ({})\n", table.name, table.title, table.source);
  text += render(lines, style);
  for (const std::string& note : table.notes) {
    text += (style == ReportStyle::markdown ? "\n" : "  ") + note + "\n";
  }
  return text;
}

std::string render_rows(const std::vector<json>& rows, ReportStyle style) {
  std::vector<Line> lines;
  for (const auto& [key, rounds] : rows_by_cell("adhoc", rows)) {
    const json& row = rounds.back();
    lines.push_back(
        line_of(row.at("problem").value("id", ""), row.at("variant"), row.at("precision"), rounds));
  }
  return render(lines, style);
}

void splice(const std::filesystem::path& file, const std::string& name, const std::string& text) {
  std::ifstream stream(file);
  if (!stream) {
    throw datasets::InputError(fmt::format("{}: cannot be read", file.string()));
  }
  std::ostringstream buffer;
  buffer << stream.rdbuf();
  std::string content = buffer.str();
  const std::string begin = fmt::format("<!-- {} begin -->\n", name);
  const std::string end = fmt::format("<!-- {} end -->", name);
  const auto from = content.find(begin);
  const auto to = content.find(end);
  if (from == std::string::npos || to == std::string::npos || to < from) {
    throw datasets::InputError(fmt::format("{}: the markers {} ... {} are missing", file.string(),
                                           begin.substr(0, begin.size() - 1), end));
  }
  const auto start = from + begin.size();
  content.replace(start, to - start, text);
  write_text_file(file, content);
}

} // namespace clusterbench
