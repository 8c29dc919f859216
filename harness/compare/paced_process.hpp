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

/// A turn of runs.
struct Turn {
  double shortest_ms = 0.0; ///< of its runs
  double elapsed_ms = 0.0;
  double waited_ms = 0.0; ///< that its threads wanted a processor and had none, added up
  int competitors = 0;    ///< for its processors, the more of before and after

  /// The processors were free, and the threads had one but for 2 % of the time.
  bool undisturbed() const { return competitors == 0 && waited_ms <= 0.02 * elapsed_ms; }
};

/// What a build handed over; the values are in the result memory.
struct PacedAnswer {
  std::string digest;
  std::size_t iterations = 0;
};

/// The process did not do what it was asked to: `refused`, `unknown`, `error`, `crashed`,
/// `timed_out`, `interrupted`, or `protocol` if what it says is none of our protocol.
class PaceFailure : public std::runtime_error {
public:
  PaceFailure(std::string status, const std::string& message)
      : std::runtime_error(message), status_(std::move(status)) {}
  const std::string& status() const { return status_; }

private:
  std::string status_;
};

/// The build does not have the variant, or the variant refuses the problem: no fault of theirs.
inline bool lacks_the_cell(const PaceFailure& failure) {
  return failure.status() == "unknown" || failure.status() == "refused";
}

/// A process of the program `executable`, started at once. It is killed, with whatever it forked,
/// when the object ends. Every function throws PaceFailure.
class PacedProcess {
public:
  /// Its threads get processors from number `processor` on, in the sense of a remainder.
  /// `wrapper` is a program with its arguments that runs the executable, such as valgrind.
  PacedProcess(const std::filesystem::path& executable, const std::vector<PaceJob>& jobs,
               std::chrono::duration<double> timeout, std::size_t processor = 0,
               std::vector<std::string> wrapper = {});
  ~PacedProcess();
  PacedProcess(const PacedProcess&) = delete;
  PacedProcess& operator=(const PacedProcess&) = delete;

  void wait_until_ready(); ///< once per job
  /// A turn of `runs` begins when the processors are free, or when patience is at its end.
  Turn run(std::size_t runs, std::chrono::duration<double> patience);
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
};

/// Throws PaceFailure if the program cannot be started or does not speak our protocol.
void require_pace(const std::filesystem::path& executable, std::chrono::duration<double> timeout);

} // namespace clusterbench
