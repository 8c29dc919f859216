// A control group (cgroup v2) for this process and those that it starts, so that the kernel holds
// them to a limit together. What counts is all memory that they touch, the cache of the files that
// they read included.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>

namespace clusterbench {

/// Folder of the control group that this process is in; nothing where there is no cgroup v2.
std::optional<std::filesystem::path> own_control_group();

/// Makes a group below the one that this process is in, never beside it: limits of that one hold
/// on. Goes into it, and comes back when this is destroyed. One at a time, and no other process may
/// do the same for this one meanwhile.
class MemoryGroup {
public:
  explicit MemoryGroup(std::size_t limit);
  ~MemoryGroup();
  MemoryGroup(const MemoryGroup&) = delete;
  MemoryGroup& operator=(const MemoryGroup&) = delete;

  /// Empty if the kernel holds the limit; else why it does not, and everything is as it was before.
  const std::string& why_not() const { return why_not_; }

  /// While one lives, the group has no limit of its own.
  class Lifted {
  public:
    explicit Lifted(const MemoryGroup& group);
    ~Lifted();
    Lifted(const Lifted&) = delete;
    Lifted& operator=(const Lifted&) = delete;

  private:
    const MemoryGroup& group_;
  };

private:
  std::string enter();
  void leave();

  std::size_t limit_;
  std::filesystem::path before_, group_;
  bool has_entered_ = false;
  bool has_enabled_ = false; ///< memory for the groups below `before_`
  std::string why_not_;
};

} // namespace clusterbench
