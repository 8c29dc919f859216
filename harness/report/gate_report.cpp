#include "harness/report/gate_report.hpp"

#include "harness/report/cell_table.hpp"
#include "harness/report/digits.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <fmt/format.h>
#include <initializer_list>
#include <nlohmann/json.hpp>

namespace clusterbench {
namespace {

using nlohmann::json;

// In one line: a message may hold the last words of a process.
template <typename Cell>
std::string verdict_of(const Cell& cell) {
  if (cell.message.empty()) {
    return cell.verdict;
  }
  std::string text = fmt::format("{} ({})", cell.verdict, cell.message);
  std::ranges::replace_if(
      text, [](unsigned char c) { return std::iscntrl(c) != 0; }, ' ');
  return text;
}

// Of the ratio that lies between them, as a share of it.
double width_of(const Bounds& log_ratio) {
  return std::expm1(log_ratio.high - log_ratio.low);
}

std::vector<std::string> line_of(const GatedCell& cell) {
  const std::string iterations = cell.iterations > 0 ? fmt::format("{}", cell.iterations) : "";
  if (cell.log_ratios.size() < 2) {
    return {cell.name, iterations, "", "", "", "", "", verdict_of(cell)};
  }
  return {cell.name,
          iterations,
          with_digits(cell.base_ms, digits_of(width_of(cell.bounds))),
          with_digits(cell.new_ms, digits_of(width_of(cell.bounds))),
          fmt::format("{:+.1f} %", (cell.ratio - 1.0) * 100.0),
          fmt::format("{:+.1f} .. {:+.1f} %", std::expm1(cell.bounds.low) * 100.0,
                      std::expm1(cell.bounds.high) * 100.0),
          fmt::format("{}", cell.log_ratios.size() + cell.first_alarm.size()),
          verdict_of(cell)};
}

std::vector<std::string> line_of(const CountedCell& cell) {
  const auto& [base, fresh] = cell.instructions;
  if (!any_compared({cell.verdict})) {
    return {cell.name, "", "", "", verdict_of(cell)};
  }
  return {cell.name, fmt::format("{:.0f}", base), fmt::format("{:.0f}", fresh),
          fmt::format("{:+.2f} %", (fresh / base - 1.0) * 100.0), verdict_of(cell)};
}

std::string headline(const std::vector<std::string>& verdicts, TextStyle style) {
  return fmt::format("{} of {} cells{}", count_of_verdicts(verdicts, style), verdicts.size(),
                     any_compared(verdicts) ? "" : "; no cell was compared");
}

template <typename Cell>
std::string page(const std::vector<Cell>& cells, const std::vector<TextColumn>& columns,
                 const std::string& title, const std::string& rule, TextStyle style) {
  std::vector<std::vector<std::string>> lines;
  std::vector<Paint> paints;
  for (const Cell& cell : cells) {
    lines.push_back(line_of(cell));
    paints.push_back(paint_of_verdict(cell.verdict));
  }
  const std::string table = text_table(columns, lines, style, paints);
  return style == TextStyle::markdown ? fmt::format("**{}**\n\n{}\n{}\n", title, table, rule)
                                      : fmt::format("{}{}\n{}\n", table, rule, title);
}

// The columns that fit a terminal: by their numbers in a line, whose first is the cell and whose
// last the verdict with its reason.
template <typename Cell>
std::string narrow_page(const std::vector<Cell>& cells, const std::vector<TextColumn>& columns,
                        std::initializer_list<std::size_t> kept, const std::string& title,
                        const std::string& rule, TextStyle style) {
  std::vector<CellLine> lines;
  for (const Cell& cell : cells) {
    const std::vector<std::string> whole = line_of(cell);
    CellLine& line =
        lines.emplace_back(CellLine{cell.name, {}, cell.message, paint_of_verdict(cell.verdict)});
    for (const std::size_t column : kept) {
      line.figures.push_back(whole.at(column));
    }
    line.figures.push_back(cell.verdict);
  }
  std::vector<TextColumn> headings;
  for (const std::size_t column : kept) {
    headings.push_back(columns.at(column));
  }
  headings.push_back({"verdict"});
  return fmt::format("{}\n{}\n{}\n", cell_tables(headings, lines, style), wrapped(rule, "  "),
                     title);
}

std::string rule(const GateOptions& options) {
  return fmt::format(
      "A slowdown of {:g} % is to be found. The range leaves out the true one in at most 5 % of "
      "cells "
      "on each side, all looks at both batches counted. Noise of one pair: {:.2f} %, {}.",
      options.test.min_effect * 100.0, options.floor.pair_sd * 100.0,
      options.floor.calibrated ? "calibrated on this machine"
                               : "assumed; `gate --calibrate` measures it");
}

} // namespace

std::string render_gate(const std::vector<GatedCell>& cells, const GateOptions& options,
                        TextStyle style, bool wide) {
  double seconds = 0.0;
  for (const GatedCell& cell : cells) {
    seconds += cell.seconds;
  }
  const std::vector<TextColumn> columns = {
      {"cell", false},  {"iterations", true}, {"base ms", true}, {"new ms", true},
      {"change", true}, {"range", true},      {"pairs", true},   {"verdict", false}};
  const std::string title =
      fmt::format("{}, {:.1f} s", headline(verdicts_of(cells), style), seconds);
  return style == TextStyle::markdown || wide
             ? page(cells, columns, title, rule(options), style)
             : narrow_page(cells, columns, {2, 3, 4, 5}, title, rule(options), style);
}

std::string render_gate(const std::vector<CountedCell>& cells, const GateOptions& options,
                        TextStyle style, bool wide) {
  const std::vector<TextColumn> columns = {{"cell", false},
                                           {"base instructions", true},
                                           {"new", true},
                                           {"change", true},
                                           {"verdict", false}};
  const std::string rule =
      fmt::format("Instructions of one thread's run; {:g} % more are to be found. Answers "
                  "were not verified.",
                  options.test.min_effect * 100.0);
  const std::string title = headline(verdicts_of(cells), style);
  return style == TextStyle::markdown || wide
             ? page(cells, columns, title, rule, style)
             : narrow_page(cells, columns, {1, 2, 3}, title, rule, style);
}

json to_json(const std::vector<GatedCell>& cells, const GateOptions& options) {
  json entries = json::array();
  for (const GatedCell& cell : cells) {
    json entry = {{"name", cell.name},
                  {"verdict", cell.verdict},
                  {"message", cell.message},
                  {"iterations", cell.iterations},
                  {"log_ratios", cell.log_ratios},
                  {"first_alarm", cell.first_alarm},
                  {"disturbed_pairs", cell.disturbed_pairs},
                  {"noise_floor", options.floor.of(cell.name)},
                  {"seconds", cell.seconds}};
    if (cell.log_ratios.size() >= 2) {
      entry.update({{"base_ms", cell.base_ms},
                    {"new_ms", cell.new_ms},
                    {"ratio", cell.ratio},
                    {"bounds", {std::exp(cell.bounds.low), std::exp(cell.bounds.high)}}});
    }
    entries.push_back(entry);
  }
  return {{"schema", 1},
          {"base", options.builds[0].string()},
          {"new", options.builds[1].string()},
          {"min_effect", options.test.min_effect},
          {"threads", options.threads},
          {"calibrated", options.floor.calibrated},
          {"cells", entries},
          {"exit_code", static_cast<int>(exit_code_of(verdicts_of(cells)))}};
}

json to_json(const std::vector<CountedCell>& cells, const GateOptions& options) {
  json entries = json::array();
  for (const CountedCell& cell : cells) {
    entries.push_back({{"name", cell.name},
                       {"verdict", cell.verdict},
                       {"message", cell.message},
                       {"instructions", cell.instructions}});
  }
  return {{"schema", 1},
          {"base", options.builds[0].string()},
          {"new", options.builds[1].string()},
          {"min_effect", options.test.min_effect},
          {"cells", entries},
          {"exit_code", static_cast<int>(exit_code_of(verdicts_of(cells)))}};
}

} // namespace clusterbench
