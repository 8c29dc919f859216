// Memory of the GPU for the runner, which is built without CUDA: a plug-in beside it holds the
// calls.
#pragma once

#include <cstddef>
#include <stdexcept>

namespace clusterbench {

/// Thrown by `open` where no device can be used at all: nothing that a variant could change.
struct [[gnu::visibility("default")]] NoDevices : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The harness's own calls of the CUDA runtime; `device` is a number of the runtime, which stays
/// current as it was. All but `release` throw std::runtime_error with the error's name. All block
/// until the device has finished. Large copies between pageable memory and the device go at the
/// link's rate (staged_copy.hpp). Threads may copy at the same time, to one device one after
/// another.
struct DeviceCalls {
  /// Makes the device's context, and what all other calls need, unless that has been done. Not for
  /// two threads. Whoever loads the plug-in opens the first device.
  void (*open)(int device) = nullptr;
  void* (*allocate)(int device, std::size_t bytes) = nullptr;
  void (*release)(int device, void* memory) noexcept = nullptr;
  void (*upload)(int device, void* to, const void* host, std::size_t bytes) = nullptr;
  void (*download)(int device, void* host, const void* from, std::size_t bytes) = nullptr;
  void (*fill)(int device, void* memory, unsigned char byte, std::size_t bytes) = nullptr;
  /// Waits for everything on all devices that are open, in whatever stream.
  void (*synchronize)() = nullptr;
  /// Notes the moment that a stream (null: the default one) reaches; seconds between two of them.
  void* (*mark)(void* stream) = nullptr;
  double (*seconds_between)(void* first_mark, void* second_mark) = nullptr; ///< frees both
  /// Takes memory of the device until no more than `bytes` are free, and keeps it to the process's
  /// end.
  void (*leave_free)(int device, std::size_t bytes) = nullptr;
  std::size_t (*free_bytes)(int device) = nullptr;
};

/// Loads the plug-in at the first call, and opens the first device. Throws std::runtime_error where
/// there is none.
const DeviceCalls& device_calls();

} // namespace clusterbench
