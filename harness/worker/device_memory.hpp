// Memory of the GPU for the runner, which is built without CUDA: a plug-in beside it holds the calls.
#pragma once

#include <cstddef>

namespace clusterbench {

/// The harness's own calls of the CUDA runtime, on the current device. All but `release` throw
/// std::runtime_error with the error's name. All block until the device has finished. Large copies
/// between pageable memory and the device go at the link's rate (staged_copy.hpp).
struct DeviceCalls {
  /// Makes the device's context, and what all other calls need. Whoever loads the plug-in calls it.
  void (*open)() = nullptr;
  void* (*allocate)(std::size_t bytes) = nullptr;
  void (*release)(void* memory) noexcept = nullptr;
  void (*upload)(void* device, const void* host, std::size_t bytes) = nullptr;
  void (*download)(void* host, const void* device, std::size_t bytes) = nullptr;
  void (*fill)(void* device, unsigned char byte, std::size_t bytes) = nullptr;
  /// Waits for everything on the device, in whatever stream.
  void (*synchronize)() = nullptr;
  /// Notes the moment that a stream (null: the default one) reaches; seconds between two of them.
  void* (*mark)(void* stream) = nullptr;
  double (*seconds_between)(void* first_mark, void* second_mark) = nullptr; ///< frees both
};

/// Loads the plug-in at the first call, and makes the context. Throws std::runtime_error where there is none.
const DeviceCalls& device_calls();

} // namespace clusterbench
