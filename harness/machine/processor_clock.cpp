#include "harness/machine/processor_clock.hpp"

#include <algorithm>
#include <chrono>
#include <ctime>

namespace clusterbench {
namespace {

// The least of some steps that are seen, as others may take the processor in between.
// clock_getres() says a nanosecond on any machine.
double measured_step() {
  using Clock = std::chrono::steady_clock;
  constexpr int kSteps = 3;
  constexpr double kLongest = 0.01; // a tick of 100 Hz; no more is ever allowed for
  constexpr std::chrono::duration<double> kLook{0.1};
  const auto end = Clock::now() + kLook;
  double least = kLongest;
  for (int step = 0; step <= kSteps; ++step) {
    const double before = processor_seconds_of_thread();
    double after = before;
    do { // once at least: others may have had the processor until the end
      after = processor_seconds_of_thread();
    } while (after == before && Clock::now() < end);
    if (step > 0 && after > before) { // the first has begun before it was looked at
      least = std::min(least, after - before);
    }
  }
  return least;
}

} // namespace

double processor_seconds_of_thread() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double processor_clock_step() {
  static const double step = measured_step();
  return step;
}

} // namespace clusterbench
