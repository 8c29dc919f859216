// The probe of the GPU, a plug-in where CUDA is built.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace clusterbench {

/// Whether the build has it.
bool has_gpu_probe();

/// Measures the limits of the GPU. To be called only in a process that may create a device context.
/// Throws std::runtime_error.
nlohmann::json measure_gpu(bool quick);

} // namespace clusterbench
