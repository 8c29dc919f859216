#include "harness/report/text_table.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace clusterbench {
namespace {

// Width on screen: continuation bytes of UTF-8 take no place of their own.
std::size_t width(const std::string& text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; }));
}

} // namespace

std::string escaped(const std::string& text, TextStyle style) {
  std::string shown;
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '\n' || c == '\t') {
      shown += ' ';
    } else if (code < 0x20 || code == 0x7f) {
      shown += fmt::format("\\x{:02x}", code);
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

std::string text_table(const std::vector<TextColumn>& columns,
                       const std::vector<std::vector<std::string>>& raw_rows, TextStyle style) {
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
    widths.push_back(width(headings[c]));
    for (const std::vector<std::string>& row : rows) {
      widths[c] = std::max(widths[c], width(row[c]));
    }
  }
  const bool markdown = style == TextStyle::markdown;
  std::string text;
  const auto put = [&](const std::vector<std::string>& row) {
    for (std::size_t c = 0; c < columns.size(); ++c) {
      const std::string padding(widths[c] - width(row[c]), ' ');
      const bool last = c + 1 == columns.size();
      text += markdown ? (c == 0 ? "| " : " | ") : "  ";
      text += columns[c].number ? padding + row[c] : row[c] + (last && !markdown ? "" : padding);
    }
    text += markdown ? " |\n" : "\n";
  };
  put(headings);
  if (markdown) {
    for (const TextColumn& column : columns) {
      text += column.number ? "| --: " : "| --- ";
    }
    text += "|\n";
  }
  std::ranges::for_each(rows, put);
  return text;
}

} // namespace clusterbench
