// The parent's side of a child process: hands jobs over and collects the reports.
#pragma once

#include "harness/run/job.hpp"
#include "harness/run/process.hpp"

#include <chrono>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace clusterbench {

struct ChildRun {
  ProcessOutcome outcome;
  std::vector<nlohmann::json> reports; ///< one per job that came to its end, in order
  std::string output_tail;             ///< the end of what the child wrote to stdout and stderr
};

/// Runs the jobs, one after another, in one fresh process of this program.
ChildRun run_jobs(const std::vector<Job>& jobs, std::chrono::duration<double> timeout);

/// Why a job has no report, as a ledger status: `crashed`, `timed_out`, `out_of_memory`,
/// `interrupted`; and a sentence about it.
struct Ending {
  std::string status;
  std::string message;
};
Ending describe_ending(const ChildRun& run);

} // namespace clusterbench
