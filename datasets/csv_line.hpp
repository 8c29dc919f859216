// One line of a .csv file: its fields, and the numbers in them.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace clusterbench::datasets {

inline constexpr char kBlank = ' '; // as a delimiter: any run of blanks and tabs

/// How the lines of a file are to be read.
struct CsvFormat {
  char delimiter = kBlank;
  std::size_t fields = 0;       // of every line, a label included, empty columns at its end not
  std::size_t empty_at_end = 0; // columns that are empty in every line
  bool labelled = false;        // the last field is a word
};

/// The delimiter of a line of numbers; blanks where there is no other.
char detect_delimiter(std::string_view line);

/// How many of the fields of `line` are numbers; a label does not count.
struct FieldCount {
  std::size_t fields = 0, numbers = 0;
};
FieldCount count_fields(std::string_view line, char delimiter, bool labelled);

/// How many fields at the end of `line` are empty. Blanks delimit none.
std::size_t count_empty_at_end(std::string_view line, char delimiter);

/// Parses a line into `out`, and its last field into `label` when the format has one. Fields may
/// stand in double quotes. Returns what is wrong with it, naming the column from 1, or nothing.
std::string parse_csv_line(std::string_view line, const CsvFormat& format, double* out,
                           std::string_view* label);

} // namespace clusterbench::datasets
