// Command lines that a reader may copy into a shell.
#pragma once

#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>

namespace clusterbench {

/// A word of a command line, quoted if a shell would read it as more than a word.
inline std::string quoted_for_shell(const std::string& word) {
  const bool plain = std::ranges::all_of(word, [](unsigned char c) {
    return std::isalnum(c) != 0 ||
           std::string_view("_./+:=,@%-").find(static_cast<char>(c)) != std::string_view::npos;
  });
  if (plain && !word.empty()) {
    return word;
  }
  std::string text = "'";
  for (const char c : word) {
    text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  }
  return text + "'";
}

} // namespace clusterbench
