#include "harness/system/program_folder.hpp"

#include <cstdlib>

namespace clusterbench {

std::filesystem::path program_folder() {
  if (const char* folder = std::getenv("CLUSTERBENCH_FOLDER"); folder != nullptr) {
    return folder;
  }
  return std::filesystem::read_symlink("/proc/self/exe").parent_path();
}

} // namespace clusterbench
