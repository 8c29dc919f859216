#include "harness/compare/yardstick.hpp"

#include <algorithm>
#include <chrono>

namespace clusterbench {
namespace {

std::int64_t attempt() {
  const auto start = std::chrono::steady_clock::now();
  std::uint64_t a = 1, b = 2, c = 3, d = 4, e = 5, f = 6, g = 7, h = 8;
  for (std::uint64_t i = 0; i < 8000; ++i) {
    // As many additions a cycle as the core can do: what a sibling takes is missing here. Each
    // variable must stay in a register and change in every turn of the loop.
    a += i;
    b ^= i;
    c += i;
    d ^= i;
    e += i;
    f ^= i;
    g += i;
    h ^= i;
    asm volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d), "+r"(e), "+r"(f), "+r"(g), "+r"(h));
  }
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() -
                                                              start)
      .count();
}

} // namespace

std::int64_t yardstick_ns(int threads) {
  std::int64_t slowest = 0;
#pragma omp parallel num_threads(threads) reduction(max : slowest) if (threads > 1)
  slowest = std::min(attempt(), attempt()); // an interrupt hits one of them at most
  return slowest;
}

} // namespace clusterbench
