#include "harness/report/compare/history.hpp"

#include "harness/machine/environment.hpp"
#include "harness/report/compare/steps.hpp"
#include "harness/report/digits.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

namespace clusterbench {
namespace {

// The campaign with this cell alone.
Timings only(const Timings& campaign, const CellName& cell) {
  Timings one;
  one.source = campaign.source;
  one.started = campaign.started;
  one.cells = {{cell, campaign.cells.at(cell)}};
  one.environments = campaign.environments;
  one.environment = campaign.environment;
  one.earlier_environment = campaign.earlier_environment;
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

// Of others no ratio can be taken, and no interval.
bool has_positive_times(const CellTimings& cell) {
  return std::ranges::all_of(cell.runs_ms, [](const std::vector<double>& round) {
    return std::ranges::all_of(round, [](double ms) { return ms > 0.0; });
  });
}

int own_digits(const CellTimings& cell) {
  constexpr int kUnknown = 3;
  if (cell.runs_ms.empty() || !has_positive_times(cell)) {
    return kUnknown;
  }
  const PooledRounds pooled = pool_rounds(cell.runs_ms);
  return digits_of((pooled.interval.high - pooled.interval.low) / pooled.median);
}

double median_of(const CellTimings& cell) {
  return cell.runs_ms.empty() ? 0.0 : median_of_rounds(cell.runs_ms);
}

// Campaigns of one environment that was as quiet for all of them, from a first one on that the
// others are compared with.
struct Stretch {
  Timings first; ///< with this cell alone
  /// Which of the history's moments told the ratio to the first, and its logarithm.
  std::vector<std::size_t> moments;
  std::vector<double> logs;
  double scatter = 0.0; ///< by which equal ones are taken to differ
};

// Two campaigns of few rounds, or of a machine that was not as quiet: no test.
bool is_range(const ComparedCell& compared) {
  return compared.change && compared.change->is_range;
}

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
    Moment moment{here.source, here.started, cell.status, median_of(cell), own_digits(cell), {}};
    if (cell.status != "ok") {
      moment.message = cell.message;
      return moment;
    }
    if (!has_positive_times(cell)) {
      moment.verdict = "failed";
      moment.message = "a time is not positive";
      return moment;
    }
    const std::vector<std::size_t> known = stretches_like(here);
    if (known.empty()) {
      moment.verdict = stretches_.empty() ? "first" : "other environment";
      moment.message =
          stretches_.empty() ? "" : listed(environment_mismatch(stretches_[latest_].first, here));
      begin_stretch(std::move(here), number);
      return moment;
    }
    for (const std::size_t i : known) {
      const ComparedCell compared = compared_with(stretches_[i].first, here);
      if (!is_range(compared)) {
        latest_ = i;
        follow(stretches_[i], compared, std::move(here), number, moment);
        return moment;
      }
      if (!moment.change) {
        moment.verdict = compared.verdict;
        moment.message = compared.message;
        moment.change = compared.change;
        latest_ = i;
      }
    }
    if (can_be_compared(here)) {
      moment.verdict = "first";
      moment.message = "not compared with those before: " + moment.message;
      moment.change.reset();
      for (auto i = known.rbegin(); i != known.rend(); ++i) {
        if (!can_be_compared(stretches_[*i].first)) {
          stretches_.erase(stretches_.begin() + static_cast<std::ptrdiff_t>(*i));
        }
      }
      begin_stretch(std::move(here), number);
    }
    return moment;
  }

  // The oldest first: where several can be compared, it is the one that tells the most.
  std::vector<std::size_t> stretches_like(const Timings& here) const {
    std::vector<std::size_t> found;
    for (std::size_t i = 0; i < stretches_.size(); ++i) {
      if (environment_mismatch(stretches_[i].first, here).empty()) {
        found.push_back(i);
      }
    }
    return found;
  }

  ComparedCell compared_with(const Timings& first, const Timings& here) const {
    return compare_timings(first, here, options_).cells.at(0);
  }

  // One that has few rounds, or whose machine was busy, cannot even be compared with itself. It
  // begins a stretch only until one comes that can.
  bool can_be_compared(const Timings& campaign) const {
    return !is_range(compared_with(campaign, campaign));
  }

  void follow(Stretch& stretch, const ComparedCell& compared, Timings here, std::size_t number,
              Moment& moment) {
    if (const auto step = steps_.find(number); step != steps_.end()) {
      moment.verdict = step->second.ratio > 1.0 ? "slower" : "faster";
      moment.with_later = true;
      moment.change.emplace();
      moment.change->ratio = step->second.ratio;
      moment.change->interval = step->second.interval;
      moment.message = "";
      stretch = begun_by(std::move(here), number);
      return;
    }
    moment.verdict = compared.verdict;
    moment.message = compared.message;
    moment.change = compared.change;
    if (ends_a_stretch(compared.verdict)) {
      stretch = begun_by(std::move(here), number);
    } else if (compared.change) {
      add_to(stretch, number, *compared.change);
    }
  }

  static Stretch begun_by(Timings first, std::size_t number) {
    return {std::move(first), {number}, {0.0}};
  }

  void begin_stretch(Timings first, std::size_t number) {
    stretches_.push_back(begun_by(std::move(first), number));
    latest_ = stretches_.size() - 1;
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
  std::vector<Stretch> stretches_; // that go on
  std::size_t latest_ = 0;         // that of the campaign before
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

} // namespace

std::vector<CellHistory> history_of(const std::vector<Timings>& campaigns, CompareOptions options) {
  const std::vector<Track> tracks = tracks_of(campaigns);
  std::size_t comparisons = 0;
  std::map<std::string, std::vector<CellName>> names;
  for (const Track& track : tracks) {
    comparisons += track.campaigns.size() - 1;
    names[track.cell.name].push_back(track.cell);
  }
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

} // namespace clusterbench
