#include "datasets/csv_line.hpp"

#include "datasets/decimal.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <fmt/format.h>

namespace clusterbench::datasets {
namespace {

std::string_view trim(std::string_view text) {
  const auto is_space = [](char c) { return c == ' ' || c == '\t' || c == '\r'; };
  while (!text.empty() && is_space(text.front()))
    text.remove_prefix(1);
  while (!text.empty() && is_space(text.back()))
    text.remove_suffix(1);
  return text;
}

/// Where the quoted stretch at the beginning of `text` ends, or npos. Two quotes are one within it.
std::size_t end_of_quoted(std::string_view text) {
  for (std::size_t at = text.find('"', 1); at != std::string_view::npos;
       at = text.find('"', at + 2))
    if (!text.substr(at + 1).starts_with('"'))
      return at + 1;
  return std::string_view::npos;
}

/// Cuts the first field off `line`, trimmed and without its quotes; `more` says whether a delimiter
/// followed it. What stands between quotes is left as it is.
std::string_view take_field(std::string_view& line, char delimiter, bool& more) {
  const std::string_view spaces = delimiter == '\t' ? " \r" : " \t\r";
  line.remove_prefix(std::min(line.find_first_not_of(spaces), line.size()));
  const std::size_t quoted = line.starts_with('"') ? end_of_quoted(line) : 0;
  const std::size_t from = quoted == std::string_view::npos ? 0 : quoted;
  const std::size_t end =
      delimiter == kBlank ? line.find_first_of(" \t", from) : line.find(delimiter, from);
  more = end != std::string_view::npos;
  std::string_view field = trim(line.substr(0, end));
  if (from > 0 && field.size() == from) // nothing but what is quoted
    field = field.substr(1, field.size() - 2);
  line.remove_prefix(more ? end + 1 : line.size());
  if (delimiter == kBlank)
    line = trim(line);
  return field;
}

enum class Parsed { number, not_a_number, too_large };

Parsed parse_number(std::string_view field, double& value) {
  field = trim(field); // between quotes, say
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

/// A field for a message: its beginning, and nothing in it that a terminal would not show.
std::string shown(std::string_view field) {
  std::string text;
  for (const char c : field.substr(0, 40)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f)
      text += fmt::format("\\x{:02x}", byte);
    else
      text += c;
  }
  return text;
}

std::string_view without_empty_end(std::string_view line, const CsvFormat& format) {
  line = trim(line);
  for (std::size_t i = 0; i < format.empty_at_end && line.ends_with(format.delimiter); ++i)
    line = trim(line.substr(0, line.size() - 1));
  return line;
}

/// Parses a line of plain numbers into `out`, and its last field into `label` when the format has
/// one. False when anything is unusual; parse_with_care() then looks closer.
bool parse_plain(std::string_view line, const CsvFormat& format, double* out,
                 std::string_view* label) {
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
  const char unusual[] = {'"', format.delimiter, format.delimiter == kBlank ? '\t' : '"'};
  return label->find_first_of(std::string_view(unusual, sizeof unusual)) == std::string_view::npos;
}

/// The same field by field. Returns the error's message, or nothing.
std::string parse_with_care(std::string_view line, const CsvFormat& format, double* out,
                            std::string_view* label) {
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
                                       : fmt::format("'{}' is not a number", shown(field)));
    case Parsed::too_large:
      return fmt::format("column {}: '{}' is beyond float64", column + 1, shown(field));
    }
  }
  if (column != format.fields)
    return fmt::format("column {}: {} fields, {} expected", std::min(column, format.fields) + 1,
                       column, format.fields);
  return {};
}

} // namespace

// A comma comes last, as it may be a decimal point elsewhere.
char detect_delimiter(std::string_view line) {
  std::string bare; // without what is quoted
  for (std::string_view rest = trim(line); !rest.empty();) {
    const std::size_t quote = rest.find('"');
    bare += rest.substr(0, quote);
    if (quote == std::string_view::npos)
      break;
    rest.remove_prefix(quote);
    rest.remove_prefix(std::min(end_of_quoted(rest), rest.size()));
  }
  for (const char candidate : {';', '|', ',', '\t'})
    if (bare.find(candidate) != std::string::npos)
      return candidate;
  return kBlank;
}

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

std::size_t count_empty_at_end(std::string_view line, char delimiter) {
  if (delimiter == kBlank)
    return 0;
  std::size_t count = 0;
  for (line = trim(line); line.ends_with(delimiter); ++count)
    line = trim(line.substr(0, line.size() - 1));
  return count;
}

std::string parse_csv_line(std::string_view line, const CsvFormat& format, double* out,
                           std::string_view* label) {
  line = without_empty_end(line, format);
  return parse_plain(line, format, out, label) ? std::string()
                                               : parse_with_care(line, format, out, label);
}

} // namespace clusterbench::datasets
