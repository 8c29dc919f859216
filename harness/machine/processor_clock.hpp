// The kernel's account of how long a thread has had a processor.
#pragma once

namespace clusterbench {

/// Processor time of the calling thread [s].
double processor_seconds_of_thread();

/// The steps in which the kernel counts processor time [s]. Nanoseconds mostly; up to 10 ms where
/// the scheduler's clock ticks, as on virtual machines whose counters the kernel does not trust.
/// Measured at the first call, which takes a few of them.
double processor_clock_step();

} // namespace clusterbench
