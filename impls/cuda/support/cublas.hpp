// A cuBLAS handle that closes itself, and cuBLAS status codes as exceptions.
#pragma once

#include <cublas_v2.h>

#include <source_location>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace clusterbench::cuda {

/// Throws std::runtime_error with file, line, the call and the status' name unless all is well.
inline void check_cublas(cublasStatus_t status, std::string_view call,
                         std::source_location where = std::source_location::current()) {
  if (status != CUBLAS_STATUS_SUCCESS) {
    throw std::runtime_error(std::string(where.file_name()) + ":" + std::to_string(where.line()) +
                             ": " + std::string(call) + " failed: " + cublasGetStatusName(status));
  }
}

/// An owned cuBLAS handle. Move-only; a default-constructed one is empty and calls nothing.
class Cublas {
public:
  Cublas() = default;
  /// Makes a handle that works in `stream`, which must outlive it. Throws std::runtime_error.
  static Cublas create(cudaStream_t stream) {
    Cublas cublas;
    check_cublas(cublasCreate(&cublas.handle_), "cublasCreate");
    check_cublas(cublasSetStream(cublas.handle_, stream), "cublasSetStream");
    return cublas;
  }
  Cublas(Cublas&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Cublas& operator=(Cublas&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Cublas() {
    if (handle_ != nullptr) {
      static_cast<void>(cublasDestroy(handle_)); // a destructor has nobody to tell
    }
  }

  operator cublasHandle_t() const { return handle_; }

private:
  cublasHandle_t handle_ = nullptr;
};

} // namespace clusterbench::cuda
