// Times the phases of a pass by device events, in recording runs only.
#pragma once

#include "impls/contract.hpp"
#include "impls/cuda/support/stream.hpp"

#include <string_view>

namespace clusterbench::cuda {

/// Runs pieces of work and tells a recording observer how long each took on the device; otherwise
/// just runs them, without an event and without waiting. One object per run.
template <typename T>
class PhaseTimer {
public:
  /// Observer and stream must outlive the timer. Throws std::runtime_error.
  PhaseTimer(Observer<T>& observer, cudaStream_t stream) : observer_(observer), stream_(stream) {
    if (observer.recording()) {
      start_ = Event::timing();
      stop_ = Event::timing();
    }
  }

  /// Calls `launch()`, which puts work into the stream, as the phase `name`.
  template <typename Launch>
  void measure(std::string_view name, Launch&& launch) {
    if (!observer_.recording()) {
      launch();
      return;
    }
    start_.record(stream_);
    launch();
    stop_.record(stream_);
    stop_.synchronize();
    observer_.phase(name, stop_.seconds_since(start_));
  }

private:
  Observer<T>& observer_;
  cudaStream_t stream_;
  Event start_;
  Event stop_;
};

} // namespace clusterbench::cuda
