// Memory of the GPU for the harness, which is built without CUDA: the CUDA build leaves its functions
// here for the program to find.
#pragma once

#include <cstddef>

namespace clusterbench {

/// The harness's own calls of the CUDA runtime. All but `release` throw std::runtime_error with the
/// error's name; all block until the device has finished.
struct DeviceCalls {
  void* (*allocate)(std::size_t bytes) = nullptr;
  void (*release)(void* memory) noexcept = nullptr;
  void (*upload)(void* device, const void* host, std::size_t bytes) = nullptr;
  void (*download)(void* host, const void* device, std::size_t bytes) = nullptr;
  void (*fill)(void* device, unsigned char byte, std::size_t bytes) = nullptr;
  /// Waits for everything on the device, in whatever stream.
  void (*synchronize)() = nullptr;
};

/// Empty calls without a CUDA build.
inline DeviceCalls& device_calls() {
  static DeviceCalls calls;
  return calls;
}

} // namespace clusterbench
