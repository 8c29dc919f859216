// Text that may come from anywhere, for a terminal.
#pragma once

#include <string>
#include <string_view>

namespace clusterbench {

/// What a terminal obeys becomes visible: control characters as \x1b or \u009b, and what turns the
/// direction of a line, ends it or has no width as \u202e. Line ends and tabs stay.
std::string harmless(std::string_view text);

} // namespace clusterbench
