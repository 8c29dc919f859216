#include "harness/worker/ranks.hpp"

#include "harness/system/process.hpp"
#include "harness/worker/rank_marks.hpp"
#include "harness/worker/replies.hpp"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fstream>
#include <new>
#include <poll.h>
#include <regex>
#include <sstream>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

namespace clusterbench {
namespace {

using nlohmann::json;

[[noreturn]] void fail(const std::string& what) {
  throw WorkerFailure("error", fmt::format("{}: {}", what, std::strerror(errno)));
}

// T: stopped by a signal.
char state_of(pid_t process) {
  std::ifstream stat(fmt::format("/proc/{}/stat", process));
  std::string text;
  std::getline(stat, text);
  const std::size_t name_ends = text.rfind(") ");
  return name_ends == std::string::npos ? '?' : text[name_ends + 2];
}

// A rank wrote it.
std::string printable(const char* text, std::size_t most) {
  std::string copy(text, strnlen(text, most));
  std::ranges::replace_if(
      copy, [](unsigned char c) { return std::isprint(c) == 0; }, '?');
  return copy;
}

std::vector<double> values_of(const std::vector<json>& replies, const char* name) {
  std::vector<double> values;
  for (const json& reply : replies) {
    if (!reply.contains(name)) {
      throw WorkerFailure("error",
                          fmt::format("rank {}: its reply lacks `{}`", values.size(), name));
    }
    values.push_back(reply.at(name)); // a number, as reply_in() has seen
  }
  return values;
}

} // namespace

Ranks::Ranks(std::size_t count, const std::filesystem::path& folder)
    : count_(count), name_(folder / "ranks"), sockets_(count, -1), pids_(count, 0),
      marks_("ranks", count * sizeof(RankMark)) {
  for (std::size_t r = 0; r < count; ++r) {
    new (marks_.span().data() + r * sizeof(RankMark)) RankMark;
  }
  marks_.fix_size();
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (name_.native().size() >= sizeof address.sun_path) {
    throw WorkerFailure("error",
                        fmt::format("{}: too long for the name of a socket; TMPDIR may name "
                                    "a folder with a shorter path",
                                    name_.string()));
  }
  std::strcpy(address.sun_path, name_.c_str());
  listening_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (listening_ < 0 ||
      bind(listening_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      listen(listening_, static_cast<int>(count)) != 0) {
    fail(name_.string());
  }
}

Ranks::~Ranks() {
  close(listening_);
  for (const int socket : sockets_) {
    if (socket >= 0) {
      close(socket);
    }
  }
}

std::vector<std::string> Ranks::command(const std::filesystem::path& runner) const {
  // Threads of other CPU variants are not bound to processors either. More ranks than processors
  // are the user's wish.
  return {"mpirun",        "-n",     std::to_string(count_), "--oversubscribe", "--bind-to", "none",
          runner.string(), "--rank", name_.string()};
}

std::vector<std::string> Ranks::environment() const {
  return {"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
          "OMPI_MCA_plm=isolated", // no other machine, no ssh
          "OMPI_MCA_pml=ob1", "OMPI_MCA_btl=self,vader",
          // Ranks must not read one another's memory; messages go through shared memory.
          "OMPI_MCA_btl_vader_single_copy_mechanism=none",
          // Ranks are told when the thread ends that started them: it is to be mpirun's own.
          "OMPI_MCA_odls_base_num_threads=0",
          // The kernel may wake two ranks on one processor: whoever waits leaves it to the other.
          "OMPI_MCA_mpi_yield_when_idle=1"};
}

bool Ranks::wait_for_all(pid_t mpirun, std::chrono::steady_clock::time_point deadline) {
  using Clock = std::chrono::steady_clock;
  constexpr int kPollMilliseconds = 100;
  const int ended = static_cast<int>(syscall(SYS_pidfd_open, mpirun, 0));
  std::size_t missing = count_;
  bool goes_on = true;
  while (missing > 0 && goes_on) {
    pollfd events[] = {{listening_, POLLIN, 0}, {ended, POLLIN, 0}};
    poll(events, 2, kPollMilliseconds);
    goes_on =
        (events[1].revents & POLLIN) == 0 && Clock::now() < deadline && interrupt_signal() == 0;
    if ((events[0].revents & POLLIN) == 0) {
      continue;
    }
    const int socket = accept4(listening_, nullptr, nullptr, SOCK_CLOEXEC);
    LineChannel channel(socket);
    std::string number;
    const bool said =
        channel.read_line(number, deadline - Clock::now()) == LineChannel::Ending::line;
    const std::size_t rank = said ? std::strtoul(number.c_str(), nullptr, 10) : count_;
    ucred peer{};
    socklen_t size = sizeof peer;
    if (rank >= count_ || sockets_[rank] >= 0 ||
        getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
      close(socket); // no rank of ours
      continue;
    }
    sockets_[rank] = socket;
    pids_[rank] = peer.pid;
    --missing;
  }
  close(ended);
  if (missing == 0) { // nobody else is to come
    std::error_code gone;
    std::filesystem::remove(name_, gone);
  }
  return missing == 0;
}

std::string Ranks::who_holds_up(const std::vector<bool>& answered) const {
  const auto* const marks = reinterpret_cast<const RankMark*>(marks_.span().data());
  std::vector<std::string> waiting, others;
  for (std::size_t r = 0; r < count_; ++r) {
    if (answered[r]) {
      continue;
    }
    const std::string activity = printable(marks[r].activity, sizeof marks[r].activity);
    const bool is_stopped = state_of(pids_[r]) == 'T';
    const bool waits = !is_stopped && (activity == kExchange || activity == kMeeting);
    (waits ? waiting : others)
        .push_back(fmt::format("rank {} {} in `{}`, after {} passes", r,
                               is_stopped ? "is stopped"
                               : waits    ? "waits"
                                          : "is",
                               activity, marks[r].passes.load()));
  }
  return fmt::format("{}", fmt::join(others.empty() ? waiting : others, "; "));
}

std::optional<std::size_t> Ranks::aborted() const {
  const auto* const marks = reinterpret_cast<const RankMark*>(marks_.span().data());
  for (std::size_t r = 0; r < count_; ++r) {
    if (marks[r].has_aborted) {
      return r;
    }
  }
  return std::nullopt;
}

std::optional<std::size_t> Ranks::only_one_gone() const {
  std::optional<std::size_t> gone;
  for (std::size_t r = 0; r < count_; ++r) {
    pollfd event{sockets_[r], POLLRDHUP, 0};
    if (sockets_[r] >= 0 && poll(&event, 1, 0) > 0) {
      if (gone) {
        return std::nullopt;
      }
      gone = r;
    }
  }
  return gone;
}

json reply_of_all(const std::vector<json>& replies) {
  json all = replies.front();
  for (std::size_t r = 1; r < replies.size() && all.contains("iterations"); ++r) {
    if (const json passes = replies[r].value("iterations", json());
        passes != all.at("iterations")) {
      throw WorkerFailure("error", fmt::format("rank {}: it executed {} passes, and rank 0 {}", r,
                                               passes.dump(), all.at("iterations").dump()));
    }
  }
  if (all.contains("context_s")) {
    all["context_s"] = std::ranges::max(values_of(replies, "context_s"));
  }
  if (all.contains("began")) {
    const double began = std::ranges::min(values_of(replies, "began"));
    const double ended = std::ranges::max(values_of(replies, "ended"));
    all["seconds"] = ended - began;
    if (all.contains("prepare_s")) {
      // The way to and from a rank's GPU lies in these two; that of the slowest rank counts.
      const auto slowest = [&](const char* way) {
        return all.contains(way) ? std::ranges::max(values_of(replies, way)) : 0.0;
      };
      const double upload = slowest("upload_s"), download = slowest("download_s");
      const double prepared = std::ranges::max(values_of(replies, "prepared"));
      all["upload_s"] = upload;
      all["prepare_s"] = std::max(prepared - began - upload, 0.0);
      if (all.contains("run_s")) {
        all["run_s"] = std::max(ended - prepared - download, 0.0);
        all["download_s"] = download;
      }
    }
  }
  return all;
}

std::optional<EndedRank> rank_that_ended(const std::string& output) {
  std::smatch found;
  if (std::regex_search(output, found,
                        std::regex(R"(process\s+rank\s+(\d+)\s+with\s+PID\s+\d+\s+on\s+node\s+\S+)"
                                   R"(\s+exited\s+on\s+signal\s+(\d+))"))) {
    const int signal = std::stoi(found[2]);
    return EndedRank{
        fmt::format("rank {}: signal {} ({})", found[1].str(), signal, strsignal(signal)), signal};
  }
  if (std::regex_search(output, found,
                        std::regex(R"(Process name: \[\[\d+,\d+\],(\d+)\]\s+Exit code: +(\d+))"))) {
    return EndedRank{fmt::format("rank {}: exited with code {} before it answered", found[1].str(),
                                 found[2].str())};
  }
  if (std::regex_search(output, found,
                        std::regex(R"(due\s+to\s+process\s+rank\s+(\d+)\s+with\s+PID)"))) {
    return EndedRank{fmt::format("rank {}: exited before it answered", found[1].str())};
  }
  if (std::regex_search(output, found, std::regex(R"(MPI_ABORT was invoked on rank (\d+))"))) {
    return EndedRank{fmt::format("rank {}: called MPI_Abort", found[1].str())};
  }
  return std::nullopt;
}

std::string words_of_ranks(const std::string& output) {
  std::istringstream lines(output);
  std::string words;
  bool is_of_mpirun = false;
  for (std::string line; std::getline(lines, line);) {
    const bool is_rule = line.size() >= 70 && line.find_first_not_of('-') == std::string::npos;
    if (!is_rule && !is_of_mpirun) {
      words += line + "\n";
    }
    is_of_mpirun = is_of_mpirun != is_rule;
  }
  return words;
}

EndedRank ended_rank(std::size_t rank, int exit_code) {
  constexpr int kSignal = 128; // shells add it to the number of a signal, and so does mpirun
  if (exit_code > kSignal) {
    const int signal = exit_code - kSignal;
    return {fmt::format("rank {}: signal {} ({})", rank, signal, strsignal(signal)), signal};
  }
  return {fmt::format("rank {}: exited with code {} before it answered", rank, exit_code)};
}

} // namespace clusterbench
