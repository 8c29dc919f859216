// A rendered table with the notes that belong to it, and how figures in it are written.
#pragma once

#include <cmath>
#include <fmt/format.h>
#include <optional>
#include <string>
#include <vector>

namespace clusterbench {

struct TablePart {
  std::string table;              ///< ended by a newline
  std::vector<std::string> notes; ///< sentences to stand below it
};

/// Four digits, and no exponent before a million; empty for what is not known.
inline std::string figure(std::optional<double> value) {
  if (!value || !std::isfinite(*value)) {
    return {};
  }
  return std::abs(*value) >= 1000.0 && std::abs(*value) < 1e6 ? fmt::format("{:.0f}", *value)
                                                              : fmt::format("{:.4g}", *value);
}

/// One digit after the point; empty for what is not known.
inline std::string percentage(std::optional<double> value) {
  return value && std::isfinite(*value) ? fmt::format("{:.1f}", *value) : std::string();
}

/// Three digits; empty for what is not known.
inline std::string times(std::optional<double> value) {
  if (!value || !std::isfinite(*value)) {
    return {};
  }
  return *value >= 100.0 ? fmt::format("{:.0f}", *value) : fmt::format("{:.3g}", *value);
}

} // namespace clusterbench
