#include "harness/report/compare/history.hpp"

#include "harness/machine/environment.hpp"
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
#include <set>
#include <string_view>
#include <utility>

namespace clusterbench {
namespace {

using nlohmann::json;

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

constexpr std::size_t kWidth = 100, kMostChanges = 10;

std::string day_of(const std::string& time) {
  constexpr std::size_t kUpToDays = 10; // 2026-11-20
  return time.substr(0, kUpToDays);
}

std::string minute_of(const std::string& time) {
  constexpr std::size_t kUpToMinutes = 16; // 2026-11-20T10:33
  std::string text = time.substr(0, kUpToMinutes);
  std::ranges::replace(text, 'T', ' ');
  return text;
}

// The folder of a ledger; other files as they are.
std::string without_file(const std::string& source) {
  std::string_view text = source;
  for (const std::string_view end : {"/ledger.jsonl", "/"}) {
    if (text.ends_with(end) && text.size() > end.size()) {
      text.remove_suffix(end.size());
    }
  }
  return std::string(text);
}

// How many bytes all names have in common, up to and with one of these characters.
std::size_t common_part(const std::vector<std::string>& names, std::string_view ends) {
  std::size_t common = names.empty() ? 0 : names.front().size();
  for (const std::string& name : names) {
    const auto differs = std::ranges::mismatch(name, names.front()).in1;
    common = std::min(common, static_cast<std::size_t>(differs - name.begin()));
  }
  const std::size_t end =
      common == 0 ? std::string::npos : names.front().find_last_of(ends, common - 1);
  return end == std::string::npos ? 0 : end + 1;
}

std::size_t distinct(const std::vector<std::string>& names) {
  return std::set<std::string>(names.begin(), names.end()).size();
}

// At most so many columns of the text, "…" in place of its end.
std::string beginning_of(const std::string& text, std::size_t columns) {
  std::string cut = text;
  while (width_of(cut) + (cut == text ? 0 : 1) > columns && !cut.empty()) {
    cut.pop_back(); // a byte that goes on with a character has no width of its own
  }
  return cut == text ? text : cut + "…";
}

// The names in so many columns, each told from the others where that can be: their beginning and
// end, or those of what follows the part that all of them begin with, or that one's beginning.
std::vector<std::string> fitted(const std::vector<std::string>& names, std::size_t columns) {
  std::vector<std::string> whole, rest, beginning;
  const std::size_t common = common_part(names, "/-_. ");
  for (const std::string& name : names) {
    whole.push_back(shortened(name, columns));
    const std::string after = common == 0 ? name : "…" + name.substr(common);
    rest.push_back(shortened(after, columns));
    beginning.push_back(beginning_of(after, columns));
  }
  return std::ranges::max({whole, rest, beginning}, {}, distinct);
}

// What the text says of a cell's campaigns.
class Rows {
public:
  explicit Rows(const CellHistory& history) : history_(history) {
    find_times();
    const std::vector<TextColumn> columns = headings();
    std::size_t used = 0; // by the others
    for (std::size_t c = 0; c < columns.size(); ++c) {
      std::size_t width = width_of(columns[c].heading);
      for (const Moment& moment : history.moments) {
        width = std::max(width, width_of(line_of(moment)[c]));
      }
      used += kBetweenColumns + (c == kNameColumn ? 0 : width);
    }
    find_names(kWidth - std::min(used, kWidth));
  }

  std::string table(TextStyle style) const {
    std::vector<std::vector<std::string>> lines;
    std::vector<Paint> paints;
    for (const Moment& moment : history_.moments) {
      lines.push_back(line_of(moment));
      paints.push_back(paint_of(moment));
    }
    return text_table(headings(), lines, style, paints);
  }

  /// Why campaigns were not compared, or with none before them; one sentence for all that share it.
  std::string reasons() const {
    std::vector<std::pair<std::string, std::vector<std::string>>> found;
    for (const Moment& moment : history_.moments) {
      const bool is_range = moment.change && moment.change->is_range;
      if (moment.message.empty() || !(is_range || begins_unlike_others(moment))) {
        continue;
      }
      auto same = std::ranges::find(found, moment.message, &decltype(found)::value_type::first);
      if (same == found.end()) {
        same = found.insert(found.end(), {moment.message, {}});
      }
      same->second.push_back(name_of(moment));
    }
    constexpr std::size_t kMostNames = 3;
    std::string text;
    for (auto& [message, names] : found) {
      const std::size_t more = names.size() > kMostNames ? names.size() - kMostNames : 0;
      names.resize(names.size() - more);
      text +=
          wrapped(escaped(fmt::format("{}{}: {}", fmt::join(names, ", "),
                                      more > 0 ? fmt::format(" and {} more", more) : "", message),
                          TextStyle::terminal),
                  "  ");
    }
    return text;
  }

  /// Those of the first kMostChanges, after the heading; adds all of them to the count.
  std::string changes(const std::string& heading, std::size_t& count, TextStyle style) const {
    std::string text;
    for (const Moment& moment : history_.moments) {
      if (is_change(moment) && ++count <= kMostChanges) {
        text += (text.empty() ? heading : "") + "    " +
                painted(fmt::format("{} at {}: times {}", moment.verdict, name_of(moment),
                                    since_first(moment)),
                        paint_of(moment), style) +
                (has_times_ ? ", " + when(moment.time) : "") + "\n";
      }
    }
    return text;
  }

private:
  static constexpr std::size_t kNameColumn = 1, kBetweenColumns = 2;

  static bool begins_unlike_others(const Moment& moment) {
    return moment.verdict == "other environment" || moment.verdict == "first";
  }

  std::vector<TextColumn> headings() const {
    std::vector<TextColumn> columns = {{"", false}, {"campaign", false}};
    if (has_times_) {
      columns.push_back({"when", false});
    }
    columns.insert(columns.end(), {{"ms", true}, {"over the first", true}, {"verdict", false}});
    return columns;
  }

  std::vector<std::string> line_of(const Moment& moment) const {
    std::vector<std::string> line = {is_change(moment) ? ">" : "", name_of(moment)};
    if (has_times_) {
      line.push_back(when(moment.time));
    }
    line.insert(line.end(), {ms_text(moment), since_first(moment),
                             moment.with_later ? moment.verdict + ", all since" : moment.verdict});
    return line;
  }

  std::string name_of(const Moment& moment) const {
    const auto found = names_.find(moment.source);
    return found == names_.end() ? "" : found->second;
  }

  std::string when(const std::string& time) const {
    return escaped(with_minutes_ ? minute_of(time) : day_of(time), TextStyle::terminal);
  }

  // Minutes only where days do not tell campaigns apart.
  void find_times() {
    std::set<std::string> days, minutes;
    for (const Moment& moment : history_.moments) {
      has_times_ = has_times_ || !moment.time.empty();
      days.insert(day_of(moment.time));
      minutes.insert(minute_of(moment.time));
    }
    with_minutes_ = minutes.size() > days.size();
  }

  // Without the folder that all are in.
  void find_names(std::size_t columns) {
    constexpr std::size_t kNarrowest = 16;
    std::vector<std::string> names;
    for (const Moment& moment : history_.moments) {
      names.push_back(without_file(moment.source));
    }
    const std::size_t folder = names.size() > 1 ? common_part(names, "/") : 0;
    for (std::string& name : names) {
      name = escaped(name.substr(folder), TextStyle::terminal);
    }
    names = fitted(names, std::max(columns, kNarrowest));
    for (std::size_t i = 0; i < names.size(); ++i) {
      names_[history_.moments[i].source] = names[i];
    }
  }

  const CellHistory& history_;
  bool has_times_ = false, with_minutes_ = false;
  std::map<std::string, std::string> names_; // of sources
};

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

std::string render_history(const std::vector<CellHistory>& cells,
                           const std::vector<std::string>& edited, const std::string& order,
                           TextStyle style) {
  std::set<std::string> sources;
  for (const CellHistory& history : cells) {
    std::ranges::transform(history.moments, std::inserter(sources, sources.end()), &Moment::source);
  }
  std::string text, changed;
  std::size_t followed = 0, changes = 0;
  for (const CellHistory& history : cells) {
    if (history.moments.size() == 1 && sources.size() > 1) {
      continue;
    }
    ++followed;
    const Rows rows(history);
    const std::string name = shortened(escaped(history.shown, TextStyle::terminal), kWidth - 2);
    text += name + "\n" + rows.table(style) + rows.reasons() + "\n";
    changed += rows.changes("  " + name + "\n", changes, style);
  }
  text +=
      fmt::format("{} cell{}, {} change{} (>)\n", followed, followed == 1 ? "" : "s", changes,
                  changes == 1 ? "" : "s") +
      changed +
      (changes > kMostChanges ? fmt::format("  and {} more above\n", changes - kMostChanges) : "");
  if (const std::size_t alone = cells.size() - followed; alone > 0) {
    text += fmt::format("left out: {} cell{} that only one campaign has (--json has {})\n", alone,
                        alone == 1 ? "" : "s", alone == 1 ? "it" : "them");
  }
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
                    {"time", moment.time.empty() ? json() : json(moment.time)},
                    {"verdict", moment.verdict},
                    {"message", moment.message},
                    {"ms", nullptr}};
      if (moment.ms > 0.0) {
        entry["ms"] = moment.ms;
      }
      if (moment.change) {
        entry["ratio"] = moment.change->ratio;
        entry["interval"] = {moment.change->interval.low, moment.change->interval.high};
        entry["interval_is_range"] = moment.change->is_range;
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
