// Copies between pageable host memory and the device through a ring of page-locked chunks that several
// threads fill or empty. The driver's own copy of pageable memory uses one thread and reaches a sixth of
// the link's rate; page-locking the caller's array takes longer than copying it.
#pragma once

#include "harness/worker/cuda/copy_threads.hpp"

#include <cuda_runtime.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

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
      : lanes_(std::clamp<std::size_t>(std::thread::hardware_concurrency(), 1, kMostLanes)),
        threads_(lanes_.size()) {
    check(cudaGetDevice(&device_), "cudaGetDevice");
    for (Lane& lane : lanes_) {
      check(cudaStreamCreateWithFlags(&lane.stream, cudaStreamNonBlocking), "cudaStreamCreate");
      for (Chunk& each : lane.chunks) {
        check(cudaMallocHost(&each.memory, kUpChunk), "cudaMallocHost");
        check(cudaEventCreateWithFlags(&each.copied, cudaEventDisableTiming), "cudaEventCreate");
      }
    }
  }

  ~StagedCopy() {
    for (Lane& lane : lanes_) {
      for (Chunk& each : lane.chunks) { // nobody to tell
        static_cast<void>(cudaFreeHost(each.memory));
        static_cast<void>(cudaEventDestroy(each.copied));
      }
      static_cast<void>(cudaStreamDestroy(lane.stream));
    }
  }
  StagedCopy(const StagedCopy&) = delete;
  StagedCopy& operator=(const StagedCopy&) = delete;

  /// Whether a copy of so many bytes is worth several threads.
  static bool pays(std::size_t bytes) { return bytes >= kFewest; }

  void to_device(void* device, const void* host, std::size_t bytes) {
    run(bytes, kUpChunk, [=](Lane& lane, std::size_t turn, std::size_t at, std::size_t size) {
      Chunk& chunk = lane.chunks[turn % kChunks];
      check(cudaEventSynchronize(chunk.copied), "cudaEventSynchronize"); // it is free again
      std::memcpy(chunk.memory, static_cast<const char*>(host) + at, size);
      check(cudaMemcpyAsync(static_cast<char*>(device) + at, chunk.memory, size,
                            cudaMemcpyHostToDevice, lane.stream),
            "cudaMemcpyAsync to the device");
      check(cudaEventRecord(chunk.copied, lane.stream), "cudaEventRecord");
    });
  }

  void to_host(void* host, const void* device, std::size_t bytes) {
    run(bytes, kDownChunk, [=](Lane& lane, std::size_t turn, std::size_t at, std::size_t size) {
      Chunk& chunk = lane.chunks[turn % kChunks];
      check(cudaMemcpyAsync(chunk.memory, static_cast<const char*>(device) + at, size,
                            cudaMemcpyDeviceToHost, lane.stream),
            "cudaMemcpyAsync to the host");
      check(cudaStreamSynchronize(lane.stream), "cudaStreamSynchronize");
      std::memcpy(static_cast<char*>(host) + at, chunk.memory, size);
    });
  }

private:
  // Measured on an H200 with 16 processors, ms for 36, 64, 200 and 400 MB to the device in chunks of
  // 1 MiB: 4 lanes 1.5, 2.6, 7.0, 12.2; 8 lanes 1.3, 2.1, 5.0, 9.2; 12 lanes 1.2, 1.9, 4.8, 9.0.
  // Chunks of 0.5 or 2 MiB are not sooner. 4 MB to the host: 0.18 in chunks of 0.5 MiB, 0.22 of 1 MiB,
  // 0.31 of 2 MiB; 0.8 by the driver's own copy, which takes 0.3 for 0.4 MB where this takes 0.06.
  static constexpr std::size_t kMostLanes = 12;
  static constexpr std::size_t kUpChunk = std::size_t{1} << 20, kDownChunk = kUpChunk / 2;
  static constexpr std::size_t kFewest = std::size_t{1} << 16;
  static constexpr std::size_t kChunks = 3; ///< of a lane: one is filled while others travel

  struct Chunk {
    void* memory = nullptr;
    cudaEvent_t copied = nullptr;
  };
  struct Lane {
    cudaStream_t stream = nullptr;
    Chunk chunks[kChunks];
  };

  // Every lane takes the next chunk of the array until there is none. A single chunk wakes nobody.
  template <typename Step>
  void run(std::size_t bytes, std::size_t chunk, const Step& step) {
    std::atomic<std::size_t> next = 0;
    std::vector<std::string> failures(lanes_.size());
    const auto work = [&](std::size_t index) {
      try {
        // A thread begins on device 0, where memory of another device's pool is unknown.
        check(cudaSetDevice(device_), "cudaSetDevice");
        Lane& lane = lanes_[index];
        std::size_t turn = 0;
        for (std::size_t at = next.fetch_add(chunk); at < bytes; at = next.fetch_add(chunk)) {
          step(lane, turn++, at, std::min(chunk, bytes - at));
        }
        check(cudaStreamSynchronize(lane.stream), "cudaStreamSynchronize");
      } catch (const std::exception& error) {
        failures[index] = error.what();
      }
    };
    if (bytes <= chunk) {
      work(0);
    } else {
      threads_.run(work);
    }
    for (const std::string& failure : failures) {
      if (!failure.empty()) {
        throw std::runtime_error(failure);
      }
    }
  }

  int device_ = 0;
  std::vector<Lane> lanes_;
  CopyThreads threads_;
};

} // namespace clusterbench
