#include "harness/system/find_program.hpp"

#include <cstdlib>
#include <sstream>
#include <unistd.h>

namespace clusterbench {

std::filesystem::path find_program(const std::string& name) {
  const char* const path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::filesystem::path candidate = std::filesystem::path(folder) / name;
    if (access(candidate.c_str(), X_OK) == 0) {
      return candidate;
    }
  }
  return {};
}

} // namespace clusterbench
