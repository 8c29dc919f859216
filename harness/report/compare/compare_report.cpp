#include "harness/report/compare/compare_report.hpp"

#include "harness/report/cell_table.hpp"
#include "harness/report/digits.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <iterator>

namespace clusterbench {
namespace {

using nlohmann::json;

// What both times are worth by the interval of their ratio.
int digits_for(const Change& change) {
  return digits_of((change.interval.high - change.interval.low) / change.ratio);
}

std::string ratio_text(const Change& change) {
  return ratio_text(change.ratio, change.interval, change.is_range);
}

std::vector<std::string> line_of(const ComparedCell& cell) {
  if (!cell.change) {
    return {cell.name, "", "", "", "", fmt::format("{} ({})", cell.verdict, cell.message)};
  }
  const Change& change = *cell.change;
  return {cell.name,
          with_digits(change.base_ms, digits_for(change)),
          with_digits(change.new_ms, digits_for(change)),
          ratio_text(change),
          fmt::format("{:.2g}", change.q),
          cell.message.empty() ? cell.verdict : fmt::format("{} ({})", cell.verdict, cell.message)};
}

CellLine narrow_line_of(const ComparedCell& cell) {
  CellLine line{
      cell.name, {"", "", "", cell.verdict}, cell.message, paint_of_verdict(cell.verdict)};
  if (cell.change) {
    const Change& change = *cell.change;
    line.figures = {with_digits(change.base_ms, digits_for(change)),
                    with_digits(change.new_ms, digits_for(change)), ratio_text(change),
                    cell.verdict};
  }
  return line;
}

std::string summary(const Comparison& comparison, TextStyle style) {
  std::vector<std::string> verdicts;
  for (const ComparedCell& cell : comparison.cells) {
    verdicts.push_back(cell.verdict);
  }
  std::string text = count_of_verdicts(verdicts, style);
  if (comparison.ratios > 0) {
    const auto& interval = comparison.geometric_mean_interval;
    text += "; geometric mean of the ratios ";
    text += interval ? ratio_text(comparison.geometric_mean, *interval, false)
                     : with_digits(comparison.geometric_mean, 3);
  }
  return text;
}

// The sentences below the table.
std::vector<std::string> rules(const Comparison& comparison) {
  std::vector<std::string> rules = {fmt::format(
      "Changes below {:g} % count as none; where no change can be as large as {:g} %, nothing "
      "has changed. The level is {:g} %: of false alarms, all cells together.",
      comparison.options.min_effect * 100.0, comparison.options.same_within() * 100.0,
      comparison.options.level * 100.0)};
  if (std::ranges::any_of(comparison.cells, [](const ComparedCell& cell) {
        return cell.change && !cell.change->is_range;
      })) {
    rules.push_back("Times are medians of whole runs; the ratio is of the fastest tenth of passes, "
                    "so that the two may differ.");
  }
  if (std::ranges::any_of(comparison.cells, [](const ComparedCell& cell) {
        return cell.change && cell.change->is_range;
      })) {
    rules.push_back(
        "In round brackets stands no 95 %, but the least and the greatest: of too few processes, "
        "or of a busy machine.");
  }
  if (std::ranges::any_of(comparison.cells, [](const ComparedCell& cell) {
        return cell.change && !cell.change->paired;
      })) {
    rules.push_back("Not all cells could be compared start by start: `run --starts SEED` gives two "
                    "campaigns the same starts.");
  }
  if (comparison.left_out > 0) {
    rules.push_back(
        fmt::format("--cells left out {} cell{} of the base; false alarms are as rare as "
                    "that among those that were kept, if nobody had seen their times.",
                    comparison.left_out, comparison.left_out == 1 ? "" : "s"));
  }
  if (!comparison.environments_differ.empty()) {
    rules.push_back(
        "Two environments are compared, not two builds: " + comparison.environments_differ + ".");
  }
  return rules;
}

// What the verdicts ask for next: a sentence, and a command or nothing.
struct Next {
  std::string sentence, command;
};
Next next_of(const Comparison& comparison) {
  if (!comparison.command.empty()) {
    return {"next: both campaigns again, each by the program of its own build, with",
            comparison.command};
  }
  if (const auto rounds = comparison.rounds_needed()) {
    return {fmt::format("next: both campaigns again, by `clusterbench run` with --rounds {} "
                        "--starts 1",
                        *rounds),
            ""};
  }
  if (!comparison.gate_command.empty()) {
    return {"next: two builds turn by turn, which tells smaller changes", comparison.gate_command};
  }
  return {};
}

// The words of a command, as a shell parts them: not within quotes.
std::vector<std::string> words_of(const std::string& command) {
  std::vector<std::string> words(1);
  bool quoted = false;
  for (const char c : command) {
    quoted = c == '\'' ? !quoted : quoted;
    if (c == ' ' && !quoted) {
      words.emplace_back();
    } else {
      words.back().push_back(c);
    }
  }
  return words;
}

// A command in lines of a terminal's width, which a shell takes for one.
std::string in_lines(const std::string& command, const std::string& indent) {
  constexpr std::size_t kWidth = 98; // and " \\"
  std::vector<std::string> lines(1, indent);
  bool is_first = true;
  for (const std::string& word : words_of(command)) {
    if (!is_first && lines.back().size() + 1 + word.size() > kWidth) {
      lines.push_back(fmt::format("{}  {}", indent, word));
    } else {
      lines.back() = fmt::format("{}{}{}", lines.back(), is_first ? "" : " ", word);
    }
    is_first = false;
  }
  return fmt::format("{}\n", fmt::join(lines, " \\\n"));
}

std::string next_text(const Comparison& comparison, TextStyle style) {
  const Next next = next_of(comparison);
  if (next.sentence.empty()) {
    return "";
  }
  const bool markdown = style == TextStyle::markdown;
  const std::string_view before = markdown ? "\n" : "";
  const std::string command = escaped(next.command, TextStyle::terminal);
  return fmt::format(
      "{0}{1}\n{2}", before, next.sentence,
      command.empty() ? ""
                      : fmt::format("{}{}", before, in_lines(command, markdown ? "    " : "  ")));
}

} // namespace

std::string render_comparison(const Comparison& comparison, TextStyle style, bool wide) {
  if (style == TextStyle::markdown || wide) {
    std::vector<std::vector<std::string>> lines;
    std::vector<Paint> paints;
    for (const ComparedCell& cell : comparison.cells) {
      lines.push_back(line_of(cell));
      paints.push_back(paint_of_verdict(cell.verdict));
    }
    const std::string table = text_table({{"cell", false},
                                          {"base ms", true},
                                          {"new ms", true},
                                          {"new/base [95 %]", true},
                                          {"q", true},
                                          {"verdict", false}},
                                         lines, style, paints);
    std::string rule = fmt::format("{}", fmt::join(rules(comparison), " "));
    for (const std::string& sentence : comparison.edited) {
      rule += "\n" + sentence;
    }
    if (style == TextStyle::markdown) {
      return fmt::format("**{}**\n\n{}\n{}\n{}", summary(comparison, style), table, rule,
                         next_text(comparison, style));
    }
    return fmt::format("base: {}\nnew:  {}\n{}{}\n{}\n{}", comparison.base, comparison.fresh, table,
                       rule, summary(comparison, style), next_text(comparison, style));
  }
  std::vector<CellLine> lines;
  std::ranges::transform(comparison.cells, std::back_inserter(lines), narrow_line_of);
  std::string text = fmt::format(
      "base: {}\nnew:  {}\n{}\n", comparison.base, comparison.fresh,
      cell_tables({{"base ms", true}, {"new ms", true}, {"new/base [95 %]", true}, {"verdict"}},
                  lines, style));
  for (const std::string& rule : rules(comparison)) {
    text += wrapped(rule, "  ");
  }
  for (const std::string& sentence : comparison.edited) {
    text += wrapped(sentence, "  ");
  }
  text += fmt::format("\n{} cell{}: {}\n", comparison.cells.size(),
                      comparison.cells.size() == 1 ? "" : "s", summary(comparison, style));
  return text + next_text(comparison, style);
}

json to_json(const Comparison& comparison) {
  json cells = json::array();
  for (const ComparedCell& cell : comparison.cells) {
    json entry = {{"name", cell.name}, {"verdict", cell.verdict}, {"message", cell.message}};
    if (cell.change) {
      const Change& change = *cell.change;
      entry.update(
          {{"base_ms", change.base_ms},
           {"new_ms", change.new_ms},
           {"ratio", change.ratio},
           {"interval", {change.interval.low, change.interval.high}},
           {"interval_is_range", change.is_range},
           {"paired", change.paired},
           {"p", change.p},
           {"q", change.q},
           {"rounds_needed", change.rounds_needed ? json(*change.rounds_needed) : json()}});
    }
    cells.push_back(entry);
  }
  return {
      {"schema", 3},
      {"base", comparison.base},
      {"new", comparison.fresh},
      {"edited", comparison.edited},
      {"environments_differ", comparison.environments_differ},
      {"min_effect", comparison.options.min_effect},
      {"level", comparison.options.level},
      {"cells", cells},
      {"ratios", comparison.ratios},
      {"geometric_mean", comparison.geometric_mean},
      {"geometric_mean_interval",
       comparison.geometric_mean_interval
           ? json{comparison.geometric_mean_interval->low, comparison.geometric_mean_interval->high}
           : json()},
      {"cells_left_out", comparison.left_out},
      {"next_command", comparison.command.empty() ? json() : json(comparison.command)},
      {"gate_command", comparison.gate_command.empty() ? json() : json(comparison.gate_command)},
      {"exit_code", static_cast<int>(comparison.exit_code())}};
}

} // namespace clusterbench
