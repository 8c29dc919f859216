// What is no UTF-8: names of files, and words of other programs, may be any bytes.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace clusterbench {

/// The text, with U+FFFD for each byte that is no UTF-8.
inline std::string as_utf8(const std::string& text) {
  using nlohmann::json;
  return json::parse(json(text).dump(-1, ' ', false, json::error_handler_t::replace));
}

/// Whether it is UTF-8 as it stands.
inline bool is_utf8(const std::string& text) {
  return as_utf8(text) == text;
}

} // namespace clusterbench
