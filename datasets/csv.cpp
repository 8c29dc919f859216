// The .csv reader: one pass counts the lines of every chunk, a second parses all chunks at once,
// each straight into its place.
#include "datasets/csv_line.hpp"
#include "datasets/errors.hpp"
#include "datasets/parallel.hpp"
#include "datasets/readers.hpp"

#include <algorithm>
#include <charconv>
#include <fmt/core.h>
#include <limits>
#include <string>
#include <unordered_map>
#include <vector>

namespace clusterbench::datasets {
namespace {

/// Cuts the first line off `text`.
std::string_view take_line(std::string_view& text, char line_end) {
  const std::size_t end = text.find(line_end);
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return line;
}

bool has_points(std::string_view line) {
  const std::size_t first = line.find_first_not_of(" \t\r");
  return first != std::string_view::npos && line[first] != '#';
}

/// Whole numbers as they are; otherwise every distinct word gets the next number.
std::vector<std::int64_t> number_labels(const std::vector<std::string_view>& words) {
  std::vector<std::int64_t> labels(words.size());
  const auto parse = [&](std::size_t i) {
    const char* const end = words[i].data() + words[i].size();
    const auto [stop, error] = std::from_chars(words[i].data(), end, labels[i]);
    return stop == end && error == std::errc();
  };
  std::size_t i = 0;
  while (i < words.size() && parse(i))
    ++i;
  if (i == words.size())
    return labels;
  std::unordered_map<std::string_view, std::int64_t> numbers;
  for (i = 0; i < words.size(); ++i)
    labels[i] =
        numbers.try_emplace(words[i], static_cast<std::int64_t>(numbers.size())).first->second;
  return labels;
}

/// A text and what its lines have in common.
struct Text {
  std::string_view name;
  char line_end;
  CsvFormat format;
};

/// One stretch of whole lines, and where its points go.
struct Chunk {
  std::string_view text;
  std::size_t lines = 0; // all lines
  std::size_t rows = 0;  // lines with points
  std::size_t first_line = 0;
  std::size_t first_row = 0;
  std::size_t empty_at_end = std::numeric_limits<std::size_t>::max(); // the least of its rows
  bool has_nul = false;
  std::size_t error_line = 0; // from 0, within the chunk
  std::string error = {};     // empty: none
};

std::vector<Chunk> split(std::string_view text, char line_end) {
  constexpr std::size_t kChunk = std::size_t{4} << 20;
  std::vector<Chunk> chunks;
  while (!text.empty()) {
    const std::size_t end = text.find(line_end, std::min(kChunk, text.size()) - 1);
    const std::size_t length = end == std::string_view::npos ? text.size() : end + 1;
    chunks.push_back({.text = text.substr(0, length)});
    text.remove_prefix(length);
  }
  return chunks;
}

void count_lines(Chunk& chunk, const Text& file) {
  chunk.has_nul = chunk.text.find('\0') != std::string_view::npos;
  for (std::string_view text = chunk.text; !text.empty(); ++chunk.lines) {
    const std::string_view line = take_line(text, file.line_end);
    if (!has_points(line))
      continue;
    ++chunk.rows;
    chunk.empty_at_end =
        std::min(chunk.empty_at_end, count_empty_at_end(line, file.format.delimiter));
  }
}

void parse_chunk(Chunk& chunk, const Text& file, std::size_t cols, std::span<double> points,
                 std::span<std::string_view> words) {
  std::string_view text = chunk.text;
  std::size_t row = chunk.first_row;
  for (std::size_t line_number = 0; !text.empty(); ++line_number) {
    const std::string_view line = take_line(text, file.line_end);
    if (!has_points(line))
      continue;
    std::string_view* const word = file.format.labelled ? &words[row] : nullptr;
    chunk.error = parse_csv_line(line, file.format, points.data() + row * cols, word);
    if (!chunk.error.empty()) {
      chunk.error_line = line_number;
      return;
    }
    ++row;
  }
}

/// Throws for what is no text of single bytes or UTF-8. lines: before `text`.
void refuse_nul(std::string_view text, std::size_t lines, const Text& file) {
  const std::size_t nul = text.find('\0');
  if (nul == std::string_view::npos)
    return;
  lines += static_cast<std::size_t>(std::ranges::count(text.substr(0, nul), file.line_end));
  throw InputError(fmt::format("{}: line {} holds a NUL byte, so it is no text, or one in UTF-16 "
                               "or UTF-32: save it as UTF-8",
                               file.name, lines + 1));
}

/// Finds the delimiter, and cuts off what stands before the first line of points. Returns the
/// number of lines cut off.
std::size_t skip_header(std::string_view& rest, Text& file) {
  // The first line with content tells the delimiter, unless it holds anything but numbers: then
  // the second tells it, since a header may hold any character.
  const auto skip_empty = [&](std::string_view& lines) {
    std::size_t count = 0;
    for (std::string_view next = lines;
         !next.empty() && !has_points(take_line(next, file.line_end)); ++count)
      lines = next;
    return count;
  };
  CsvFormat& format = file.format;
  std::size_t skipped = skip_empty(rest);
  std::string_view after = rest;
  const std::string_view first = take_line(after, file.line_end);
  format.delimiter = detect_delimiter(first);
  FieldCount count = count_fields(first, format.delimiter, format.labelled);
  if (count.numbers + (format.labelled ? 1 : 0) < count.fields) {
    const std::size_t empty = skip_empty(after);
    std::string_view second = after;
    format.delimiter = detect_delimiter(take_line(second, file.line_end));
    count = count_fields(first, format.delimiter, format.labelled);
    if (count.numbers == 0) { // a header
      rest = after;
      skipped += 1 + empty;
    }
  }
  return skipped;
}

/// What all lines have in common, but for the delimiter, which skip_header() finds. Cuts a byte
/// order mark off.
Text describe(std::string_view& text, std::string_view name, ReadOptions options) {
  if (text.starts_with("\xef\xbb\xbf"))
    text.remove_prefix(3);
  // Macs of old ended lines with a carriage return alone.
  const bool has_line_feeds = text.find('\n') != std::string_view::npos;
  return {.name = name,
          .line_end = has_line_feeds ? '\n' : '\r',
          .format = {.labelled = options.last_column_is_label}};
}

} // namespace

std::size_t csv_line_of_row(std::string_view text, std::string_view name, std::size_t row) {
  Text file = describe(text, name, {});
  std::size_t line = skip_header(text, file) + 1;
  for (; !text.empty(); ++line)
    if (has_points(take_line(text, file.line_end)) && row-- == 0)
      break;
  return line;
}

Array parse_csv(std::string_view text, std::string_view name, ReadOptions options) {
  if (text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff"))
    throw InputError(fmt::format("{}: line 1 begins as UTF-16 does: save it as UTF-8", name));
  Text file = describe(text, name, options);
  CsvFormat& format = file.format;
  std::string_view rest = text;
  const std::size_t skipped = skip_header(rest, file);
  refuse_nul(text.substr(0, text.size() - rest.size()), 0, file);
  if (rest.empty())
    throw InputError(fmt::format("{}: no points: no line of numbers in {} lines", name, skipped));

  std::vector<Chunk> chunks = split(rest, file.line_end);
  parallel_blocks(chunks.size(), [&](std::size_t i) { count_lines(chunks[i], file); });
  std::size_t rows = 0;
  std::size_t lines = skipped;
  format.empty_at_end = chunks.front().empty_at_end;
  for (Chunk& chunk : chunks) {
    chunk.first_row = rows;
    chunk.first_line = lines;
    rows += chunk.rows;
    lines += chunk.lines;
    format.empty_at_end = std::min(format.empty_at_end, chunk.empty_at_end);
    if (chunk.has_nul)
      refuse_nul(chunk.text, chunk.first_line, file);
  }

  std::string_view peek = rest;
  format.fields =
      count_fields(take_line(peek, file.line_end), format.delimiter, format.labelled).fields -
      format.empty_at_end;
  if (format.labelled && format.fields < 2)
    throw InputError(
        fmt::format("{}: line {}: only one column, and that is the label", name, skipped + 1));
  const std::size_t cols = format.fields - (format.labelled ? 1 : 0);
  Array points = Array::allocate(ElementType::f64, rows, cols, name);
  std::vector<std::string_view> words(format.labelled ? rows : 0);
  const std::span<double> values = points.writable_f64();
  parallel_blocks(chunks.size(),
                  [&](std::size_t i) { parse_chunk(chunks[i], file, cols, values, words); });
  for (const Chunk& chunk : chunks)
    if (!chunk.error.empty())
      throw InputError(fmt::format("{}: line {}, {}", name, chunk.first_line + chunk.error_line + 1,
                                   chunk.error));
  if (format.labelled)
    points.labels = number_labels(words);
  return points;
}

} // namespace clusterbench::datasets
