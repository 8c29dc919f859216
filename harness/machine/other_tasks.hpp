// Who else computes on this machine while something is timed?
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <sys/types.h>
#include <thread>
#include <vector>

namespace clusterbench {

/// How many threads of other processes run just now, or would if a processor were free: all that
/// the kernel counts (/proc/loadavg) but those of `ours` and of this process. Empty where that
/// cannot be read, or counts for more processors than this process may use.
std::optional<int> other_tasks(const std::vector<pid_t>& ours);

/// What others did while something was timed: looks once when asked, and every 50 ms between where
/// a thread can be started for that.
class OtherTasksWatch {
public:
  /// ours: the processes that are timed, on so many threads together.
  OtherTasksWatch(std::vector<pid_t> ours, int threads);
  ~OtherTasksWatch();
  OtherTasksWatch(const OtherTasksWatch&) = delete;
  OtherTasksWatch& operator=(const OtherTasksWatch&) = delete;

  /// Until no task of others is too many (see end()), but no longer than that; at once where the
  /// system does not tell, and on an interrupt. How long it took.
  std::chrono::duration<double> wait_for_quiet(std::chrono::duration<double> most);

  /// Looks for the first time.
  void begin();
  /// Looks for the last time. The mean of all looks since begin() of how many tasks of others were
  /// too many: beyond those that can have a core of their own. Half of the processors count as
  /// cores, for a virtual machine does not say which are two threads of one. Empty where the system
  /// does not tell.
  std::optional<double> end();

private:
  std::optional<int> too_many_now() const;
  void look();
  void look_now_and_then();

  std::vector<pid_t> ours_;
  int free_cores_;
  std::mutex mutex_;
  bool stop_ = false;
  std::condition_variable stopped_;
  int looks_ = 0, too_many_ = 0; ///< since begin()
  bool known_ = true;
  std::jthread looking_; // last: it uses all others
};

} // namespace clusterbench
