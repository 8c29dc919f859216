// A stream that closes itself. A default-constructed one is the default stream and calls nothing,
// so a variant may hold it as a member before any device is touched.
#pragma once

#include "impls/cuda/support/check.hpp"

#include <cuda_runtime.h>

#include <memory>
#include <type_traits>

namespace clusterbench::cuda {

/// An owned stream. Move-only.
class Stream {
public:
  Stream() = default;
  /// Makes a stream on the current device, by default one that does not wait for the legacy
  /// default stream, nor that for it. Throws std::runtime_error.
  static Stream create(unsigned flags = cudaStreamNonBlocking) {
    cudaStream_t handle = nullptr;
    check(cudaStreamCreateWithFlags(&handle, flags), "cudaStreamCreateWithFlags");
    Stream stream;
    stream.handle_.reset(handle);
    return stream;
  }

  operator cudaStream_t() const { return handle_.get(); }
  /// Waits for all work in the stream. Throws std::runtime_error, also for earlier faults.
  void synchronize() const { check(cudaStreamSynchronize(*this), "cudaStreamSynchronize"); }

private:
  struct Destroy {
    void operator()(cudaStream_t handle) const { static_cast<void>(cudaStreamDestroy(handle)); }
  };
  std::unique_ptr<std::remove_pointer_t<cudaStream_t>, Destroy> handle_;
};

} // namespace clusterbench::cuda
