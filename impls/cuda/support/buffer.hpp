// Memory that frees itself: on the device, and page-locked on the host. Move-only; sizes count
// elements, in 64 bits.
#pragma once

#include "impls/cuda/support/check.hpp"

#include <cuda_runtime.h>

#include <cstddef>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

namespace clusterbench::cuda {

/// size * sizeof(T) in bytes. Throws std::runtime_error if that overflows.
template <typename T>
std::size_t bytes_of(std::size_t size) {
  if (size > std::numeric_limits<std::size_t>::max() / sizeof(T)) {
    throw std::runtime_error("a buffer of " + std::to_string(size) + " elements overflows");
  }
  return size * sizeof(T);
}

/// An owned array in device memory, not initialised. An empty one calls nothing.
template <typename T>
class DeviceBuffer {
  static_assert(std::is_trivially_copyable_v<T>);

public:
  DeviceBuffer() = default;
  /// Throws std::runtime_error, with the error's name, if the memory is not there.
  explicit DeviceBuffer(std::size_t size) : size_(size) {
    if (size > 0) {
      check(cudaMalloc(&data_, bytes_of<T>(size)),
            "cudaMalloc of " + std::to_string(bytes_of<T>(size)) + " bytes");
    }
  }
  DeviceBuffer(DeviceBuffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~DeviceBuffer() {
    if (data_ != nullptr) {
      static_cast<void>(cudaFree(data_)); // a destructor has nobody to tell
    }
  }

  T* data() { return data_; }
  const T* data() const { return data_; }
  std::size_t size() const { return size_; }
  std::size_t bytes() const { return size_ * sizeof(T); }

  /// Copies the whole of `source` to the front, in the order of `stream`; blocks until it is there.
  void upload(std::span<const T> source, cudaStream_t stream = nullptr) {
    require_room(source.size());
    check(
        cudaMemcpyAsync(data_, source.data(), source.size_bytes(), cudaMemcpyHostToDevice, stream),
        "cudaMemcpyAsync to the device");
    check(cudaStreamSynchronize(stream), "cudaStreamSynchronize after an upload");
  }
  /// Copies as many elements as `target` takes from the front; blocks until they are there.
  void download(std::span<T> target, cudaStream_t stream = nullptr) const {
    require_room(target.size());
    check(
        cudaMemcpyAsync(target.data(), data_, target.size_bytes(), cudaMemcpyDeviceToHost, stream),
        "cudaMemcpyAsync to the host");
    check(cudaStreamSynchronize(stream), "cudaStreamSynchronize after a download");
  }
  /// Copies all of `source` on the device, in the order of `stream`; does not block.
  void copy_from(const DeviceBuffer& source, cudaStream_t stream) {
    require_room(source.size());
    check(cudaMemcpyAsync(data_, source.data_, source.bytes(), cudaMemcpyDeviceToDevice, stream),
          "cudaMemcpyAsync on the device");
  }
  /// Sets every byte to zero, in the order of `stream`; does not block.
  void zero(cudaStream_t stream) { fill_bytes(0, stream); }
  /// Sets every byte to `byte`; 0xFF makes every signed integer -1. Does not block.
  void fill_bytes(unsigned char byte, cudaStream_t stream) {
    check(cudaMemsetAsync(data_, byte, bytes(), stream), "cudaMemsetAsync");
  }

private:
  void require_room(std::size_t size) const {
    if (size > size_) {
      throw std::runtime_error("a device buffer of " + std::to_string(size_) +
                               " elements has no room for " + std::to_string(size));
    }
  }

  T* data_ = nullptr;
  std::size_t size_ = 0;
};

/// An owned page-locked array on the host, which the device copies to and from without staging.
template <typename T>
class PinnedBuffer {
  static_assert(std::is_trivially_copyable_v<T>);

public:
  PinnedBuffer() = default;
  /// Throws std::runtime_error. The memory is not initialised.
  explicit PinnedBuffer(std::size_t size) : size_(size) {
    if (size > 0) {
      check(cudaMallocHost(&data_, bytes_of<T>(size)),
            "cudaMallocHost of " + std::to_string(bytes_of<T>(size)) + " bytes");
    }
  }
  PinnedBuffer(PinnedBuffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  PinnedBuffer& operator=(PinnedBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~PinnedBuffer() {
    if (data_ != nullptr) {
      static_cast<void>(cudaFreeHost(data_));
    }
  }

  T* data() { return data_; }
  const T* data() const { return data_; }
  std::size_t size() const { return size_; }
  T& operator[](std::size_t index) { return data_[index]; }
  const T& operator[](std::size_t index) const { return data_[index]; }
  std::span<T> span() { return {data_, size_}; }
  std::span<const T> span() const { return {data_, size_}; }

private:
  T* data_ = nullptr;
  std::size_t size_ = 0;
};

} // namespace clusterbench::cuda
