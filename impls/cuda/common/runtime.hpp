// The CUDA runtime as the variants use it: errors, streams and buffers; what the device has;
// launches; and the sum over the lanes of a warp.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cuda_runtime.h>
#include <limits>
#include <memory>
#include <mutex>
#include <source_location>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <vector>

namespace clusterbench::cuda {

// ---- errors
//
// Turns CUDA error codes into exceptions that say where, what and why.

/// Throws std::runtime_error with file, line, the call and the error's name unless `error` is none.
inline void check(cudaError_t error, std::string_view call,
                  std::source_location where = std::source_location::current()) {
  if (error == cudaSuccess) {
    return;
  }
  // Clears an error that is not sticky, so that it is reported once and not again by a later check.
  static_cast<void>(cudaGetLastError());
  throw std::runtime_error(std::string(where.file_name()) + ":" + std::to_string(where.line()) +
                           ": " + std::string(call) + " failed: " + cudaGetErrorName(error) + " (" +
                           cudaGetErrorString(error) + ")");
}

/// Throws std::runtime_error if the kernel just launched was refused; does not wait for it.
inline void check_launch(std::string_view kernel,
                         std::source_location where = std::source_location::current()) {
  check(cudaGetLastError(), kernel, where);
}

// ---- streams
//
// A stream that closes itself. A default-constructed one is the default stream and calls nothing,
// so a variant may hold it as a member before any device is touched.

/// The stream of whatever names none; a file with `Needs: a stream per thread` has one for each.
#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
inline const cudaStream_t kDefaultStream = cudaStreamPerThread;
#else
inline const cudaStream_t kDefaultStream = cudaStreamLegacy;
#endif

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

private:
  struct Destroy {
    void operator()(cudaStream_t handle) const { static_cast<void>(cudaStreamDestroy(handle)); }
  };
  std::unique_ptr<std::remove_pointer_t<cudaStream_t>, Destroy> handle_;
};

// ---- buffers
//
// Memory that frees itself: on the device, and page-locked on the host. Move-only; sizes count
// elements, in 64 bits.

/// size * sizeof(T) in bytes. Throws std::runtime_error if that overflows.
template <typename T>
std::size_t bytes_of(std::size_t size) {
  if (size > std::numeric_limits<std::size_t>::max() / sizeof(T)) {
    throw std::runtime_error("a buffer of " + std::to_string(size) + " elements overflows");
  }
  return size * sizeof(T);
}

/// Copies all of `from` to `to`, each on the host or the device, in the order of `stream`. May
/// return before that is done. Throws std::runtime_error.
template <typename T>
void copy_values(std::span<const std::type_identity_t<T>> from, T* to,
                 cudaStream_t stream = nullptr) {
  check(cudaMemcpyAsync(to, from.data(), from.size_bytes(), cudaMemcpyDefault, stream),
        "cudaMemcpyAsync");
}

/// Sets every byte of device memory to `byte`, in the order of `stream`: 0xFF makes every signed
/// integer -1. Does not block. Throws std::runtime_error.
template <typename T>
void fill_bytes(std::span<T> target, unsigned char byte, cudaStream_t stream = nullptr) {
  check(cudaMemsetAsync(target.data(), byte, target.size_bytes(), stream), "cudaMemsetAsync");
}

/// Memory of the device from its pool, where what was freed before is at hand in microseconds:
/// cudaMalloc takes up to a millisecond, and waits for the device. In default stream order.
inline cudaError_t allocate_on_device(void** memory, std::size_t bytes) {
  return cudaMallocAsync(memory, bytes, kDefaultStream);
}
inline cudaError_t free_on_device(void* memory) {
  return cudaFreeAsync(memory, kDefaultStream);
}

/// Page-locked memory that this process has used before: to lock pages takes up to a millisecond.
class PinnedPool {
public:
  static cudaError_t allocate(void** memory, std::size_t bytes) {
    const std::scoped_lock one(pool().mutex_);
    const std::size_t size = std::bit_ceil(bytes);
    std::vector<void*>& free = pool().free_[size];
    if (free.empty()) {
      const cudaError_t error = cudaMallocHost(memory, size);
      if (error == cudaSuccess) {
        pool().sizes_[*memory] = size;
      }
      return error;
    }
    *memory = free.back();
    free.pop_back();
    return cudaSuccess;
  }
  static cudaError_t release(void* memory) {
    const std::scoped_lock one(pool().mutex_);
    pool().free_[pool().sizes_.at(memory)].push_back(memory);
    return cudaSuccess;
  }

private:
  // Never destroyed: at the process's end CUDA may be gone before it.
  static PinnedPool& pool() {
    static PinnedPool& only = *new PinnedPool;
    return only;
  }
  std::mutex mutex_;
  std::unordered_map<std::size_t, std::vector<void*>> free_; ///< by size, a power of two
  std::unordered_map<void*, std::size_t> sizes_;
};

/// An owned array, not initialised. An empty one calls nothing.
template <typename T, cudaError_t (*kAllocate)(void**, std::size_t), cudaError_t (*kFree)(void*)>
class Buffer {
  static_assert(std::is_trivially_copyable_v<T>);

public:
  Buffer() = default;
  /// Throws std::runtime_error, with the error's name, if the memory is not there.
  explicit Buffer(std::size_t size) : size_(size) {
    if (size > 0) {
      void* data = nullptr;
      check(kAllocate(&data, bytes_of<T>(size)),
            "allocation of " + std::to_string(bytes()) + " bytes");
      data_.reset(static_cast<T*>(data));
    }
  }

  T* data() { return data_.get(); }
  const T* data() const { return data_.get(); }
  std::size_t size() const { return size_; }
  std::size_t bytes() const { return size_ * sizeof(T); }
  std::span<T> span() { return {data(), size_}; }
  std::span<const T> span() const { return {data(), size_}; }

private:
  struct Free {
    void operator()(T* data) const { static_cast<void>(kFree(data)); } // nobody to tell
  };
  std::unique_ptr<T, Free> data_;
  std::size_t size_ = 0;
};

/// Page-locked memory of the host, which the device copies to and from without staging.
template <typename T>
class PinnedBuffer : public Buffer<T, PinnedPool::allocate, PinnedPool::release> {
public:
  using Buffer<T, PinnedPool::allocate, PinnedPool::release>::Buffer;
  T& operator[](std::size_t index) { return this->data()[index]; }
  const T& operator[](std::size_t index) const { return this->data()[index]; }
};

/// Memory of the device.
template <typename T>
class DeviceBuffer : public Buffer<T, allocate_on_device, free_on_device> {
public:
  using Buffer<T, allocate_on_device, free_on_device>::Buffer;

  /// From its front to memory of the host, in the order of `stream`; blocks. Throws
  /// std::runtime_error if that is more than it holds.
  void download(std::span<T> target, cudaStream_t stream = nullptr) const {
    if (target.size() > this->size()) {
      throw std::runtime_error("a device buffer has " + std::to_string(this->size()) +
                               " elements, not " + std::to_string(target.size()));
    }
    copy_values(this->span().first(target.size()), target.data(), stream);
    check(cudaStreamSynchronize(stream), "cudaStreamSynchronize after a download");
  }
  /// Sets every byte, in the order of `stream`; does not block.
  void zero(cudaStream_t stream = nullptr) { fill_bytes(0, stream); }
  void fill_bytes(unsigned char byte, cudaStream_t stream = nullptr) {
    cuda::fill_bytes(this->span(), byte, stream);
  }
};

// ---- the device
//
// What the current device has. To ask creates no context, and 0 says that there is no device.

/// An attribute of the current device; 0 where there is none. Does not create a context.
inline int device_attribute(cudaDeviceAttr attribute) {
  int device = 0, value = 0;
  if (cudaGetDevice(&device) != cudaSuccess ||
      cudaDeviceGetAttribute(&value, attribute, device) != cudaSuccess) {
    static_cast<void>(cudaGetLastError()); // no device is an answer here, not a fault
    return 0;
  }
  return value;
}

/// Bytes of shared memory that one block may ask for; 48 KiB, which every device has, where there
/// is none to ask.
inline std::size_t shared_memory_limit() {
  const int bytes = device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin);
  return bytes > 0 ? static_cast<std::size_t>(bytes) : std::size_t{48 * 1024};
}

/// Multiprocessors of the current device; 0 where there is none.
inline std::size_t multiprocessors() {
  return static_cast<std::size_t>(device_attribute(cudaDevAttrMultiProcessorCount));
}

/// Compute capability of the current device times ten, 90 for 9.0; 0 where there is none.
inline int compute_capability() {
  return 10 * device_attribute(cudaDevAttrComputeCapabilityMajor) +
         device_attribute(cudaDevAttrComputeCapabilityMinor);
}

// ---- launches
//
// Sizes of launches, computed in 64 bits and checked against the limits of a grid.

inline constexpr std::size_t kMaxGridX = 2147483647; ///< blocks in x; the same on all devices

/// a / b, rounded up.
constexpr std::size_t ceil_div(std::size_t a, std::size_t b) {
  return a / b + (a % b != 0 ? 1 : 0);
}

/// k rounded up to a multiple of 128, for float and wider whole cache lines and 512 bytes at least:
/// the distance between the arrays of two features' sums. The slices of the level-2 cache take
/// whole lines, and add to different ones side by side.
__host__ __device__ constexpr std::size_t line_stride(std::size_t k) {
  return (k + 127) / 128 * 128;
}

/// Blocks of `threads` threads, a thread an item. Throws std::runtime_error over the grid's limit.
inline unsigned blocks_for(std::size_t items, std::size_t threads) {
  const std::size_t blocks = ceil_div(items, threads);
  if (blocks > kMaxGridX) {
    throw std::runtime_error(std::to_string(items) + " items in blocks of " +
                             std::to_string(threads) + " exceed the grid");
  }
  return static_cast<unsigned>(blocks);
}

/// At most `limit` blocks, for kernels whose threads stride over the items.
inline unsigned blocks_at_most(std::size_t items, std::size_t threads, std::size_t limit) {
  return static_cast<unsigned>(std::min(ceil_div(items, threads), std::min(limit, kMaxGridX)));
}

/// Lets `kernel` use `bytes` of dynamic shared memory; beyond 48 KiB a kernel must be asked to.
template <typename Kernel>
void allow_shared_memory(Kernel* kernel, std::size_t bytes) {
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(bytes)),
        "cudaFuncSetAttribute for " + std::to_string(bytes) + " bytes of shared memory");
}

/// Blocks that fill the current device once: those resident on a multiprocessor times their number.
template <typename Kernel>
std::size_t resident_blocks(Kernel* kernel, std::size_t threads, std::size_t shared_bytes) {
  int blocks = 0;
  check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, static_cast<int>(threads),
                                                      shared_bytes),
        "cudaOccupancyMaxActiveBlocksPerMultiprocessor");
  return multiprocessors() * static_cast<std::size_t>(std::max(1, blocks));
}

// ---- lanes of a warp

inline constexpr unsigned kAllLanes = 0xffffffffu;

/// Adds up over lanes that differ in the bits below `width`; all of them get the same bits.
template <unsigned width, typename T>
__device__ T over_lanes(T value) {
#pragma unroll
  for (unsigned offset = width / 2; offset > 0; offset /= 2) {
    value += __shfl_xor_sync(kAllLanes, value, static_cast<int>(offset));
  }
  return value;
}

} // namespace clusterbench::cuda
