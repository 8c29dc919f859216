#include "harness/report/compare/history.hpp"

#include "harness/report/cell_table.hpp"
#include "harness/report/digits.hpp"
#include "harness/report/text_table.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

namespace clusterbench {
namespace {

using nlohmann::json;

// The campaign with this cell alone.
Timings only(const Timings& campaign, const CellName& cell) {
  Timings one;
  one.source = campaign.source;
  one.cells = {{cell, campaign.cells.at(cell)}};
  one.environments = campaign.environments;
  one.environment = campaign.environment;
  one.rates = campaign.rates;
  one.context = campaign.context;
  return one;
}

// One cell in the campaigns that have it.
struct Track {
  CellName cell; ///< as far as any of them tells it
  std::vector<std::pair<const Timings*, CellName>> campaigns;

  // Of one campaign's cells of the same name each has its own.
  bool may_have(const CellName& other, const Timings& campaign) const {
    return campaigns.back().first != &campaign && cell.same_threads(other) &&
           cell.problem.same_definition(other.problem);
  }
};

// A campaign that does not tell threads or problem follows one that does.
std::vector<Track> tracks_of(const std::vector<Timings>& campaigns) {
  std::map<std::string, std::vector<Track>> by_name;
  for (const Timings& campaign : campaigns) {
    for (const auto& [name, timings] : campaign.cells) {
      std::vector<Track>& tracks = by_name[name.name];
      const auto find = [&](bool same) {
        return std::ranges::find_if(tracks, [&](const Track& track) {
          return track.may_have(name, campaign) &&
                 (!same || track.cell.problem.may_be(name.problem));
        });
      };
      auto found = find(true);
      found = found == tracks.end() ? find(false) : found; // of data that have changed
      if (found == tracks.end()) {
        found = tracks.insert(tracks.end(), {name, {}});
      }
      found->cell.threads = std::max(found->cell.threads, name.threads);
      found->cell.problem.learn(name.problem);
      found->campaigns.emplace_back(&campaign, name);
    }
  }
  std::vector<Track> all;
  for (auto& [name, tracks] : by_name) {
    std::ranges::sort(tracks, {}, &Track::cell);
    std::ranges::move(tracks, std::back_inserter(all));
  }
  return all;
}

bool ends_a_stretch(const std::string& verdict) {
  return verdict != "same" && verdict != "inconclusive";
}

double median_of(const CellTimings& cell) {
  return cell.runs_ms.empty() ? 0.0 : median_of_rounds(cell.runs_ms);
}

Moment first_of_a_stretch(const Timings& campaign, const CellTimings& cell, std::string verdict) {
  return {
      campaign.source, cell.status == "ok" ? std::move(verdict) : cell.status, median_of(cell), {}};
}

CellHistory history_of_cell(const Track& track, const CompareOptions& options) {
  CellHistory history{track.cell, track.cell.name, {}};
  std::optional<Timings> first; // of the stretch, with this cell alone
  for (const auto& [campaign, name] : track.campaigns) {
    Timings here = only(*campaign, name);
    const CellTimings& cell = here.cells.at(name);
    const bool usable = first && first->cells.begin()->second.status == "ok" && cell.status == "ok";
    if (!usable || !environment_mismatch(*first, here).empty()) {
      history.moments.push_back(
          first_of_a_stretch(here, cell, !usable ? "first" : "other environment"));
      first = std::move(here);
      continue;
    }
    const ComparedCell compared = compare_timings(*first, here, options).cells.at(0);
    history.moments.push_back(
        {campaign->source, compared.verdict, median_of(cell), compared.change});
    if (ends_a_stretch(compared.verdict)) {
      first = std::move(here);
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
  return with_digits(
      moment.ms, change ? digits_of((change->interval.high - change->interval.low) / change->ratio)
                        : kUnknown);
}

Paint paint_of(const Moment& moment) {
  for (const char* mild : {"first", "other environment"}) {
    if (moment.verdict == mild) {
      return Paint::plain;
    }
  }
  const Paint paint = paint_of_verdict(moment.verdict);
  // a cell's status
  return paint == Paint::plain && moment.verdict != "same" ? Paint::wrong : paint;
}

bool is_change(const Moment& moment) {
  return moment.verdict == "slower" || moment.verdict == "faster";
}

} // namespace

std::vector<CellHistory> history_of(const std::vector<Timings>& campaigns, CompareOptions options) {
  const std::vector<Track> tracks = tracks_of(campaigns);
  std::size_t comparisons = 0;
  std::map<std::string, std::vector<CellName>> names;
  for (const Track& track : tracks) {
    comparisons += track.campaigns.size() - 1;
    names[track.cell.name].push_back(track.cell);
  }
  options.level /= static_cast<double>(std::max<std::size_t>(comparisons, 1));
  std::vector<CellHistory> cells;
  for (const Track& track : tracks) {
    cells.push_back(history_of_cell(track, options));
    cells.back().shown = shown_name(track.cell, names.at(track.cell.name));
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
    const std::string name = shortened(escaped(history.shown, TextStyle::terminal), 100);
    std::vector<std::vector<std::string>> lines;
    std::vector<Paint> paints;
    for (const Moment& moment : history.moments) {
      const std::string source =
          shortened(escaped(moment.source, TextStyle::terminal), kWidestSource);
      lines.push_back({is_change(moment) ? ">" : "", source, ms_text(moment), since_first(moment),
                       moment.verdict});
      paints.push_back(paint_of(moment));
      if (is_change(moment) && ++changes <= kMostChanges) {
        changed +=
            "  " +
            painted(fmt::format("{} by {} at {}", moment.verdict, since_first(moment), source),
                    paint_of(moment), style) +
            ": " + shortened(name, 44) + "\n";
      }
    }
    text += name + "\n" +
            text_table({{"", false},
                        {"campaign", false},
                        {"ms", true},
                        {"over the stretch's first", true},
                        {"verdict", false}},
                       lines, style, paints) +
            "\n";
  }
  text +=
      fmt::format("{} cells, {} changes (>)\n", cells.size(), changes) + changed +
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
    all.push_back({{"name", history.cell.name},
                   {"shown", history.shown},
                   {"threads", history.cell.threads},
                   {"moments", moments}});
  }
  return {{"schema", 2}, {"type", "history"}, {"cells", all}, {"edited", edited}};
}

} // namespace clusterbench
