#include "harness/compare/paced_process.hpp"

#include "harness/judge/oracle_cache.hpp"
#include "harness/run/process.hpp"

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <set>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace clusterbench {

using nlohmann::json;

PacedProcess::PacedProcess(const std::filesystem::path& executable,
                           const std::vector<PaceJob>& jobs, std::chrono::duration<double> timeout,
                           std::size_t processor, std::vector<std::string> wrapper)
    : executable_(executable), timeout_(timeout), request_("request"), output_("output") {
  json request = {{"protocol", kPaceProtocol},
                  {"hidden_folder", oracle_cache_folder().string()},
                  {"processor", processor},
                  {"jobs", json::array()}};
  std::set<int> descriptors = {request_.fd()};
  for (const PaceJob& job : jobs) {
    request["jobs"].push_back(to_json(job));
    descriptors.insert({job.points_fd, job.initial_fd, job.result_fd});
  }
  write_all(request_.fd(), request.dump());
  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) {
    throw std::runtime_error(fmt::format("cannot make a socket: {}", std::strerror(errno)));
  }
  descriptors.insert(sockets[1]);
  ProcessOptions options;
  options.arguments = std::move(wrapper);
  for (const std::string& argument :
       {executable.string(), std::string("pace"), std::string("--request-fd"),
        std::to_string(request_.fd()), std::string("--control-fd"), std::to_string(sockets[1])}) {
    options.arguments.push_back(argument);
  }
  options.inherited_descriptors.assign(descriptors.begin(), descriptors.end());
  const std::string threads = std::to_string(jobs.front().threads);
  options.environment = {"OMP_NUM_THREADS=" + threads, "OPENBLAS_NUM_THREADS=" + threads};
  if (std::getenv("GOMP_SPINCOUNT") == nullptr && std::getenv("OMP_WAIT_POLICY") == nullptr) {
    // Threads that wait for work would take the processor from the other side's turn for
    // milliseconds; so they do for a fraction of one.
    options.environment.push_back("GOMP_SPINCOUNT=10000");
  }
  options.output_descriptor = output_.fd();
  try {
    pid_ = start_process(options);
  } catch (const std::runtime_error& error) {
    close(sockets[0]);
    close(sockets[1]);
    throw PaceFailure("error", error.what());
  }
  close(sockets[1]);
  socket_ = sockets[0];
  channel_ = LineChannel(socket_);
}

PacedProcess::~PacedProcess() {
  close(socket_); // a process that still listens ends by itself, but nobody waits for that
  if (pid_ > 0) {
    kill(-pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
}

json PacedProcess::answer() {
  std::string line;
  switch (channel_.read_line(line, timeout_)) {
  case LineChannel::Ending::interrupted:
    throw PaceFailure("interrupted", "interrupted");
  case LineChannel::Ending::late:
    throw PaceFailure("timed_out", fmt::format("no answer within {:.0f} s", timeout_.count()));
  case LineChannel::Ending::closed:
    explain_end();
  case LineChannel::Ending::line:
    break;
  }
  json answer = json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!answer.is_object()) {
    throw PaceFailure("protocol", fmt::format("no answer of the protocol: {:.100}", line));
  }
  const std::string status = answer.value("status", "ready");
  if (status == "protocol") {
    throw PaceFailure("protocol", fmt::format("{} speaks protocol {} of the gate, this program {}",
                                              executable_.string(), answer.value("protocol", 0),
                                              kPaceProtocol));
  }
  if (status != "ready") {
    throw PaceFailure(status, answer.value("message", ""));
  }
  return answer;
}

// The stream has ended without an answer.
void PacedProcess::explain_end() {
  int status = 0;
  waitpid(pid_, &status, 0);
  const std::string tail = read_tail(output_.fd(), 500);
  kill(-pid_, SIGKILL); // what it forked
  pid_ = -1;
  if (WIFSIGNALED(status)) {
    throw PaceFailure("crashed",
                      fmt::format("signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status))));
  }
  throw PaceFailure("crashed", fmt::format("exited with code {}{}{}", WEXITSTATUS(status),
                                           tail.empty() ? "" : "; it said: ", tail));
}

// A process that has died cannot be written to; why it died is for answer() to say.
void PacedProcess::tell(const std::string& line) {
  try {
    channel_.write_line(line);
  } catch (const std::runtime_error&) {
    answer();
  }
}

void PacedProcess::wait_until_ready() {
  answer();
}

Turn PacedProcess::run(std::size_t runs, std::chrono::duration<double> patience) {
  tell(fmt::format("run {} {:.0f}", runs, patience.count() * 1e9));
  const json answered = answer();
  const auto ms = [&](const char* what) { return answered.at(what).get<double>() * 1e-6; };
  return {ms("shortest"), ms("elapsed"), ms("waited"), answered.at("competitors")};
}

PacedAnswer PacedProcess::fetch() {
  tell("fetch");
  const json answered = answer();
  return {answered.at("digest"), answered.at("iterations")};
}

void PacedProcess::next() {
  tell("next");
}

std::string PacedProcess::finish() {
  shutdown(socket_, SHUT_WR); // the end of its orders
  std::string line;
  while (channel_.read_line(line, timeout_) == LineChannel::Ending::line) {
  }
  waitpid(pid_, nullptr, 0);
  kill(-pid_, SIGKILL);
  pid_ = -1;
  return read_tail(output_.fd(), 2000);
}

// Any build that speaks the protocol says that it does not know a variant without a name.
void require_pace(const std::filesystem::path& executable, std::chrono::duration<double> timeout) {
  const SharedMemory nothing("nothing");
  PaceJob job;
  job.points_fd = job.initial_fd = job.result_fd = nothing.fd();
  try {
    PacedProcess(executable, {job}, timeout).wait_until_ready();
  } catch (const PaceFailure& failure) {
    if (failure.status() != "unknown") {
      throw;
    }
  }
}

} // namespace clusterbench
