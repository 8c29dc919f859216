#include "harness/run/process.hpp"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <poll.h>
#include <set>
#include <spawn.h>
#include <stdexcept>
#include <string_view>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;

namespace clusterbench {
namespace {

volatile std::sig_atomic_t g_interrupt_signal = 0;

void remember_signal(int signal) {
  g_interrupt_signal = signal;
}

std::vector<char*> pointers_to(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (std::string& text : strings) {
    pointers.push_back(text.data());
  }
  pointers.push_back(nullptr);
  return pointers;
}

std::vector<std::string> merged_environment(const std::vector<std::string>& additions) {
  std::vector<std::string> merged = additions;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view inherited = *entry;
    const std::string_view name_and_equals = inherited.substr(0, inherited.find('=') + 1);
    bool replaced = false;
    for (const std::string& addition : additions) {
      replaced = replaced || addition.starts_with(name_and_equals);
    }
    if (!replaced) {
      merged.emplace_back(inherited);
    }
  }
  return merged;
}

class FileActions {
public:
  FileActions() { posix_spawn_file_actions_init(&actions_); }
  ~FileActions() { posix_spawn_file_actions_destroy(&actions_); }
  FileActions(const FileActions&) = delete;
  FileActions& operator=(const FileActions&) = delete;
  posix_spawn_file_actions_t* get() { return &actions_; }

private:
  posix_spawn_file_actions_t actions_{};
};

class Attributes {
public:
  Attributes() {
    posix_spawnattr_init(&attributes_);
    posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETPGROUP);
    posix_spawnattr_setpgroup(&attributes_, 0);
  }
  ~Attributes() { posix_spawnattr_destroy(&attributes_); }
  Attributes(const Attributes&) = delete;
  Attributes& operator=(const Attributes&) = delete;
  posix_spawnattr_t* get() { return &attributes_; }

private:
  posix_spawnattr_t attributes_{};
};

} // namespace

int start_process(const ProcessOptions& options) {
  FileActions actions;
  posix_spawn_file_actions_addopen(actions.get(), STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  if (options.output_descriptor >= 0) {
    posix_spawn_file_actions_adddup2(actions.get(), options.output_descriptor, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(actions.get(), options.output_descriptor, STDERR_FILENO);
  } else {
    posix_spawn_file_actions_addopen(actions.get(), STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addopen(actions.get(), STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  }
  for (const int descriptor : options.inherited_descriptors) {
    // Duplicating onto itself clears close-on-exec in the child alone.
    posix_spawn_file_actions_adddup2(actions.get(), descriptor, descriptor);
  }
  std::vector<std::string> arguments = options.arguments;
  std::vector<std::string> environment = merged_environment(options.environment);
  Attributes attributes;
  pid_t pid = 0;
  const int error = posix_spawn(&pid, arguments.front().c_str(), actions.get(), attributes.get(),
                                pointers_to(arguments).data(), pointers_to(environment).data());
  if (error != 0) {
    throw std::runtime_error(
        fmt::format("cannot start {}: {}", arguments.front(), std::strerror(error)));
  }
  return pid;
}

namespace {

std::set<pid_t> children() {
  std::set<pid_t> pids;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream list(thread.path() / "children");
    for (pid_t pid = 0; list >> pid;) {
      pids.insert(pid);
    }
  }
  return pids;
}

// Ends every child of ours that is not in `known`: orphans, and what those leave behind in turn.
void end_orphans(const std::set<pid_t>& known) {
  for (bool found = true; found;) {
    found = false;
    for (const pid_t pid : children()) {
      if (!known.contains(pid)) {
        kill(pid, SIGKILL);
        waitpid(pid, nullptr, 0);
        found = true;
      }
    }
  }
}

} // namespace

ProcessOutcome run_process(const ProcessOptions& options) {
  using Clock = std::chrono::steady_clock;
  // Rarely enough not to disturb what is being measured.
  constexpr int kPollMilliseconds = 250;

  prctl(PR_SET_CHILD_SUBREAPER, 1);
  const std::set<pid_t> known = children();
  const auto start = Clock::now();
  const pid_t pid = start_process(options);
  const int pid_descriptor = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));

  ProcessOutcome outcome;
  bool killed = false;
  int status = 0;
  for (;;) {
    pollfd ended{pid_descriptor, POLLIN, 0};
    poll(&ended, 1, kPollMilliseconds);
    outcome.peak_rss_bytes = std::max(outcome.peak_rss_bytes, peak_rss_bytes(pid));
    if (waitpid(pid, &status, WNOHANG) == pid) {
      break;
    }
    const std::chrono::duration<double> elapsed = Clock::now() - start;
    const bool late = options.timeout.count() > 0 && elapsed > options.timeout;
    if (!killed && (late || interrupt_signal() != 0)) {
      kill(-pid, SIGKILL);
      killed = true;
      outcome.kind = interrupt_signal() != 0 ? ProcessOutcome::Kind::interrupted
                                             : ProcessOutcome::Kind::timed_out;
    }
  }
  close(pid_descriptor);
  outcome.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  kill(-pid, SIGKILL); // whatever it forked and left running; an empty group is no error to us
  end_orphans(known);
  if (!killed && WIFSIGNALED(status)) {
    outcome.kind = ProcessOutcome::Kind::signalled;
    outcome.signal = WTERMSIG(status);
  } else if (WIFEXITED(status)) {
    outcome.exit_code = WEXITSTATUS(status);
  }
  return outcome;
}

std::size_t peak_rss_bytes(int pid) {
  std::ifstream status(fmt::format("/proc/{}/status", pid));
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) {
      return std::stoull(line.substr(6)) * 1024;
    }
  }
  return 0;
}

void install_interrupt_handler() {
  struct sigaction action {};
  action.sa_handler = remember_signal;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

int interrupt_signal() {
  return g_interrupt_signal;
}

std::string own_path() {
  return std::filesystem::read_symlink("/proc/self/exe").string();
}

} // namespace clusterbench
