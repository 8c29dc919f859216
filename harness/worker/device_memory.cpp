#include "harness/worker/device_memory.hpp"

#include "harness/worker/plugin.hpp"

namespace clusterbench {

const DeviceCalls& device_calls() {
  static const DeviceCalls* const calls = [] {
    const auto* const loaded =
        static_cast<const DeviceCalls*>(calls_of_plugin("device", "clusterbench_device_calls"));
    loaded->open(0);
    return loaded;
  }();
  return *calls;
}

} // namespace clusterbench
