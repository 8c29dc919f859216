#include "harness/machine/other_tasks.hpp"

#include "harness/machine/usable_processors.hpp"
#include "harness/system/process.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fstream>
#include <string>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace clusterbench {
namespace {

constexpr std::chrono::milliseconds kBetweenLooks{50}; // a look takes about 0.1 ms

bool is_running(pid_t process, pid_t thread) {
  std::ifstream file(fmt::format("/proc/{}/task/{}/stat", process, thread));
  std::string line;
  std::getline(file, line);
  // "thread (name) state ..."; a name may hold brackets and blanks
  const auto name_end = line.rfind(") ");
  return name_end != std::string::npos && line[name_end + 2] == 'R';
}

int running_threads(pid_t process) {
  return static_cast<int>(std::ranges::count_if(
      threads_of(process), [process](pid_t thread) { return is_running(process, thread); }));
}

std::optional<int> all_running() {
  std::ifstream file("/proc/loadavg"); // "0.44 1.19 2.19 RUNNING/TASKS LAST_PID"
  double minutes[3];
  int running = 0;
  file >> minutes[0] >> minutes[1] >> minutes[2] >> running;
  return file ? std::optional(running) : std::nullopt;
}

} // namespace

std::optional<int> other_tasks(const std::vector<pid_t>& ours) {
  if (static_cast<long>(usable_processors().size()) != sysconf(_SC_NPROCESSORS_ONLN)) {
    return std::nullopt;
  }
  // Ours first: a thread of ours that goes to sleep in between must not pass for another's.
  int running = running_threads(getpid());
  for (const pid_t process : ours) {
    running += running_threads(process);
  }
  const std::optional<int> all = all_running();
  return all ? std::optional(std::max(0, *all - running)) : std::nullopt;
}

OtherTasksWatch::OtherTasksWatch(std::vector<pid_t> ours, int threads)
    : ours_(std::move(ours)),
      free_cores_(std::max(0, static_cast<int>(usable_processors().size()) / 2 - threads)) {
  try {
    looking_ = std::jthread([this] { look_now_and_then(); });
  } catch (const std::system_error&) {
    // no room for another thread: the looks at the beginning and at the end have to do
  }
}

OtherTasksWatch::~OtherTasksWatch() {
  const std::scoped_lock lock(mutex_);
  stop_ = true;
  stopped_.notify_one();
}

std::chrono::duration<double> OtherTasksWatch::wait_for_quiet(std::chrono::duration<double> most) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds kBetween{2};
  const auto start = Clock::now();
  while (Clock::now() - start + kBetween <= most && interrupt_signal() == 0 &&
         too_many_now().value_or(0) > 0) {
    std::this_thread::sleep_for(kBetween);
  }
  return Clock::now() - start;
}

void OtherTasksWatch::begin() {
  const std::scoped_lock lock(mutex_);
  looks_ = too_many_ = 0;
  look();
}

std::optional<double> OtherTasksWatch::end() {
  const std::scoped_lock lock(mutex_);
  look();
  return known_ ? std::optional(static_cast<double>(too_many_) / looks_) : std::nullopt;
}

std::optional<int> OtherTasksWatch::too_many_now() const {
  const std::optional<int> others = other_tasks(ours_);
  return others ? std::optional(std::max(0, *others - free_cores_)) : std::nullopt;
}

void OtherTasksWatch::look() {
  const std::optional<int> too_many = too_many_now();
  known_ = known_ && too_many;
  too_many_ += too_many.value_or(0);
  ++looks_;
}

void OtherTasksWatch::look_now_and_then() {
  std::unique_lock lock(mutex_);
  while (!stopped_.wait_for(lock, kBetweenLooks, [this] { return stop_; })) {
    look();
  }
}

} // namespace clusterbench
