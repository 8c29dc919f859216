// How deep a JSON is nested. What comes from outside is bounded before anything walks over it by
// recursion, such as nlohmann::json::dump(): a megabyte of brackets would overflow the stack.
#pragma once

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

namespace clusterbench {

inline constexpr int kDeepest = 64; ///< of what anybody has to say

/// Whether a text of JSON has more than kDeepest brackets open at once.
inline bool text_nests_too_deeply(std::string_view text) {
  int depth = 0;
  bool in_string = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (in_string) {
      at += c == '\\' ? 1 : 0; // and what it escapes
      in_string = c != '"';
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kDeepest) {
        return true;
      }
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}

/// The same of a value. `most`: levels that are left.
inline bool nests_too_deeply(const nlohmann::json& value, int most = kDeepest) {
  return value.is_structured() &&
         (most == 0 || std::ranges::any_of(value, [&](const nlohmann::json& element) {
            return nests_too_deeply(element, most - 1);
          }));
}

} // namespace clusterbench
