#include "harness/system/harmless.hpp"

#include <fmt/format.h>

namespace clusterbench {
namespace {

unsigned byte_of(char c) {
  return static_cast<unsigned char>(c);
}

bool is_within(unsigned value, unsigned first, unsigned last) {
  return first <= value && value <= last;
}

// The control character that the text begins with in UTF-8, beyond ASCII; 0 if there is none.
unsigned wide_control(std::string_view text) {
  if (text.size() >= 2 && text[0] == '\xc2' && is_within(byte_of(text[1]), 0x80, 0x9f)) {
    return byte_of(text[1]); // C1
  }
  if (text.size() >= 3 && text[0] == '\xe2') {
    const unsigned code = 0x2000 | (byte_of(text[1]) & 0x3f) << 6 | (byte_of(text[2]) & 0x3f);
    if (is_within(code, 0x2028, 0x202e) || is_within(code, 0x2066, 0x2069)) {
      return code; // separators of lines, directions
    }
  }
  return 0;
}

} // namespace

std::string harmless(std::string_view text) {
  std::string shown;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const unsigned byte = byte_of(text[i]);
    if ((byte < 0x20 && text[i] != '\n' && text[i] != '\t') || byte == 0x7f) {
      shown += fmt::format("\\x{:02x}", byte);
    } else if (const unsigned code = wide_control(text.substr(i)); code != 0) {
      shown += fmt::format("\\u{:04x}", code);
      i += code < 0x100 ? 1 : 2; // the other bytes of it
    } else {
      shown += text[i];
    }
  }
  return shown;
}

} // namespace clusterbench
