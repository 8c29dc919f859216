#include "harness/machine/placement.hpp"

#include "harness/machine/fixed_work.hpp"
#include "harness/machine/usable_processors.hpp"
#include "harness/system/process.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fstream>
#include <sched.h>
#include <utility>

namespace clusterbench {

std::vector<int> processors_by_speed() {
  constexpr int kTimes = 9;
  FixedWork work(usable_processors());
  std::vector<std::vector<double>> times(work.processors().size());
  for (int i = 0; i < kTimes; ++i) {
    work.microseconds();
    for (std::size_t p = 0; p < times.size(); ++p) {
      times[p].push_back(work.of_each()[p]);
    }
  }
  std::vector<std::pair<double, int>> by_time;
  for (std::size_t p = 0; p < times.size(); ++p) {
    std::ranges::nth_element(times[p], times[p].begin() + kTimes / 2);
    by_time.emplace_back(times[p][kTimes / 2], work.processors()[p]);
  }
  std::ranges::sort(by_time);
  std::vector<int> processors;
  std::ranges::transform(by_time, std::back_inserter(processors),
                         [](const auto& entry) { return entry.second; });
  return processors;
}

void bind_threads(const std::vector<pid_t>& threads, const std::vector<int>& processors) {
  for (std::size_t i = 0; i < std::min(threads.size(), processors.size()); ++i) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(processors[i], &one);
    sched_setaffinity(threads[i], sizeof one, &one);
  }
}

void let_go(const std::vector<pid_t>& threads) {
  cpu_set_t all;
  CPU_ZERO(&all);
  for (const int processor : usable_processors()) {
    CPU_SET(processor, &all);
  }
  for (const pid_t thread : threads) {
    sched_setaffinity(thread, sizeof all, &all);
  }
}

ComputingThreads::ComputingThreads(std::vector<pid_t> processes)
    : processes_(std::move(processes)), before_(seconds_of_each()) {}

std::vector<pid_t> ComputingThreads::since(double cpu, std::size_t most) const {
  std::vector<pid_t> all, computing;
  double sum = 0.0;
  for (const auto& [thread, seconds] : seconds_of_each()) {
    const auto found = before_.find(thread);
    const double computed = seconds - (found == before_.end() ? 0.0 : found->second);
    sum += computed;
    all.push_back(thread);
    if (computed > 0.0 && computed >= 0.05 * cpu) {
      computing.push_back(thread);
    }
  }
  if (sum < 0.8 * cpu) {
    return {};
  }
  return all.size() <= most ? all : computing;
}

std::map<pid_t, double> ComputingThreads::seconds_of_each() const {
  std::map<pid_t, double> seconds;
  for (const pid_t process : processes_) {
    for (const pid_t thread : threads_of(process)) {
      std::ifstream account(fmt::format("/proc/{}/task/{}/schedstat", process, thread));
      double nanoseconds = 0.0;
      if (account >> nanoseconds) {
        seconds[thread] = nanoseconds * 1e-9;
      }
    }
  }
  return seconds;
}

} // namespace clusterbench
