// The gate's side of the pace protocol: one process of one build, from start to end.
#pragma once

#include "harness/compare/line_channel.hpp"
#include "harness/compare/pace_protocol.hpp"
#include "harness/run/shared_memory.hpp"

#include <chrono>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <stdexcept>
#include <string>
#include <vector>

namespace clusterbench {

/// One timed run.
struct PacedSample {
  double wall_ms = 0.0;
  double cpu_ms = 0.0;       ///< of all threads of the process
  double waited_ms = 0.0;    ///< that its threads wanted a processor and had none, added up
  double yardstick_ns = 0.0; ///< the slower of before and after
};

/// What a build handed over; the values are in the result memory.
struct PacedAnswer {
  std::string digest;
  std::size_t iterations = 0;
};

/// The process did not do what it was asked to: `refused`, `unknown`, `error`, `crashed`,
/// `timed_out`, `interrupted`, or `protocol` if the build does not speak ours.
class PaceFailure : public std::runtime_error {
public:
  PaceFailure(std::string status, const std::string& message)
      : std::runtime_error(message), status_(std::move(status)) {}
  const std::string& status() const { return status_; }

private:
  std::string status_;
};

/// A process of the program `executable`, started at once. It is killed, with whatever it forked,
/// when the object ends. Every function throws PaceFailure.
class PacedProcess {
public:
  /// `wrapper` is a program with its arguments that runs the executable, such as valgrind.
  PacedProcess(const std::filesystem::path& executable, const std::vector<PaceJob>& jobs,
               std::chrono::duration<double> timeout, std::vector<std::string> wrapper = {});
  ~PacedProcess();
  PacedProcess(const PacedProcess&) = delete;
  PacedProcess& operator=(const PacedProcess&) = delete;

  void wait_until_ready(); ///< once per job
  /// Runs begin when the yardstick shows at most `quiet_ns`, or when patience is at its end.
  std::vector<PacedSample> run(std::size_t count, double quiet_ns,
                               std::chrono::duration<double> patience);
  PacedAnswer fetch();
  void next(); ///< ends the present job
  /// Hangs up, waits for the process to end by itself, and returns what it wrote last.
  std::string finish();

private:
  nlohmann::json answer();
  void tell(const std::string& line);
  [[noreturn]] void explain_end();

  std::filesystem::path executable_;
  std::chrono::duration<double> timeout_;
  SharedMemory request_, output_;
  int pid_ = -1;
  int socket_ = -1;
  LineChannel channel_{-1};
  bool has_answered_ = false;
};

} // namespace clusterbench
