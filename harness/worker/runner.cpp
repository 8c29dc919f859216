// The process in which a variant runs. It holds the contract, memory and the clock, and nothing of the
// judge.
//
//   clusterbench-runner --protocol                 prints the version of the protocol
//   clusterbench-runner --describe MODULE          prints the description of the module's variant
//   clusterbench-runner SETUP                      serves the protocol on standard input and output
//   clusterbench-runner SETUP --describe MODULE    confines itself, and replies as a program does
//   clusterbench-runner SETUP -- PROGRAM ...       confines itself and becomes the program
//   clusterbench-runner --rank SOCKET              serves the protocol on that socket as one of the
//                                                  processes that such a program, mpirun, has started
//
// SETUP is a RunnerSetup. The variant's module is loaded after the runner has entered its sandbox.
#include "harness/system/line_channel.hpp"
#include "harness/system/protocol_version.hpp"
#include "harness/system/sandbox.hpp"
#include "harness/worker/device_memory.hpp"
#include "harness/worker/module.hpp"
#include "harness/worker/protocol.hpp"
#include "harness/worker/rank_calls.hpp"
#include "harness/worker/rank_marks.hpp"
#include "harness/worker/rank_rows.hpp"
#include "harness/worker/recorder.hpp"
#include "harness/worker/session.hpp"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <fmt/format.h>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <random>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <variant>

namespace clusterbench {
namespace {

using nlohmann::json;

/// A file of memory that the parent has made, mapped.
class MappedFile {
public:
  enum class Access { read, write };
  MappedFile(const std::string& path, Access access) {
    if (path.empty()) {
      return;
    }
    const int file = open(path.c_str(), (access == Access::read ? O_RDONLY : O_RDWR) | O_CLOEXEC);
    struct stat status {};
    if (file < 0 || fstat(file, &status) != 0) {
      throw std::runtime_error(fmt::format("{}: {}", path, std::strerror(errno)));
    }
    bytes_ = static_cast<std::size_t>(status.st_size);
    if (bytes_ > 0) {
      data_ = mmap(nullptr, bytes_, access == Access::read ? PROT_READ : PROT_READ | PROT_WRITE,
                   MAP_SHARED, file, 0);
    }
    close(file);
    if (data_ == MAP_FAILED) {
      data_ = nullptr;
      throw std::bad_alloc();
    }
  }
  MappedFile(MappedFile&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_) {}
  ~MappedFile() {
    if (data_ != nullptr) {
      munmap(data_, bytes_);
    }
  }
  MappedFile& operator=(MappedFile&&) = delete;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  template <typename T>
  std::span<T> as() const {
    return {static_cast<T*>(data_), data_ == nullptr ? 0 : bytes_ / sizeof(T)};
  }

private:
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

void write_file(const std::string& path, std::span<const std::byte> bytes) {
  const int file = open(path.c_str(), O_WRONLY | O_CLOEXEC);
  const bool emptied = file >= 0 && ftruncate(file, 0) == 0;
  std::size_t written = 0;
  while (emptied && written < bytes.size()) {
    const ssize_t got = write(file, bytes.data() + written, bytes.size() - written);
    if (got <= 0) {
      break;
    }
    written += static_cast<std::size_t>(got);
  }
  if (file >= 0) {
    close(file);
  }
  if (!emptied || written < bytes.size()) {
    throw std::runtime_error(fmt::format("{}: {}", path, std::strerror(errno)));
  }
}

bool computes_on_devices(const Meta& meta) {
  return meta.device == Device::gpu || meta.device == Device::multi_gpu;
}

/// One set of points and its answer, in one precision.
template <typename T>
class Work {
public:
  /// mark: of this rank, or null if the variant computes in one process.
  Work(const RegisteredVariant& variant, const std::filesystem::path& modules,
       const PointsRequest& request, const std::vector<int>& devices, RankMark* mark)
      : place_(computes_on_devices(variant.meta) ? Place::device : Place::host), request_(request),
        mark_(mark),
        start_(request.start, MappedFile::Access::read),
        labels_(request.labels, MappedFile::Access::write),
        centroids_(request.centroids, MappedFile::Access::write),
        entering_(request.entering, MappedFile::Access::write),
        memberships_(request.memberships, MappedFile::Access::write),
        session_(variant, modules, request.shape, devices) {
    if (variant.meta.streams) {
      session_.take_file({request.points_descriptor, request.points_offset, request.rotate});
    } else if (request.points_in_file) {
      session_.take_rows(request.shape.n, request.rotate, [&](RowRange rows, std::span<T> values) {
        fill_rank_rows(request, rows, values);
      });
    } else {
      const MappedFile points(request.points, MappedFile::Access::read);
      const MappedFile weights(request.weights, MappedFile::Access::read);
      session_.take_points(points.as<const T>(), request.rotate, weights.as<const T>());
    }
    if (mark_ != nullptr) {
      session_.meet_with([this] {
        const std::string asked = mark_->activity;
        mark_->set(kMeeting);
        rank_calls().barrier();
        mark_->set(asked); // until a phase says more
      });
      session_.watch_with(marking_.emplace(*mark_, nobody_));
    }
  }

  json prepare() {
    session_.prepare();
    const Windows& windows = session_.windows();
    return with_moments({{"seconds", windows.upload + windows.prepare},
                         {"upload_s", windows.upload},
                         {"prepare_s", windows.prepare},
                         {"chosen_path", session_.chosen_path()}});
  }

  json run(bool record) {
    if (!record) {
      run_watched(nobody_);
      return end_of_run();
    }
    Recorder<T> recorder(place_);
    run_watched(recorder);
    json reply = end_of_run();
    reply["phases"] = recorder.phases();
    reply["counters"] = recorder.counters();
    reply["printed_loss"] = recorder.printed_losses();
    if (!request_.record.empty() && is_first()) {
      write_file(request_.record, std::as_bytes(std::span(recorder.passes())));
    }
    return reply;
  }

  json whole() {
    session_.run_whole(start());
    const Windows& windows = session_.windows();
    return with_moments({{"seconds", windows.whole},
                         {"upload_s", windows.upload},
                         {"prepare_s", windows.prepare},
                         {"run_s", windows.run},
                         {"download_s", windows.download},
                         {"iterations", session_.iterations()},
                         {"chosen_path", session_.chosen_path()}});
  }

  json take() {
    const auto own = [rows = session_.rows()](auto all, std::size_t width) {
      return all.empty() ? all : all.subspan(rows.first * width, rows.count * width);
    };
    Answer<T> answer{own(labels_.as<std::int32_t>(), 1), centroids_.as<T>(), entering_.as<T>(),
                     own(memberships_.as<T>(), request_.shape.k), 0};
    if (is_first()) {
      session_.take(answer);
    } else {
      take_and_compare(answer);
    }
    return {{"seconds", session_.windows().download}};
  }

private:
  bool is_first() const { return request_.shape.rank == 0; }

  void run_watched(Observer<T>& observer) {
    if (mark_ == nullptr) {
      session_.run(start(), observer);
    } else {
      MarkingObserver<T> marking(*mark_, observer);
      session_.run(start(), marking);
    }
  }

  // The first rank has written its centroids already: those of the others are the same, or there is no
  // answer.
  void take_and_compare(const Answer<T>& answer) {
    std::vector<T> centroids(answer.centroids.size()), entering(answer.entering.size());
    session_.take({answer.labels, centroids, entering, answer.memberships, 0});
    const auto equal = [](const std::vector<T>& own, std::span<const T> first) {
      return std::memcmp(own.data(), first.data(), first.size_bytes()) == 0;
    };
    if (!equal(centroids, answer.centroids) || !equal(entering, answer.entering)) {
      throw std::runtime_error("its centroids are not those of rank 0");
    }
  }

  json with_moments(json reply) const {
    if (mark_ != nullptr) {
      const Windows& windows = session_.windows();
      reply["began"] = windows.began;
      reply["prepared"] = windows.prepared;
      reply["ended"] = windows.ended;
    }
    return reply;
  }

  Start<T> start() const {
    Start<T> start;
    (request_.shape.starts_from_memberships ? start.memberships : start.centroids) =
        start_.as<const T>();
    return start;
  }
  json end_of_run() const {
    return with_moments({{"seconds", session_.windows().run},
                         {"iterations", session_.iterations()},
                         {"chosen_path", session_.chosen_path()}});
  }

  Place place_;
  PointsRequest request_;
  RankMark* mark_;
  Observer<T> nobody_;
  std::optional<MarkingObserver<T>> marking_; ///< of whole answers
  MappedFile start_, labels_, centroids_, entering_, memberships_;
  Session<T> session_;
};

/// Obeys the protocol.
class Server {
public:
  explicit Server(bool is_rank) : is_rank_(is_rank) {}

  json answer(const json& request) {
    const std::string asked = request.at("request");
    if (mark_ != nullptr) {
      mark_->set(asked);
    }
    if (asked == "load") {
      return load(request);
    }
    if (asked == "ping") {
      if (is_rank_) { // how long it takes them to meet is a part of every round trip
        rank_calls().barrier();
      }
      return json::object();
    }
    if (asked == "points") {
      return take_points(points_request_from(request));
    }
    json reply = std::visit([&](auto& work) { return answer_with(work, asked, request); }, work_);
    note_device_memory(reply);
    return reply;
  }

private:
  json load(const json& request) {
    json reply = {{"versions", json::object()}, {"context_s", 0.0}};
    if (is_rank_) {
      reply = join_ranks(request);
    }
    modules_ = request.at("folder").get<std::string>();
    variant_ = &load_module(request.contains("module")
                                ? std::filesystem::path(request.at("module").get<std::string>())
                                : module_file(modules_, request.at("variant")));
    if (computes_on_devices(variant_->meta)) {
      const auto start = std::chrono::steady_clock::now();
      devices_.resize(request.value("gpus", std::size_t{1}));
      std::iota(devices_.begin(), devices_.end(), 0);
      for (const int device : devices_) {
        device_calls().open(device); // makes the context
        if (request.contains("device_memory")) {
          device_memory_ = request.at("device_memory");
          device_calls().leave_free(device, device_memory_);
        }
      }
      reply["context_s"] =
          std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    }
    return reply;
  }

  // What was used of --device-memory, on the device where that is most. What a variant has freed in
  // between stays in the device's pool, and counts.
  void note_device_memory(json& reply) const {
    if (device_memory_ == 0) {
      return;
    }
    std::size_t used = 0;
    for (const int device : devices_) {
      used = std::max(used,
                      device_memory_ - std::min(device_calls().free_bytes(device), device_memory_));
    }
    reply["device_used_bytes"] = used;
  }

  // Before the variant's module is there, which may only have threads: starting processes was for mpirun.
  json join_ranks(const json& request) {
    const auto start = std::chrono::steady_clock::now();
    rank_calls().open();
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    // Without seccomp there is nothing to close, which the row's `sandbox_lacks` says.
    const bool has_filter = prctl(PR_GET_SECCOMP, 0, 0, 0, 0) == 2; // SECCOMP_MODE_FILTER
    const bool is_confined = prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1;
    if (is_confined && has_filter && !forbid_processes()) {
      throw std::runtime_error("the sandbox of a rank cannot be closed");
    }
    marks_.emplace(request.at("marks").get<std::string>(), MappedFile::Access::write);
    mark_ = &marks_->as<RankMark>()[static_cast<std::size_t>(rank_calls().rank())];
    mark_->set("load");
    rank_calls().note_abort_in(mark_->has_aborted);
    return {{"versions", {{"MPI", rank_calls().version()}}}, {"context_s", seconds}};
  }

  json take_points(PointsRequest request) {
    if (variant_ == nullptr) {
      throw std::runtime_error("no variant is loaded");
    }
    if (is_rank_) {
      request.shape.rank = rank_calls().rank();
      request.shape.world = rank_calls().world();
    }
    work_ = std::monostate(); // what an earlier problem held is free before the next is read
    if (request.precision == "f32") {
      work_.emplace<Work<float>>(*variant_, modules_, request, devices_, mark_);
    } else {
      work_.emplace<Work<double>>(*variant_, modules_, request, devices_, mark_);
    }
    return json::object();
  }

  static json answer_with(std::monostate, const std::string& asked, const json&) {
    throw std::runtime_error(asked + ": there are no points");
  }
  template <typename T>
  static json answer_with(Work<T>& work, const std::string& asked, const json& request) {
    if (asked == "prepare") {
      return work.prepare();
    }
    if (asked == "run") {
      return work.run(request.value("record", false));
    }
    if (asked == "whole") {
      return work.whole();
    }
    if (asked == "take") {
      return work.take();
    }
    throw std::runtime_error("the protocol has no request " + asked);
  }

  bool is_rank_;
  std::optional<MappedFile> marks_; ///< of all ranks
  RankMark* mark_ = nullptr;        ///< of this one
  const RegisteredVariant* variant_ = nullptr;
  std::filesystem::path modules_;
  std::vector<int> devices_ = {0};
  std::size_t device_memory_ = 0; ///< bytes that were left free on each device; 0: all
  std::variant<std::monostate, Work<float>, Work<double>> work_;
};

json failure(const std::exception& error) {
  if (dynamic_cast<const Refusal*>(&error) != nullptr) {
    return {{"reply", "refused"}, {"reason", error.what()}};
  }
  if (dynamic_cast<const NoDevices*>(&error) != nullptr) {
    return {{"reply", "unavailable"}, {"reason", error.what()}};
  }
  const std::string message = error.what();
  const bool no_memory = dynamic_cast<const std::bad_alloc*>(&error) != nullptr ||
                         message.find("cudaErrorMemoryAllocation") != std::string::npos;
  return {{"reply", no_memory ? "out_of_memory" : "error"},
          {"message", message == "std::bad_alloc" ? "an allocation failed" : message}};
}

/// A socket becomes a channel that a variant does not find under 0 or 1; what it prints goes to
/// standard error.
int hidden_channel(int socket) {
  const int at_least = 100 + static_cast<int>(std::random_device{}() % 800);
  const int channel = fcntl(socket, F_DUPFD_CLOEXEC, at_least);
  if (socket != STDIN_FILENO) {
    close(socket);
  }
  const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
  dup2(nothing, STDIN_FILENO);
  dup2(STDERR_FILENO, STDOUT_FILENO);
  return channel;
}

int g_channel = -1;

// Whoever writes to a closed answer ends the process with a last reply. Any other fault takes its
// usual course.
void end_late_writer(int signal, siginfo_t* info, void*) {
  const bool was_sent = info->si_code <= 0; // by raise() or kill(): then there is no address
  if (!was_sent && is_in_closed_answer(info->si_addr)) {
    constexpr std::string_view kReply =
        "{\"reply\": \"cheated\", \"message\": \"it wrote to its answer after run() had returned\"}\n";
    const ssize_t written = write(g_channel, kReply.data(), kReply.size());
    _exit(written > 0 ? 0 : 1);
  }
  std::signal(signal, SIG_DFL); // and the instruction faults again
  if (was_sent) {
    std::raise(signal); // comes when this handler has returned
  }
}

void watch_closed_answers() {
  struct sigaction action {};
  action.sa_sigaction = end_late_writer;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSEGV, &action, nullptr);
}

int serve(int socket, bool is_rank) {
  g_channel = hidden_channel(socket);
  LineChannel channel(g_channel);
  watch_closed_answers();
  Server server(is_rank);
  for (std::string line; channel.read_line(line);) {
    json reply;
    std::string asked;
    try {
      const json request = json::parse(line);
      asked = request.at("request");
      reply = server.answer(request);
    } catch (const std::exception& error) {
      reply = failure(error);
    }
    if (!reply.contains("reply")) {
      reply["reply"] = asked;
    }
    // A variant may throw a message that is no UTF-8.
    channel.write_line(reply.dump(-1, ' ', false, json::error_handler_t::replace));
  }
  std::_Exit(0); // what a variant left to be done at exit is not waited for
}

// A variant that asks for more memory than there is should fail in its own allocation and not call
// the kernel's out-of-memory killer. Sanitizers reserve terabytes and cannot live with a limit.
void limit_resources(const RunnerSetup& setup, bool is_program) {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  if (setup.memory_limit != 0) {
    const rlimit memory{setup.memory_limit, setup.memory_limit};
    setrlimit(RLIMIT_DATA, &memory);
  }
#endif
  if (setup.file_limit != 0) {
    const rlimit file{setup.file_limit, setup.file_limit}; // before it fills the disk
    setrlimit(RLIMIT_FSIZE, &file);
  }
  if (is_program) { // the kernel counts all of the user's, and none of root's
    constexpr rlim_t kMostProcesses = 8192;
    const rlimit processes{kMostProcesses, kMostProcesses};
    setrlimit(RLIMIT_NPROC, &processes);
  }
  std::ofstream("/proc/self/oom_score_adj") << 1000;
}

std::vector<pid_t> threads_of(pid_t process) {
  std::vector<pid_t> threads;
  std::error_code error;
  const auto folder = std::filesystem::path("/proc") / std::to_string(process) / "task";
  for (const auto& thread : std::filesystem::directory_iterator(folder, error)) {
    threads.push_back(std::stoi(thread.path().filename().string()));
  }
  return threads;
}

// Tells the parent what is missing, then lets go of the descriptor.
void report_sandbox(const RunnerSetup& setup, const std::vector<std::string>& missing) {
  if (setup.report >= 0) {
    const std::string text = json(missing).dump();
    if (write(setup.report, text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
      throw std::runtime_error("cannot report on the sandbox");
    }
    close(setup.report);
  }
}

// In one line, and a failure as well: nobody has vouched for the module.
int describe_confined(const char* module) {
  json reply;
  try {
    reply = {{"reply", "describe"},
             {"protocol", kProtocol},
             {"variants", {describe(load_module(module))}}};
  } catch (const std::exception& error) {
    reply = failure(error);
  }
  fmt::print("{}\n", reply.dump(-1, ' ', false, json::error_handler_t::replace));
  std::fflush(stdout);
  std::_Exit(0);
}

// mpirun closes every descriptor of the ranks that it starts, and it lies between us and the harness, to
// whom the ranks come by a socket that has a name.
int serve_as_rank(const char* name) {
  prctl(PR_SET_PDEATHSIG, SIGKILL); // mpirun is the parent
  const char* const number = std::getenv("OMPI_COMM_WORLD_RANK");
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (number == nullptr || std::strlen(name) >= sizeof address.sun_path) {
    fmt::print(stderr, "clusterbench-runner --rank is started by mpirun\n");
    return 64;
  }
  std::strcpy(address.sun_path, name);
  const int channel = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (connect(channel, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    throw std::runtime_error(fmt::format("{}: {}", name, std::strerror(errno)));
  }
  LineChannel(channel).write_line(number);
  return serve(channel, /*is_rank=*/true);
}

int run_runner(int argc, char** argv) {
  if (argc == 2 && std::string_view(argv[1]) == "--protocol") {
    fmt::print("{}\n", kProtocol);
    return 0;
  }
  if (argc == 3 && std::string_view(argv[1]) == "--describe") {
    fmt::print("{}\n", describe(load_module(std::filesystem::absolute(argv[2]))).dump(2));
    return 0;
  }
  if (argc == 3 && std::string_view(argv[1]) == "--rank") {
    return serve_as_rank(argv[2]);
  }
  if (argc < 2) {
    fmt::print(stderr, "clusterbench-runner is started by clusterbench\n");
    return 64;
  }
  const RunnerSetup setup = runner_setup_from(json::parse(argv[1]));
  prctl(PR_SET_PDEATHSIG, SIGKILL); // nobody waits for us once our parent is gone
  if (getppid() != setup.parent) {
    return 0; // it went before we asked to be told
  }
  const bool is_program = argc > 3 && std::string_view(argv[2]) == "--";
  limit_resources(setup, is_program);
  std::vector<std::string> missing = {"everything: --unsandboxed"};
  if (setup.sandboxed) {
    SandboxPlan plan{setup.parent, threads_of(setup.parent), {}, setup.scratch,
                     is_program,   setup.own_network};
    plan.hidden.assign(setup.hidden.begin(), setup.hidden.end());
    missing = enter_sandbox(plan);
  }
  report_sandbox(setup, missing);
  if (is_program) {
    execvp(argv[3], argv + 3);
    fmt::print(stderr, "{}: {}\n", argv[3], std::strerror(errno));
    return 127;
  }
  return argc == 4 && std::string_view(argv[2]) == "--describe" ? describe_confined(argv[3])
                                                                     : serve(STDIN_FILENO, false);
}

} // namespace
} // namespace clusterbench

int main(int argc, char** argv) {
  try {
    return clusterbench::run_runner(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "clusterbench-runner: {}\n", error.what());
    return 70;
  }
}
