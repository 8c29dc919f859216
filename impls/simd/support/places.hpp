// Where the threads of a team begin.
//
// The kernel may queue a new thread for the processor of the one that starts it. That one spins
// until the others arrive, and the kernel moves who waits to an idle processor only at a tick, up
// to ten milliseconds later: longer than the whole answer to a small problem takes. So where a team
// is as large as the number of processors, each thread begins on one of its own. From there the
// kernel may move it.
#pragma once

#include <cstddef>
#include <thread>

#if defined(__linux__)
#include <pthread.h>
#include <sched.h>
#endif

namespace clusterbench::simd {

class Places {
public:
  /// Of so many threads, of which the caller is the first.
  explicit Places(std::size_t threads) {
#if defined(__linux__)
    first_ = sched_getcpu();
    known_ = sched_getaffinity(0, sizeof all_, &all_) == 0 && first_ >= 0 &&
             static_cast<std::size_t>(CPU_COUNT(&all_)) == threads;
#endif
  }

  /// Puts thread t on the t-th processor after the first thread's. Only advice: a refusal does not
  /// matter.
  void put([[maybe_unused]] std::jthread& thread, [[maybe_unused]] std::size_t t) const {
#if defined(__linux__)
    if (known_) {
      int processor = first_;
      for (std::size_t next = 0; next < t; next += CPU_ISSET(processor, &all_) ? 1 : 0) {
        processor = (processor + 1) % CPU_SETSIZE;
      }
      cpu_set_t one;
      CPU_ZERO(&one);
      CPU_SET(processor, &one);
      pthread_setaffinity_np(thread.native_handle(), sizeof one, &one);
    }
#endif
  }

  /// The thread that calls it, once put, may run on all of them.
  void let_go() const {
#if defined(__linux__)
    if (known_) {
      pthread_setaffinity_np(pthread_self(), sizeof all_, &all_);
    }
#endif
  }

private:
#if defined(__linux__)
  cpu_set_t all_{};
  int first_ = -1;
  bool known_ = false;
#endif
};

} // namespace clusterbench::simd
