// Which folders under impls/ this binary was built with.
#pragma once

#include <span>
#include <string_view>

namespace clusterbench {

struct Backend {
  std::string_view name;           ///< folder under impls/
  std::string_view missing_reason; ///< empty if it is built
  std::string_view missing_files;  ///< stems of its files with spaces between; empty if it is built
};

/// All backends, in alphabetical order of their folders.
std::span<const Backend> backends();

/// The backend that would hold the variant, were it built; nullptr if none would. A file's stem is
/// its variant's name, or what the names of all its variants begin with.
const Backend* missing_backend_of(std::string_view variant);

} // namespace clusterbench
