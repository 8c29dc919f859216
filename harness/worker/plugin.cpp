#include "harness/worker/plugin.hpp"

#include "harness/system/program_folder.hpp"

#include <stdexcept>
#include <string>

namespace clusterbench {

const void* calls_of_plugin(const char* name, const char* symbol, int scope) {
  const auto file = program_folder() / "plugins" / (std::string(name) + ".so");
  void* plugin = dlopen(file.c_str(), RTLD_NOW | scope);
  if (plugin == nullptr) {
    throw std::runtime_error(dlerror());
  }
  const auto found = reinterpret_cast<const void* (*)()>(dlsym(plugin, symbol));
  if (found == nullptr) {
    throw std::runtime_error(file.string() + ": holds no " + symbol);
  }
  return found();
}

} // namespace clusterbench
