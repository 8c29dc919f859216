// Turns CUDA error codes into exceptions that say where, what and why.
#pragma once

#include <cuda_runtime.h>

#include <source_location>
#include <stdexcept>
#include <string>
#include <string_view>

namespace clusterbench::cuda {

/// Throws std::runtime_error with file, line, the call and the error's name unless `error` is none.
inline void check(cudaError_t error, std::string_view call,
                  std::source_location where = std::source_location::current()) {
  if (error == cudaSuccess) {
    return;
  }
  // Clears an error that is not sticky, so that it is reported once and not again by a later check.
  static_cast<void>(cudaGetLastError());
  throw std::runtime_error(std::string(where.file_name()) + ":" + std::to_string(where.line()) +
                           ": " + std::string(call) + " failed: " + cudaGetErrorName(error) + " (" +
                           cudaGetErrorString(error) + ")");
}

/// Throws std::runtime_error if the kernel just launched was refused; does not wait for it.
inline void check_launch(std::string_view kernel,
                         std::source_location where = std::source_location::current()) {
  check(cudaGetLastError(), kernel, where);
}

} // namespace clusterbench::cuda
