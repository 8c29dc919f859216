#include "harness/report/text_table.hpp"

#include "harness/system/harmless.hpp"

#include <algorithm>

namespace clusterbench {

std::string painted(const std::string& text, Paint paint, TextStyle style) {
  return style == TextStyle::coloured ? painted(text, paint) : text;
}

std::string escaped(const std::string& text, TextStyle style) {
  std::string shown;
  for (const char c : harmless(text)) {
    if (c == '\n' || c == '\t') {
      shown += ' ';
    } else if (style == TextStyle::markdown && c == '|') {
      shown += "\\|";
    } else if (style == TextStyle::markdown && c == '<') {
      shown += "&lt;";
    } else {
      shown += c;
    }
  }
  return shown;
}

std::string wrapped(const std::string& text, const std::string& indent) {
  constexpr std::size_t kWidth = 100;
  std::string lines, line = indent;
  bool empty = true;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    const std::string word = text.substr(at, end - at);
    if (!empty && width_of(line) + 1 + width_of(word) > kWidth) {
      lines += line + "\n";
      line = indent + "  ";
      empty = true;
    }
    line += (empty ? "" : " ") + word;
    empty = false;
    at = end + 1;
  }
  return lines + line + "\n";
}

std::string text_table(const std::vector<TextColumn>& columns,
                       const std::vector<std::vector<std::string>>& raw_rows, TextStyle style,
                       const std::vector<Paint>& paints) {
  std::vector<std::vector<std::string>> rows = raw_rows;
  for (std::vector<std::string>& row : rows) {
    for (std::string& text : row) {
      text = escaped(text, style);
    }
  }
  std::vector<std::string> headings;
  std::vector<std::size_t> widths;
  for (std::size_t c = 0; c < columns.size(); ++c) {
    headings.push_back(columns[c].heading);
    widths.push_back(width_of(headings[c]));
    for (const std::vector<std::string>& row : rows) {
      widths[c] = std::max(widths[c], width_of(row[c]));
    }
  }
  const bool markdown = style == TextStyle::markdown;
  std::string text;
  const auto put = [&](const std::vector<std::string>& row, Paint paint) {
    std::string line;
    for (std::size_t c = 0; c < columns.size(); ++c) {
      const std::string padding(widths[c] - width_of(row[c]), ' ');
      const bool last = c + 1 == columns.size();
      line += markdown ? (c == 0 ? "| " : " | ") : "  ";
      line += columns[c].number ? padding + row[c] : row[c] + (last && !markdown ? "" : padding);
    }
    text += painted(line, paint, style) + (markdown ? " |\n" : "\n");
  };
  put(headings, Paint::plain);
  if (markdown) {
    for (const TextColumn& column : columns) {
      text += column.number ? "| --: " : "| --- ";
    }
    text += "|\n";
  }
  for (std::size_t r = 0; r < rows.size(); ++r) {
    put(rows[r], r < paints.size() ? paints[r] : Paint::plain);
  }
  return text;
}

} // namespace clusterbench
