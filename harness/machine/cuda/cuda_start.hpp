// Why CUDA does not start on a machine whose driver lists a GPU, in words that say what to do.
#pragma once

#include <cuda_runtime.h>

#include <string>

namespace clusterbench {

/// What is wrong, as far as the error of the first call says.
inline const char* what_keeps_cuda(cudaError_t error) {
  switch (error) {
  case cudaErrorNoDevice:
    return "it finds no GPU that it can use";
  case cudaErrorInsufficientDriver:
    return "the driver is too old for this build";
  case cudaErrorSystemDriverMismatch:
    return "libcuda.so.1 is not of the driver that the kernel has loaded; after an update of the "
           "driver the machine must be restarted";
  case cudaErrorCompatNotSupportedOnDevice:
    return "libcuda.so.1 is of a compatibility package, which does not serve this GPU";
  case cudaErrorSystemNotReady:
    return "the machine is not ready; on machines with NVSwitch the NVIDIA fabric manager must run";
  case cudaErrorStubLibrary:
    return "libcuda.so.1 is the toolkit's stub, not the driver's library";
  default:
    return "the driver does not say why; often its kernel module nvidia_uvm is not loaded";
  }
}

inline std::string cuda_version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

/// Empty if CUDA has started, with `devices` that it can use. Makes no device's context.
inline std::string cuda_does_not_start(int& devices) {
  devices = 0;
  cudaError_t error = cudaGetDeviceCount(&devices);
  if (error == cudaSuccess && devices == 0) {
    error = cudaErrorNoDevice;
  }
  if (error == cudaSuccess) {
    return {};
  }
  int driver = 0, runtime = 0; // both are told without a start
  static_cast<void>(cudaDriverGetVersion(&driver));
  static_cast<void>(cudaRuntimeGetVersion(&runtime));
  return std::string("CUDA does not start: ") + what_keeps_cuda(error) + " (" +
         cudaGetErrorName(error) + "; the driver supports CUDA " + cuda_version_text(driver) +
         ", the build has CUDA " + cuda_version_text(runtime) + ")";
}

} // namespace clusterbench
