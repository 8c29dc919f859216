#include "harness/system/process.hpp"

#include "datasets/output_file.hpp"
#include "harness/system/exit_codes.hpp"

#include <algorithm>
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
volatile std::sig_atomic_t g_ends_at_once = 1;
volatile std::sig_atomic_t g_makes_data = 0;
volatile std::sig_atomic_t g_holds_results = 0;

// Async-signal-safe.
[[noreturn]] void end_interrupted() {
  constexpr std::string_view kUsual = "clusterbench: interrupted\n";
  constexpr std::string_view kOfData =
      "interrupted while data were made; the same command with --resume goes on\n";
  const std::string_view message = g_makes_data != 0 ? kOfData : kUsual;
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, message.data(), message.size());
  datasets::OutputFile::remove_unfinished();
  _exit(static_cast<int>(ExitCode::interrupted));
}

void remember_signal(int signal) {
  g_interrupt_signal = signal;
  if (g_ends_at_once != 0) {
    end_interrupted();
  }
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
    posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF);
    sigset_t ignored_here;
    sigemptyset(&ignored_here);
    sigaddset(&ignored_here, SIGPIPE);
    sigaddset(&ignored_here, SIGXFSZ);
    posix_spawnattr_setsigdefault(&attributes_, &ignored_here);
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

namespace {

// The children that were started here and have not been ended.
std::set<pid_t>& started() {
  static std::set<pid_t> pids;
  return pids;
}

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

// Ends every child that was not started here: orphans, and what those leave behind in turn.
void end_orphans() {
  for (bool found = true; found;) {
    found = false;
    for (const pid_t pid : children()) {
      if (!started().contains(pid)) {
        kill(pid, SIGKILL);
        waitpid(pid, nullptr, 0);
        found = true;
      }
    }
  }
}

// Rarely enough not to disturb what is being measured.
constexpr int kPollMilliseconds = 250;

} // namespace

int start_process(const ProcessOptions& options) {
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  FileActions actions;
  const auto redirect = [&](int descriptor, int to, int flags) {
    if (descriptor >= 0) {
      posix_spawn_file_actions_adddup2(actions.get(), descriptor, to);
    } else {
      posix_spawn_file_actions_addopen(actions.get(), to, "/dev/null", flags, 0);
    }
  };
  redirect(options.input_descriptor, STDIN_FILENO, O_RDONLY);
  redirect(options.reply_descriptor >= 0 ? options.reply_descriptor : options.output_descriptor,
           STDOUT_FILENO, O_WRONLY);
  redirect(options.output_descriptor, STDERR_FILENO, O_WRONLY);
  for (const int descriptor : options.inherited_descriptors) {
    // Duplicating onto itself clears close-on-exec in the child alone.
    posix_spawn_file_actions_adddup2(actions.get(), descriptor, descriptor);
  }
  std::vector<std::string> arguments = options.arguments;
  std::vector<std::string> environment = merged_environment(options.environment);
  Attributes attributes;
  pid_t pid = 0;
  const int error = posix_spawnp(&pid, arguments.front().c_str(), actions.get(), attributes.get(),
                                 pointers_to(arguments).data(), pointers_to(environment).data());
  if (error != 0) {
    throw std::runtime_error(
        fmt::format("cannot start {}: {}", arguments.front(), std::strerror(error)));
  }
  started().insert(pid);
  return pid;
}

ProcessOutcome end_process(int pid, std::chrono::duration<double> patience) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  const int pid_descriptor = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  ProcessOutcome outcome;
  bool killed = false;
  int status = 0;
  while (waitpid(pid, &status, WNOHANG) != pid) {
    const std::chrono::duration<double> elapsed = Clock::now() - start;
    if (!killed && (elapsed >= patience || interrupt_signal() != 0)) {
      kill(-pid, SIGKILL);
      killed = true;
      outcome.kind = interrupt_signal() != 0 ? ProcessOutcome::Kind::interrupted
                                             : ProcessOutcome::Kind::timed_out;
    }
    outcome.peak_rss_bytes = std::max(outcome.peak_rss_bytes, peak_rss_bytes(pid));
    const double left = std::max(0.0, (patience - elapsed).count() * 1e3);
    pollfd ended{pid_descriptor, POLLIN, 0};
    poll(&ended, 1, killed ? kPollMilliseconds
                           : std::min(kPollMilliseconds, static_cast<int>(left) + 1));
  }
  close(pid_descriptor);
  outcome.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  kill(-pid, SIGKILL); // whatever it forked and left running; an empty group is no error to us
  started().erase(pid);
  end_orphans();
  if (!killed && WIFSIGNALED(status)) {
    outcome.kind = ProcessOutcome::Kind::signalled;
    outcome.signal = WTERMSIG(status);
  } else if (WIFEXITED(status)) {
    outcome.exit_code = WEXITSTATUS(status);
  }
  return outcome;
}

ProcessOutcome run_process(const ProcessOptions& options) {
  const bool for_ever = options.timeout.count() <= 0;
  return end_process(start_process(options),
                     for_ever ? std::chrono::duration<double>(1e9) : options.timeout);
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

std::vector<pid_t> threads_of(pid_t process) {
  std::vector<pid_t> threads;
  std::error_code gone;
  for (const auto& thread :
       std::filesystem::directory_iterator(fmt::format("/proc/{}/task", process), gone)) {
    threads.push_back(std::stoi(thread.path().filename()));
  }
  std::ranges::sort(threads);
  return threads;
}

void install_signal_handlers() {
  struct sigaction action {};
  action.sa_handler = remember_signal;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  struct sigaction before {};
  if (sigaction(SIGHUP, nullptr, &before) == 0 && before.sa_handler != SIG_IGN) {
    sigaction(SIGHUP, &action, nullptr);
  }
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
}

void install_interrupt_handler() {
  install_signal_handlers(); // for programs that have not
  g_ends_at_once = 0;
}

int interrupt_signal() {
  return g_interrupt_signal;
}

void hold_results() {
  g_holds_results = 1;
}

DefersInterrupts::DefersInterrupts() : ended_at_once_(g_ends_at_once != 0) {
  g_ends_at_once = 0;
}

DefersInterrupts::~DefersInterrupts() {
  g_ends_at_once = ended_at_once_ ? 1 : 0;
  if (ended_at_once_ && g_interrupt_signal != 0) {
    end_interrupted();
  }
}

EndsAtOnce::EndsAtOnce() : ended_at_once_(g_ends_at_once != 0) {
  g_makes_data = 1;
  g_ends_at_once = g_holds_results != 0 ? 0 : 1;
}

EndsAtOnce::~EndsAtOnce() {
  g_ends_at_once = ended_at_once_ ? 1 : 0;
  g_makes_data = 0;
}

std::vector<std::string> own_command_line() {
  std::ifstream file("/proc/self/cmdline");
  std::vector<std::string> words;
  for (std::string word; std::getline(file, word, '\0');) {
    words.push_back(words.empty() ? std::filesystem::path(word).filename().string() : word);
  }
  return words;
}

std::string own_path() {
  return std::filesystem::read_symlink("/proc/self/exe").string();
}

} // namespace clusterbench
