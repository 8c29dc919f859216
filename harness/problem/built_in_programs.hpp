// The programs of this build: generated from the folders of impls/ whose files are programs.
#pragma once

#include <span>

namespace clusterbench {

struct BuiltInProgram {
  const char* program;     ///< path in the source tree
  const char* description; ///< its reply to `describe` when this program was built
};

std::span<const BuiltInProgram> built_in_programs();

} // namespace clusterbench
