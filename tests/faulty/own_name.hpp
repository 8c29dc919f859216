// One shared object under many names holds many variants of the tests: it registers the one whose
// name its file has.
#pragma once

#include <dlfcn.h>
#include <filesystem>
#include <string>

namespace clusterbench {

/// The file that this module was loaded from.
inline std::filesystem::path own_file() {
  Dl_info info{};
  dladdr(reinterpret_cast<const void*>(&own_file), &info);
  return info.dli_fname;
}

inline std::string own_name() {
  return own_file().stem().string();
}

} // namespace clusterbench
