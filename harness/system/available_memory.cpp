#include "harness/system/available_memory.hpp"

#include <algorithm>
#include <fstream>
#include <optional>
#include <stdexcept>
#include <string>

namespace clusterbench {
namespace {

// "max" is no number and means no limit.
std::optional<std::size_t> number_in(const char* path) {
  std::ifstream file(path);
  std::size_t number = 0;
  return file >> number ? std::optional(number) : std::nullopt;
}

std::optional<std::size_t> without_swapping() {
  std::ifstream file("/proc/meminfo");
  std::string key;
  for (std::size_t kibibytes = 0; file >> key;) {
    if (key == "MemAvailable:" && file >> kibibytes) {
      return kibibytes * 1024;
    }
    std::getline(file, key);
  }
  return std::nullopt;
}

} // namespace

std::optional<std::size_t> processes_ended_for_memory() {
  std::ifstream file("/proc/vmstat");
  std::string key;
  for (std::size_t number = 0; file >> key >> number;) {
    if (key == "oom_kill") {
      return number;
    }
  }
  return std::nullopt;
}

std::size_t available_memory_bytes() {
  const std::optional<std::size_t> available = without_swapping();
  if (!available) {
    throw std::runtime_error("/proc/meminfo does not tell how much memory is available");
  }
  // A control group may allow less.
  const auto limit = number_in("/sys/fs/cgroup/memory.max");
  const auto used = number_in("/sys/fs/cgroup/memory.current");
  if (limit && used) {
    return std::min(*available, *limit > *used ? *limit - *used : 0);
  }
  return *available;
}

} // namespace clusterbench
