// Copies between pageable host memory and the device through a ring of page-locked memory that
// several threads fill or empty. The driver's own copy of pageable memory uses one thread and
// reaches a sixth of the link's rate; page-locking the caller's array takes longer than copying it.
#pragma once

#include "harness/worker/cuda/copy_belt.hpp"

#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <thread>

namespace clusterbench {

inline void check(cudaError_t error, const char* what) {
  if (error != cudaSuccess) {
    throw std::runtime_error(std::string(what) + ": " + cudaGetErrorName(error) + ": " +
                             cudaGetErrorString(error));
  }
}

class StagedCopy {
public:
  /// For the calling thread's device. Locks the pages. Throws std::runtime_error.
  StagedCopy()
      : ring_(locked(kRing)),
        belt_({ring_, kRing}, kBlock,
              std::clamp<std::size_t>(std::thread::hardware_concurrency(), 1, kMostThreads)) {
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
    for (cudaEvent_t& each : events_) {
      check(cudaEventCreateWithFlags(&each, cudaEventDisableTiming), "cudaEventCreate");
    }
  }

  ~StagedCopy() { // nobody to tell
    for (const cudaEvent_t each : events_) {
      static_cast<void>(cudaEventDestroy(each));
    }
    static_cast<void>(cudaStreamDestroy(stream_));
    static_cast<void>(cudaFreeHost(ring_));
  }
  StagedCopy(const StagedCopy&) = delete;
  StagedCopy& operator=(const StagedCopy&) = delete;

  /// Whether a copy of so many bytes is worth several threads.
  static bool pays(std::size_t bytes) { return bytes >= kFewest; }

  /// With the device as the calling thread's current one.
  void to_device(void* device, const void* host, std::size_t bytes) {
    Link link{*this, static_cast<char*>(device), cudaMemcpyHostToDevice};
    belt_.load(static_cast<const char*>(host), bytes, link);
  }
  void to_host(void* host, const void* device, std::size_t bytes) {
    // Only read, by a copy to the host.
    Link link{*this, const_cast<char*>(static_cast<const char*>(device)), cudaMemcpyDeviceToHost};
    belt_.unload(static_cast<char*>(host), bytes, link);
  }

private:
  // Measured on an H200 with 16 processors, ms for 36, 64, 200 and 400 MB to the device: 0.86,
  // 1.48, 4.4 and 8.4; where every thread had a stream, and copied chunks of 1 MiB, 1.2, 1.75, 4.9
  // and 9.0. Blocks of 64 or 256 KiB, and 10 to 16 threads, differ by up to 7 %; rings of 4 and 8
  // MiB take up to 1.4 times as long. memcpy() instead takes 1.17 ms for 36 MB and 4.6 for 200. To
  // the host: 0.15 for 4 MB, 6 for 268.
  static constexpr std::size_t kMostThreads = 12;
  static constexpr std::size_t kBlock = std::size_t{1} << 17, kRing = 128 * kBlock;
  static constexpr std::size_t kFewest = std::size_t{1} << 16;

  /// See CopyBelt.
  struct Link {
    StagedCopy& of;
    char* device;
    cudaMemcpyKind kind;
    std::size_t started = 0, ended = 0;

    ~Link() {
      if (ended < started) { // something failed: nothing uses the ring when it is used again
        static_cast<void>(cudaStreamSynchronize(of.stream_));
      }
    }
    void start(std::size_t ring_at, std::size_t array_at, std::size_t bytes) {
      char *in_ring = of.ring_ + ring_at, *there = device + array_at;
      const bool up = kind == cudaMemcpyHostToDevice;
      check(cudaMemcpyAsync(up ? there : in_ring, up ? in_ring : there, bytes, kind, of.stream_),
            up ? "cudaMemcpyAsync to the device" : "cudaMemcpyAsync to the host");
      ++started;
      check(cudaEventRecord(event(started), of.stream_), "cudaEventRecord");
    }
    bool has_ended() {
      const cudaError_t state = cudaEventQuery(event(ended + 1));
      if (state == cudaErrorNotReady) {
        return false;
      }
      check(state, "cudaEventQuery");
      ++ended;
      return true;
    }
    cudaEvent_t event(std::size_t of_copy) const { return of.events_[of_copy % of.events_.size()]; }
  };

  static char* locked(std::size_t bytes) {
    void* memory = nullptr;
    check(cudaMallocHost(&memory, bytes), "cudaMallocHost");
    return static_cast<char*>(memory);
  }

  char* ring_;
  CopyBelt belt_;
  cudaStream_t stream_ = nullptr;
  std::array<cudaEvent_t, CopyBelt::kUnderWay> events_{};
};

} // namespace clusterbench
