#include "harness/report/cell_table.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <utility>

namespace clusterbench {
namespace {

constexpr std::size_t kWidestName = 40;
constexpr std::size_t kWidth = 100;

struct NameParts {
  std::string problem, variant;
};

// A path may stand in a problem's name; what is no name of a cell stays whole.
NameParts parts_of(const std::string& name) {
  const std::size_t precision = name.rfind('/');
  const std::size_t variant = precision == std::string::npos || precision == 0
                                  ? std::string::npos
                                  : name.rfind('/', precision - 1);
  if (variant == std::string::npos || name.find('/') == variant) {
    return {"", name};
  }
  return {fmt::format("{}, {}", name.substr(0, variant), name.substr(precision + 1)),
          name.substr(variant + 1, precision - variant - 1)};
}

// Of whoever reads no further than the first: what is lost, then what is slower.
int order_of(const std::string& verdict) {
  const Paint paint = paint_of_verdict(verdict);
  return verdict == "slower"     ? 1
         : paint == Paint::wrong ? 0
         : verdict == "same"     ? 4
         : paint == Paint::best  ? 2
                                 : 3;
}

} // namespace

Paint paint_of_verdict(const std::string& verdict) {
  if (verdict == "faster") {
    return Paint::best;
  }
  for (const char* bad : {"slower", "wrong", "failed", "missing", "different_work", "suspicious"}) {
    if (verdict == bad) {
      return Paint::wrong;
    }
  }
  for (const char* mild : {"inconclusive", "not_compared", "absent", "interrupted", "refused"}) {
    if (verdict == mild) {
      return Paint::refused;
    }
  }
  return Paint::plain;
}

std::string count_of_verdicts(const std::vector<std::string>& verdicts, TextStyle style) {
  std::map<std::pair<int, std::string>, int> counts;
  for (const std::string& verdict : verdicts) {
    ++counts[{order_of(verdict), verdict}];
  }
  std::string text;
  for (const auto& [key, count] : counts) {
    text += text.empty() ? "" : ", ";
    text += painted(fmt::format("{} {}", count, key.second), paint_of_verdict(key.second), style);
  }
  return text;
}

std::string cell_tables(const std::vector<TextColumn>& columns, const std::vector<CellLine>& lines,
                        TextStyle style) {
  // in order of appearance
  std::vector<std::pair<std::string, std::vector<const CellLine*>>> problems;
  std::map<std::string, std::size_t> places;
  for (const CellLine& line : lines) {
    const std::string problem = parts_of(line.name).problem;
    const auto [place, is_new] = places.try_emplace(problem, problems.size());
    if (is_new) {
      problems.push_back({problem, {}});
    }
    problems[place->second].second.push_back(&line);
  }
  std::string text;
  for (const auto& [problem, cells] : problems) {
    std::vector<TextColumn> headings = {{problem.empty() ? "cell" : "variant"}};
    headings.insert(headings.end(), columns.begin(), columns.end());
    std::vector<std::vector<std::string>> rows;
    std::vector<Paint> paints;
    std::string reasons;
    for (const CellLine* cell : cells) {
      const std::string name =
          shortened(escaped(parts_of(cell->name).variant, TextStyle::terminal), kWidestName);
      std::vector<std::string>& row = rows.emplace_back(std::vector<std::string>{name});
      row.insert(row.end(), cell->figures.begin(), cell->figures.end());
      paints.push_back(cell->paint);
      if (!cell->reason.empty()) {
        reasons += wrapped(name + ": " + escaped(cell->reason, TextStyle::terminal), "    ");
      }
    }
    text += text.empty() ? "" : "\n";
    if (!problem.empty()) {
      text += fmt::format("{}\n", shortened(escaped(problem, TextStyle::terminal), kWidth));
    }
    text += text_table(headings, rows, style, paints) + reasons;
  }
  return text;
}

} // namespace clusterbench
