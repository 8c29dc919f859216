// The process in which a variant runs. It holds the contract, memory and the clock, and nothing of the
// judge.
//
//   clusterbench-runner --protocol                 prints the version of the protocol
//   clusterbench-runner --describe MODULE          prints the description of the module's variant
//   clusterbench-runner SETUP                      serves the protocol on standard input and output
//   clusterbench-runner SETUP --describe MODULE    confines itself, and replies as a program does
//   clusterbench-runner SETUP -- PROGRAM ...       confines itself and becomes the program
//
// SETUP is a RunnerSetup. The variant's module is loaded after the runner has entered its sandbox.
#include "harness/system/line_channel.hpp"
#include "harness/system/protocol_version.hpp"
#include "harness/system/sandbox.hpp"
#include "harness/worker/module.hpp"
#include "harness/worker/protocol.hpp"
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
#include <sys/stat.h>
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

/// One set of points and its answer, in one precision.
template <typename T>
class Work {
public:
  Work(const RegisteredVariant& variant, const std::filesystem::path& modules,
       const PointsRequest& request, const std::vector<int>& devices)
      : place_(variant.meta.device == Device::cpu ? Place::host : Place::device), request_(request),
        start_(request.start, MappedFile::Access::read),
        labels_(request.labels, MappedFile::Access::write),
        centroids_(request.centroids, MappedFile::Access::write),
        entering_(request.entering, MappedFile::Access::write),
        memberships_(request.memberships, MappedFile::Access::write),
        session_(variant, modules, request.shape, devices) {
    const MappedFile points(request.points, MappedFile::Access::read);
    session_.take_points(points.as<const T>(), request.rotate);
  }

  json prepare() {
    session_.prepare();
    const Windows& windows = session_.windows();
    return {{"seconds", windows.upload + windows.prepare},
            {"upload_s", windows.upload},
            {"prepare_s", windows.prepare},
            {"chosen_path", session_.chosen_path()}};
  }

  json run(bool record) {
    if (!record) {
      Observer<T> nobody;
      session_.run(start(), nobody);
      return end_of_run();
    }
    Recorder<T> recorder(place_);
    session_.run(start(), recorder);
    json reply = end_of_run();
    reply["phases"] = recorder.phases();
    reply["counters"] = recorder.counters();
    reply["printed_loss"] = recorder.printed_losses();
    if (!request_.record.empty()) {
      write_file(request_.record, std::as_bytes(std::span(recorder.passes())));
    }
    return reply;
  }

  json whole() {
    session_.run_whole(start());
    const Windows& windows = session_.windows();
    return {{"seconds", windows.whole},       {"upload_s", windows.upload},
            {"prepare_s", windows.prepare},   {"run_s", windows.run},
            {"download_s", windows.download}, {"iterations", session_.iterations()},
            {"chosen_path", session_.chosen_path()}};
  }

  json take() {
    session_.take({labels_.as<std::int32_t>(), centroids_.as<T>(), entering_.as<T>(),
                   memberships_.as<T>(), 0});
    return {{"seconds", session_.windows().download}};
  }

private:
  Start<T> start() const {
    Start<T> start;
    (request_.shape.starts_from_memberships ? start.memberships : start.centroids) =
        start_.as<const T>();
    return start;
  }
  json end_of_run() const {
    return {{"seconds", session_.windows().run},
            {"iterations", session_.iterations()},
            {"chosen_path", session_.chosen_path()}};
  }

  Place place_;
  PointsRequest request_;
  MappedFile start_, labels_, centroids_, entering_, memberships_;
  Session<T> session_;
};

/// Obeys the protocol.
class Server {
public:
  json answer(const json& request) {
    const std::string asked = request.at("request");
    if (asked == "load") {
      return load(request);
    }
    if (asked == "ping") {
      return json::object();
    }
    if (asked == "points") {
      return take_points(points_request_from(request));
    }
    return std::visit([&](auto& work) { return answer_with(work, asked, request); }, work_);
  }

private:
  json load(const json& request) {
    modules_ = request.at("folder").get<std::string>();
    variant_ = &load_module(request.contains("module")
                                ? std::filesystem::path(request.at("module").get<std::string>())
                                : module_file(modules_, request.at("variant")));
    double context_seconds = 0.0;
    if (variant_->meta.device != Device::cpu) {
      const auto start = std::chrono::steady_clock::now();
      devices_.resize(request.value("gpus", std::size_t{1}));
      std::iota(devices_.begin(), devices_.end(), 0);
      for (const int device : devices_) {
        device_calls().open(device); // makes the context
      }
      context_seconds =
          std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    }
    return {{"versions", json::object()}, {"context_s", context_seconds}};
  }

  json take_points(const PointsRequest& request) {
    if (variant_ == nullptr) {
      throw std::runtime_error("no variant is loaded");
    }
    work_ = std::monostate(); // what an earlier problem held is free before the next is read
    if (request.precision == "f32") {
      work_.emplace<Work<float>>(*variant_, modules_, request, devices_);
    } else {
      work_.emplace<Work<double>>(*variant_, modules_, request, devices_);
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

  const RegisteredVariant* variant_ = nullptr;
  std::filesystem::path modules_;
  std::vector<int> devices_ = {0};
  std::variant<std::monostate, Work<float>, Work<double>> work_;
};

json failure(const std::exception& error) {
  if (dynamic_cast<const Refusal*>(&error) != nullptr) {
    return {{"reply", "refused"}, {"reason", error.what()}};
  }
  const std::string message = error.what();
  const bool no_memory = dynamic_cast<const std::bad_alloc*>(&error) != nullptr ||
                         message.find("cudaErrorMemoryAllocation") != std::string::npos;
  return {{"reply", no_memory ? "out_of_memory" : "error"},
          {"message", message == "std::bad_alloc" ? "an allocation failed" : message}};
}

/// Standard input becomes a channel that a variant does not find under 0 or 1; what it prints goes to
/// standard error.
int hidden_channel() {
  const int at_least = 100 + static_cast<int>(std::random_device{}() % 800);
  const int channel = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, at_least);
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

int serve() {
  g_channel = hidden_channel();
  LineChannel channel(g_channel);
  watch_closed_answers();
  Server server;
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

int run_runner(int argc, char** argv) {
  if (argc == 2 && std::string_view(argv[1]) == "--protocol") {
    fmt::print("{}\n", kProtocol);
    return 0;
  }
  if (argc == 3 && std::string_view(argv[1]) == "--describe") {
    fmt::print("{}\n", describe(load_module(std::filesystem::absolute(argv[2]))).dump(2));
    return 0;
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
  return argc == 4 && std::string_view(argv[2]) == "--describe" ? describe_confined(argv[3]) : serve();
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
