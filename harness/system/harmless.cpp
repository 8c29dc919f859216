#include "harness/system/harmless.hpp"

#include <algorithm>
#include <array>
#include <fmt/format.h>

namespace clusterbench {
namespace {

unsigned byte_of(char c) {
  return static_cast<unsigned char>(c);
}

// What a terminal may obey beyond ASCII, or shows nothing of, in UTF-8.
struct Range {
  unsigned first, last;
};
constexpr std::array kObeyed = {
    Range{0x80, 0x9f},       // C1
    Range{0x061c, 0x061c},   // a direction
    Range{0x200b, 0x200b},   // no width
    Range{0x200e, 0x200f},   // directions
    Range{0x2028, 0x202e},   // ends of lines, directions
    Range{0x2066, 0x2069},   // directions
    Range{0xfeff, 0xfeff},   // no width
    Range{0xe0001, 0xe007f}, // tags
};

struct Character {
  unsigned code = 0;
  std::size_t bytes = 0; ///< 0: the text begins with ASCII, or with no UTF-8
};

Character first_of(std::string_view text) {
  const unsigned lead = byte_of(text[0]);
  const std::size_t bytes = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc0 ? 2 : 0;
  if (bytes == 0 || text.size() < bytes) {
    return {};
  }
  unsigned code = lead & (0x7fU >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    code = code << 6 | (byte_of(text[i]) & 0x3f);
  }
  return {code, bytes};
}

bool is_obeyed(unsigned code) {
  return std::ranges::any_of(
      kObeyed, [&](const Range& range) { return range.first <= code && code <= range.last; });
}

} // namespace

std::string harmless(std::string_view text) {
  std::string shown;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const unsigned byte = byte_of(text[i]);
    if ((byte < 0x20 && text[i] != '\n' && text[i] != '\t') || byte == 0x7f) {
      shown += fmt::format("\\x{:02x}", byte);
    } else if (const Character wide = first_of(text.substr(i));
               wide.bytes > 0 && is_obeyed(wide.code)) {
      shown += fmt::format("\\u{:04x}", wide.code);
      i += wide.bytes - 1;
    } else {
      shown += text[i];
    }
  }
  return shown;
}

} // namespace clusterbench
