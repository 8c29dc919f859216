#include "harness/machine/fixed_work.hpp"

#include "harness/machine/usable_processors.hpp"

#include <algorithm>
#include <array>
#include <chrono>

namespace clusterbench {
namespace {

// Half of the time a chain, whose next step waits for the last: it shows the clock's frequency. The other
// half as many sums at once as the core can add: it shows whether a hyperthread beside takes its share.
double once() {
  constexpr int kChain = 20'000, kSums = 20'000;
  volatile double factor = 0.999999, term = 1e-6; // so that no compiler knows the result
  const double a = factor, b = term;
  double chain = 1.0;
  for (int i = 0; i < kChain; ++i) {
    chain = chain * a + b;
  }
  std::array<double, 16> sums{};
  for (int i = 0; i < kSums; ++i) {
    for (double& sum : sums) {
      sum = sum * a + b;
    }
  }
  for (const double sum : sums) {
    chain += sum;
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

FixedWork::FixedWork(int threads)
    : microseconds_(thread_count(threads)),
      begin_(static_cast<std::ptrdiff_t>(microseconds_.size())),
      end_(static_cast<std::ptrdiff_t>(microseconds_.size())) {
  for (std::size_t thread = 1; thread < microseconds_.size(); ++thread) {
    others_.emplace_back([this, thread] { work_when_told(thread); });
  }
}

FixedWork::~FixedWork() {
  stop_ = true;
  begin_.arrive_and_wait();
}

double FixedWork::microseconds() {
  begin_.arrive_and_wait();
  microseconds_[0] = timed();
  end_.arrive_and_wait();
  return std::ranges::max(microseconds_);
}

void FixedWork::work_when_told(std::size_t thread) {
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
