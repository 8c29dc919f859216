// The runner's calls of the CUDA runtime, as a plug-in that only runners of GPU variants load. It
// shares the device's primary context with the module's own runtime.
#include "harness/machine/cuda/cuda_start.hpp"
#include "harness/worker/cuda/staged_copy.hpp"
#include "harness/worker/device_memory.hpp"

#include <cuda_runtime.h>

#include <cstdint>
#include <limits>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>

namespace clusterbench {
namespace {

/// A device that is open, and its ring of chunks, which one copy at a time uses.
struct OpenDevice {
  StagedCopy staged;
  std::mutex one_copy;
};
// Never destroyed: at the process's end CUDA may be gone before it.
std::map<int, OpenDevice>& g_open = *new std::map<int, OpenDevice>;

/// Makes a device the calling thread's current one, for as long as this lives.
class Current {
public:
  explicit Current(int device) : device_(device) {
    check(cudaGetDevice(&before_), "cudaGetDevice");
    set(device_);
  }
  ~Current() { set(before_); }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

private:
  void set(int device) const {
    if (before_ != device_) {
      static_cast<void>(cudaSetDevice(device)); // what fails fails again in the call that follows
    }
  }
  int device_, before_ = 0;
};

void synchronize() {
  for (const auto& each : g_open) {
    const Current current(each.first);
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  }
}

void synchronize_one() {
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}

void open(int device) {
  if (g_open.contains(device)) {
    return;
  }
  int count = 0;
  if (const std::string reason = cuda_does_not_start(count); !reason.empty()) {
    throw NoDevices(reason);
  }
  if (device >= count) {
    throw std::runtime_error("GPU " + std::to_string(device) + " is asked for, CUDA sees " +
                             std::to_string(count));
  }
  const Current current(device);
  check(cudaFree(nullptr), "the device's context");
  // What is freed stays in the device's pool: the next object's arrays are there at once.
  cudaMemPool_t pool = nullptr;
  check(cudaDeviceGetDefaultMemPool(&pool, device), "cudaDeviceGetDefaultMemPool");
  std::uint64_t all = std::numeric_limits<std::uint64_t>::max();
  check(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &all),
        "cudaMemPoolSetAttribute");
  g_open.try_emplace(device);
}

std::size_t free_bytes(int device) {
  const Current current(device);
  std::size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return free;
}

// Not from the pool, which may give back what it holds.
void leave_free(int device, std::size_t bytes) {
  const std::size_t free = free_bytes(device);
  if (free <= bytes) {
    return;
  }
  const Current current(device);
  void* never_freed = nullptr;
  check(cudaMalloc(&never_freed, free - bytes), "cudaMalloc of what --device-memory leaves out");
}

void* allocate(int device, std::size_t bytes) {
  const Current current(device);
  void* memory = nullptr;
  const cudaError_t error = cudaMallocAsync(&memory, bytes, cudaStreamLegacy);
  if (error == cudaErrorMemoryAllocation) {
    static_cast<void>(cudaGetLastError());
    throw std::runtime_error(std::to_string(bytes >> 20) +
                             " MiB for the harness's arrays, of GPU " + std::to_string(device) +
                             "'s memory " + std::to_string(free_bytes(device) >> 20) +
                             " MiB are free: cudaErrorMemoryAllocation");
  }
  check(error, "cudaMallocAsync by the harness");
  synchronize_one();
  return memory;
}

void release(int device, void* memory) noexcept {
  try {
    const Current current(device);
    static_cast<void>(cudaFreeAsync(memory, cudaStreamLegacy));
  } catch (...) { // a destructor has nobody to tell
  }
}

void upload(int device, void* to, const void* host, std::size_t bytes) {
  const Current current(device);
  if (StagedCopy::pays(bytes)) {
    OpenDevice& open = g_open.at(device);
    const std::scoped_lock lock(open.one_copy);
    open.staged.to_device(to, host, bytes);
    return;
  }
  check(cudaMemcpy(to, host, bytes, cudaMemcpyHostToDevice), "cudaMemcpy to the device");
  synchronize_one(); // cudaMemcpy may return when the host memory alone is free again
}

void download(int device, void* host, const void* from, std::size_t bytes) {
  const Current current(device);
  if (StagedCopy::pays(bytes)) {
    OpenDevice& open = g_open.at(device);
    const std::scoped_lock lock(open.one_copy);
    open.staged.to_host(host, from, bytes);
    return;
  }
  check(cudaMemcpy(host, from, bytes, cudaMemcpyDeviceToHost), "cudaMemcpy to the host");
}

void fill(int device, void* memory, unsigned char byte, std::size_t bytes) {
  const Current current(device);
  check(cudaMemset(memory, byte, bytes), "cudaMemset");
  synchronize_one();
}

void* mark(void* stream) {
  cudaEvent_t event = nullptr;
  check(cudaEventCreate(&event), "cudaEventCreate");
  check(cudaEventRecord(event, static_cast<cudaStream_t>(stream)), "cudaEventRecord");
  return event;
}

double seconds_between(void* first_mark, void* second_mark) {
  const auto first = static_cast<cudaEvent_t>(first_mark);
  const auto second = static_cast<cudaEvent_t>(second_mark);
  float milliseconds = 0.0f;
  check(cudaEventSynchronize(second), "cudaEventSynchronize");
  check(cudaEventElapsedTime(&milliseconds, first, second), "cudaEventElapsedTime");
  static_cast<void>(cudaEventDestroy(first));
  static_cast<void>(cudaEventDestroy(second));
  return 1e-3 * static_cast<double>(milliseconds);
}

} // namespace
} // namespace clusterbench

extern "C" __attribute__((visibility("default"))) const void* clusterbench_device_calls() {
  using namespace clusterbench;
  static const DeviceCalls calls{open,      allocate,    release, upload,          download,
                                 fill,      synchronize, mark,    seconds_between, leave_free,
                                 free_bytes};
  return &calls;
}
