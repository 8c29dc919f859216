// Who else wants the processors of a process that is timed, and one for each of its threads.
#pragma once

#include <cstddef>
#include <sys/types.h>

namespace clusterbench {

/// How many running tasks of processes other than that one and this one are too many beside
/// `threads` threads: beyond what the remaining processors can take. 0 where the kernel's count
/// (/proc/loadavg) cannot be read, or speaks of more processors than this process may use.
int competitors(pid_t process, int threads);

/// Gives each of the process's threads a processor of its own, beginning with the `first` of them
/// (in the sense of a remainder), where there are enough. Processors are not alike: what the
/// neighbours of each do makes a fifth of difference, so whoever is to be compared must have the
/// same one. And left to itself, the kernel may wake a thread on the processor of another one,
/// where it waits for a tick of ten milliseconds while a processor is idle. Threads started later
/// inherit the processor of the one that starts them.
void spread_threads(pid_t process, std::size_t first);

} // namespace clusterbench
