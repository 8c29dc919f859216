#include "harness/machine/usable_processors.hpp"

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <sched.h>
#include <sstream>
#include <string>

namespace clusterbench {

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

int within_quota(int threads) {
  static const double quota = [] {
    std::ifstream file("/sys/fs/cgroup/cpu.max");
    std::string line;
    std::getline(file, line);
    return processors_of_quota(line);
  }();
  return quota > 0.0 && quota < threads ? std::max(1, static_cast<int>(quota)) : threads;
}

int default_threads() {
  return within_quota(static_cast<int>(std::max<std::size_t>(usable_processors().size(), 1)));
}

} // namespace clusterbench
