// Which processor each thread of a variant computes on. Processors are not alike: on a shared host
// what the neighbour on a core's other hyperthread does makes a process up to half as long again,
// for as long as it stays. And left to itself, a kernel that keeps processors asleep wakes several
// threads on one of them.
#pragma once

#include <cstddef>
#include <map>
#include <sys/types.h>
#include <vector>

namespace clusterbench {

/// The usable processors, the one first that does the fixed work (fixed_work.hpp) fastest just now:
/// in the median of several times, on all of them at once.
std::vector<int> processors_by_speed();

/// Binds each thread to the processor at the same place; what may not be bound stays where it is.
/// Threads that a bound one starts are bound to the same processor.
void bind_threads(const std::vector<pid_t>& threads, const std::vector<int>& processors);

/// Undoes that: each thread, and those that it starts from now on, may be on all usable processors.
void let_go(const std::vector<pid_t>& threads);

/// Which threads of some processes compute while something runs.
class ComputingThreads {
public:
  /// Begins to count.
  explicit ComputingThreads(std::vector<pid_t> processes);

  /// All that live, in the order of their start, if they are no more than `most`: one that has
  /// hardly computed yet may have waited behind another. Of more of them, those that did at least a
  /// twentieth of what all have computed since; cpu is what that took [s of processor time]. Empty
  /// where threads that have ended meanwhile computed more than a fifth of it: they will be others
  /// the next time. So it is where the kernel keeps no account of threads.
  std::vector<pid_t> since(double cpu, std::size_t most) const;

private:
  std::map<pid_t, double> seconds_of_each() const;

  std::vector<pid_t> processes_;
  std::map<pid_t, double> before_;
};

} // namespace clusterbench
