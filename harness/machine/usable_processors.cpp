#include "harness/machine/usable_processors.hpp"

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <sched.h>
#include <semaphore>
#include <sstream>
#include <string>
#include <system_error>
#include <thread>
#include <unistd.h>

namespace clusterbench {
namespace {

std::string line_of(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

} // namespace

const std::vector<int>& usable_processors() {
  static const std::vector<int> processors = [] {
    std::vector<int> usable;
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) {
      for (int i = 0; i < CPU_SETSIZE; ++i) {
        if (CPU_ISSET(i, &set)) {
          usable.push_back(i);
        }
      }
    }
    return usable;
  }();
  return processors;
}

double processors_of_quota(std::string_view cpu_max) {
  std::istringstream words{std::string(cpu_max)};
  double quota = 0.0, period = 0.0;
  words >> quota >> period;
  return words && quota > 0.0 && period > 0.0 ? quota / period : 0.0;
}

int threads_of_quota(int threads, double quota) {
  return quota > 0.0 && quota < threads ? std::max(1, static_cast<int>(quota)) : threads;
}

int within_quota(int threads) {
  static const double quota = [] {
    const double second = processors_of_quota(line_of("/sys/fs/cgroup/cpu.max"));
    return second > 0.0 ? second
                        : processors_of_quota(line_of("/sys/fs/cgroup/cpu/cpu.cfs_quota_us") + " " +
                                              line_of("/sys/fs/cgroup/cpu/cpu.cfs_period_us"));
  }();
  return threads_of_quota(threads, quota);
}

int startable_threads(int threads) {
  static int asked = 1, started = 1;
  if (threads > asked) {
    asked = threads;
    started = 1;
    std::binary_semaphore all_are_there(0);
    std::vector<std::jthread> others;
    try {
      for (; started < threads; ++started) {
        others.emplace_back([&] {
          all_are_there.acquire();
          all_are_there.release();
        });
      }
    } catch (const std::system_error&) {
    }
    all_are_there.release();
  }
  return std::min(threads, started);
}

int most_threads() {
  constexpr int kEach = 4, kAnywhere = 16;
  return std::max(kAnywhere, kEach * static_cast<int>(sysconf(_SC_NPROCESSORS_CONF)));
}

int default_threads() {
  // Of more than 1024 processors the kernel does not say which may be used.
  const std::size_t usable = usable_processors().empty() ? std::thread::hardware_concurrency()
                                                         : usable_processors().size();
  return within_quota(static_cast<int>(std::max<std::size_t>(usable, 1)));
}

} // namespace clusterbench
