// Copies between pageable host memory and the device through a ring of page-locked chunks that several
// threads fill or empty. The driver's own copy of pageable memory uses one thread and reaches a sixth of
// the link's rate; page-locking the caller's array takes longer than copying it.
#pragma once

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

/// Threads that wait for work and do it together.
class Crew {
public:
  /// size: of the crew, the caller counted.
  explicit Crew(std::size_t size) {
    for (std::size_t index = 1; index < size; ++index) {
      threads_.emplace_back([this, index] { serve(index); });
    }
  }
  ~Crew() {
    ending_ = true;
    ++turn_;
    turn_.notify_all();
    for (std::thread& thread : threads_) {
      thread.join();
    }
  }
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  /// Calls work(i) for every i below `count`, each in another thread, and returns when all are done.
  /// `work` throws nothing. count: at most the crew's size.
  template <typename Work>
  void run(std::size_t count, const Work& work) {
    work_ = [](const void* what, std::size_t index) { (*static_cast<const Work*>(what))(index); };
    what_ = &work;
    count_ = count;
    left_ = threads_.size();
    ++turn_;
    turn_.notify_all();
    work(0);
    for (std::size_t left = left_; left > 0; left = left_) {
      left_.wait(left);
    }
  }

private:
  void serve(std::size_t index) {
    for (std::uint64_t seen = 0;;) {
      turn_.wait(seen);
      seen = turn_;
      if (ending_) {
        return;
      }
      if (index < count_) {
        work_(what_, index);
      }
      if (--left_ == 0) {
        left_.notify_all();
      }
    }
  }

  void (*work_)(const void*, std::size_t) = nullptr;
  const void* what_ = nullptr;
  std::size_t count_ = 0;
  std::atomic<std::size_t> left_ = 0;
  std::atomic<std::uint64_t> turn_ = 0;
  std::atomic<bool> ending_ = false;
  std::vector<std::thread> threads_;
};

class StagedCopy {
public:
  /// Locks the pages. Throws std::runtime_error.
  StagedCopy()
      : lanes_(std::clamp<std::size_t>(std::thread::hardware_concurrency(), 1, kMostLanes)),
        crew_(lanes_.size()) {
    for (Lane& lane : lanes_) {
      check(cudaStreamCreateWithFlags(&lane.stream, cudaStreamNonBlocking), "cudaStreamCreate");
      for (Chunk& each : lane.chunks) {
        check(cudaMallocHost(&each.memory, kLargeChunk), "cudaMallocHost");
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
  static bool pays(std::size_t bytes) { return bytes >= 2 * kSmallChunk; }

  void to_device(void* device, const void* host, std::size_t bytes) {
    run(bytes, [=](Lane& lane, std::size_t turn, std::size_t at, std::size_t size) {
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
    run(bytes, [=](Lane& lane, std::size_t turn, std::size_t at, std::size_t size) {
      Chunk& chunk = lane.chunks[turn % kChunks];
      check(cudaMemcpyAsync(chunk.memory, static_cast<const char*>(device) + at, size,
                            cudaMemcpyDeviceToHost, lane.stream),
            "cudaMemcpyAsync to the host");
      check(cudaStreamSynchronize(lane.stream), "cudaStreamSynchronize");
      std::memcpy(static_cast<char*>(host) + at, chunk.memory, size);
    });
  }

private:
  // Measured on an H200 with 16 processors, 3 chunks a lane: 8 lanes of 2 MiB carry 50 GB/s, of 1 MiB
  // 46, of 0.5 MiB 32; short arrays are sooner there in small chunks. More lanes carry no more.
  static constexpr std::size_t kMostLanes = 8;
  static constexpr std::size_t kSmallChunk = std::size_t{1} << 20, kLargeChunk = 2 * kSmallChunk;
  static constexpr std::size_t kLong = std::size_t{48} << 20;
  static constexpr std::size_t kChunks = 3; ///< of a lane: one is filled while others travel

  struct Chunk {
    void* memory = nullptr;
    cudaEvent_t copied = nullptr;
  };
  struct Lane {
    cudaStream_t stream = nullptr;
    Chunk chunks[kChunks];
  };

  // Every lane takes the next chunk of the array until there is none.
  template <typename Step>
  void run(std::size_t bytes, const Step& step) {
    std::atomic<std::size_t> next = 0;
    std::vector<std::string> failures(lanes_.size());
    const std::size_t chunk = bytes >= kLong ? kLargeChunk : kSmallChunk;
    const std::size_t chunks = (bytes + chunk - 1) / chunk;
    crew_.run(std::min(chunks, lanes_.size()), [&](std::size_t index) {
      try {
        Lane& lane = lanes_[index];
        std::size_t turn = 0;
        for (std::size_t at = next.fetch_add(chunk); at < bytes; at = next.fetch_add(chunk)) {
          step(lane, turn++, at, std::min(chunk, bytes - at));
        }
        check(cudaStreamSynchronize(lane.stream), "cudaStreamSynchronize");
      } catch (const std::exception& error) {
        failures[index] = error.what();
      }
    });
    for (const std::string& failure : failures) {
      if (!failure.empty()) {
        throw std::runtime_error(failure);
      }
    }
  }

  std::vector<Lane> lanes_;
  Crew crew_;
};

} // namespace clusterbench
