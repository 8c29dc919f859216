#include "harness/system/available_memory.hpp"

#include "harness/system/memory_group.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>

namespace clusterbench {
namespace {

// "max" is no number and means no limit.
std::optional<std::size_t> number_in(const std::filesystem::path& path) {
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

// What the kernel takes back as soon as memory is asked for.
std::size_t cache_of_files(const std::filesystem::path& group) {
  std::ifstream file(group / "memory.stat");
  std::string key;
  std::size_t bytes = 0;
  for (std::size_t number = 0; file >> key >> number;) {
    bytes += key == "inactive_file" || key == "active_file" ? number : 0;
  }
  return bytes;
}

bool is_there(const std::filesystem::path& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
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
  std::size_t least = *available;
  // A control group may allow less, and so may those around it.
  for (auto group = own_control_group(); group && is_there(*group / "cgroup.procs");
       group = group->parent_path()) {
    const auto limit = number_in(*group / "memory.max");
    const auto used = number_in(*group / "memory.current");
    if (limit && used) {
      const std::size_t kept = *used - std::min(*used, cache_of_files(*group));
      least = std::min(least, *limit - std::min(*limit, kept));
    }
  }
  return least;
}

} // namespace clusterbench
