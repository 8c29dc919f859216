#include "harness/machine/fixed_work.hpp"

#include "harness/machine/usable_processors.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <exception>
#include <sched.h>
#include <utility>

namespace clusterbench {
namespace {

// Half of the time a chain, whose next step waits for the last: it shows the clock's frequency. The
// other half more sums at once than the core has units for, and steps on integers beside them. A
// core can begin about so many instructions in a cycle and no more, so a hyperthread beside that
// begins any shows. Of sums alone places are left free, and a neighbour takes these unseen.
double once() {
  constexpr int kChain = 20'000, kWide = 10'000;
  volatile double factor = 0.999999, term = 1e-6; // so that no compiler knows the result
  volatile std::uint64_t bits = 0x9e3779b97f4a7c15;
  const double a = factor, b = term;
  const std::uint64_t mask = bits;
  double chain = 1.0;
  for (int i = 0; i < kChain; ++i) {
    chain = chain * a + b;
  }
  std::array<double, 24> sums{};
  std::array<std::uint64_t, 8> integers{1, 2, 3, 4, 5, 6, 7, 8};
  for (std::uint64_t i = 0; i < kWide; ++i) {
    for (double& sum : sums) {
      sum = sum * a + b;
    }
    for (std::uint64_t& integer : integers) {
      integer = (integer ^ mask) + i;
    }
  }
  for (const double sum : sums) {
    chain += sum;
  }
  for (const std::uint64_t integer : integers) {
    chain += static_cast<double>(integer);
  }
  return chain;
}

double timed() {
  const auto begin = std::chrono::steady_clock::now();
  volatile double result = once();
  static_cast<void>(result);
  const std::chrono::duration<double, std::micro> elapsed =
      std::chrono::steady_clock::now() - begin;
  return elapsed.count();
}

std::size_t thread_count(int threads) {
  const auto processors = static_cast<int>(usable_processors().size());
  return static_cast<std::size_t>(
      startable_threads(std::clamp(threads, 1, std::max(1, processors))));
}

} // namespace

FixedWork::FixedWork(int threads) : FixedWork({}, thread_count(threads)) {}

FixedWork::FixedWork(std::vector<int> processors)
    : FixedWork(processors, thread_count(static_cast<int>(processors.size()))) {}

FixedWork::FixedWork(std::vector<int> processors, std::size_t threads)
    : processors_(std::move(processors)), microseconds_(threads),
      begin_(static_cast<std::ptrdiff_t>(threads) + 1),
      end_(static_cast<std::ptrdiff_t>(threads) + 1) {
  processors_.resize(std::min(processors_.size(), threads));
  threads_.reserve(threads);
  try {
    for (std::size_t thread = 0; thread < threads; ++thread) {
      const int processor = processors_.empty() ? -1 : processors_[thread];
      threads_.emplace_back([this, thread, processor] { work_when_told(thread, processor); });
    }
  } catch (const std::
               exception&) { // no memory for another one: those that are there must not wait for it
    for (std::size_t missing = threads_.size(); missing < threads; ++missing) {
      begin_.arrive_and_drop();
      end_.arrive_and_drop();
    }
    processors_.resize(std::min(processors_.size(), threads_.size()));
    microseconds_.resize(std::max<std::size_t>(threads_.size(), 1));
  }
}

FixedWork::~FixedWork() {
  stop_ = true;
  begin_.arrive_and_wait();
}

double FixedWork::microseconds() {
  begin_.arrive_and_wait();
  if (threads_.empty()) {
    microseconds_[0] = timed();
  }
  end_.arrive_and_wait();
  return std::ranges::max(microseconds_);
}

void FixedWork::work_when_told(std::size_t thread, int processor) {
  if (processor >= 0) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(processor, &one);
    sched_setaffinity(0, sizeof one, &one);
  }
  for (;;) {
    begin_.arrive_and_wait();
    if (stop_) {
      return;
    }
    microseconds_[thread] = timed();
    end_.arrive_and_wait();
  }
}

} // namespace clusterbench
