#include "harness/machine/processor_clock.hpp"

#include <algorithm>
#include <ctime>
#include <limits>

namespace clusterbench {
namespace {

// The least of some steps that are seen, as others may take the processor in between. clock_getres()
// says a nanosecond on any machine.
double measured_step() {
  constexpr int kSteps = 3;
  double least = std::numeric_limits<double>::infinity();
  for (int step = 0; step <= kSteps; ++step) {
    const double before = processor_seconds_of_thread();
    double after = before;
    while (after == before) {
      after = processor_seconds_of_thread();
    }
    if (step > 0) { // the first has begun before it was looked at
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
