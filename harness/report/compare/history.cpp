#include "harness/report/compare/history.hpp"

#include "harness/report/cell_table.hpp"
#include "harness/report/digits.hpp"
#include "harness/report/text_table.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <set>
#include <utility>

namespace clusterbench {
namespace {

using nlohmann::json;

// The campaign with this cell alone.
Timings only(const Timings& campaign, const CellName& cell) {
  Timings one = campaign;
  one.cells = {{cell, campaign.cells.at(cell)}};
  return one;
}

bool ends_a_stretch(const std::string& verdict) {
  return verdict != "same" && verdict != "inconclusive";
}

double median_of(const CellTimings& cell) {
  return cell.runs_ms.empty() ? 0.0 : median_of_rounds(cell.runs_ms);
}

Moment first_of_a_stretch(const Timings& campaign, const CellTimings& cell, std::string verdict) {
  return {campaign.source, cell.status == "ok" ? std::move(verdict) : cell.status,
          median_of(cell), {}};
}

CellHistory history_of_cell(const CellName& name, const std::vector<Timings>& campaigns,
                            const CompareOptions& options) {
  CellHistory history{name, {}};
  const Timings* first = nullptr; // of the stretch
  for (const Timings& campaign : campaigns) {
    const auto found = campaign.cells.find(name);
    if (found == campaign.cells.end()) {
      continue;
    }
    const bool usable = first != nullptr && first->cells.at(name).status == "ok" &&
                        found->second.status == "ok";
    if (!usable || !environment_mismatch(*first, campaign).empty()) {
      history.moments.push_back(first_of_a_stretch(
          campaign, found->second, first == nullptr || !usable ? "first" : "other environment"));
      first = &campaign;
      continue;
    }
    const ComparedCell compared =
        compare_timings(only(*first, name), only(campaign, name), options).cells.at(0);
    history.moments.push_back(
        {campaign.source, compared.verdict, median_of(found->second), compared.change});
    if (ends_a_stretch(compared.verdict)) {
      first = &campaign;
    }
  }
  return history;
}

std::string since_first(const Moment& moment) {
  if (!moment.change) {
    return {};
  }
  return ratio_text(moment.change->ratio, moment.change->interval, moment.change->is_range);
}

std::string ms_text(const Moment& moment) {
  if (!(moment.ms > 0.0)) {
    return {};
  }
  constexpr int kUnknown = 3;
  const auto& change = moment.change;
  return with_digits(moment.ms, change ? digits_of((change->interval.high - change->interval.low) /
                                                   change->ratio)
                                       : kUnknown);
}

Paint paint_of(const Moment& moment) {
  for (const char* mild : {"first", "other environment"}) {
    if (moment.verdict == mild) {
      return Paint::plain;
    }
  }
  const Paint paint = paint_of_verdict(moment.verdict);
  return paint == Paint::plain && moment.verdict != "same" ? Paint::wrong : paint; // a cell's status
}

bool is_change(const Moment& moment) {
  return moment.verdict == "slower" || moment.verdict == "faster";
}

} // namespace

std::vector<CellHistory> history_of(const std::vector<Timings>& campaigns, CompareOptions options) {
  std::set<CellName> names;
  std::size_t comparisons = 0;
  for (const Timings& campaign : campaigns) {
    for (const auto& [name, cell] : campaign.cells) {
      comparisons += names.insert(name).second ? 0 : 1;
    }
  }
  options.level /= static_cast<double>(std::max<std::size_t>(comparisons, 1));
  std::vector<CellHistory> cells;
  for (const CellName& name : names) {
    cells.push_back(history_of_cell(name, campaigns, options));
  }
  return cells;
}

std::vector<std::string> edited_of(const std::vector<Timings>& campaigns) {
  std::vector<std::string> edited;
  for (const Timings& campaign : campaigns) {
    if (!campaign.edited.empty()) {
      edited.push_back(campaign.edited);
    }
  }
  return edited;
}

std::string render_history(const std::vector<CellHistory>& cells,
                           const std::vector<std::string>& edited, TextStyle style) {
  constexpr std::size_t kWidestSource = 42, kMostChanges = 10;
  std::string text, changed;
  std::size_t changes = 0;
  for (const CellHistory& history : cells) {
    const std::string name = shortened(escaped(history.cell.name, TextStyle::terminal), 100);
    std::vector<std::vector<std::string>> lines;
    std::vector<Paint> paints;
    for (const Moment& moment : history.moments) {
      const std::string source = shortened(escaped(moment.source, TextStyle::terminal), kWidestSource);
      lines.push_back({is_change(moment) ? ">" : "", source, ms_text(moment), since_first(moment),
                       moment.verdict});
      paints.push_back(paint_of(moment));
      if (is_change(moment) && ++changes <= kMostChanges) {
        changed += "  " +
                   painted(fmt::format("{} by {} at {}", moment.verdict, since_first(moment), source),
                           paint_of(moment), style) +
                   ": " + shortened(name, 44) + "\n";
      }
    }
    text += name + "\n" +
            text_table({{"", false}, {"campaign", false}, {"ms", true},
                        {"over the stretch's first", true}, {"verdict", false}},
                       lines, style, paints) +
            "\n";
  }
  text += fmt::format("{} cells, {} changes (>)\n", cells.size(), changes) + changed +
          (changes > kMostChanges ? fmt::format("  and {} more above\n", changes - kMostChanges) : "");
  for (const std::string& sentence : edited) {
    text += escaped(sentence, TextStyle::terminal) + "\n";
  }
  return text;
}

json to_json(const std::vector<CellHistory>& cells, const std::vector<std::string>& edited) {
  json all = json::array();
  for (const CellHistory& history : cells) {
    json moments = json::array();
    for (const Moment& moment : history.moments) {
      json entry = {{"source", moment.source}, {"verdict", moment.verdict}, {"ms", nullptr}};
      if (moment.ms > 0.0) {
        entry["ms"] = moment.ms;
      }
      if (moment.change) {
        entry["ratio"] = moment.change->ratio;
        entry["interval"] = {moment.change->interval.low, moment.change->interval.high};
      }
      moments.push_back(std::move(entry));
    }
    all.push_back({{"name", history.cell.name}, {"threads", history.cell.threads}, {"moments", moments}});
  }
  return {{"schema", 2}, {"type", "history"}, {"cells", all}, {"edited", edited}};
}

} // namespace clusterbench
