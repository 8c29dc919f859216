// The process in which a variant runs. It holds the contract, memory and the clock, and nothing of
// the judge.
//
//   clusterbench-runner --protocol                 prints the version of the protocol
//   clusterbench-runner --describe MODULE          prints the description of the module's variant
//   clusterbench-runner SETUP                      serves the protocol on standard input and output
//   clusterbench-runner SETUP --describe MODULE    confines itself, and replies as a program does
//   clusterbench-runner SETUP -- PROGRAM ...       confines itself and becomes the program
//   clusterbench-runner --rank SOCKET              serves the protocol on that socket as one of the
//                                                  processes that such a program, mpirun, has
//                                                  started
//
// SETUP is a RunnerSetup. The variant's module is loaded after the runner has entered its sandbox.
#include "harness/system/line_channel.hpp"
#include "harness/system/process.hpp"
#include "harness/system/protocol_version.hpp"
#include "harness/system/sandbox.hpp"
#include "harness/worker/module.hpp"
#include "harness/worker/protocol.hpp"
#include "harness/worker/server.hpp"
#include "harness/worker/session.hpp"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace clusterbench {
namespace {

using nlohmann::json;

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
    constexpr std::string_view kReply = "{\"reply\": \"cheated\", \"message\": \"it wrote to its "
                                        "answer after run() had returned\"}\n";
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

// mpirun closes every descriptor of the ranks that it starts, and it lies between us and the
// harness, to whom the ranks come by a socket that has a name.
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
  const bool is_program = argc > 3 && std::string_view(argv[2]) == "--";
  limit_resources(setup, is_program);
  std::vector<std::string> missing = {"everything: --unsandboxed"};
  if (setup.sandboxed) {
    SandboxPlan plan{setup.parent,      threads_of(setup.parent),    {}, setup.scratch, is_program,
                     setup.own_network, setup.children_write_to_proc};
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
