#include "harness/report/compare/history_report.hpp"

#include "harness/report/cell_table.hpp"
#include "harness/report/digits.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <utility>

namespace clusterbench {
namespace {

using nlohmann::json;

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
