// What the library says of a JSON that does not fit, without its own name for it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace clusterbench {

/// "key 'context' not found" of "[json.exception.out_of_range.403] key 'context' not found".
inline std::string words_of(const nlohmann::json::exception& error) {
  const std::string text = error.what();
  const std::size_t end = text.starts_with('[') ? text.find("] ") : std::string::npos;
  return end == std::string::npos ? text : text.substr(end + 2);
}

} // namespace clusterbench
