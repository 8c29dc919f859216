// Messages to the person at the terminal, on standard error.
#pragma once

#include "harness/system/harmless.hpp"

#include <cstdio>
#include <fmt/format.h>
#include <string>
#include <string_view>
#include <utility>

namespace clusterbench {

/// 1536 MiB, 2.5 GiB: as --memory takes them.
inline std::string bytes_text(std::size_t bytes) {
  const double mebibytes = static_cast<double>(bytes) / (1 << 20);
  return mebibytes < 2048.0 ? fmt::format("{:.0f} MiB", mebibytes)
                            : fmt::format("{:.1f} GiB", mebibytes / 1024.0);
}

/// Whether the terminal's last line is one that draw_line() has left there.
inline bool g_line_is_drawn = false;

/// Takes a drawn line away. Whoever prints does so first, so that nothing is written behind it.
inline void erase_line() {
  if (g_line_is_drawn) {
    static_cast<void>(std::fputs("\r\033[K", stderr));
    g_line_is_drawn = false;
  }
}

/// A line that will be erased, on a terminal that can: nothing follows it, and it is in place of
/// the one before. It must be shorter than the terminal is wide, because only one line of it can be
/// erased.
inline void draw_line(std::string_view text) {
  const std::string shown = fmt::format("\r{}\033[K", harmless(text));
  static_cast<void>(std::fwrite(shown.data(), 1, shown.size(), stderr));
  static_cast<void>(std::fflush(stderr));
  g_line_is_drawn = true;
}

/// Prints to standard error. One that cannot be written, as on a full disk, is ignored: no result
/// is lost for want of a message about it.
template <typename... Arguments>
void say(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  const std::string text = harmless(fmt::format(format, std::forward<Arguments>(arguments)...));
  erase_line();
  static_cast<void>(std::fwrite(text.data(), 1, text.size(), stderr));
}

/// Prints lines of text, names of files in them, to standard output. Throws as fmt::print does.
template <typename... Arguments>
void tell(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  fmt::print("{}", harmless(fmt::format(format, std::forward<Arguments>(arguments)...)));
}

} // namespace clusterbench
