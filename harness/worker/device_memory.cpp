#include "harness/worker/device_memory.hpp"

#include "harness/system/program_folder.hpp"

#include <dlfcn.h>
#include <stdexcept>

namespace clusterbench {

const DeviceCalls& device_calls() {
  static const DeviceCalls* const calls = [] {
    const auto file = program_folder() / "plugins" / "device.so";
    void* plugin = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (plugin == nullptr) {
      throw std::runtime_error(dlerror());
    }
    const auto found =
        reinterpret_cast<const void* (*)()>(dlsym(plugin, "clusterbench_device_calls"));
    if (found == nullptr) {
      throw std::runtime_error(file.string() + ": holds no calls of a device");
    }
    const auto* const loaded = static_cast<const DeviceCalls*>(found());
    loaded->open(0);
    return loaded;
  }();
  return *calls;
}

} // namespace clusterbench
