// The processors that this process may use, and how much of their time.
#pragma once

#include <string_view>
#include <vector>

namespace clusterbench {

/// Their numbers when this was called first.
const std::vector<int>& usable_processors();

/// How many processors' time a quota of Linux control groups allows: "150000 100000", microseconds
/// of processor time and of the period in which they may be used, is 1.5. 0 for "max ..." and for
/// what is no quota.
double processors_of_quota(std::string_view cpu_max);

/// So many threads, or as many as such a quota gives a processor each, at least 1: more are all
/// stopped for a part of every period, also those that others wait for.
int threads_of_quota(int threads, double quota);

/// threads_of_quota() by this container's quota, as the root of /sys/fs/cgroup says (version 2, or
/// 1) when this is called first. Quotas of groups above or below it are not seen.
int within_quota(int threads);

/// So many threads, or as many as can be started beside one another: under a limit of memory there
/// may be none for their stacks, where OpenMP would end the program. Asked once for every larger
/// number.
int startable_threads(int threads);

/// More threads than these wait for one another and measure nothing: four for each of the machine's
/// processors, and 16 where it has fewer than four.
int most_threads();

/// A thread for each usable processor, within the quota.
int default_threads();

} // namespace clusterbench
