// The runner's calls of the CUDA runtime, as a plug-in that only runners of GPU variants load. It shares
// the device's primary context with the module's own runtime.
#include "harness/worker/cuda/staged_copy.hpp"
#include "harness/worker/device_memory.hpp"

#include <cuda_runtime.h>

#include <cstdint>
#include <limits>

namespace clusterbench {
namespace {

StagedCopy* g_staged = nullptr; // never destroyed: at the process's end CUDA may be gone before it

void synchronize() {
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}

void open() {
  check(cudaFree(nullptr), "the device's context");
  // What is freed stays in the device's pool: the next object's arrays are there at once.
  int device = 0;
  cudaMemPool_t pool = nullptr;
  check(cudaGetDevice(&device), "cudaGetDevice");
  check(cudaDeviceGetDefaultMemPool(&pool, device), "cudaDeviceGetDefaultMemPool");
  std::uint64_t all = std::numeric_limits<std::uint64_t>::max();
  check(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &all),
        "cudaMemPoolSetAttribute");
  g_staged = new StagedCopy;
}

void* allocate(std::size_t bytes) {
  void* memory = nullptr;
  check(cudaMallocAsync(&memory, bytes, cudaStreamLegacy), "cudaMallocAsync by the harness");
  synchronize();
  return memory;
}

void release(void* memory) noexcept {
  static_cast<void>(cudaFreeAsync(memory, cudaStreamLegacy)); // a destructor has nobody to tell
}

void upload(void* device, const void* host, std::size_t bytes) {
  if (StagedCopy::pays(bytes)) {
    g_staged->to_device(device, host, bytes);
    return;
  }
  check(cudaMemcpy(device, host, bytes, cudaMemcpyHostToDevice), "cudaMemcpy to the device");
  synchronize(); // cudaMemcpy may return when the host memory alone is free again
}

void download(void* host, const void* device, std::size_t bytes) {
  if (StagedCopy::pays(bytes)) {
    g_staged->to_host(host, device, bytes);
    return;
  }
  check(cudaMemcpy(host, device, bytes, cudaMemcpyDeviceToHost), "cudaMemcpy to the host");
}

void fill(void* device, unsigned char byte, std::size_t bytes) {
  check(cudaMemset(device, byte, bytes), "cudaMemset");
  synchronize();
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
  static const DeviceCalls calls{open, allocate, release, upload, download, fill,
                                 synchronize, mark, seconds_between};
  return &calls;
}
