// Which folders under impls/ this binary was built with.
#pragma once

#include <span>
#include <string_view>

namespace clusterbench {

struct Backend {
  std::string_view name;           ///< folder under impls/
  std::string_view missing_reason; ///< empty if it is built
};

/// All backends, in alphabetical order of their folders.
std::span<const Backend> backends();

} // namespace clusterbench
