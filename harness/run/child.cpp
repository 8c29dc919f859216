#include "harness/run/child.hpp"

#include "harness/machine/disturbance.hpp"
#include "harness/machine/nvml.hpp"
#include "harness/peer/peer_variant.hpp"
#include "harness/peer/peers.hpp"
#include "harness/run/digest.hpp"
#include "harness/run/hidden_folder.hpp"
#include "harness/run/huge_pages.hpp"
#include "harness/run/job.hpp"
#include "harness/run/measure.hpp"
#include "harness/run/process.hpp"
#include "harness/run/recorder.hpp"
#include "harness/run/shared_memory.hpp"
#include "harness/run/statistics.hpp"
#include "harness/run/variant_session.hpp"

#include <algorithm>
#include <csignal>
#include <fmt/format.h>
#include <fstream>
#include <new>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <stdexcept>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

namespace clusterbench {
namespace {

using nlohmann::json;

json milliseconds(const std::vector<double>& seconds) {
  json values = json::array();
  for (const double value : seconds) {
    values.push_back(value * 1e3);
  }
  return values;
}

template <typename T>
void copy(const Result<T>& from, Result<T> to) {
  std::ranges::copy(from.labels, to.labels.begin());
  std::ranges::copy(from.centroids, to.centroids.begin());
  std::ranges::copy(from.memberships, to.memberships.begin());
}

// The answers besides the first, each of which differs from all before it.
class OtherAnswers {
public:
  // places: that there are, all slots counted.
  explicit OtherAnswers(std::size_t places) : places_(places) {}

  // The slot of an answer that none before it equals. Throws OutOfMemory.
  std::size_t slot_for(const std::string& digest, std::size_t iterations) {
    const std::size_t slot = ResultSlots::kOthers + entries_.size();
    if (slot >= places_) {
      throw OutOfMemory(fmt::format("no memory to keep more than {} different answers; fewer "
                                    "samples (--samples, --budget) give fewer",
                                    entries_.size() + 1));
    }
    entries_.push_back({{"slot", slot}, {"iterations", iterations}, {"digest", digest}});
    return slot;
  }

  const std::vector<json>& entries() const { return entries_; }

private:
  std::size_t places_;
  std::vector<json> entries_;
};

// Takes the samples; keeps every answer that differs from those before it.
template <typename T>
void measure(VariantSession<T>& session, const Start<T>& start, const Job& job, bool on_gpu,
             const ResultSlots& slots, std::span<std::byte> memory, json& report) {
  Observer<T> nobody;
  Result<T> first = slots.slot<T>(memory, ResultSlots::kFirst);
  Result<T> newest = slots.slot<T>(memory, ResultSlots::kNewest);
  std::string first_digest;
  std::set<std::string> distinct;
  std::vector<double> download_seconds;
  OtherAnswers others(memory.size() / slots.bytes_each());
  std::size_t runs = 0;
  json disturbances = json::array();

  const std::unique_ptr<GpuPaceReader> gpu = on_gpu ? std::make_unique<GpuPaceReader>(0) : nullptr;
  const auto timed_run = [&] {
    const DisturbanceWatch watch(gpu.get());
    Result<T>& result = distinct.empty() ? first : newest;
    session.run(start, result, nobody);
    download_seconds.push_back(session.download_seconds());
    if (const Disturbance disturbance = watch.since(); disturbance.disturbed()) {
      json entry = disturbance;
      entry["run"] = runs;
      disturbances.push_back(entry);
    }
    ++runs;
    if (const std::string bits = digest(result); distinct.empty()) {
      first_digest = bits;
      distinct.insert(bits);
    } else if (distinct.insert(bits).second) {
      copy(newest, slots.slot<T>(memory, others.slot_for(bits, newest.iterations)));
    }
    return session.run_seconds();
  };
  const Samples samples = take_samples(job.name, job.sampling, timed_run);

  report["samples_ms"] = milliseconds(samples.seconds);
  report["warm_up_samples_ms"] = milliseconds(samples.warm_up);
  report["warm_up_ms"] = std::accumulate(samples.warm_up.begin(), samples.warm_up.end(), 0.0) * 1e3;
  report["sampling_ended"] = samples.ended_because;
  report["gbench_context"] = samples.context;
  report["gbench_row"] = samples.row;
  report["cpu_ms"] = samples.cpu_ms;
  report["disturbed_runs"] = disturbances.size();
  report["disturbances"] = disturbances;
  report["download_ms"] = median(download_seconds) * 1e3;
  report["digest"] = first_digest;
  report["distinct_results"] = distinct.size();
  report["iterations"] = first.iterations;
  json& answers = report["answers"];
  answers.push_back(
      {{"slot", ResultSlots::kFirst}, {"iterations", first.iterations}, {"digest", first_digest}});
  for (const json& other : others.entries()) {
    answers.push_back(other);
  }
}

// One more run, unmeasured, that tells the recorder what happens inside.
template <typename T>
void record(VariantSession<T>& session, const Start<T>& start, const Job& job,
            const ResultSlots& slots, std::span<std::byte> memory, json& report) {
  Recorder<T> recorder(job.trace_fd);
  Result<T> result = slots.slot<T>(memory, ResultSlots::kRecorded);
  session.run(start, result, recorder);
  const std::string recorded_digest = digest(result);
  json& phases = report["phases_ms"];
  phases = json::object();
  for (const auto& [name, seconds] : recorder.phases()) {
    phases[name] = seconds * 1e3;
  }
  report["counters"] = recorder.counters();
  report["printed_loss"] = recorder.printed_losses();
  report["recorded_passes"] = recorder.passes();
  report["answers"].push_back({{"slot", ResultSlots::kRecorded},
                               {"iterations", result.iterations},
                               {"digest", recorded_digest},
                               {"recorded", true}});
}

template <typename T>
json run_job(const RegisteredVariant& registered, const Job& job) {
  const InheritedMemory points(job.points_fd, InheritedMemory::Access::read);
  const InheritedMemory initial(job.initial_fd, InheritedMemory::Access::read);
  const InheritedMemory memory(job.result_fd, InheritedMemory::Access::write);

  // A private copy on huge pages, as a program's own large arrays are: shared memory has small
  // pages, and no peer would have to live with them.
  // Another program takes a copy of its own.
  const bool elsewhere = registered.meta.launch == Launch::program;
  const auto shared_points = points.as<const T>();
  const HugePageArray<T> own_points(elsewhere ? std::span<const T>{} : shared_points);
  const Shape shape = job.shape();
  Start<T> start;
  (job.starts_from_memberships ? start.memberships : start.centroids) = initial.as<const T>();

  const bool on_gpu = registered.meta.device == Device::gpu;
  const std::size_t device_memory_before = on_gpu ? gpu_state(0).memory_used_bytes : 0;
  VariantSession<T> session(registered.meta, make_variant<T>(registered), shape);
  json report;
  if (const std::string reason = session.refuse(); !reason.empty()) {
    return {{"status", "refused"}, {"message", reason}};
  }
  session.prepare(elsewhere ? shared_points : own_points.span());
  report["upload_ms"] = session.upload_seconds() * 1e3;
  report["prepare_ms"] = session.prepare_seconds() * 1e3;

  const ResultSlots slots(job.n, job.d, job.k, registered.meta.family, sizeof(T));
  const auto bytes = memory.as<std::byte>();
  if (job.timed) {
    measure(session, start, job, on_gpu, slots, bytes, report);
  }
  if (job.record) {
    record(session, start, job, slots, bytes, report);
  }
  if (!job.timed && !job.record) {
    Observer<T> nobody;
    Result<T> result = slots.slot<T>(bytes, ResultSlots::kFirst);
    session.run(start, result, nobody);
    report["digest"] = digest(result);
    report["iterations"] = result.iterations;
    report["answers"].push_back({{"slot", ResultSlots::kFirst}, {"iterations", result.iterations}});
  }
  report["chosen_path"] = session.variant().chosen_path();
  if (on_gpu) {
    const GpuState gpu = gpu_state(0);
    // What the whole device gained, the driver's own context included.
    report["device_memory_bytes"] =
        gpu.memory_used_bytes - std::min(gpu.memory_used_bytes, device_memory_before);
    report["gpu_after"] = gpu;
  }
  const PeerRun* const peer = as_peer(session.variant());
  report["peak_rss_bytes"] = peer != nullptr ? peer->peak_rss_bytes() : peak_rss_bytes(getpid());
  if (peer != nullptr) {
    report["peer"] = peer->report();
  }
  report["status"] = "ok";
  return report;
}

json run_guarded(const Job& job) {
  try {
    const RegisteredVariant* registered = find_variant(job.variant);
    if (registered == nullptr) {
      throw std::logic_error("the child does not know the variant " + job.variant);
    }
    return job.precision == Precision::f32 ? run_job<float>(*registered, job)
                                           : run_job<double>(*registered, job);
  } catch (const Refusal& refusal) {
    return {{"status", "refused"}, {"message", refusal.what()}};
  } catch (const PeerFailure& failure) {
    return {{"status", failure.status()}, {"message", failure.what()}};
  } catch (const OutOfMemory& error) {
    return {{"status", "out_of_memory"}, {"message", error.what()}};
  } catch (const std::bad_alloc&) {
    return {{"status", "out_of_memory"}, {"message", "an allocation failed"}};
  } catch (const std::exception& error) {
    const std::string message = error.what();
    const bool device_memory = message.find("cudaErrorMemoryAllocation") != std::string::npos;
    return {{"status", device_memory ? "out_of_memory" : "error"}, {"message", message}};
  }
}

// A variant that asks for more memory than there is should fail in its own allocation and not call
// the kernel's out-of-memory killer. Sanitizers reserve terabytes and cannot live with a limit.
void limit_memory([[maybe_unused]] std::size_t bytes) {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  if (bytes != 0) {
    const rlimit limit{bytes, bytes};
    setrlimit(RLIMIT_DATA, &limit);
  }
#endif
  std::ofstream("/proc/self/oom_score_adj") << 1000;
}

// A variant that writes without end is stopped before it fills the disk, or memory with its output.
void limit_files(std::size_t bytes) {
  const rlimit limit{bytes, bytes};
  setrlimit(RLIMIT_FSIZE, &limit);
}

} // namespace

int run_child(int job_fd, int report_fd) {
  const json request = json::parse(read_all(job_fd));
  prctl(PR_SET_PDEATHSIG, SIGKILL); // nobody waits for us once our parent is gone
  if (getppid() != request.at("parent").get<pid_t>()) {
    return 0; // it went before we asked to be told
  }
  limit_memory(request.at("memory_limit"));
  limit_files(request.at("file_limit"));
  const bool hidden = hide_folder(request.at("hidden_folder").get<std::string>());
  if (request.contains("peer_start")) {
    know_start(request.at("jobs").at(0).at("variant"), request.at("peer_start"));
  }
  for (const json& job : request.at("jobs")) {
    json report = run_guarded(job_from_json(job));
    report["oracle_hidden"] = hidden;
    // A variant may throw a message that is no UTF-8.
    write_all(report_fd, report.dump(-1, ' ', false, json::error_handler_t::replace) + "\n");
  }
  return 0;
}

} // namespace clusterbench
