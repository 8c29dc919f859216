#include "harness/system/memory_group.hpp"

#include <cerrno>
#include <charconv>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <fstream>
#include <sstream>
#include <string_view>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

namespace clusterbench {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "clusterbench-";

// In one write, as the kernel wants it; its error, or 0.
int put(const fs::path& file, std::string_view text) {
  const int descriptor = open(file.c_str(), O_WRONLY | O_CLOEXEC);
  if (descriptor < 0) {
    return errno;
  }
  const bool written = write(descriptor, text.data(), text.size()) >= 0;
  const int error = written ? 0 : errno;
  close(descriptor);
  return error;
}

bool has_word(const fs::path& file, std::string_view wanted) {
  std::ifstream stream(file);
  for (std::string word; stream >> word;) {
    if (word == wanted) {
      return true;
    }
  }
  return false;
}

std::optional<fs::path> mount_point() {
  std::ifstream mounts("/proc/self/mountinfo");
  for (std::string line; std::getline(mounts, line);) {
    const auto type = line.find(" - cgroup2 ");
    if (type == std::string::npos) {
      continue;
    }
    std::istringstream words(line.substr(0, type)); // id, parent, device, root, mount point
    std::string word;
    for (int i = 0; i < 5; ++i) {
      words >> word;
    }
    return word;
  }
  return std::nullopt;
}

// Groups of programs that were killed are empty and do nothing, but stay.
void remove_those_of_dead_processes(const fs::path& folder) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename();
    pid_t process = 0;
    if (!name.starts_with(kPrefix)) {
      continue;
    }
    const char* const end = name.data() + name.size();
    const auto read = std::from_chars(name.data() + kPrefix.size(), end, process);
    if (read.ec == std::errc() && read.ptr == end &&
        !fs::exists(fs::path("/proc") / std::to_string(process), error)) {
      rmdir(entry.path().c_str());
    }
  }
}

} // namespace

std::optional<fs::path> own_control_group() {
  const std::optional<fs::path> mounted = mount_point();
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; mounted && std::getline(groups, line);) {
    if (constexpr std::string_view kVersion2 = "0::/"; line.starts_with(kVersion2)) {
      fs::path own = *mounted / line.substr(kVersion2.size());
      std::error_code error;
      if (fs::exists(own / "cgroup.procs", error)) {
        return own;
      }
    }
  }
  return std::nullopt;
}

MemoryGroup::MemoryGroup(std::size_t limit) : limit_(limit), why_not_(enter()) {
  if (!why_not_.empty()) {
    leave();
  }
}

MemoryGroup::~MemoryGroup() {
  leave();
}

std::string MemoryGroup::enter() {
  const auto failed = [](std::string_view what, int error) {
    return fmt::format("{}: {}", what, std::strerror(error));
  };
  const std::optional<fs::path> own = own_control_group();
  if (!own || !has_word(*own / "cgroup.controllers", "memory")) {
    return "there is no cgroup v2 with memory";
  }
  before_ = *own;
  remove_those_of_dead_processes(before_);
  const fs::path group = before_ / fmt::format("{}{}", kPrefix, getpid());
  if (mkdir(group.c_str(), 0755) != 0) {
    return failed("none can be made", errno);
  }
  group_ = group;
  if (const int error = put(group_ / "cgroup.procs", std::to_string(getpid())); error != 0) {
    return failed("it cannot be entered", error);
  }
  has_entered_ = true;
  // A group passes memory on to those below only while no process is in itself.
  if (std::error_code error; !fs::exists(group_ / "memory.max", error)) {
    if (const int busy = put(before_ / "cgroup.subtree_control", "+memory"); busy != 0) {
      return busy == EBUSY ? "other processes are in the group of this one"
                           : failed("it gets no memory to hold", busy);
    }
    has_enabled_ = true;
  }
  put(group_ / "memory.swap.max", "0"); // not there without swap
  if (const int error = put(group_ / "memory.max", std::to_string(limit_)); error != 0) {
    return failed("it takes no limit", error);
  }
  return "";
}

void MemoryGroup::leave() {
  if (has_enabled_) {
    put(before_ / "cgroup.subtree_control", "-memory");
  }
  if (has_entered_) {
    put(before_ / "cgroup.procs", std::to_string(getpid()));
  }
  if (!group_.empty()) {
    rmdir(group_.c_str()); // fails while a process is in it: then the next run removes it
  }
  has_enabled_ = has_entered_ = false;
  group_.clear();
}

MemoryGroup::Lifted::Lifted(const MemoryGroup& group) : group_(group) {
  if (group_.has_entered_) {
    put(group_.group_ / "memory.max", "max");
  }
}

MemoryGroup::Lifted::~Lifted() {
  if (group_.has_entered_) {
    put(group_.group_ / "memory.max", std::to_string(group_.limit_));
  }
}

} // namespace clusterbench
