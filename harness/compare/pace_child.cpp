#include "harness/compare/pace_child.hpp"

#include "harness/compare/line_channel.hpp"
#include "harness/compare/pace_protocol.hpp"
#include "harness/run/digest.hpp"
#include "harness/run/huge_pages.hpp"
#include "harness/run/job.hpp"
#include "harness/run/shared_memory.hpp"

#include <csignal>
#include <ctime>
#include <fmt/format.h>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <sys/prctl.h>

namespace clusterbench {
namespace {

using nlohmann::json;

std::int64_t nanoseconds(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

void say(LineChannel& channel, const json& answer) {
  // A variant may throw a message that is no UTF-8.
  channel.write_line(answer.dump(-1, ' ', false, json::error_handler_t::replace));
}

template <typename T>
json take_samples(Variant<T>& variant, std::size_t count) {
  Observer<T> nobody;
  std::vector<std::int64_t> times;
  times.reserve(2 * count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::int64_t cpu = nanoseconds(CLOCK_PROCESS_CPUTIME_ID); // all threads
    const std::int64_t wall = nanoseconds(CLOCK_MONOTONIC);
    variant.run(nobody);
    times.push_back(nanoseconds(CLOCK_MONOTONIC) - wall);
    times.push_back(nanoseconds(CLOCK_PROCESS_CPUTIME_ID) - cpu);
  }
  return {{"samples", times}};
}

// Obeys until the job is over; false if the parent has hung up.
template <typename T>
bool serve(Variant<T>& variant, Result<T> result, LineChannel& channel) {
  constexpr std::string_view kRun = "run ";
  for (std::string line; channel.read_line(line);) {
    if (line.starts_with(kRun)) {
      say(channel, take_samples(variant, std::stoul(line.substr(kRun.size()))));
    } else if (line == "fetch") {
      variant.fetch(result);
      say(channel, {{"digest", digest(result)}, {"iterations", result.iterations}});
    } else if (line == "next") {
      return true;
    } else {
      throw std::runtime_error(fmt::format("the pace protocol has no \"{}\"", line));
    }
  }
  return false;
}

template <typename T>
bool serve_job(const RegisteredVariant& registered, const PaceJob& job, LineChannel& channel) {
  const InheritedMemory points(job.points_fd, InheritedMemory::Access::read);
  const InheritedMemory initial(job.initial_fd, InheritedMemory::Access::read);
  const InheritedMemory memory(job.result_fd, InheritedMemory::Access::write);
  const HugePageArray<T> own_points(points.as<const T>()); // as in a campaign
  Problem<T> problem;
  problem.n = job.n;
  problem.d = job.d;
  problem.k = job.k;
  problem.points = own_points.span();
  (job.starts_from_memberships ? problem.memberships : problem.centroids) = initial.as<const T>();
  problem.stop = job.stop;
  problem.fuzzifier = job.fuzzifier;
  problem.threads = job.threads;
  const std::unique_ptr<Variant<T>> variant = make_variant<T>(registered);
  if (const std::string reason = variant->refuse(problem); !reason.empty()) {
    say(channel, {{"status", "refused"}, {"message", reason}});
    std::string line;
    return channel.read_line(line); // "next"
  }
  variant->prepare(problem);
  say(channel, {{"status", "ready"}});
  const ResultSlots slots(job.n, job.d, job.k, registered.meta.family, sizeof(T));
  return serve(*variant, slots.slot<T>(memory.as<std::byte>(), ResultSlots::kFirst), channel);
}

bool serve_any(const PaceJob& job, LineChannel& channel) {
  const RegisteredVariant* registered = find_variant(job.variant);
  if (registered == nullptr || !supports(*registered, job.precision)) {
    say(channel, {{"status", "unknown"},
                  {"message", fmt::format("this build has no {} in {}", job.variant,
                                          to_string(job.precision))}});
    std::string line;
    return channel.read_line(line);
  }
  return job.precision == Precision::f32 ? serve_job<float>(*registered, job, channel)
                                         : serve_job<double>(*registered, job, channel);
}

} // namespace

int run_pace(int request_fd, int control_fd) {
  prctl(PR_SET_PDEATHSIG, SIGKILL); // nobody listens to us once our parent is gone
  std::ofstream("/proc/self/oom_score_adj") << 1000;
  LineChannel channel(control_fd);
  const json request = json::parse(read_all(request_fd));
  if (request.at("protocol") != kPaceProtocol) {
    say(channel, {{"status", "protocol"}, {"protocol", kPaceProtocol}});
    return 0;
  }
  try {
    for (const json& job : request.at("jobs")) {
      if (!serve_any(pace_job_from_json(job), channel)) {
        break;
      }
    }
  } catch (const std::exception& error) {
    say(channel, {{"status", "error"}, {"message", error.what()}});
  }
  return 0;
}

} // namespace clusterbench
