// Independent blocks of work on all cores.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace clusterbench::datasets {

/// Calls work(block) once for every block in [0, blocks), on as many threads as there are cores. A
/// container's quota is not asked for: no block waits for one whose thread it has stopped. The
/// result must not depend on the order. Rethrows the first exception.
template <class Work>
void parallel_blocks(std::size_t blocks, const Work& work) {
  const std::size_t threads =
      std::min<std::size_t>(blocks, std::max(1u, std::thread::hardware_concurrency()));
  std::atomic<std::size_t> next = 0;
  std::exception_ptr failure;
  std::mutex failure_guard;
  const auto worker = [&] {
    try {
      for (std::size_t block = next++; block < blocks; block = next++)
        work(block);
    } catch (...) {
      const std::lock_guard lock(failure_guard);
      if (!failure)
        failure = std::current_exception();
      next = blocks; // the others stop at their next block
    }
  };
  {
    std::vector<std::jthread> helpers;
    try {
      for (std::size_t t = 1; t < threads; ++t)
        helpers.emplace_back(worker);
    } catch (const std::system_error&) {
      // no memory for its stack, say: those that are there do the work
    }
    worker();
  } // joins
  if (failure)
    std::rethrow_exception(failure);
}

/// Calls work(begin, end) once for every piece of [0, count), of `piece` indices each or, the last
/// one, of fewer. Otherwise as parallel_blocks().
template <class Work>
void parallel_pieces(std::size_t count, std::size_t piece, const Work& work) {
  parallel_blocks((count + piece - 1) / piece, [&](std::size_t block) {
    work(block * piece, std::min(count, (block + 1) * piece));
  });
}

/// The least index in [0, count) of which `holds` is true, or `count`.
template <class Predicate>
std::size_t first_index_where(std::size_t count, const Predicate& holds) {
  constexpr std::size_t kPiece = std::size_t{1} << 22;
  std::atomic<std::size_t> first = count;
  parallel_pieces(count, kPiece, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end && begin < first; ++i) {
      if (holds(i)) {
        std::size_t least = first;
        while (i < least && !first.compare_exchange_weak(least, i)) {
        }
        return;
      }
    }
  });
  return first;
}

} // namespace clusterbench::datasets
