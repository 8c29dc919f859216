// An array on huge pages where the kernel grants them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <new>
#include <span>
#include <sys/mman.h>

namespace clusterbench {

/// Owns a copy of `values` in private anonymous memory that is advised to use huge pages.
/// Throws std::bad_alloc.
template <typename T>
class HugePageArray {
public:
  explicit HugePageArray(std::span<const T> values) : size_(values.size()) {
    if (size_ == 0) {
      return;
    }
    void* address = mmap(nullptr, size_ * sizeof(T), PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (address == MAP_FAILED) {
      throw std::bad_alloc();
    }
    madvise(address, size_ * sizeof(T), MADV_HUGEPAGE); // only advice: a refusal does not matter
    data_ = static_cast<T*>(address);
    std::ranges::copy(values, data_);
  }
  ~HugePageArray() {
    if (data_ != nullptr) {
      munmap(data_, size_ * sizeof(T));
    }
  }
  HugePageArray(const HugePageArray&) = delete;
  HugePageArray& operator=(const HugePageArray&) = delete;

  std::span<const T> span() const { return {data_, size_}; }

private:
  T* data_ = nullptr;
  std::size_t size_ = 0;
};

} // namespace clusterbench
