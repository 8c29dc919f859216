#include "harness/report/compare/history.hpp"

#include "harness/report/cell_table.hpp"
#include "harness/report/compare/steps.hpp"
#include "harness/report/digits.hpp"
#include "harness/report/text_table.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
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

int own_digits(const CellTimings& cell) {
  constexpr int kUnknown = 3;
  if (cell.runs_ms.empty()) {
    return kUnknown;
  }
  const PooledRounds pooled = pool_rounds(cell.runs_ms);
  return digits_of((pooled.interval.high - pooled.interval.low) / pooled.median);
}

double median_of(const CellTimings& cell) {
  return cell.runs_ms.empty() ? 0.0 : median_of_rounds(cell.runs_ms);
}

// Campaigns of one environment, from a first one on that the others are compared with.
struct Stretch {
  Timings first; ///< with this cell alone
  /// Which of the history's moments told the ratio to the first, and its logarithm.
  std::vector<std::size_t> moments;
  std::vector<double> logs;
  double scatter = 0.0; ///< by which equal ones are taken to differ
};

// By number of the track's campaign.
using Steps = std::map<std::size_t, Step>;

class Follower {
public:
  Follower(const Track& track, const CompareOptions& options, double level_of_steps,
           const Steps& steps)
      : options_(options), level_of_steps_(level_of_steps),
        steps_(steps), history_{track.cell, track.cell.name, {}} {
    for (const auto& [campaign, name] : track.campaigns) {
      if (found_) {
        break; // all that follows is compared with another first
      }
      history_.moments.push_back(moment_of(only(*campaign, name)));
    }
  }

  CellHistory&& history() && { return std::move(history_); }

  /// The first step that campaigns together told.
  const std::optional<std::pair<std::size_t, Step>>& found() const { return found_; }

private:
  Moment moment_of(Timings here) {
    const std::size_t number = history_.moments.size();
    const CellTimings& cell = here.cells.begin()->second;
    Moment moment{here.source, cell.status, median_of(cell), own_digits(cell), {}};
    if (cell.status != "ok") {
      moment.message = cell.message;
      return moment;
    }
    const auto stretch =
        std::find_if(stretches_.rbegin(), stretches_.rend(), [&](const Stretch& known) {
          return environment_mismatch(known.first, here).empty();
        });
    if (stretch == stretches_.rend()) {
      moment.verdict = stretches_.empty() ? "first" : "other environment";
      moment.message =
          stretches_.empty()
              ? ""
              : fmt::format("{}",
                            fmt::join(environment_mismatch(stretches_.back().first, here), "; "));
      begin_stretch(std::move(here), number);
      return moment;
    }
    if (const auto step = steps_.find(number); step != steps_.end()) {
      moment.verdict = step->second.ratio > 1.0 ? "slower" : "faster";
      moment.with_later = true;
      moment.change.emplace();
      moment.change->ratio = step->second.ratio;
      moment.change->interval = step->second.interval;
      begin_stretch(std::move(here), number);
      return moment;
    }
    const ComparedCell compared = compare_timings(stretch->first, here, options_).cells.at(0);
    moment.verdict = compared.verdict;
    moment.message = compared.message;
    moment.change = compared.change;
    if (ends_a_stretch(compared.verdict)) {
      begin_stretch(std::move(here), number);
    } else if (compared.change && !compared.change->is_range) {
      add_to(*stretch, number, *compared.change);
    }
    return moment;
  }

  void begin_stretch(Timings first, std::size_t number) {
    stretches_.push_back({std::move(first), {number}, {0.0}});
  }

  // Asked again with each campaign, so that what was told once is told whatever comes after.
  void add_to(Stretch& stretch, std::size_t number, const Change& change) {
    stretch.moments.push_back(number);
    stretch.logs.push_back(std::log(change.ratio));
    stretch.scatter = std::max(stretch.scatter, change.campaign_scatter);
    const auto step =
        clearest_step(stretch.logs, stretch.scatter, options_.min_effect, level_of_steps_);
    if (step) {
      found_ = {stretch.moments[step->at], *step};
    }
  }

  const CompareOptions& options_;
  double level_of_steps_;
  const Steps& steps_;
  CellHistory history_;
  std::vector<Stretch> stretches_; // the last one of an environment goes on
  std::optional<std::pair<std::size_t, Step>> found_;
};

CellHistory history_of_cell(const Track& track, const CompareOptions& options,
                            double level_of_steps) {
  Steps steps;
  while (true) {
    Follower follower(track, options, level_of_steps, steps);
    if (!follower.found()) {
      return std::move(follower).history();
    }
    steps.insert(*follower.found());
  }
}

std::string since_first(const Moment& moment) {
  if (!moment.change) {
    return {};
  }
  return ratio_text(moment.change->ratio, moment.change->interval, moment.change->is_range);
}

std::string ms_text(const Moment& moment) {
  return moment.ms > 0.0 ? with_digits(moment.ms, moment.digits) : "";
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
  // A third: each campaign asks again.
  const double level_of_steps =
      options.level / 3.0 / static_cast<double>(std::max<std::size_t>(tracks.size(), 1));
  options.level /= static_cast<double>(std::max<std::size_t>(comparisons, 1));
  std::vector<CellHistory> cells;
  for (const Track& track : tracks) {
    cells.push_back(history_of_cell(track, options, level_of_steps));
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

std::string order_of(const std::vector<Timings>& campaigns) {
  for (std::size_t i = 1; i < campaigns.size(); ++i) {
    const Timings &before = campaigns[i - 1], &after = campaigns[i];
    if (!before.started.empty() && !after.started.empty() && after.started < before.started) {
      return fmt::format(
          "not in the order of time: {} was measured before {}, which it follows here",
          after.source, before.source);
    }
  }
  return "";
}

std::string render_history(const std::vector<CellHistory>& cells,
                           const std::vector<std::string>& edited, const std::string& order,
                           TextStyle style) {
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
                       moment.with_later ? moment.verdict + ", all since" : moment.verdict});
      paints.push_back(paint_of(moment));
      if (is_change(moment) && ++changes <= kMostChanges) {
        changed +=
            "  " +
            painted(fmt::format("{} at {}: times {}", moment.verdict, source, since_first(moment)),
                    paint_of(moment), style) +
            ", " + shortened(name, 44) + "\n";
      }
    }
    std::string environments;
    for (const Moment& moment : history.moments) {
      if (moment.verdict == "other environment") {
        environments +=
            wrapped(escaped(moment.source + ": " + moment.message, TextStyle::terminal), "  ");
      }
    }
    text += name + "\n" +
            text_table({{"", false},
                        {"campaign", false},
                        {"ms", true},
                        {"over what was before", true},
                        {"verdict", false}},
                       lines, style, paints) +
            environments + "\n";
  }
  text +=
      fmt::format("{} cell{}, {} change{} (>)\n", cells.size(), cells.size() == 1 ? "" : "s",
                  changes, changes == 1 ? "" : "s") +
      changed +
      (changes > kMostChanges ? fmt::format("  and {} more above\n", changes - kMostChanges) : "");
  text += order.empty() ? "" : escaped(order, TextStyle::terminal) + "\n";
  for (const std::string& sentence : edited) {
    text += escaped(sentence, TextStyle::terminal) + "\n";
  }
  return text;
}

json to_json(const std::vector<CellHistory>& cells, const std::vector<std::string>& edited,
             const std::string& order) {
  json all = json::array();
  for (const CellHistory& history : cells) {
    json moments = json::array();
    for (const Moment& moment : history.moments) {
      json entry = {{"source", moment.source},
                    {"verdict", moment.verdict},
                    {"message", moment.message},
                    {"ms", nullptr}};
      if (moment.ms > 0.0) {
        entry["ms"] = moment.ms;
      }
      if (moment.change) {
        entry["ratio"] = moment.change->ratio;
        entry["interval"] = {moment.change->interval.low, moment.change->interval.high};
        entry["with_later"] = moment.with_later;
      }
      moments.push_back(std::move(entry));
    }
    all.push_back({{"name", history.cell.name},
                   {"shown", history.shown},
                   {"threads", history.cell.threads},
                   {"moments", moments}});
  }
  return {{"schema", 2},
          {"type", "history"},
          {"cells", all},
          {"edited", edited},
          {"not_in_order", order}};
}

} // namespace clusterbench
