// The harness's side of several processes that run one variant together: how mpirun is told to
// start them, a channel to each, and which of them is to blame.
#pragma once

#include "harness/system/line_channel.hpp"
#include "harness/system/shared_memory.hpp"

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

namespace clusterbench {

/// mpirun closes what a rank inherits, so ranks come by a socket with a name. Owns that, and the
/// memory in which the ranks note where they are. Everything throws WorkerFailure.
class Ranks {
public:
  /// folder: the scratch folder, in which the socket is.
  Ranks(std::size_t count, const std::filesystem::path& folder);
  ~Ranks();
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  std::size_t count() const { return count_; }
  /// What starts the runner so many times.
  std::vector<std::string> command(const std::filesystem::path& runner) const;
  /// NAME=value: what Open MPI has to know to stay within the sandbox and this machine.
  std::vector<std::string> environment() const;
  /// Of the notes, for mpirun to inherit.
  int marks_descriptor() const { return marks_.fd(); }

  /// Waits until every rank has come. False if mpirun has ended before, or the time is over.
  bool wait_for_all(pid_t mpirun, std::chrono::steady_clock::time_point deadline);

  /// To each rank, by number. They are closed when this goes.
  const std::vector<int>& sockets() const { return sockets_; }
  const std::vector<pid_t>& pids() const { return pids_; }

  /// In words: which ranks have not `answered`, and where they are. Those that wait for others are
  /// named only if there is nobody for whom they wait.
  std::string who_holds_up(const std::vector<bool>& answered) const;
  /// The rank that called MPI_Abort, if one has.
  std::optional<std::size_t> aborted() const;
  /// The rank that has closed its socket, if exactly one has.
  std::optional<std::size_t> only_one_gone() const;

private:
  std::size_t count_;
  std::filesystem::path name_;
  int listening_ = -1;
  std::vector<int> sockets_;
  std::vector<pid_t> pids_;
  SharedMemory marks_;
};

/// One reply of all: the windows are from the moment when the first rank began to that when the
/// last one had ended, less the longest upload and download; everything else is rank 0's. Throws
/// WorkerFailure where ranks disagree about the passes.
nlohmann::json reply_of_all(const std::vector<nlohmann::json>& replies);

/// A rank that ended before it was asked to, in words: "rank 1: signal 9 (Killed)", say.
struct EndedRank {
  std::string text;
  int signal = 0; ///< 0: none
};
/// From what Open MPI's mpirun said. Empty if it says nothing of a rank.
std::optional<EndedRank> rank_that_ended(const std::string& output);
/// What ranks printed: all but what mpirun said between lines of hyphens.
std::string words_of_ranks(const std::string& output);
/// From the exit code of mpirun, which is that of the rank.
EndedRank ended_rank(std::size_t rank, int exit_code);

} // namespace clusterbench
