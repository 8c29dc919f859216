// Arrays that lie where a variant computes: in host memory or on the device.
#pragma once

#include "harness/run/device_memory.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <limits>
#include <new>
#include <span>
#include <stdexcept>
#include <utility>

namespace clusterbench {

enum class MemoryPlace { host, device };

/// An owned array in one place. Move-only. Everything throws std::bad_alloc or std::runtime_error.
template <typename T>
class PlacedArray {
public:
  PlacedArray() = default;
  PlacedArray(MemoryPlace place, std::size_t size) : place_(place), size_(size) {
    if (size > std::numeric_limits<std::size_t>::max() / sizeof(T)) {
      throw std::bad_alloc();
    }
    if (size == 0) {
      return;
    }
    if (place == MemoryPlace::host) {
      data_ = static_cast<T*>(::operator new(bytes(), kAlignment));
    } else if (device_calls().allocate == nullptr) {
      throw std::logic_error("device memory is asked for, but this program is built without CUDA");
    } else {
      data_ = static_cast<T*>(device_calls().allocate(bytes()));
    }
  }
  PlacedArray(PlacedArray&& other) noexcept { swap(other); }
  PlacedArray& operator=(PlacedArray&& other) noexcept {
    swap(other);
    return *this;
  }
  ~PlacedArray() {
    if (data_ == nullptr) {
      return;
    }
    if (place_ == MemoryPlace::host) {
      ::operator delete(data_, kAlignment);
    } else {
      device_calls().release(data_);
    }
  }

  std::span<T> span() { return {data_, size_}; }
  std::size_t size() const { return size_; }
  std::size_t bytes() const { return size_ * sizeof(T); }

  /// Sets every byte; 0xFF makes integers -1 and floating-point numbers NaN.
  void fill(unsigned char byte) {
    if (size_ == 0) {
      return;
    }
    if (place_ == MemoryPlace::host) {
      std::memset(data_, byte, bytes());
    } else {
      device_calls().fill(data_, byte, bytes());
    }
  }
  void copy_from_host(std::span<const T> source) {
    require_size(source.size());
    if (size_ == 0) {
      return;
    }
    if (place_ == MemoryPlace::host) {
      std::ranges::copy(source, data_);
    } else {
      device_calls().upload(data_, source.data(), bytes());
    }
  }
  void copy_to_host(std::span<T> target) const {
    require_size(target.size());
    if (size_ == 0) {
      return;
    }
    if (place_ == MemoryPlace::host) {
      std::copy_n(data_, size_, target.begin());
    } else {
      device_calls().download(target.data(), data_, bytes());
    }
  }

private:
  static constexpr std::align_val_t kAlignment{64};

  void require_size(std::size_t size) const {
    if (size != size_) {
      throw std::logic_error("arrays of different sizes");
    }
  }
  void swap(PlacedArray& other) noexcept {
    std::swap(place_, other.place_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
  }

  MemoryPlace place_ = MemoryPlace::host;
  T* data_ = nullptr;
  std::size_t size_ = 0;
};

} // namespace clusterbench
