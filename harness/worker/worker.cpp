#include "harness/worker/worker.hpp"

#include "harness/machine/disturbance.hpp"
#include "harness/problem/programs.hpp"
#include "harness/system/available_memory.hpp"
#include "harness/system/program_folder.hpp"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace clusterbench {
namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kMostNoise = std::size_t{1} << 20; // bytes of lines that are no replies
constexpr std::size_t kLastWords = 500;                  // bytes

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// CUDA reserves far more address space than it uses, so only CPU variants get a limit.
std::size_t memory_limit(const Meta& meta) {
  return meta.device == Device::cpu ? available_memory_bytes() : 0;
}

// Copying a start to the device, and waiting for it: beside honest runs of 0.1 ms a loaded host of one
// H200 took 0.33 ms, round trips of 0.07 included.
constexpr double kDeviceStart = 3e-4;

} // namespace

Worker::Worker(const KnownVariant& variant, WorkerOptions options)
    : options_(std::move(options)),
      deadline_(Clock::now() + std::chrono::duration_cast<Clock::duration>(options_.timeout)),
      output_("output"), report_("report"),
      clock_(variant.is_program, variant.meta.device == Device::cpu ? options_.threads : 0),
      untimed_seconds_(variant.meta.device == Device::cpu ? 0.0 : kDeviceStart) {
  options_.gpus = gpus_of(variant.meta, options_.gpus);
  if (options_.build.empty()) {
    options_.build = program_folder();
  }
  const auto begin = Clock::now();
  try {
    start(variant);
    json load = {{"request", "load"},
                 {"variant", variant.meta.name},
                 {"threads", options_.threads},
                 {"gpus", options_.gpus},
                 {"folder", (options_.build / "modules").string()}};
    if (!variant.module.empty()) {
      load["module"] = variant.module.string();
    }
    const json reply = ask(load);
    start_seconds_ = seconds_since(begin);
    context_seconds_ = reply.value("context_s", 0.0);
    versions_ = reply.value("versions", json::object());
    const json lacks = json::parse(read_all(report_.fd()), nullptr, false);
    sandbox_lacks_ = lacks.is_array() ? lacks.get<std::vector<std::string>>()
                                      : std::vector<std::string>{"unknown"};
    for (int i = 0; i < 8; ++i) {
      const auto sent = Clock::now();
      ask({{"request", "ping"}});
      clock_.round_trip(seconds_since(sent));
    }
  } catch (...) {
    end();
    throw;
  }
}

Worker::~Worker() {
  end();
}

void Worker::start(const KnownVariant& variant) {
  RunnerSetup setup;
  setup.parent = getpid();
  setup.memory_limit = memory_limit(variant.meta);
  constexpr std::size_t kRest = std::size_t{256} << 20; // what it prints, caches
  setup.file_limit = options_.largest_file + kRest;
  setup.sandboxed = options_.sandboxed;
  setup.own_network = variant.meta.device == Device::multi_gpu;
  for (const auto& folder : options_.hidden) {
    setup.hidden.push_back(folder.string());
  }
  setup.scratch = scratch_.path().string();
  setup.report = report_.fd();

  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) {
    throw WorkerFailure("error", fmt::format("cannot make a socket: {}", std::strerror(errno)));
  }
  socket_ = sockets[0];
  channel_ = LineChannel(socket_);
  ProcessOptions process;
  process.arguments = options_.wrapper;
  process.arguments.push_back((options_.build / "clusterbench-runner").string());
  process.arguments.push_back(to_json(setup).dump());
  if (variant.is_program) {
    process.arguments.emplace_back("--");
    const std::vector<std::string> command = start_of(variant).command;
    process.arguments.insert(process.arguments.end(), command.begin(), command.end());
  }
  process.inherited_descriptors = options_.descriptors;
  process.inherited_descriptors.push_back(report_.fd());
  process.environment =
      confined_environment(options_.environment, options_.threads, options_.gpus, scratch_.path());
  process.input_descriptor = sockets[1];
  process.reply_descriptor = sockets[1];
  process.output_descriptor = output_.fd();
  ended_for_memory_ = processes_ended_for_memory();
  try {
    pid_ = start_process(process);
  } catch (const std::runtime_error& error) {
    close(sockets[1]);
    throw WorkerFailure("error", error.what());
  }
  close(sockets[1]);
}

void Worker::end() {
  if (socket_ >= 0) {
    close(socket_);
    socket_ = -1;
  }
  if (pid_ > 0) {
    end_process(pid_, std::chrono::duration<double>(0));
    pid_ = -1;
  }
  scratch_.remove();
}

std::string Worker::finish() {
  if (socket_ >= 0) {
    close(socket_);
    socket_ = -1;
  }
  if (pid_ > 0) {
    end_process(pid_, deadline_ - Clock::now());
    pid_ = -1;
  }
  return output_tail();
}

std::size_t Worker::peak_rss_bytes() const {
  return std::max(peak_rss_, pid_ > 0 ? clusterbench::peak_rss_bytes(pid_) : 0);
}

std::string Worker::output_tail() const {
  return read_tail(output_.fd(), 2000);
}

double Worker::processor_seconds() const {
  clockid_t clock{};
  timespec time{};
  if (clock_getcpuclockid(pid_, &clock) != 0 || clock_gettime(clock, &time) != 0) {
    return 0.0;
  }
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Of the threads that the round trip needs.
double Worker::seconds_of_waiting() const {
  return waited_seconds_of_first_thread(pid_) + waited_seconds_of_this_thread();
}

std::string Worker::read_reply_line() {
  std::string line;
  switch (channel_.read_line(line, deadline_ - Clock::now())) {
  case LineChannel::Ending::interrupted:
    throw WorkerFailure("interrupted", "the campaign was interrupted");
  case LineChannel::Ending::late:
    throw WorkerFailure("timed_out", fmt::format("killed after {:.0f} s", options_.timeout.count()),
                        read_tail(output_.fd(), kLastWords));
  case LineChannel::Ending::too_long:
    throw WorkerFailure("error", fmt::format("it wrote a line of more than {} bytes",
                                             LineChannel::kLongestLine));
  case LineChannel::Ending::closed:
    explain_end();
  case LineChannel::Ending::line:
    break;
  }
  return line;
}

json Worker::ask(const json& request) {
  const std::string asked = request.at("request");
  try {
    channel_.write_line(request.dump());
  } catch (const std::runtime_error&) { // it is gone
    explain_end();
  }
  for (std::size_t noise = 0;;) {
    const std::string line = read_reply_line();
    if (std::optional<json> reply = reply_in(line, asked)) {
      return *std::move(reply);
    }
    noise += line.size() + 1;
    if (noise > kMostNoise) {
      throw WorkerFailure("error", "it printed a megabyte instead of a reply");
    }
    write_all(output_.fd(), line + "\n");
  }
}

// The worker has closed the channel: says how it ended.
void Worker::explain_end() {
  peak_rss_ = peak_rss_bytes();
  const ProcessOutcome outcome = end_process(pid_, std::chrono::duration<double>(1));
  pid_ = -1;
  switch (outcome.kind) {
  case ProcessOutcome::Kind::signalled:
    // The kernel ends the largest process when memory runs out, and counts it. One that had less than
    // half of what there was to have was ended by somebody else.
    if (const auto ended = processes_ended_for_memory();
        outcome.signal == SIGKILL && peak_rss_ >= available_memory_bytes() / 2 &&
        (!ended || !ended_for_memory_ || *ended > *ended_for_memory_)) {
      throw WorkerFailure("out_of_memory",
                          fmt::format("killed by the kernel (signal 9) with {} MiB resident: most "
                                      "likely out of memory",
                                      peak_rss_ >> 20));
    }
    throw WorkerFailure(
        "crashed", fmt::format("signal {} ({})", outcome.signal, strsignal(outcome.signal)),
        read_tail(output_.fd(), kLastWords));
  case ProcessOutcome::Kind::interrupted:
    throw WorkerFailure("interrupted", "the campaign was interrupted");
  case ProcessOutcome::Kind::timed_out:
    throw WorkerFailure("crashed", "it closed its channel before it answered");
  case ProcessOutcome::Kind::exited:
    break;
  }
  throw WorkerFailure("crashed",
                      fmt::format("exited with code {} before it answered", outcome.exit_code),
                      read_tail(output_.fd(), kLastWords));
}

void Worker::points(const PointsRequest& request) {
  const Shape& shape = request.shape;
  start_bytes_ = shape.k * (shape.starts_from_memberships ? shape.n : shape.d) *
                 (request.precision == "f32" ? sizeof(float) : sizeof(double));
  ask(to_json(request));
}

json Worker::prepare() {
  return ask({{"request", "prepare"}});
}

RunReply Worker::timed(const json& request) {
  TimedRequest times;
  const double cpu = processor_seconds();
  const double waited = seconds_of_waiting();
  const auto sent = Clock::now();
  RunReply run;
  run.reply = ask(request);
  times.outside = seconds_since(sent);
  times.cpu = run.cpu = processor_seconds() - cpu;
  times.waited = seconds_of_waiting() - waited;
  constexpr double kSecondsPerByte = 2e-9; // of reading the start
  times.untimed = kSecondsPerByte * static_cast<double>(start_bytes_) + untimed_seconds_;
  times.inside = run.reply.at("seconds");
  run.seconds = clock_.judge(times);
  run.iterations = run.reply.at("iterations");
  return run;
}

RunReply Worker::run(bool record) {
  return timed({{"request", "run"}, {"record", record}});
}

RunReply Worker::whole() {
  return timed({{"request", "whole"}});
}

double Worker::take() {
  const json reply = ask({{"request", "take"}});
  return reply.value("seconds", 0.0);
}

} // namespace clusterbench
