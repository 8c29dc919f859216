// Where the CUDA backend, if it is built, leaves its probe for the program to find.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>

namespace clusterbench {

/// Measures the limits of the GPU and returns them; empty without a CUDA build. To be called only
/// in a process that may create a device context.
inline std::function<nlohmann::json(bool quick)>& gpu_probe() {
  static std::function<nlohmann::json(bool)> probe;
  return probe;
}

} // namespace clusterbench
