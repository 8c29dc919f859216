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

} // namespace clusterbench::datasets
