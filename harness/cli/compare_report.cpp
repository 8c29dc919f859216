#include "harness/cli/compare_report.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <map>

namespace clusterbench {
namespace {

using nlohmann::json;

// "1.034 [1.021, 1.047]", or a range: "1.034 (1.021 .. 1.047)".
std::string ratio_text(double ratio, const Interval& interval, bool is_range = false) {
  const auto& [low, high] = interval;
  return fmt::format("{:.3f} ", ratio) + (is_range ? fmt::format("({:.3f} .. {:.3f})", low, high)
                                                   : fmt::format("[{:.3f}, {:.3f}]", low, high));
}

std::vector<std::string> line_of(const ComparedCell& cell) {
  if (!cell.change) {
    return {cell.name, "", "", "", "", fmt::format("{} ({})", cell.verdict, cell.message)};
  }
  const Change& change = *cell.change;
  return {cell.name,
          fmt::format("{:.4g}", change.base_ms),
          fmt::format("{:.4g}", change.new_ms),
          ratio_text(change.ratio, change.interval, change.is_range),
          fmt::format("{:.2g}", change.q),
          cell.message.empty() ? cell.verdict : fmt::format("{} ({})", cell.verdict, cell.message)};
}

std::string summary(const Comparison& comparison) {
  std::map<std::string, int> counts;
  for (const ComparedCell& cell : comparison.cells) {
    ++counts[cell.verdict];
  }
  std::string text;
  for (const auto& [verdict, count] : counts) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, verdict);
  }
  if (comparison.ratios > 0) {
    text += fmt::format("; geometric mean of the ratios {}",
                        ratio_text(comparison.geometric_mean, comparison.geometric_mean_interval));
  }
  return text;
}

} // namespace

std::string render_comparison(const Comparison& comparison, TextStyle style) {
  std::vector<std::vector<std::string>> lines;
  for (const ComparedCell& cell : comparison.cells) {
    lines.push_back(line_of(cell));
  }
  const std::string table = text_table({{"cell", false},
                                        {"base ms", true},
                                        {"new ms", true},
                                        {"new/base [95 %]", true},
                                        {"q", true},
                                        {"verdict", false}},
                                       lines, style);
  std::string rule =
      fmt::format("Changes below {:g} % count as none; q is the p-value of a rank test, adjusted "
                  "for the number of cells.",
                  comparison.options.min_effect * 100.0);
  if (std::ranges::any_of(comparison.cells, [](const ComparedCell& cell) {
        return cell.change && cell.change->is_range;
      })) {
    rule += " In round brackets stands no 95 %, but the least and the greatest, of fewer than 5 "
            "samples or 4 rounds.";
  }
  if (std::ranges::any_of(comparison.cells, [](const ComparedCell& cell) {
        return cell.change && !cell.change->paired;
      })) {
    rule += " Not all cells could be compared start by start: `run --starts SEED` gives two "
            "campaigns the same starts.";
  }
  if (comparison.one_process) {
    rule += " One process cannot tell what processes of one build differ by: `run --rounds 4` can.";
  }
  for (const std::string& sentence : comparison.edited) {
    rule += "\n" + sentence;
  }
  if (style == TextStyle::markdown) {
    return fmt::format("**{}**\n\n{}\n{}\n", summary(comparison), table, rule);
  }
  return fmt::format("base: {}\nnew:  {}\n{}{}\n{}\n", comparison.base, comparison.fresh, table,
                     summary(comparison), rule);
}

json to_json(const Comparison& comparison) {
  json cells = json::array();
  for (const ComparedCell& cell : comparison.cells) {
    json entry = {{"name", cell.name}, {"verdict", cell.verdict}, {"message", cell.message}};
    if (cell.change) {
      const Change& change = *cell.change;
      entry.update({{"base_ms", change.base_ms},
                    {"new_ms", change.new_ms},
                    {"ratio", change.ratio},
                    {"interval", {change.interval.low, change.interval.high}},
                    {"interval_is_range", change.is_range},
                    {"paired", change.paired},
                    {"p", change.p},
                    {"q", change.q}});
    }
    cells.push_back(entry);
  }
  return {{"schema", 2},
          {"base", comparison.base},
          {"new", comparison.fresh},
          {"edited", comparison.edited},
          {"min_effect", comparison.options.min_effect},
          {"level", comparison.options.level},
          {"cells", cells},
          {"ratios", comparison.ratios},
          {"one_process", comparison.one_process},
          {"geometric_mean", comparison.geometric_mean},
          {"geometric_mean_interval",
           {comparison.geometric_mean_interval.low, comparison.geometric_mean_interval.high}},
          {"exit_code", static_cast<int>(comparison.exit_code())}};
}

} // namespace clusterbench
