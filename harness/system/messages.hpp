// Messages to the person at the terminal, on standard error.
#pragma once

#include <cstdio>
#include <fmt/format.h>
#include <string>
#include <utility>

namespace clusterbench {

/// Prints to standard error. One that cannot be written, as on a full disk, is ignored: no result is
/// lost for want of a message about it.
template <typename... Arguments>
void say(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  const std::string text = fmt::format(format, std::forward<Arguments>(arguments)...);
  static_cast<void>(std::fwrite(text.data(), 1, text.size(), stderr));
}

} // namespace clusterbench
