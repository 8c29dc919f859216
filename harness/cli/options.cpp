#include "harness/cli/options.hpp"

#include "datasets/errors.hpp"
#include "harness/machine/usable_processors.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

namespace clusterbench {

CLI::Validator whole_number() {
  return CLI::Validator(
      [](const std::string& text) -> std::string {
        if (text.starts_with('-')) {
          return text + " is negative";
        }
        std::uint64_t number = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
        if (error == std::errc::result_out_of_range) {
          return text + " is too large";
        }
        return error != std::errc{} || end != text.data() + text.size()
                   ? text + " is no whole number"
                   : "";
      },
      "");
}

TextStyle text_style(bool markdown) {
  return markdown                       ? TextStyle::markdown
         : takes_colours(STDOUT_FILENO) ? TextStyle::coloured
                                        : TextStyle::terminal;
}

void check_threads(int threads) {
  if (threads < 1) {
    throw datasets::InputError(fmt::format("--threads {}: at least 1 is needed", threads));
  }
  if (const int most = most_threads(); threads > most) {
    throw datasets::InputError(
        fmt::format("--threads {}: at most {} are of use on this machine", threads, most));
  }
}

std::vector<Precision> parse_precisions(const std::vector<std::string>& words) {
  std::vector<Precision> precisions;
  for (const std::string& word : words) {
    const Precision precision = parse_precision(word);
    if (std::ranges::find(precisions, precision) == precisions.end()) {
      precisions.push_back(precision);
    }
  }
  return precisions;
}

std::size_t parse_memory(const std::string& option, const std::string& text) {
  constexpr std::size_t kLeast =
      128; // MiB: the program itself, blocks of the file, the judge's sums
  constexpr std::string_view kUnits = "KMG";
  std::size_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  const std::size_t unit = text.empty() ? std::string::npos : kUnits.find(text.back());
  const std::size_t shift = 10 * (unit + 1);
  if (error != std::errc() || unit == std::string::npos || end + 1 != text.data() + text.size() ||
      count > (SIZE_MAX >> shift)) {
    throw datasets::InputError(fmt::format(
        "{} {}: a whole number followed by K, M or G is needed, such as 512M", option, text));
  }
  if (count << shift < kLeast << 20) {
    throw datasets::InputError(fmt::format("{} {}: at least {}M is needed", option, text, kLeast));
  }
  return count << shift;
}

void check_output_names(const CLI::App& command, std::initializer_list<OutputOption> outputs) {
  for (const auto& [option, what] : outputs) {
    if (command.count(option) > 0 && command.get_option(option)->as<std::string>().empty()) {
      throw datasets::InputError(fmt::format("{}: the name of a {} is missing", option, what));
    }
  }
}

std::filesystem::path run_folder(const std::string& out) {
  if (!out.empty()) {
    return out;
  }
  const auto now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  return std::filesystem::path("results") / "runs" /
         fmt::format("{:%Y%m%dT%H%M%SZ}", fmt::gmtime(now));
}

} // namespace clusterbench
