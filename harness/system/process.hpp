// Starts one child process, waits for it under a timeout, and says how it ended.
#pragma once

#include <chrono>
#include <csignal>
#include <cstddef>
#include <string>
#include <sys/types.h>
#include <vector>

namespace clusterbench {

struct ProcessOptions {
  std::vector<std::string> arguments;        ///< argv; the first is the program's path
  std::vector<int> inherited_descriptors;    ///< kept open in the child under the same numbers
  std::vector<std::string> environment = {}; ///< NAME=value, added to or replacing ours
  int input_descriptor = -1;                 ///< stdin of the child; -1: /dev/null
  int output_descriptor = -1;                ///< stdout and stderr of the child; -1: /dev/null
  int reply_descriptor = -1;                 ///< stdout of the child, if it is another one
  std::chrono::duration<double> timeout{0};  ///< 0: wait for ever
};

struct ProcessOutcome {
  enum class Kind { exited, signalled, timed_out, interrupted };
  Kind kind = Kind::exited;
  int exit_code = 0;              ///< if exited
  int signal = 0;                 ///< if signalled
  std::size_t peak_rss_bytes = 0; ///< as last seen while it ran
  double seconds = 0.0;
};

/// Runs the program to its end, which a timeout or an interrupt hastens. Throws std::runtime_error
/// if it cannot be started.
ProcessOutcome run_process(const ProcessOptions& options);

/// Starts the program and returns its process id; end_process() is to follow. It leads a session
/// and a process group of its own, and is killed when the calling thread has gone, by SIGKILL for
/// instance. The options' timeout is the caller's business. Throws std::runtime_error if it cannot
/// be started.
int start_process(const ProcessOptions& options);

/// Waits so long for a started process to end by itself, then kills its group. Whatever it forked
/// and left behind is killed too, in whatever session it hides: this process becomes the parent of
/// orphans (a subreaper), and a child that nobody here has started is one. `timed_out` if it was
/// killed here.
ProcessOutcome end_process(int pid, std::chrono::duration<double> patience);

/// The kernel's high-water mark of a process's resident memory; 0 if it is gone. (getrusage would
/// be wrong here: a spawned child starts with its parent's mark.)
std::size_t peak_rss_bytes(int pid);

/// Threads of a process that have not ended, in the order of their start.
std::vector<pid_t> threads_of(pid_t process);

/// To be called first of all. From now on SIGINT, SIGTERM, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM,
/// SIGXCPU and SIGHUP (unless it is ignored, as under nohup) end this process with exit code 130
/// and a message; so do SIGIO, SIGPWR, SIGVTALRM, SIGPROF, SIGSTKFLT and the real-time signals,
/// unless they are handled or ignored. Writing to a closed pipe or beyond the limit of a file's
/// size is an error of that write and no signal. Children start with the usual actions.
void install_signal_handlers();

/// From now on such an interrupt only sets a flag, and a running child is killed.
void install_interrupt_handler();

/// The signal that asked us to stop, or 0.
int interrupt_signal();

/// From now on no interrupt ends this process at once, also while an EndsAtOnce lives: it holds
/// results that nobody has seen yet.
void hold_results();

/// While one lives, an interrupt only sets the flag. If it would have ended this process before, it
/// does so when this goes. For work with a child that must not outlive us.
class DefersInterrupts {
public:
  DefersInterrupts();
  ~DefersInterrupts();
  DefersInterrupts(const DefersInterrupts&) = delete;
  DefersInterrupts& operator=(const DefersInterrupts&) = delete;

private:
  bool ended_at_once_;
};

/// While one lives, an interrupt ends this process at once, with exit code 130 and a message,
/// unless it holds results. For work that takes long and writes nothing that could be torn, such as
/// making data.
class EndsAtOnce {
public:
  EndsAtOnce();
  ~EndsAtOnce();
  EndsAtOnce(const EndsAtOnce&) = delete;
  EndsAtOnce& operator=(const EndsAtOnce&) = delete;

private:
  bool ended_at_once_;
};

/// Absolute path of the running program.
std::string own_path();

/// The words that it was called with. The first is its name alone: where it lies is nobody's
/// business.
std::vector<std::string> own_command_line();

} // namespace clusterbench
