#include "harness/peer/connection.hpp"

#include "harness/messages.hpp"
#include "harness/run/process.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <fstream>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace clusterbench {
namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kLongestLine = std::size_t{1} << 20;
constexpr int kPollMilliseconds = 250; // how often memory is looked at while a program computes

struct Pipe {
  Pipe() {
    if (pipe2(ends.data(), O_CLOEXEC) != 0) {
      throw PeerFailure("error", fmt::format("cannot make a pipe: {}", std::strerror(errno)));
    }
  }
  std::array<int, 2> ends{}; ///< to read from, to write to
};

// The variables by which libraries are told how many threads to use; and Python, to leave nothing
// behind.
void set_environment(int threads) {
  const std::string count = std::to_string(threads);
  for (const char* name : {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS",
                           "BLIS_NUM_THREADS", "NUMEXPR_NUM_THREADS", "NUMBA_NUM_THREADS"}) {
    setenv(name, count.c_str(), 1);
  }
  setenv("PYTHONDONTWRITEBYTECODE", "1", 1);
}

// In the forked child: becomes the program.
[[noreturn]] void become(const std::vector<char*>& arguments, int input, int output, int threads,
                         pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) {
    _exit(127); // it has ended already
  }
  dup2(input, STDIN_FILENO);
  dup2(output, STDOUT_FILENO);
  // A library that needs a descriptor must not get hold of ours: answers are handed over on them.
  close_range(STDERR_FILENO + 1, ~0U, 0);
  std::signal(SIGPIPE, SIG_DFL);
  set_environment(threads);
  execvp(arguments.front(), arguments.data());
  dprintf(STDERR_FILENO, "%s: %s\n", arguments.front(), std::strerror(errno));
  _exit(127);
}

} // namespace

PeerConnection::PeerConnection(std::vector<std::string> command, int threads) {
  std::signal(SIGPIPE, SIG_IGN); // a program that has ended is a failed write, not our end
  const Pipe requests;
  const Pipe replies;
  std::vector<char*> arguments;
  for (std::string& word : command) {
    arguments.push_back(word.data());
  }
  arguments.push_back(nullptr);
  const pid_t parent = getpid();
  pid_ = fork();
  if (pid_ == 0) {
    become(arguments, requests.ends[0], replies.ends[1], threads, parent);
  }
  close(requests.ends[0]);
  close(replies.ends[1]);
  to_ = requests.ends[1];
  from_ = replies.ends[0];
  if (pid_ < 0) {
    close(to_);
    close(from_);
    throw PeerFailure("error",
                      fmt::format("cannot start {}: {}", command.front(), std::strerror(errno)));
  }
}

PeerConnection::~PeerConnection() {
  close(to_);
  close(from_);
  if (pid_ > 0) {
    kill(pid_, SIGKILL); // nothing that it holds outlives it
    waitpid(pid_, nullptr, 0);
  }
}

json PeerConnection::ask(const json& request,
                         std::optional<std::chrono::duration<double>> timeout) {
  std::optional<Clock::time_point> deadline;
  if (timeout) {
    deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(*timeout);
  }
  const std::string asked = request.at("request");
  write(request.dump() + "\n");
  for (;;) {
    const std::string line = read_line(deadline);
    json reply = json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!reply.is_object() || !reply.contains("reply") || !reply.at("reply").is_string()) {
      say("{}\n", line);
      continue;
    }
    look_at_memory();
    const std::string answered = reply.at("reply");
    if (answered == asked) {
      return reply;
    }
    for (const char* reason : {"refused", "unavailable"}) {
      if (answered == reason) {
        throw PeerFailure(answered, reply.value("reason", "it gives no reason"));
      }
    }
    for (const char* end : {"error", "out_of_memory"}) {
      if (answered == end) {
        throw PeerFailure(answered, reply.value("message", "it says no more"));
      }
    }
    throw PeerFailure("error", fmt::format("it answered \"{}\" to \"{}\"", answered, asked));
  }
}

int PeerConnection::threads() const {
  std::ifstream status(fmt::format("/proc/{}/status", pid_));
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("Threads:")) {
      return std::stoi(line.substr(8));
    }
  }
  return 0;
}

void PeerConnection::write(const std::string& line) {
  std::size_t written = 0;
  while (written < line.size()) {
    const ssize_t got = ::write(to_, line.data() + written, line.size() - written);
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got < 0) {
      fail_ended();
    }
    written += static_cast<std::size_t>(got);
  }
}

std::string PeerConnection::read_line(std::optional<Clock::time_point> deadline) {
  for (;;) {
    if (const auto end = unread_.find('\n'); end != std::string::npos) {
      std::string line = unread_.substr(0, end);
      unread_.erase(0, end + 1);
      return line;
    }
    if (unread_.size() > kLongestLine) {
      throw PeerFailure("error",
                        fmt::format("it wrote a line of more than {} bytes", kLongestLine));
    }
    if (deadline && Clock::now() >= *deadline) {
      throw PeerFailure("timed_out", "it does not answer");
    }
    pollfd readable{from_, POLLIN, 0};
    if (poll(&readable, 1, kPollMilliseconds) <= 0) {
      look_at_memory();
      continue;
    }
    std::array<char, 1 << 16> buffer{};
    const ssize_t got = read(from_, buffer.data(), buffer.size());
    if (got > 0) {
      unread_.append(buffer.data(), static_cast<std::size_t>(got));
    } else if (got == 0 || errno != EINTR) {
      fail_ended();
    }
  }
}

void PeerConnection::look_at_memory() {
  peak_rss_bytes_ = std::max(peak_rss_bytes_, clusterbench::peak_rss_bytes(pid_));
}

// The other end of a pipe is closed: says how the program ended.
void PeerConnection::fail_ended() {
  look_at_memory();
  int status = 0;
  for (int tries = 0; tries < 100; ++tries) {
    if (waitpid(pid_, &status, WNOHANG) == pid_) {
      pid_ = -1;
      if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) {
        throw PeerFailure("out_of_memory",
                          fmt::format("the program was killed by the kernel (signal 9) with {} MiB "
                                      "resident: most likely out of memory",
                                      peak_rss_bytes_ >> 20));
      }
      if (WIFSIGNALED(status)) {
        throw PeerFailure("crashed", fmt::format("the program: signal {} ({})", WTERMSIG(status),
                                                 strsignal(WTERMSIG(status))));
      }
      throw PeerFailure("crashed", fmt::format("the program exited with code {} before it answered",
                                               WEXITSTATUS(status)));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  throw PeerFailure("crashed", "the program closed its standard output before it answered");
}

} // namespace clusterbench
