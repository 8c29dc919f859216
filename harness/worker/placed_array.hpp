// Arrays that lie where a variant computes: in host memory or on the device.
#pragma once

#include "harness/worker/device_memory.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <limits>
#include <new>
#include <span>
#include <stdexcept>
#include <sys/mman.h>
#include <utility>

namespace clusterbench {

enum class Place { host, device };

/// An owned array in one place. Move-only. In host memory it has pages of its own, huge ones where
/// the kernel grants them, as large arrays of NumPy have. Everything throws std::bad_alloc or
/// std::runtime_error.
template <typename T>
class PlacedArray {
public:
  PlacedArray() = default;
  /// device: which one, for Place::device
  PlacedArray(Place place, std::size_t size, int device = 0)
      : place_(place), device_(device), size_(size) {
    if (size > std::numeric_limits<std::size_t>::max() / sizeof(T)) {
      throw std::bad_alloc();
    }
    if (size == 0) {
      return;
    }
    if (place == Place::device) {
      data_ = static_cast<T*>(device_calls().allocate(device, bytes()));
      return;
    }
    void* address =
        mmap(nullptr, bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (address == MAP_FAILED) {
      throw std::bad_alloc();
    }
    madvise(address, bytes(), MADV_HUGEPAGE); // only advice: a refusal does not matter
    data_ = static_cast<T*>(address);
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
    if (place_ == Place::device) {
      device_calls().release(device_, data_);
    } else {
      munmap(data_, bytes());
    }
  }

  std::span<T> span() { return {data_, size_}; }
  std::span<const T> span() const { return {data_, size_}; }
  std::size_t size() const { return size_; }
  std::size_t bytes() const { return size_ * sizeof(T); }

  /// Sets every byte; 0xFF makes integers -1 and floating-point numbers NaN.
  void fill(unsigned char byte) {
    if (size_ == 0) {
      return;
    }
    if (place_ == Place::device) {
      device_calls().fill(device_, data_, byte, bytes());
    } else {
      std::memset(data_, byte, bytes());
    }
  }
  /// All of it from host memory.
  void copy_from(std::span<const T> source) {
    require_size(source.size());
    copy_from(source, 0);
  }
  /// Elements from `first` on, from host memory.
  void copy_from(std::span<const T> source, std::size_t first) {
    if (source.empty()) {
      return;
    }
    if (first > size_ || source.size() > size_ - first) {
      throw std::logic_error("more than the array has room for");
    }
    if (place_ == Place::device) {
      device_calls().upload(device_, data_ + first, source.data(), source.size_bytes());
    } else {
      std::memcpy(data_ + first, source.data(), source.size_bytes());
    }
  }
  /// To host memory.
  void copy_to(std::span<T> target) const {
    require_size(target.size());
    if (size_ == 0) {
      return;
    }
    if (place_ == Place::device) {
      device_calls().download(device_, target.data(), data_, bytes());
    } else {
      std::memcpy(target.data(), data_, bytes());
    }
  }
  /// In host memory: from now on nobody in this process can write to it, or can again. Writing
  /// where it is forbidden is a fault that ends the process.
  void allow_writing(bool allowed) {
    if (place_ == Place::host && size_ > 0 &&
        mprotect(data_, bytes(), allowed ? PROT_READ | PROT_WRITE : PROT_READ) != 0) {
      throw std::runtime_error("cannot change the protection of an answer's memory");
    }
  }

private:
  void require_size(std::size_t size) const {
    if (size != size_) {
      throw std::logic_error("arrays of different sizes");
    }
  }
  void swap(PlacedArray& other) noexcept {
    std::swap(place_, other.place_);
    std::swap(device_, other.device_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
  }

  Place place_ = Place::host;
  int device_ = 0;
  T* data_ = nullptr;
  std::size_t size_ = 0;
};

} // namespace clusterbench
