#include "harness/compare/pace_child.hpp"

#include "harness/compare/line_channel.hpp"
#include "harness/compare/pace_protocol.hpp"
#include "harness/compare/processors.hpp"
#include "harness/run/digest.hpp"
#include "harness/run/hidden_folder.hpp"
#include "harness/run/job.hpp"
#include "harness/run/shared_memory.hpp"
#include "harness/run/variant_session.hpp"

#include <csignal>
#include <ctime>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>
#include <sys/prctl.h>
#include <thread>
#include <utility>

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

struct RunQueue {
  std::int64_t waited = 0; ///< nanoseconds that threads wanted a processor and had none
  std::size_t threads = 0;
};

// The kernel keeps "time on a processor, time waiting for one, time slices" for every thread.
RunQueue run_queue() {
  RunQueue queue;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream file(thread.path() / "schedstat");
    std::int64_t ran = 0, waited = 0;
    if (file >> ran >> waited) {
      queue.waited += waited;
    }
    ++queue.threads;
  }
  return queue;
}

// What "run" asks for.
struct RunOrder {
  std::size_t count = 0;
  std::int64_t patience = 0; ///< nanoseconds to wait for free processors
};

RunOrder parse_run(const std::string& words) {
  RunOrder order;
  if (!(std::istringstream(words) >> order.count >> order.patience)) {
    throw std::runtime_error(fmt::format("the pace protocol has no \"run {}\"", words));
  }
  return order;
}

// Waits until the processors are our own; returns how many competitors are left.
int await_quiet(int threads, std::int64_t patience) {
  constexpr std::int64_t kPause = 1'000'000;
  int left = competitors(threads);
  for (; left > 0 && patience > 0; patience -= kPause) {
    std::this_thread::sleep_for(std::chrono::nanoseconds(kPause));
    left = competitors(threads);
  }
  return left;
}

/// A prepared variant, the start of its runs, and where their answers go.
template <typename T>
struct Prepared {
  VariantSession<T> session;
  Start<T> start;
  Result<T> answer;
};

template <typename T>
json take_turn(Prepared<T>& prepared, const RunOrder& order) {
  Observer<T> nobody;
  // A variant that has started threads in its first run wants all their processors to be free.
  const auto threads = static_cast<int>(run_queue().threads);
  const int competitors_before = await_quiet(threads, order.patience);
  const RunQueue before = run_queue();
  const std::int64_t begin = nanoseconds(CLOCK_MONOTONIC);
  std::int64_t shortest = std::numeric_limits<std::int64_t>::max();
  for (std::size_t i = 0; i < order.count; ++i) {
    prepared.session.run(prepared.start, prepared.answer, nobody);
    shortest =
        std::min(shortest, static_cast<std::int64_t>(prepared.session.run_seconds() * 1e9));
  }
  const std::int64_t elapsed = nanoseconds(CLOCK_MONOTONIC) - begin;
  const std::int64_t waited = run_queue().waited - before.waited;
  return {{"shortest", shortest},
          {"elapsed", elapsed},
          {"waited", waited},
          {"competitors", std::max(competitors_before, competitors(threads))}};
}

// The first turn, after which the variant's threads get processors of their own. One whose threads
// have come and gone is left alone: those of its next run would inherit the processor of the first.
template <typename T>
json take_first_turn(Prepared<T>& prepared, const RunOrder& order, std::size_t processor) {
  const std::int64_t cpu = nanoseconds(CLOCK_PROCESS_CPUTIME_ID); // of all threads
  json turn = take_turn(prepared, order);
  const auto cpu_spent = static_cast<double>(nanoseconds(CLOCK_PROCESS_CPUTIME_ID) - cpu);
  constexpr double kMoreThanOneThread = 1.1;
  if (run_queue().threads > 1 || cpu_spent < kMoreThanOneThread * turn.at("elapsed").get<double>()) {
    spread_threads(processor);
  }
  return turn;
}

// Obeys until the job is over; false if the parent has hung up.
template <typename T>
bool serve(Prepared<T>& prepared, std::size_t processor, LineChannel& channel) {
  constexpr std::string_view kRun = "run ";
  bool has_run = false;
  for (std::string line; channel.read_line(line);) {
    if (line.starts_with(kRun)) {
      const RunOrder order = parse_run(line.substr(kRun.size()));
      say(channel, std::exchange(has_run, true)
                       ? take_turn(prepared, order)
                       : take_first_turn(prepared, order, processor));
    } else if (line == "fetch") {
      say(channel, {{"digest", digest(prepared.answer)},
                    {"iterations", prepared.answer.iterations}});
    } else if (line == "next") {
      return true;
    } else {
      throw std::runtime_error(fmt::format("the pace protocol has no \"{}\"", line));
    }
  }
  return false;
}

template <typename T>
bool serve_job(const RegisteredVariant& registered, const PaceJob& job, std::size_t processor,
               LineChannel& channel) {
  const InheritedMemory points(job.points_fd, InheritedMemory::Access::read);
  const InheritedMemory initial(job.initial_fd, InheritedMemory::Access::read);
  const InheritedMemory memory(job.result_fd, InheritedMemory::Access::write);
  const ResultSlots slots(job.n, job.d, job.k, registered.meta.family, sizeof(T));
  Prepared<T> prepared{VariantSession<T>(registered.meta, make_variant<T>(registered), job.shape()),
                       {},
                       slots.slot<T>(memory.as<std::byte>(), ResultSlots::kFirst)};
  (job.starts_from_memberships ? prepared.start.memberships : prepared.start.centroids) =
      initial.as<const T>();
  const auto refused = [&](const std::string& reason) {
    say(channel, {{"status", "refused"}, {"message", reason}});
    std::string line;
    return channel.read_line(line); // "next"
  };
  if (const std::string reason = prepared.session.refuse(); !reason.empty()) {
    return refused(reason);
  }
  try {
    prepared.session.prepare(points.as<const T>());
  } catch (const Refusal& refusal) {
    return refused(refusal.what());
  }
  say(channel, {{"status", "ready"}});
  return serve(prepared, processor, channel);
}

bool serve_any(const PaceJob& job, std::size_t processor, LineChannel& channel) {
  const RegisteredVariant* registered = find_variant(job.variant);
  if (registered == nullptr || !supports(*registered, job.precision)) {
    say(channel, {{"status", "unknown"},
                  {"message", fmt::format("this build has no {} in {}", job.variant,
                                          to_string(job.precision))}});
    std::string line;
    return channel.read_line(line);
  }
  return job.precision == Precision::f32 ? serve_job<float>(*registered, job, processor, channel)
                                         : serve_job<double>(*registered, job, processor, channel);
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
  if (const std::string folder = request.value("hidden_folder", ""); !folder.empty()) {
    hide_folder(folder);
  }
  try {
    for (const json& job : request.at("jobs")) {
      if (!serve_any(task_from_json(job), request.value("processor", std::size_t{0}), channel)) {
        break;
      }
    }
  } catch (const std::exception& error) {
    say(channel, {{"status", "error"}, {"message", error.what()}});
  }
  return 0;
}

} // namespace clusterbench
