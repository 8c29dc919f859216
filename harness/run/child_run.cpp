#include "harness/run/child_run.hpp"

#include "harness/judge/oracle_cache.hpp"
#include "harness/machine/provenance.hpp"
#include "harness/peer/peers.hpp"
#include "harness/run/shared_memory.hpp"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <set>
#include <sstream>
#include <unistd.h>

namespace clusterbench {
namespace {

// CUDA reserves far more address space than it uses, so only CPU variants get a limit.
std::size_t memory_limit(const std::vector<Job>& jobs) {
  const bool all_on_cpu = std::ranges::all_of(jobs, [](const Job& job) {
    const RegisteredVariant* variant = find_variant(job.variant);
    return variant != nullptr && variant->meta.device == Device::cpu;
  });
  return all_on_cpu ? available_memory_bytes() : 0;
}

// A job's largest file is the trace of its recording run or, where another program computes, an
// array on its way there or back; what it prints must fit into the rest.
std::size_t file_limit(const std::vector<Job>& jobs) {
  constexpr double kRest = 256.0 * 1024 * 1024;
  constexpr double kMost = 1e18;
  double values = 0.0;
  for (const Job& job : jobs) {
    const auto d = static_cast<double>(job.d);
    const auto k = static_cast<double>(job.k);
    values = std::max(values, static_cast<double>(job.stop.max_iterations) * k * d);
    if (find_peer(job.variant) != nullptr) {
      values = std::max(values, static_cast<double>(job.n) * std::max(d, k));
    }
  }
  return static_cast<std::size_t>(
      std::min(values * static_cast<double>(sizeof(double)) + kRest, kMost));
}

} // namespace

ChildRun run_jobs(const std::vector<Job>& jobs, std::chrono::duration<double> timeout) {
  nlohmann::json request = {{"jobs", nlohmann::json::array()},
                            {"hidden_folder", oracle_cache_folder().string()},
                            {"memory_limit", memory_limit(jobs)},
                            {"file_limit", file_limit(jobs)},
                            {"parent", getpid()}};
  std::set<int> descriptors;
  for (const Job& job : jobs) {
    request["jobs"].push_back(to_json(job));
    descriptors.insert({job.points_fd, job.initial_fd, job.result_fd});
    if (job.trace_fd >= 0) {
      descriptors.insert(job.trace_fd);
    }
  }
  if (const Peer* peer = find_peer(jobs.front().variant); peer != nullptr) {
    request["peer_start"] = start_of(*peer); // found already
  }
  const SharedMemory job_file("jobs");
  const SharedMemory report_file("reports");
  const SharedMemory output_file("output");
  write_all(job_file.fd(), request.dump());
  descriptors.insert({job_file.fd(), report_file.fd()});

  ProcessOptions options;
  options.arguments = {own_path(),    "child",
                       "--job-fd",    std::to_string(job_file.fd()),
                       "--report-fd", std::to_string(report_file.fd())};
  options.inherited_descriptors.assign(descriptors.begin(), descriptors.end());
  const std::string threads = std::to_string(jobs.front().threads);
  options.environment = {"OMP_NUM_THREADS=" + threads, "OPENBLAS_NUM_THREADS=" + threads};
  options.output_descriptor = output_file.fd();
  options.timeout = timeout;

  ChildRun run;
  run.outcome = run_process(options);
  std::istringstream lines(read_all(report_file.fd()));
  for (std::string line; std::getline(lines, line);) {
    // A child that died in the middle of a line leaves a torn one: that job has no report.
    const auto report = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!report.is_discarded()) {
      run.reports.push_back(report);
    }
  }
  if (run.reports.size() > jobs.size()) {
    const std::string message = fmt::format(
        "{} reports came instead of {}: the variant has written to the harness's channel",
        run.reports.size(), jobs.size());
    run.reports.assign(1, {{"status", "wrong"}, {"message", message}});
  }
  run.output_tail = read_tail(output_file.fd(), 2000);
  return run;
}

Ending describe_ending(const ChildRun& run) {
  const ProcessOutcome& outcome = run.outcome;
  switch (outcome.kind) {
  case ProcessOutcome::Kind::timed_out:
    return {"timed_out", fmt::format("killed after {:.0f} s", outcome.seconds)};
  case ProcessOutcome::Kind::interrupted:
    return {"interrupted", "the campaign was interrupted"};
  case ProcessOutcome::Kind::signalled:
    // The kernel ends the largest process when memory runs out. One that had less than half of what
    // there was to have was ended by somebody else.
    if (outcome.signal == SIGKILL && outcome.peak_rss_bytes >= available_memory_bytes() / 2) {
      return {"out_of_memory",
              fmt::format("killed by the kernel (signal 9) with {} MiB resident: most likely out "
                          "of memory",
                          outcome.peak_rss_bytes >> 20)};
    }
    return {"crashed", fmt::format("signal {} ({})", outcome.signal, strsignal(outcome.signal))};
  case ProcessOutcome::Kind::exited:
    return {"crashed", fmt::format("exited with code {} before it reported", outcome.exit_code)};
  }
  return {"crashed", "unknown ending"};
}

} // namespace clusterbench
