#include "harness/worker/worker.hpp"

#include "harness/machine/disturbance.hpp"
#include "harness/machine/processor_clock.hpp"
#include "harness/problem/programs.hpp"
#include "harness/system/available_memory.hpp"
#include "harness/system/program_folder.hpp"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace clusterbench {
namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kMostNoise = std::size_t{1} << 20; // bytes of lines that are no replies
constexpr std::size_t kLastWords = 500;                  // bytes
constexpr std::size_t kWordsOfMpirun = 8000;             // bytes, behind what ranks printed

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

bool computes_on_processors(const Meta& meta) {
  return !computes_on_gpus(meta.device);
}

// CUDA reserves far more address space than it uses, so only CPU variants get a limit; each rank
// that of one process.
std::size_t memory_limit(const Meta& meta) {
  return computes_on_processors(meta) ? available_memory_bytes() : 0;
}

// That all processes of a variant may use; a rank has at least one.
int threads_of(const Meta& meta, const WorkerOptions& options) {
  return computes_on_processors(meta)
             ? std::max(options.threads, ranks_of(meta, options.ranks, options.gpus))
             : 0;
}

// Copying a start to the device, and waiting for it: beside honest runs of 0.1 ms a loaded host of
// one H200 took 0.33 ms, round trips of 0.07 included.
constexpr double kDeviceStart = 3e-4;

// What names the limit where the kernel has ended a process for its processor time: by SIGXCPU at
// the soft limit, by SIGKILL at the hard one. Else empty.
std::string limit_of_processor_time(int signal, double used) {
  rlimit limit{}; // ours, which the process has inherited
  if ((signal != SIGKILL && signal != SIGXCPU) || getrlimit(RLIMIT_CPU, &limit) != 0) {
    return {};
  }
  const rlim_t seconds = signal == SIGXCPU ? limit.rlim_cur : limit.rlim_max;
  // The kernel counts whole ticks, which beside other work are more than what was used.
  constexpr double kLeast = 0.5;
  return seconds != RLIM_INFINITY && used >= kLeast * static_cast<double>(seconds)
             ? fmt::format(": it had used {:.1f} of the {} s of processor time that are allowed "
                           "(ulimit -t)",
                           used, seconds)
             : "";
}

constexpr double kSecondsPerByte = 2e-9; // of reading a start, or writing an answer

} // namespace

Worker::Worker(const KnownVariant& variant, WorkerOptions options)
    : options_(std::move(options)),
      deadline_(Clock::now() + std::chrono::duration_cast<Clock::duration>(options_.timeout)),
      output_("output"), report_("report"),
      clock_(variant.is_program, threads_of(variant.meta, options_), processor_clock_step()),
      untimed_seconds_(computes_on_processors(variant.meta) ? 0.0 : kDeviceStart) {
  options_.gpus = gpus_of(variant.meta, options_.gpus);
  options_.ranks = ranks_of(variant.meta, options_.ranks, options_.gpus);
  if (options_.ranks > 0) {
    ranks_ = std::make_unique<Ranks>(static_cast<std::size_t>(options_.ranks), scratch_.path());
    options_.threads = std::max(options_.threads / options_.ranks, 1);
  }
  if (options_.build.empty()) {
    options_.build = program_folder();
    if (const std::string change = change_of_module(variant); !change.empty()) {
      throw WorkerFailure("error", change); // rows would be another's times under its name
    }
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
    if (options_.device_memory_limit > 0 && !computes_on_processors(variant.meta)) {
      load["device_memory"] = options_.device_memory_limit;
    }
    if (ranks_ != nullptr) {
      wait_for_ranks();
      load["marks"] = fmt::format("/proc/{}/fd/{}", pid_, ranks_->marks_descriptor());
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
  if (options_.memory_limit > 0) {
    setup.memory_limit = std::min(setup.memory_limit, options_.memory_limit);
  }
  constexpr std::size_t kRest = std::size_t{256} << 20; // what it prints, caches
  setup.file_limit = options_.largest_file + kRest;
  setup.sandboxed = options_.sandboxed;
  setup.own_network = variant.meta.device == Device::multi_gpu || ranks_ != nullptr;
  setup.children_write_to_proc = variant.meta.device == Device::mpi_gpu;
  for (const auto& folder : options_.hidden) {
    if (!folder.empty()) {
      setup.hidden.push_back(folder.string());
    }
  }
  setup.scratch = scratch_.path().string();
  setup.report = report_.fd();

  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) {
    throw WorkerFailure("error", fmt::format("cannot make a socket: {}", std::strerror(errno)));
  }
  socket_ = sockets[0];
  channels_ = {LineChannel(socket_)};
  const std::filesystem::path runner = options_.build / "clusterbench-runner";
  ProcessOptions process;
  process.arguments = options_.wrapper;
  process.arguments.push_back(runner.string());
  process.arguments.push_back(to_json(setup).dump());
  process.inherited_descriptors = options_.descriptors;
  process.inherited_descriptors.push_back(report_.fd());
  process.environment =
      confined_environment(options_.environment, options_.threads, options_.gpus, scratch_.path());
  if (variant.is_program || ranks_ != nullptr) {
    process.arguments.emplace_back("--");
    const std::vector<std::string> command =
        ranks_ != nullptr ? ranks_->command(runner) : start_of(variant).command;
    process.arguments.insert(process.arguments.end(), command.begin(), command.end());
  }
  process.output_descriptor = output_.fd();
  if (ranks_ == nullptr) {
    process.input_descriptor = sockets[1];
    process.reply_descriptor = sockets[1];
  } else {
    process.inherited_descriptors.push_back(ranks_->marks_descriptor());
    const std::vector<std::string> more = ranks_->environment();
    process.environment.insert(process.environment.end(), more.begin(), more.end());
  }
  ended_for_memory_ = processes_ended_for_memory();
  try {
    pid_ = start_process(process);
  } catch (const std::runtime_error& error) {
    close(sockets[1]);
    throw WorkerFailure("error", error.what());
  }
  close(sockets[1]);
}

// mpirun runs in the place of a runner, and the ranks have come by a socket of theirs.
void Worker::wait_for_ranks() {
  if (!ranks_->wait_for_all(pid_, deadline_)) {
    if (interrupt_signal() != 0) {
      throw WorkerFailure("interrupted", "the campaign was interrupted");
    }
    // mpirun and its ranks meet over TCP.
    if (read_all(report_.fd()).find("a network namespace") != std::string::npos) {
      throw WorkerFailure(
          "unavailable",
          "mpirun needs a network of its own, which the sandbox cannot give it here");
    }
    if (Clock::now() < deadline_) {
      explain_end();
    }
    throw WorkerFailure("timed_out",
                        fmt::format("killed after {:.0f} s: mpirun had not started all ranks",
                                    options_.timeout.count()),
                        last_words());
  }
  channels_.clear();
  for (const int socket : ranks_->sockets()) {
    channels_.emplace_back(socket);
  }
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

std::vector<pid_t> Worker::processes() const {
  return ranks_ != nullptr ? ranks_->pids() : std::vector<pid_t>{pid_};
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
  std::size_t bytes = 0;
  for (const pid_t process : processes()) {
    bytes += process > 0 ? clusterbench::peak_rss_bytes(process) : 0;
  }
  return std::max(peak_rss_, bytes);
}

std::size_t Worker::peak_rss_bytes_of_largest() const {
  std::size_t bytes = 0;
  for (const pid_t process : processes()) {
    bytes = std::max(bytes, process > 0 ? clusterbench::peak_rss_bytes(process) : 0);
  }
  return bytes;
}

std::string Worker::output_tail() const {
  return read_tail(output_.fd(), 2000);
}

double Worker::processor_seconds() const {
  double seconds = 0.0;
  for (const pid_t process : processes()) {
    clockid_t clock{};
    timespec time{};
    if (clock_getcpuclockid(process, &clock) == 0 && clock_gettime(clock, &time) == 0) {
      seconds += static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
    }
  }
  return seconds;
}

// Of the threads that the round trip needs.
double Worker::seconds_of_waiting_there() const {
  double seconds = 0.0;
  for (const pid_t process : processes()) {
    seconds += waited_seconds_of_first_thread(process);
  }
  return seconds;
}

// With the rank that it is about, where there are ranks.
std::string Worker::naming(std::size_t rank, const std::string& message) const {
  return ranks_ != nullptr ? fmt::format("rank {}: {}", rank, message) : message;
}

LineChannel::Received Worker::read_line(const std::vector<bool>& answered) {
  LineChannel::Received received =
      LineChannel::read_line_of_any(channels_, deadline_ - Clock::now());
  switch (received.ending) {
  case LineChannel::Ending::interrupted:
    throw WorkerFailure("interrupted", "the campaign was interrupted");
  case LineChannel::Ending::late: {
    std::string message = fmt::format("killed after {:.0f} s", options_.timeout.count());
    if (ranks_ != nullptr) {
      message += ": " + ranks_->who_holds_up(answered);
    }
    throw WorkerFailure("timed_out", message, last_words());
  }
  case LineChannel::Ending::too_long:
    throw WorkerFailure(
        "error", naming(received.channel, fmt::format("it wrote a line of more than {} bytes",
                                                      LineChannel::kLongestLine)));
  case LineChannel::Ending::closed:
    explain_end();
  case LineChannel::Ending::line:
    break;
  }
  return received;
}

json Worker::ask(const json& request) {
  const std::size_t all = channels_.size();
  if (ranks_ == nullptr) {
    return ask(request, 0, 1).front();
  }
  // The others compare their centroids with what the first rank has written.
  const std::size_t at_once = request.at("request") == "take" ? 1 : all;
  std::vector<json> replies = ask(request, 0, at_once);
  if (at_once < all) {
    ask(request, at_once, all - at_once);
  }
  return reply_of_all(replies);
}

// Of so many processes, beginning with one of them. A refusal is told when all have replied, for
// they may be asked something else then; any other failure at once, because the others may wait for
// that one.
std::vector<json> Worker::ask(const json& request, std::size_t first, std::size_t count) {
  const std::string asked = request.at("request");
  const std::string line_of_request = request.dump();
  std::vector<json> replies(channels_.size());
  std::vector<bool> answered(channels_.size(), true);
  try {
    for (std::size_t i = first; i < first + count; ++i) {
      answered[i] = false;
      channels_[i].write_line(line_of_request);
    }
  } catch (const std::runtime_error&) {
    // It is gone. Its last words, or else how it ended, are found where its reply would be.
  }
  std::optional<WorkerFailure> refusal;
  for (std::size_t noise = 0; std::ranges::find(answered, false) != answered.end();) {
    const auto [ending, from, line] = read_line(answered);
    try {
      if (std::optional<json> reply = reply_in(line, answered[from] ? "nothing" : asked)) {
        replies[from] = *std::move(reply);
        answered[from] = true;
        continue;
      }
    } catch (const WorkerFailure& failure) {
      const bool refuses = failure.status() == "refused" || failure.status() == "unavailable";
      if (!refuses || answered[from]) {
        throw WorkerFailure(failure.status(), naming(from, failure.what()), failure.last_words());
      }
      refusal = failure;
      answered[from] = true;
      continue;
    }
    noise += line.size() + 1;
    if (noise > kMostNoise) {
      throw WorkerFailure("error", naming(from, "it printed a megabyte instead of a reply"));
    }
    write_all(output_.fd(), line + "\n");
  }
  if (refusal) {
    throw *refusal;
  }
  return {replies.begin() + static_cast<std::ptrdiff_t>(first),
          replies.begin() + static_cast<std::ptrdiff_t>(first + count)};
}

// The kernel ends the largest process when memory runs out, and counts it. One that had less than
// half of what there was to have was ended by somebody else.
bool Worker::ended_for_lack_of_memory() const {
  const auto ended = processes_ended_for_memory();
  return peak_rss_ >= available_memory_bytes() / 2 &&
         (!ended || !ended_for_memory_ || *ended > *ended_for_memory_);
}

// mpirun mostly says it, but may end before it has printed what the rank told it.
std::optional<EndedRank> Worker::rank_that_ended(std::optional<std::size_t> first_gone,
                                                 const ProcessOutcome& mpirun) const {
  if (const auto rank = ranks_->aborted()) {
    return EndedRank{fmt::format("rank {}: called MPI_Abort", *rank)};
  }
  if (auto said = clusterbench::rank_that_ended(read_tail(output_.fd(), kWordsOfMpirun))) {
    return said;
  }
  if (first_gone && mpirun.kind == ProcessOutcome::Kind::exited && mpirun.exit_code != 0) {
    return ended_rank(*first_gone, mpirun.exit_code);
  }
  return std::nullopt;
}

// Of the worker; mpirun's own say nothing that the message does not.
std::string Worker::last_words() const {
  if (ranks_ == nullptr) {
    return read_tail(output_.fd(), kLastWords);
  }
  const std::string words = words_of_ranks(read_tail(output_.fd(), kWordsOfMpirun));
  return words.substr(words.size() - std::min(words.size(), kLastWords));
}

// The worker has closed the channel: says how it ended.
void Worker::explain_end() {
  peak_rss_ = peak_rss_bytes();
  const double used = processor_seconds();
  const auto first_gone = ranks_ != nullptr ? ranks_->only_one_gone() : std::nullopt;
  // mpirun asks the other ranks to end, and waits for them.
  const ProcessOutcome outcome =
      end_process(pid_, std::chrono::duration<double>(ranks_ != nullptr ? 10 : 1));
  pid_ = -1;
  if (ranks_ != nullptr && outcome.kind != ProcessOutcome::Kind::interrupted) {
    if (const auto ended = rank_that_ended(first_gone, outcome)) {
      const bool no_memory = ended->signal == SIGKILL && ended_for_lack_of_memory();
      throw WorkerFailure(no_memory ? "out_of_memory" : "crashed", ended->text, last_words());
    }
  }
  switch (outcome.kind) {
  case ProcessOutcome::Kind::signalled:
    if (outcome.signal == SIGKILL && ended_for_lack_of_memory()) {
      throw WorkerFailure("out_of_memory",
                          fmt::format("killed by the kernel (signal 9) with {} MiB resident: most "
                                      "likely out of memory",
                                      peak_rss_ >> 20));
    }
    throw WorkerFailure("crashed",
                        fmt::format("signal {} ({}){}", outcome.signal, strsignal(outcome.signal),
                                    limit_of_processor_time(outcome.signal, used)),
                        last_words());
  case ProcessOutcome::Kind::interrupted:
    throw WorkerFailure("interrupted", "the campaign was interrupted");
  case ProcessOutcome::Kind::timed_out:
    throw WorkerFailure("crashed", "it closed its channel before it answered");
  case ProcessOutcome::Kind::exited:
    break;
  }
  throw WorkerFailure("crashed",
                      fmt::format("exited with code {} before it answered", outcome.exit_code),
                      last_words());
}

void Worker::points(PointsRequest request) {
  if (ranks_ != nullptr) {
    request.shape.threads = options_.threads; // of a rank
    // mpirun has inherited the memory, and closed it for the ranks.
    for (std::string* path :
         {&request.points, &request.weights, &request.start, &request.labels, &request.centroids,
          &request.entering, &request.memberships, &request.record}) {
      constexpr std::string_view kOwn = "/proc/self/";
      if (path->starts_with(kOwn)) {
        path->replace(0, kOwn.size(), fmt::format("/proc/{}/", pid_));
      }
    }
  }
  const Shape& shape = request.shape;
  const std::size_t value = request.precision == "f32" ? sizeof(float) : sizeof(double);
  start_bytes_ = shape.k * (shape.starts_from_memberships ? shape.n : shape.d) * value;
  answer_bytes_ = shape.n * sizeof(std::int32_t) + 2 * shape.k * shape.d * value +
                  (request.memberships.empty() ? 0 : shape.n * shape.k * value);
  ask(to_json(request));
}

json Worker::prepare() {
  return ask({{"request", "prepare"}});
}

RunReply Worker::timed(const json& request) {
  TimedRequest times;
  const auto before_cpu = Clock::now();
  const double cpu = processor_seconds();
  RunReply run;
  run.reply = ask(request, times);
  times.cpu = run.cpu = processor_seconds() - cpu;
  times.of_cpu = seconds_since(before_cpu);
  times.untimed = kSecondsPerByte * static_cast<double>(start_bytes_) + untimed_seconds_;
  times.inside = run.reply.at("seconds");
  run.seconds = clock_.judge(times);
  run.iterations = run.reply.at("iterations");
  return run;
}

// Fills in what the parent sees of a request.
json Worker::ask(const json& request, TimedRequest& times) {
  const double waited_there = seconds_of_waiting_there();
  const double waited_here = waited_seconds_of_this_thread();
  const auto sent = Clock::now();
  json reply = ask(request);
  times.outside = seconds_since(sent);
  times.waited_here = waited_seconds_of_this_thread() - waited_here;
  times.waited = times.waited_here + seconds_of_waiting_there() - waited_there;
  return reply;
}

RunReply Worker::run(bool record) {
  return timed({{"request", "run"}, {"record", record}});
}

RunReply Worker::whole() {
  return timed({{"request", "whole"}});
}

double Worker::take() {
  TimedRequest times;
  ask({{"request", "take"}}, times);
  if (ranks_ != nullptr) { // they compare their answers
    return 0.0;
  }
  times.untimed = kSecondsPerByte * static_cast<double>(answer_bytes_) + untimed_seconds_;
  return clock_.beyond_handing_over(times);
}

} // namespace clusterbench
