#include "harness/system/terminal.hpp"

#include <algorithm>
#include <cstdlib>
#include <fmt/format.h>
#include <string_view>
#include <sys/ioctl.h>
#include <unistd.h>

namespace clusterbench {
namespace {

std::string_view variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool begins_character(char c) {
  return (c & 0xC0) != 0x80;
}

// Where the character with this number begins, in bytes.
std::size_t place_of(const std::string& text, std::size_t number) {
  std::size_t at = 0;
  for (std::size_t seen = 0; at < text.size(); ++at) {
    if (begins_character(text[at]) && seen++ == number) {
      break;
    }
  }
  return at;
}

} // namespace

bool takes_colours(int descriptor) {
  return can_erase_lines(descriptor) && variable("NO_COLOR").empty();
}

bool can_erase_lines(int descriptor) {
  const std::string_view terminal = variable("TERM");
  return isatty(descriptor) != 0 && !terminal.empty() && terminal != "dumb";
}

std::size_t columns_of(int descriptor) {
  winsize size{};
  return ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 100;
}

std::string painted(const std::string& text, Paint paint) {
  switch (paint) {
  case Paint::plain:
    return text;
  case Paint::best:
    return fmt::format("\033[1;32m{}\033[0m", text);
  case Paint::wrong:
    return fmt::format("\033[1;31m{}\033[0m", text);
  case Paint::refused:
    return fmt::format("\033[33m{}\033[0m", text);
  }
  return text;
}

std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, begins_character));
}

std::string shortened(const std::string& text, std::size_t columns) {
  const std::size_t width = width_of(text);
  if (width <= columns || columns == 0) {
    return columns == 0 ? std::string() : text;
  }
  const std::size_t end = (columns - 1) / 2;
  return text.substr(0, place_of(text, columns - 1 - end)) + "…" +
         text.substr(place_of(text, width - end));
}

} // namespace clusterbench
