// The parent's side of a worker: one process that runs one variant, or the ranks that run it
// together, asked by the protocol.
#pragma once

#include "harness/problem/registry.hpp"
#include "harness/system/line_channel.hpp"
#include "harness/system/process.hpp"
#include "harness/system/shared_memory.hpp"
#include "harness/worker/clock_check.hpp"
#include "harness/worker/protocol.hpp"
#include "harness/worker/ranks.hpp"
#include "harness/worker/replies.hpp"
#include "harness/worker/scratch_folder.hpp"

#include <chrono>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace clusterbench {

struct WorkerOptions {
  int threads = 1; ///< that the variant may use
  /// That a variant of Device::multi_gpu or mpi_gpu is given.
  int gpus = 1;
  int ranks = kUsualRanks;                    ///< processes of a variant of Device::mpi
  std::chrono::duration<double> timeout{900}; ///< of the whole process
  std::size_t memory_limit = 0;        ///< bytes of data of a CPU variant; 0: what is available
  std::size_t device_memory_limit = 0; ///< bytes of each device of a GPU variant; 0: all there are
  bool sandboxed = true;
  /// Folder of runner and modules; empty: this program's.
  std::filesystem::path build;
  std::vector<std::filesystem::path> hidden; ///< folders that the variant must not read
  std::vector<int> descriptors;              ///< of memory that it shares with its parent
  std::size_t largest_file = 0;              ///< bytes that it may have to write beyond its scratch
  std::vector<std::string> environment;      ///< NAME=value, added
  std::vector<std::string> wrapper;          ///< runs the runner, such as valgrind
};

/// Times of one request [s].
struct RunReply {
  double seconds = 0.0; ///< to record: see ClockCheck
  double cpu = 0.0;     ///< processor time of the process, measured from outside
  std::size_t iterations = 0;
  nlohmann::json reply; ///< all of it
};

/// A running worker; it ends with this object, with whatever it left behind. Everything throws
/// WorkerFailure. Ranks are asked all at once, and their reply is one.
class Worker {
public:
  /// Starts the process, confines it and loads the variant.
  Worker(const KnownVariant& variant, WorkerOptions options);
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  void points(PointsRequest request);
  nlohmann::json prepare(); ///< seconds, upload_s, prepare_s where the worker can tell them apart
  RunReply run(bool record = false);
  RunReply whole();
  /// Has the answer handed over. The seconds beyond those that this needs: they belong to the run.
  double take();
  /// Asks it to end by closing its input. Nothing that it writes from now on is read.
  void end();

  /// Closes its input, waits for it to end by itself, and returns the last of what it printed.
  std::string finish();

  double start_seconds() const { return start_seconds_; }     ///< until the variant was loaded
  double context_seconds() const { return context_seconds_; } ///< of them: the device's context
  std::size_t peak_rss_bytes() const;                         ///< of all processes together
  std::size_t peak_rss_bytes_of_largest() const;
  int pid() const { return pid_; }
  std::vector<pid_t> processes() const; ///< that compute
  const ClockCheck& clock() const { return clock_; }
  const std::vector<std::string>& sandbox_lacks() const { return sandbox_lacks_; }
  const nlohmann::json& versions() const { return versions_; } ///< of a program's libraries
  std::string output_tail() const;                             ///< the last of what it printed

private:
  nlohmann::json ask(const nlohmann::json& request);
  std::vector<nlohmann::json> ask(const nlohmann::json& request, std::size_t first,
                                  std::size_t count);
  RunReply timed(const nlohmann::json& request);
  nlohmann::json ask(const nlohmann::json& request, TimedRequest& times);
  LineChannel::Received read_line(const std::vector<bool>& answered);
  std::string naming(std::size_t rank, const std::string& message) const;
  void start(const KnownVariant& variant);
  void wait_for_ranks();
  bool ended_for_lack_of_memory() const;
  std::string last_words() const;
  std::optional<EndedRank> rank_that_ended(std::optional<std::size_t> first_gone,
                                           const ProcessOutcome& mpirun) const;
  [[noreturn]] void explain_end();
  double processor_seconds() const;
  double seconds_of_waiting_there() const;

  WorkerOptions options_;
  std::chrono::steady_clock::time_point deadline_;
  ScratchFolder scratch_;
  SharedMemory output_, report_;
  int pid_ = -1; ///< of the process, or of mpirun
  int socket_ = -1;
  std::unique_ptr<Ranks> ranks_; ///< of an MPI variant
  std::vector<LineChannel> channels_;
  ClockCheck clock_;
  double untimed_seconds_ = 0.0; ///< of a request, beside reading the start and what it asks for
  std::size_t peak_rss_ = 0;
  /// Processes of the machine, before this one started.
  std::optional<std::size_t> ended_for_memory_;
  std::size_t answer_bytes_ = 0;
  std::size_t start_bytes_ = 0; ///< of the start, which is read before a run's clock starts
  double start_seconds_ = 0.0, context_seconds_ = 0.0;
  std::vector<std::string> sandbox_lacks_;
  nlohmann::json versions_;
};

} // namespace clusterbench
