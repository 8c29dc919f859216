// Arrays that begin with a cache line: a register or the row of a tile that lies in two lines costs
// two loads. Large ones lie on huge pages where the kernel grants them, so that addresses need few
// translations and the processor's prefetching is not stopped at every 4 KiB.
#pragma once

#include <cstddef>
#include <new>
#include <vector>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace clusterbench::simd {

template <typename T>
struct AlignedAllocator {
  using value_type = T;

  AlignedAllocator() = default;
  template <typename U>
  AlignedAllocator(const AlignedAllocator<U>& /*other*/) {}

  T* allocate(std::size_t count) {
    std::size_t bytes = count * sizeof(T);
    if (bytes >= kHuge) { // whole huge pages: a rest on small ones would cost up to 511 faults
      bytes = (bytes + kHuge - 1) / kHuge * kHuge;
    }
    void* p = ::operator new(bytes, alignment(count));
#if defined(__linux__)
    if (bytes >= kHuge) {
      madvise(p, bytes, MADV_HUGEPAGE); // only advice: a refusal does not matter
    }
#endif
    return static_cast<T*>(p);
  }
  void deallocate(T* p, std::size_t count) {
    ::operator delete(p, alignment(count));
  }
  bool operator==(const AlignedAllocator& /*other*/) const {
    return true;
  }

private:
  static constexpr std::size_t kLine = 64, kHuge = 2 << 20;
  static std::align_val_t alignment(std::size_t count) {
    return std::align_val_t{count * sizeof(T) >= kHuge ? kHuge : kLine};
  }
};

template <typename T>
using AlignedVector = std::vector<T, AlignedAllocator<T>>;

/// Leaves new values as they are: the threads that fill them touch them first, and at once.
template <typename T>
struct UntouchedAllocator : AlignedAllocator<T> {
  using value_type = T;

  void construct(T* /*p*/) {}
};

template <typename T>
using UntouchedVector = std::vector<T, UntouchedAllocator<T>>;

} // namespace clusterbench::simd
