// Threads that live as long as a variant: a run costs one wake-up, a phase one barrier.
//
// Between runs the threads sleep, unless the next one follows at once. Within a run they meet at
// barriers, where they spin: at 25 microseconds a pass a sleep and a wake-up would cost as much as
// the work. A thread that spins for long offers its processor to others, which matters when there
// are more threads than processors.
#pragma once

#include "impls/simd/support/kernels.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <functional>
#include <thread>
#include <vector>

#if defined(__linux__)
#include <pthread.h>
#include <sched.h>
#endif

namespace clusterbench::simd {

/// Points begin to end - 1.
struct Range {
  std::size_t begin = 0, end = 0;
};

/// Those of thread t among n: a multiple of kRoundUp, but for the last.
inline Range share_of(std::size_t n, std::size_t t, std::size_t threads) {
  const std::size_t rounds = rounded_up(n) / kRoundUp;
  return {std::min(rounds * t / threads * kRoundUp, n),
          std::min(rounds * (t + 1) / threads * kRoundUp, n)};
}

// ---- where threads begin
//
// The kernel may queue a new thread for the processor of the one that starts it. That one spins
// until the others arrive, and the kernel moves who waits to an idle processor only at a tick, up
// to ten milliseconds later: longer than the whole answer to a small problem takes. So where a team
// is as large as the number of processors, each thread begins on one of its own. From there the
// kernel may move it.

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

// ---- the threads

class Team {
public:
  /// The caller is one of the `threads`.
  explicit Team(std::size_t threads) : size_(threads), places_(threads) {
    for (std::size_t t = 1; t < threads; ++t) {
      helpers_.emplace_back([this, t] { help(t); });
      places_.put(helpers_.back(), t);
    }
    are_put_ = true;
    are_put_.notify_all();
  }
  ~Team() {
    work_ = nullptr;
    wake();
  }
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  std::size_t size() const { return size_; }

  /// work(t) on every thread t at once; returns when all are done. work must not throw.
  void run(const std::function<void(std::size_t)>& work) {
    work_ = &work;
    wake();
    work(0);
    barrier();
  }

  /// Waits for the whole team; what was written before it is seen by all after it.
  void barrier() {
    if (size_ == 1) {
      return;
    }
    const std::size_t round = round_.load(std::memory_order_relaxed);
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == size_) {
      arrived_.store(0, std::memory_order_relaxed);
      round_.store(round + 1, std::memory_order_release);
      return;
    }
    pause_until_changed(round_, round, kLongSpins);
    while (round_.load(std::memory_order_acquire) == round) {
      std::this_thread::yield();
    }
  }

private:
  static constexpr int kLongSpins = 20000;
  /// What a caller prepares between two runs takes less time than a wake-up.
  static constexpr int kShortSpins = 1000;

  /// Returns after so many spins at the latest.
  static void pause_until_changed(const std::atomic<std::size_t>& value, std::size_t old,
                                  int spins) {
    for (int spin = 0; spin < spins && value.load(std::memory_order_acquire) == old; ++spin) {
#if defined(__x86_64__)
      __builtin_ia32_pause();
#endif
    }
  }

  void wake() {
    generation_.fetch_add(1, std::memory_order_release);
    generation_.notify_all();
  }

  void help(std::size_t t) {
    are_put_.wait(false);
    places_.let_go();
    for (std::size_t seen = 0;; ++seen) {
      pause_until_changed(generation_, seen, kShortSpins);
      generation_.wait(seen, std::memory_order_acquire);
      if (work_ == nullptr) {
        return;
      }
      (*work_)(t);
      barrier();
    }
  }

  std::size_t size_;
  const Places places_;
  std::atomic<bool> are_put_ = false;
  const std::function<void(std::size_t)>* work_ = nullptr;
  alignas(64) std::atomic<std::size_t> generation_{0};
  alignas(64) std::atomic<std::size_t> arrived_{0};
  alignas(64) std::atomic<std::size_t> round_{0};
  std::vector<std::jthread> helpers_; // last: joined before the atomics go
};

} // namespace clusterbench::simd
