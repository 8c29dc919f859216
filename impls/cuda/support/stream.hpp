// Streams and events that close themselves. Default-constructed ones are empty and call nothing, so
// a variant may hold them as members before any device is touched.
#pragma once

#include "impls/cuda/support/check.hpp"

#include <cuda_runtime.h>

#include <utility>

namespace clusterbench::cuda {

/// An owned stream that does not wait for the legacy default stream. Move-only.
class Stream {
public:
  Stream() = default;
  /// Makes a stream on the current device. Throws std::runtime_error.
  static Stream create() {
    Stream stream;
    check(cudaStreamCreateWithFlags(&stream.handle_, cudaStreamNonBlocking),
          "cudaStreamCreateWithFlags");
    return stream;
  }
  Stream(Stream&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Stream& operator=(Stream&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Stream() {
    if (handle_ != nullptr) {
      static_cast<void>(cudaStreamDestroy(handle_)); // a destructor has nobody to tell
    }
  }

  operator cudaStream_t() const { return handle_; }
  /// Waits for all work in the stream. Throws std::runtime_error, also for earlier faults.
  void synchronize() const { check(cudaStreamSynchronize(handle_), "cudaStreamSynchronize"); }

private:
  cudaStream_t handle_ = nullptr;
};

/// An owned event. Move-only.
class Event {
public:
  Event() = default;
  /// An event that can measure time. Throws std::runtime_error.
  static Event timing() { return Event(cudaEventDefault); }
  /// An event that only orders streams, which is cheaper. Throws std::runtime_error.
  static Event ordering() { return Event(cudaEventDisableTiming); }
  Event(Event&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Event& operator=(Event&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Event() {
    if (handle_ != nullptr) {
      static_cast<void>(cudaEventDestroy(handle_));
    }
  }

  operator cudaEvent_t() const { return handle_; }
  void record(cudaStream_t stream) const {
    check(cudaEventRecord(handle_, stream), "cudaEventRecord");
  }
  void synchronize() const { check(cudaEventSynchronize(handle_), "cudaEventSynchronize"); }
  /// Makes later work in `stream` wait for this event, without stopping the host.
  void hold_back(cudaStream_t stream) const {
    check(cudaStreamWaitEvent(stream, handle_, 0), "cudaStreamWaitEvent");
  }
  /// Seconds from `start` to this event; both must have completed.
  double seconds_since(const Event& start) const {
    float milliseconds = 0.0f;
    check(cudaEventElapsedTime(&milliseconds, start, handle_), "cudaEventElapsedTime");
    return 1e-3 * static_cast<double>(milliseconds);
  }

private:
  explicit Event(unsigned flags) {
    check(cudaEventCreateWithFlags(&handle_, flags), "cudaEventCreateWithFlags");
  }

  cudaEvent_t handle_ = nullptr;
};

} // namespace clusterbench::cuda
