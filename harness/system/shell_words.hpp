// Command lines that a reader may copy into a shell.
#pragma once

#include <algorithm>
#include <cctype>
#include <fmt/format.h>
#include <string>
#include <string_view>

namespace clusterbench {

/// $'...' of bash, ksh and zsh, in which a control character is written as three digits.
inline std::string quoted_with_escapes(const std::string& word) {
  std::string text = "$'";
  for (const char c : word) {
    const auto byte = static_cast<unsigned char>(c);
    text += std::iscntrl(byte) != 0  ? fmt::format("\\{:03o}", byte)
            : c == '\'' || c == '\\' ? fmt::format("\\{}", c)
                                     : std::string(1, c);
  }
  return text + "'";
}

/// A word of a command line, quoted if a shell would read it as more than a word.
inline std::string quoted_for_shell(const std::string& word) {
  const bool plain = std::ranges::all_of(word, [](unsigned char c) {
    return std::isalnum(c) != 0 ||
           std::string_view("_./+:=,@%-").find(static_cast<char>(c)) != std::string_view::npos;
  });
  if (plain && !word.empty()) {
    return word;
  }
  if (std::ranges::any_of(word, [](unsigned char c) { return std::iscntrl(c) != 0; })) {
    return quoted_with_escapes(word);
  }
  std::string text = "'";
  for (const char c : word) {
    text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  }
  return text + "'";
}

} // namespace clusterbench
