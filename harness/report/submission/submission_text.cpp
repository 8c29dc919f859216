#include "harness/report/submission/submission_text.hpp"

#include "harness/report/digits.hpp"
#include "harness/report/table_part.hpp"
#include "harness/report/text_table.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace clusterbench {
namespace {

using Lines = std::vector<std::vector<std::string>>;

std::string with_interval(const std::optional<TimeFigure>& time) {
  return time ? ms_text(time->ms, time->interval, time->is_range) : "";
}

std::string over_text(const std::optional<OverOther>& over) {
  if (!over) {
    return "";
  }
  const Ratio& ratio = over->ratio;
  return ratio_text(ratio.ratio, ratio.interval, ratio.is_range) + " " + over->variant;
}

std::string name_of(const SubmissionCell& cell) {
  return cell.problem + (cell.precision == "f32" ? "" : " " + cell.precision);
}

std::string times_table(const SubmissionReport& report) {
  std::vector<TextColumn> columns = {
      {"problem", false}, {"ms per iteration", false}, {"whole answer, ms", false}};
  const bool has_bound = std::ranges::any_of(
      report.cells, [](const SubmissionCell& cell) { return cell.percent_of_limit.has_value(); });
  if (has_bound) {
    columns.insert(columns.end(), {{"%", true}, {"of the", false}});
  }
  Lines lines;
  for (const SubmissionCell& cell : report.cells) {
    if (cell.per_iteration) {
      std::vector<std::string>& line = lines.emplace_back();
      line = {name_of(cell), with_interval(cell.per_iteration), with_interval(cell.whole)};
      if (has_bound) {
        line.insert(line.end(), {percent_of_bound_text(cell.percent_of_limit), cell.limit});
      }
    }
  }
  return lines.empty() ? "" : text_table(columns, lines, TextStyle::terminal);
}

std::string places_table(const SubmissionReport& report) {
  Lines lines;
  for (const SubmissionCell& cell : report.cells) {
    if (cell.rank > 0 && cell.over_best) {
      lines.push_back(
          {name_of(cell), fmt::format("{} of {}", cell.rank, cell.ranked),
           over_text(cell.over_best),
           cell.over_next->variant == cell.over_best->variant ? "" : over_text(cell.over_next)});
    }
  }
  return lines.empty() ? ""
                       : text_table({{"problem", false},
                                     {"rank", false},
                                     {"time over the fastest other", false},
                                     {"over the next", false}},
                                    lines, TextStyle::terminal);
}

// Every variant's ms per iteration, a column each.
std::string company_table(const SubmissionReport& report) {
  std::vector<std::string> names;
  for (const SubmissionCell& cell : report.cells) {
    for (const CompanyCell& other : cell.company) {
      if (other.variant != report.variant &&
          std::ranges::find(names, other.variant) == names.end()) {
        names.push_back(other.variant);
      }
    }
  }
  if (names.empty()) {
    return "";
  }
  std::vector<TextColumn> columns = {{"problem", false}};
  for (const std::string& name : names) {
    columns.push_back({name, true});
  }
  Lines lines;
  for (const SubmissionCell& cell : report.cells) {
    std::vector<std::string>& line = lines.emplace_back(1, name_of(cell));
    for (const std::string& name : names) {
      const auto other = std::ranges::find(cell.company, name, &CompanyCell::variant);
      line.push_back(other == cell.company.end() ? ""
                     : other->rank > 0
                         ? ms_text(other->per_iteration->ms, other->per_iteration->interval)
                         : other->verified);
    }
  }
  return text_table(columns, lines, TextStyle::terminal);
}

std::string phases_text(const SubmissionReport& report) {
  std::string text;
  for (const SubmissionCell& cell : report.cells) {
    if (!cell.phases.empty()) {
      std::vector<std::string> shares;
      for (const auto& [name, percent] : cell.phases) {
        shares.push_back(fmt::format("{} {} %", name, percentage(percent)));
      }
      text += wrapped(fmt::format("{}: {}", name_of(cell), fmt::join(shares, ", ")), "  ");
    }
  }
  return text;
}

std::string paragraph(const char* heading, const std::string& text) {
  return text.empty() ? "" : fmt::format("\n{}\n{}", heading, text);
}

// Findings are lines.
std::string indented(const std::string& text) {
  std::string lines;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    lines += wrapped(escaped(text.substr(at, end - at), TextStyle::terminal), "  ");
    at = end + 1;
  }
  return lines;
}

} // namespace

std::string submission_text(const SubmissionReport& report) {
  std::string text = fmt::format("{}: {}\n", report.variant, report.verdict);
  if (!report.message.empty()) {
    text += indented(report.message);
  }
  text += paragraph("Its times, the middle one with its 95 % interval (or all of few):",
                    times_table(report));
  text +=
      report.no_bound.empty() ? "" : wrapped(escaped(report.no_bound, TextStyle::terminal), "  ");
  text += paragraph("Its place, by time per iteration:", places_table(report));
  std::string unranked;
  for (const SubmissionCell& cell : report.cells) {
    if (cell.status == "ok" && cell.rank == 0) {
      unranked += wrapped(fmt::format("{}: {}", name_of(cell), cell.unranked), "  ");
    } else if (cell.status != "ok" && cell.status != report.verdict) {
      unranked +=
          wrapped(escaped(fmt::format("{}: {}: {}", name_of(cell), cell.status, cell.message),
                          TextStyle::terminal),
                  "  ");
    }
  }
  text += paragraph("Not ranked:", unranked);
  text += paragraph("Beside it, ms per iteration:", company_table(report));
  text += paragraph("Where its time goes, in a recorded run:", phases_text(report));
  std::string advice;
  for (const std::string& each : report.advice) {
    advice += wrapped(each, "  ");
  }
  text += paragraph("What to try next:", advice);
  return text;
}

} // namespace clusterbench
