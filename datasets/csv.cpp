// The .csv reader: one pass counts the lines of every chunk, a second parses all chunks at once,
// each straight into its place.
#include "datasets/decimal.hpp"
#include "datasets/errors.hpp"
#include "datasets/parallel.hpp"
#include "datasets/readers.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <fmt/core.h>
#include <string>
#include <unordered_map>
#include <vector>

namespace clusterbench::datasets {
namespace {

constexpr char kBlank = ' '; // as a delimiter: any run of blanks and tabs

std::string_view trim(std::string_view text) {
  const auto is_space = [](char c) { return c == ' ' || c == '\t' || c == '\r'; };
  while (!text.empty() && is_space(text.front()))
    text.remove_prefix(1);
  while (!text.empty() && is_space(text.back()))
    text.remove_suffix(1);
  return text;
}

/// Cuts the first line off `text`.
std::string_view take_line(std::string_view& text) {
  const std::size_t end = text.find('\n');
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return line;
}

bool has_points(std::string_view line) {
  const std::size_t first = line.find_first_not_of(" \t\r");
  return first != std::string_view::npos && line[first] != '#';
}

/// Cuts the first field off `line`, trimmed; `more` says whether a delimiter followed it.
std::string_view take_field(std::string_view& line, char delimiter, bool& more) {
  const std::size_t end = delimiter == kBlank ? line.find_first_of(" \t") : line.find(delimiter);
  more = end != std::string_view::npos;
  const std::string_view field = trim(line.substr(0, end));
  line.remove_prefix(more ? end + 1 : line.size());
  if (delimiter == kBlank)
    line = trim(line);
  return field;
}

enum class Parsed { number, not_a_number, too_large };

Parsed parse_number(std::string_view field, double& value) {
  if (field.starts_with('+') && !field.starts_with("+-"))
    field.remove_prefix(1); // from_chars takes no plus sign
  const char* const end = field.data() + field.size();
  const auto [stop, error] = std::from_chars(field.data(), end, value);
  if (stop != end || error == std::errc::invalid_argument)
    return Parsed::not_a_number;
  if (error == std::errc::result_out_of_range) { // too large, or so small that it rounds to zero
    value = std::strtod(std::string(field).c_str(), nullptr);
    return std::isinf(value) ? Parsed::too_large : Parsed::number;
  }
  return Parsed::number;
}

/// How the lines of a file are to be read.
struct Format {
  std::string_view name;
  char delimiter = kBlank;
  std::size_t fields = 0; // of every line, a label included
  bool labelled = false;
};

struct Error {
  std::size_t line = 0; // within its chunk, from 0
  std::string message;  // empty: no error
};

/// Parses a line of plain numbers into `out`, and its last field into `label` when the format has
/// one. False when anything is unusual; parse_with_care() then tells what.
bool parse_plain(std::string_view line, const Format& format, double* out,
                 std::string_view* label) {
  line = trim(line);
  const char* at = line.data();
  const char* const end = at + line.size();
  const auto skip_blanks = [&] {
    while (at < end && (*at == ' ' || (*at == '\t' && format.delimiter == kBlank)))
      ++at;
  };
  const std::size_t numbers = format.fields - (format.labelled ? 1 : 0);
  for (std::size_t column = 0; column < numbers; ++column) {
    skip_blanks();
    at = parse_decimal(at, end, out[column]);
    if (at == nullptr)
      return false;
    const char* const after = at;
    skip_blanks();
    if (column + 1 == format.fields)
      break; // nothing may follow
    if (format.delimiter == kBlank ? at == after : at == end || *at++ != format.delimiter)
      return false;
  }
  if (!format.labelled)
    return at == end;
  *label = trim(line.substr(static_cast<std::size_t>(at - line.data())));
  return label->find_first_of(format.delimiter == kBlank
                                  ? std::string_view(" \t")
                                  : std::string_view(&format.delimiter, 1)) ==
         std::string_view::npos;
}

/// The same field by field. Returns the error's message, or nothing.
std::string parse_with_care(std::string_view line, const Format& format, double* out,
                            std::string_view* label) {
  line = trim(line);
  bool more = true;
  std::size_t column = 0;
  for (; more; ++column) {
    const std::string_view field = take_field(line, format.delimiter, more);
    if (column >= format.fields)
      continue; // only counted
    if (format.labelled && column + 1 == format.fields) {
      *label = field;
      continue;
    }
    switch (parse_number(field, out[column])) {
    case Parsed::number:
      break;
    case Parsed::not_a_number:
      return fmt::format("column {}: {}", column + 1,
                         field.empty() ? "an empty field, a number expected"
                                       : fmt::format("'{}' is not a number", field.substr(0, 40)));
    case Parsed::too_large:
      return fmt::format("column {}: '{}' is beyond float64", column + 1, field.substr(0, 40));
    }
  }
  if (column != format.fields)
    return fmt::format("column {}: {} fields, {} expected", std::min(column, format.fields) + 1,
                       column, format.fields);
  return {};
}

/// The delimiter of a line of numbers. A comma comes last, as it may be a decimal point elsewhere.
char detect_delimiter(std::string_view line) {
  line = trim(line);
  for (const char candidate : {';', '|', ',', '\t'})
    if (line.find(candidate) != std::string_view::npos)
      return candidate;
  return kBlank;
}

/// How many of the fields of `line` are numbers; a label does not count.
struct FieldCount {
  std::size_t fields = 0, numbers = 0;
};

FieldCount count_fields(std::string_view line, char delimiter, bool labelled) {
  line = trim(line);
  FieldCount count;
  double ignored = 0;
  for (bool more = true; more; ++count.fields) {
    const std::string_view field = take_field(line, delimiter, more);
    if (!(labelled && !more) && parse_number(field, ignored) != Parsed::not_a_number)
      ++count.numbers;
  }
  return count;
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

/// One stretch of whole lines, and where its points go.
struct Chunk {
  std::string_view text;
  std::size_t lines = 0; // all lines
  std::size_t rows = 0;  // lines with points
  std::size_t first_line = 0;
  std::size_t first_row = 0;
  Error error = {};
};

std::vector<Chunk> split(std::string_view text) {
  constexpr std::size_t kChunk = std::size_t{4} << 20;
  std::vector<Chunk> chunks;
  while (!text.empty()) {
    const std::size_t end = text.find('\n', std::min(kChunk, text.size()) - 1);
    const std::size_t length = end == std::string_view::npos ? text.size() : end + 1;
    chunks.push_back({.text = text.substr(0, length)});
    text.remove_prefix(length);
  }
  return chunks;
}

void count_lines(Chunk& chunk) {
  for (std::string_view text = chunk.text; !text.empty(); ++chunk.lines)
    chunk.rows += has_points(take_line(text)) ? 1 : 0;
}

void parse_chunk(Chunk& chunk, const Format& format, std::size_t cols, std::span<double> points,
                 std::span<std::string_view> words) {
  std::string_view text = chunk.text;
  std::size_t row = chunk.first_row;
  for (std::size_t line_number = 0; !text.empty(); ++line_number) {
    const std::string_view line = take_line(text);
    if (!has_points(line))
      continue;
    double* const out = points.data() + row * cols;
    std::string_view* const word = format.labelled ? &words[row] : nullptr;
    ++row;
    if (parse_plain(line, format, out, word))
      continue;
    std::string message = parse_with_care(line, format, out, word);
    if (!message.empty()) {
      chunk.error = {line_number, std::move(message)};
      return;
    }
  }
}

} // namespace

Array parse_csv(std::string_view text, std::string_view name, ReadOptions options) {
  if (text.starts_with("\xef\xbb\xbf"))
    text.remove_prefix(3); // a byte order mark

  // The first line with content tells the delimiter, unless it holds anything but numbers: then
  // the second tells it, since a header may hold any character.
  std::size_t skipped = 0; // lines before `rest`
  const auto skip_empty = [&](std::string_view& lines) {
    std::size_t count = 0;
    for (std::string_view next = lines; !next.empty() && !has_points(take_line(next)); ++count)
      lines = next;
    return count;
  };
  Format format{.name = name, .labelled = options.last_column_is_label};
  std::string_view rest = text;
  skipped += skip_empty(rest);
  std::string_view after = rest;
  const std::string_view first = take_line(after);
  format.delimiter = detect_delimiter(first);
  FieldCount count = count_fields(first, format.delimiter, format.labelled);
  if (count.numbers + (format.labelled ? 1 : 0) < count.fields) {
    const std::size_t empty = skip_empty(after);
    std::string_view second = after;
    format.delimiter = detect_delimiter(take_line(second));
    count = count_fields(first, format.delimiter, format.labelled);
    if (count.numbers == 0) { // a header
      rest = after;
      skipped += 1 + empty;
    }
  }
  if (rest.empty())
    throw InputError(fmt::format("{}: no points: no line of numbers in {} lines", name, skipped));
  std::string_view peek = rest;
  format.fields = count_fields(take_line(peek), format.delimiter, format.labelled).fields;
  if (format.labelled && format.fields < 2)
    throw InputError(
        fmt::format("{}: line {}: only one column, and that is the label", name, skipped + 1));
  const std::size_t cols = format.fields - (format.labelled ? 1 : 0);

  std::vector<Chunk> chunks = split(rest);
  parallel_blocks(chunks.size(), [&](std::size_t i) { count_lines(chunks[i]); });
  std::size_t rows = 0;
  std::size_t lines = skipped;
  for (Chunk& chunk : chunks) {
    chunk.first_row = rows;
    chunk.first_line = lines;
    rows += chunk.rows;
    lines += chunk.lines;
  }

  Array points = Array::allocate(ElementType::f64, rows, cols, name);
  std::vector<std::string_view> words(format.labelled ? rows : 0);
  const std::span<double> values = points.writable_f64();
  parallel_blocks(chunks.size(),
                  [&](std::size_t i) { parse_chunk(chunks[i], format, cols, values, words); });
  for (const Chunk& chunk : chunks)
    if (!chunk.error.message.empty())
      throw InputError(fmt::format("{}: line {}, {}", name, chunk.first_line + chunk.error.line + 1,
                                   chunk.error.message));
  if (format.labelled)
    points.labels = number_labels(words);
  return points;
}

} // namespace clusterbench::datasets
