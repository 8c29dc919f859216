// Copies of a large array through a small ring of memory that a device can reach: threads of the
// host at one end, the device's link at the other. Plain C++ without CUDA.
#pragma once

#include "harness/worker/cuda/copy_threads.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <span>
#include <thread>
#include <vector>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace clusterbench {

/// memcpy() past the caches: what the link reads need not be fetched from a core's cache, nor read
/// from memory before it is written.
inline void copy_past_caches(char* to, const char* from, std::size_t bytes) {
  std::size_t at = 0;
#ifdef __SSE2__
  constexpr std::size_t kPart = sizeof(__m128i);
  const bool aligned = reinterpret_cast<std::uintptr_t>(to) % kPart == 0;
  for (; aligned && at + kPart <= bytes; at += kPart) {
    _mm_stream_si128(reinterpret_cast<__m128i*>(to + at),
                     _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + at)));
  }
  _mm_sfence(); // all of it is there before anybody says so
#endif
  std::memcpy(to + at, from + at, bytes - at);
}

/// The array is cut into blocks. Threads copy blocks between array and ring, each the next one that
/// nobody has taken. The link copies between ring and device what lies side by side in one go: each
/// copy of its own costs it microseconds. Only the caller speaks to the link, and works on blocks
/// itself while it waits: so it needs none of the other threads.
///
/// A Link has
///   void start(std::size_t ring_at, std::size_t array_at, std::size_t bytes)  queues a copy
///     between ring and device, behind those before;
///   bool has_ended()  whether the oldest copy that it has not reported yet has ended. It reports
///   it.
/// What they throw, load() and unload() throw.
class CopyBelt {
public:
  static constexpr std::size_t kUnderWay = 2; ///< of the link's copies: while one runs, one waits

  /// ring: whole blocks of `block` bytes. threads: the caller counted.
  CopyBelt(std::span<char> ring, std::size_t block, std::size_t threads)
      : ring_(ring), block_(block), done_(ring.size() / block), threads_(threads) {}

  /// From `host` to the device.
  template <typename Link>
  void load(const char* host, std::size_t bytes, Link& link) {
    const Ends ends{.threads_ahead = done_.size(), .link_ahead = 0, .most_at_once = done_.size()};
    move(bytes, ends, link, [&](std::size_t block) {
      copy_past_caches(in_ring(block), host + block * block_, size_of(block, bytes));
    });
  }

  /// From the device to `host`.
  template <typename Link>
  void unload(char* host, std::size_t bytes, Link& link) {
    const Ends ends{.threads_ahead = 0, .link_ahead = done_.size(), .most_at_once = kAtOnce};
    move(bytes, ends, link, [&](std::size_t block) {
      std::memcpy(host + block * block_, in_ring(block), size_of(block, bytes));
    });
  }

private:
  static constexpr std::size_t kAtOnce = 4; ///< blocks of a copy to the host: threads wait for it
  static constexpr std::size_t kOfOneThread = 4; ///< blocks for which nobody is woken

  /// How many blocks either end may work on beyond those that the other one is done with, and how
  /// many the link takes at once.
  struct Ends {
    std::size_t threads_ahead, link_ahead, most_at_once;
  };

  std::size_t place_of(std::size_t block) const { return block % done_.size() * block_; }
  char* in_ring(std::size_t block) const { return ring_.data() + place_of(block); }
  std::size_t size_of(std::size_t block, std::size_t bytes) const {
    return std::min(block_, bytes - block * block_);
  }

  template <typename Link, typename Work>
  void move(std::size_t bytes, const Ends& ends, Link& link, const Work& work) {
    const std::size_t count = (bytes + block_ - 1) / block_;
    std::ranges::fill(done_, 0);
    taken_ = 0;
    carried_ = 0;
    const auto work_on = [&](std::size_t block) {
      work(block);
      done_[block % done_.size()] = block + 1;
    };
    std::exception_ptr failure;
    const auto take_part = [&](std::size_t index) {
      if (index == 0) {
        try {
          drive(bytes, count, ends, link, work_on);
        } catch (...) {
          failure = std::current_exception();
          taken_ = count; // nobody begins another block, and nobody waits with one
          carried_ = count;
        }
        return;
      }
      for (std::size_t block = taken_++; block < count; block = taken_++) {
        while (block >= carried_ + ends.threads_ahead) {
          std::this_thread::yield();
        }
        work_on(block);
      }
    };
    if (count <= kOfOneThread) {
      take_part(0);
    } else {
      threads_.run(take_part);
    }
    if (failure) {
      std::rethrow_exception(failure);
    }
  }

  /// The caller's part.
  template <typename Link, typename Work>
  void drive(std::size_t bytes, std::size_t count, const Ends& ends, Link& link,
             const Work& work_on) {
    std::size_t worked = 0, started = 0; // threads have done with, the link was given: all before
    std::array<std::size_t, kUnderWay> end_of{}; // of the link's copies
    std::size_t copies = 0, ended = 0;
    while (worked < count || carried_ < count) {
      if (ended < copies && link.has_ended()) {
        carried_ = end_of[ended++ % kUnderWay];
      }
      while (worked < count && done_[worked % done_.size()] == worked + 1) {
        ++worked;
      }
      const std::size_t turn = (started / done_.size() + 1) * done_.size(); // of the ring
      const std::size_t end =
          std::min({count, worked + ends.link_ahead, started + ends.most_at_once, turn});
      if (started < end && copies - ended < kUnderWay) {
        link.start(place_of(started), started * block_,
                   std::min(end * block_, bytes) - started * block_);
        started = end;
        end_of[copies++ % kUnderWay] = end;
      } else if (std::size_t block = taken_; block < count &&
                                             block < carried_ + ends.threads_ahead &&
                                             taken_.compare_exchange_strong(block, block + 1)) {
        work_on(block);
      } else {
        std::this_thread::yield();
      }
    }
  }

  std::span<char> ring_;
  std::size_t block_;
  std::atomic<std::size_t> taken_ = 0;   ///< the next block for a thread
  std::atomic<std::size_t> carried_ = 0; ///< the link has done with all blocks before
  /// Of each place in the ring: the last block that a thread has done with, and 1; 0 for none.
  std::vector<std::atomic<std::size_t>> done_;
  CopyThreads threads_;
};

} // namespace clusterbench
