#include "harness/system/process.hpp"

#include "datasets/output_file.hpp"
#include "harness/system/exit_codes.hpp"
#include "harness/system/find_program.hpp"
#include "harness/system/process_limits.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <poll.h>
#include <set>
#include <stdexcept>
#include <string_view>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;

namespace clusterbench {
namespace {

// What asks a program to end, or would end it: as an interrupt it leaves nothing behind.
constexpr std::array kInterrupts = {SIGINT,  SIGTERM, SIGHUP,  SIGQUIT,
                                    SIGUSR1, SIGUSR2, SIGALRM, SIGXCPU};

// These end a program as well, and so do the real-time signals. Who has a use for one has a handler
// for it by now, a profiler say, or ignores it, and keeps that.
constexpr std::array kSeldom = {SIGIO, SIGPWR, SIGVTALRM, SIGPROF, SIGSTKFLT};

template <typename Action>
void for_each_seldom(Action action) {
  std::ranges::for_each(kSeldom, action);
  for (int signal = SIGRTMIN; signal <= SIGRTMAX; ++signal) {
    action(signal);
  }
}

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

/// What a child needs between vfork() and its program, while it lives in its parent's memory.
struct Child {
  const char* path;
  char* const* arguments;
  char* const* environment;
  const ProcessOptions& options;
  pid_t parent;
  const sigset_t& signals; ///< that are to be blocked in it
};

bool keep_open(int descriptor) {
  return fcntl(descriptor, F_SETFD, 0) == 0;
}

bool redirect(int descriptor, int to, int flags) {
  const int from = descriptor >= 0 ? descriptor : open("/dev/null", flags | O_CLOEXEC);
  return dup2(from, to) == to && keep_open(to); // dup2() onto itself leaves close-on-exec set
}

// A handler of ours would run in the parent's memory; that we ignore a signal is our business
// alone.
void take_usual_actions() {
  for (const int signal : kInterrupts) {
    struct sigaction ours {};
    sigaction(signal, nullptr, &ours);
    if (signal != SIGHUP || ours.sa_handler != SIG_IGN) { // under nohup it is everybody's
      std::signal(signal, SIG_DFL);
    }
  }
  for_each_seldom([](int signal) {
    struct sigaction ours {};
    sigaction(signal, nullptr, &ours);
    if (ours.sa_handler == remember_signal) { // what is another's, execve() resets
      std::signal(signal, SIG_DFL);
    }
  });
  std::signal(SIGPIPE, SIG_DFL);
  std::signal(SIGXFSZ, SIG_DFL);
}

// Returns only if the program cannot be started, with the reason in errno. Calls nothing that is
// not async-signal-safe, and allocates nothing.
void become(const Child& child) {
  prctl(PR_SET_PDEATHSIG, SIGKILL); // the parent may be killed at any moment, also before this
  if (getppid() != child.parent) {
    _exit(0);
  }
  setsid(); // a group, which ends as one; a terminal and a scheduling group go by the session
  const ProcessOptions& options = child.options;
  const int output = options.output_descriptor;
  const int reply = options.reply_descriptor >= 0 ? options.reply_descriptor : output;
  if (redirect(options.input_descriptor, STDIN_FILENO, O_RDONLY) &&
      redirect(reply, STDOUT_FILENO, O_WRONLY) && redirect(output, STDERR_FILENO, O_WRONLY) &&
      std::ranges::all_of(options.inherited_descriptors, keep_open)) {
    take_usual_actions();
    sigprocmask(SIG_SETMASK, &child.signals, nullptr);
    execve(child.path, child.arguments, child.environment);
  }
}

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
  const std::string& program = options.arguments.front();
  const std::string path =
      program.find('/') != std::string::npos ? program : find_program(program).string();
  std::vector<std::string> arguments = options.arguments;
  std::vector<std::string> environment = merged_environment(options.environment);
  const std::vector<char*> argument_pointers = pointers_to(arguments);
  const std::vector<char*> environment_pointers = pointers_to(environment);
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const Child child{
      path.c_str(), argument_pointers.data(), environment_pointers.data(), options, getpid(),
      before};
  volatile int error = 0; // the child has our memory
  const pid_t pid = vfork();
  if (pid == 0) {
    become(child);
    error = errno;
    _exit(127);
  }
  if (pid < 0) {
    error = errno;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (error != 0) {
    if (pid > 0) {
      waitpid(pid, nullptr, 0);
    }
    throw std::runtime_error(
        fmt::format("cannot start {}: {}", program,
                    error == EAGAIN ? why_none_can_start() : std::strerror(error)));
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
    poll(&ended, 1,
         killed ? kPollMilliseconds : std::min(kPollMilliseconds, static_cast<int>(left) + 1));
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
  for (const int signal : kInterrupts) {
    struct sigaction before {};
    sigaction(signal, nullptr, &before);
    if (signal != SIGHUP || before.sa_handler != SIG_IGN) {
      sigaction(signal, &action, nullptr);
    }
  }
  for_each_seldom([&](int signal) {
    struct sigaction before {};
    sigaction(signal, nullptr, &before);
    if (before.sa_handler == SIG_DFL) {
      sigaction(signal, &action, nullptr);
    }
  });
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
