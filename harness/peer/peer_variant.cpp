#include "harness/peer/peer_variant.hpp"

#include "harness/peer/peers.hpp"
#include "harness/problem/problem_spec.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fmt/format.h>
#include <unistd.h>
#include <utility>

namespace clusterbench {
namespace {

using nlohmann::json;

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// A running program with its libraries loaded for one variant.
struct Loaded {
  std::string key;
  std::shared_ptr<PeerConnection> connection;
  json report;
};

Loaded start_and_load(const Peer& peer, int threads) {
  const PeerStart start = start_of(peer);
  if (!start.reason_if_not.empty()) {
    throw PeerFailure("unavailable", start.reason_if_not);
  }
  Loaded loaded;
  loaded.connection = std::make_shared<PeerConnection>(start.command, threads);
  const json described = loaded.connection->ask({{"request", "describe"}});
  const auto variants = described.value("variants", json::array());
  if (std::ranges::find(variants, peer.description) == variants.end()) {
    throw PeerFailure("error", fmt::format("{} describes {} otherwise than when this program was "
                                           "built; build again",
                                           peer.program.string(), peer.meta.name));
  }
  const auto begin = std::chrono::steady_clock::now();
  const json reply = loaded.connection->ask(
      {{"request", "load"}, {"variant", peer.meta.name}, {"threads", threads}});
  loaded.report = {{"interpreter", start.interpreter},
                   {"versions", reply.value("versions", json::object())},
                   {"load_ms", seconds_since(begin) * 1e3}};
  return loaded;
}

// The program is kept from one variant object to the next: loading may take seconds, and a
// qualification is thirty problems.
Loaded& running_program(const Peer& peer, int threads) {
  static Loaded loaded;
  const std::string key = fmt::format("{} {}", peer.meta.name, threads);
  if (loaded.key != key) {
    loaded = {};
    loaded = start_and_load(peer, threads);
    loaded.key = key;
  }
  return loaded;
}

// Where the program finds memory of ours; it may not have been started by us directly.
std::string path_of(const SharedMemory& memory) {
  return fmt::format("/proc/{}/fd/{}", getpid(), memory.fd());
}

template <typename T>
SharedMemory copy_of(const char* name, std::span<const T> values) {
  SharedMemory memory(name, values.size_bytes());
  std::ranges::copy(values, memory.as<T>().begin());
  return memory;
}

template <typename T>
void copy_back(const char* name, const SharedMemory& memory, std::span<T> values) {
  const std::string bytes = read_all(memory.fd());
  if (bytes.size() != values.size_bytes()) {
    throw PeerFailure("error", fmt::format("fetch: it wrote {} bytes of {}, {} are expected",
                                           bytes.size(), name, values.size_bytes()));
  }
  std::memcpy(values.data(), bytes.data(), bytes.size());
}

} // namespace

double ClockCheck::judge(double inside, double outside, std::size_t bytes_read) {
  outside_ms_.push_back(outside * 1e3);
  const bool possible = inside > 0.0 && inside <= outside; // NaN is not
  if (possible && outside < kFewestTrips * slowest_) {
    return outside;
  }
  const double reading = kSecondsPerByte * static_cast<double>(bytes_read);
  const bool too_small = inside < 0.5 * (outside - slowest_ - reading);
  if (possible && !too_small &&
      outside - inside <= kOverhead + slowest_ + reading + kShare * outside) {
    return inside;
  }
  ++off_;
  if (!possible || too_small) {
    ++lies_;
    claimed_ = inside;
    passed_ = outside;
  }
  return outside;
}

std::string ClockCheck::finding() const {
  return outside_ms_.size() < kFewestRuns || 2 * lies_ <= outside_ms_.size()
             ? std::string{}
             : fmt::format("in {} of {} runs the program's clock was off; in the last of them it "
                           "claims {:.4g} ms, and {:.4g} ms passed",
                           lies_, outside_ms_.size(), claimed_ * 1e3, passed_ * 1e3);
}

json ClockCheck::report() const {
  return {{"outside_ms", outside_ms_},
          {"round_trip_ms", slowest_ * 1e3},
          {"clock_off", off_},
          {"wrong_clock", finding()}};
}

template <typename T>
std::string PeerVariant<T>::refuse(const Shape& shape) const {
  if (std::ranges::find(peer_.stops, shape.stop.kind) == peer_.stops.end()) {
    return fmt::format("the program has no stop rule `{}`", to_string(shape.stop));
  }
  if (shape.starts_from_memberships ? !peer_.starts_from_memberships
                                    : !peer_.starts_from_centroids) {
    return fmt::format("the program does not start from {}",
                       shape.starts_from_memberships ? "memberships" : "centroids");
  }
  return {};
}

template <typename T>
void PeerVariant<T>::prepare(const Shape& shape, std::span<const T> points) {
  shape_ = shape;
  Loaded& loaded = running_program(peer_, shape.threads);
  connection_ = loaded.connection;
  loaded_ = loaded.report;
  const std::string key = std::exchange(loaded.key, ""); // not to be used again if this fails
  const SharedMemory shared_points = copy_of("points", points);
  const std::string rule = to_string(shape.stop);
  const json request = {{"request", "prepare"},
                        {"precision", sizeof(T) == sizeof(float) ? "f32" : "f64"},
                        {"n", shape.n},
                        {"d", shape.d},
                        {"k", shape.k},
                        {"points", path_of(shared_points)},
                        {"stop",
                         {{"rule", rule.substr(0, rule.find(':'))},
                          {"threshold", shape.stop.threshold},
                          {"max_iterations", shape.stop.max_iterations}}},
                        {"fuzzifier", shape.fuzzifier}};
  try {
    timed_ask(request, prepare_seconds_);
  } catch (const PeerFailure& failure) {
    if (failure.status() == "refused") { // it is ready for another problem
      loaded.key = key;
    }
    throw;
  }
  for (int i = 0; i < 8; ++i) {
    double seconds = 0.0;
    timed_ask({{"request", "ping"}}, seconds);
    clock_.round_trip(seconds);
  }
  loaded.key = key;
}

template <typename T>
void PeerVariant<T>::run(const Start<T>& start, Result<T>& answer, Observer<T>& observer) {
  const bool records = observer.recording() && peer_.records;
  const SharedMemory recording("recording");
  const SharedMemory centroids = copy_of("centroids", start.centroids);
  const SharedMemory memberships = copy_of("memberships", start.memberships);
  const auto path_or_null = [](const SharedMemory& memory) {
    return memory.bytes() > 0 ? json(path_of(memory)) : json(nullptr);
  };
  json request = {{"request", "run"},
                  {"centroids", path_or_null(centroids)},
                  {"memberships", path_or_null(memberships)}};
  if (records) {
    request["record"] = path_of(recording);
  }
  const json reply = timed_ask(request, run_seconds_);
  if (!reply.contains("seconds") || !reply.at("seconds").is_number() ||
      !reply.contains("iterations") || !reply.at("iterations").is_number_unsigned()) {
    throw PeerFailure("error", "its reply to run lacks the numbers `seconds` and `iterations`");
  }
  answer.iterations = reply.at("iterations");
  if (observer.recording()) {
    hand_over_recording(recording, observer);
  } else {
    run_seconds_ =
        clock_.judge(reply.at("seconds"), run_seconds_, centroids.bytes() + memberships.bytes());
  }
  fetch(answer);
}

template <typename T>
void PeerVariant<T>::fetch(Result<T>& answer) {
  const SharedMemory labels("labels");
  const SharedMemory centroids("centroids");
  const SharedMemory memberships("memberships");
  json request = {
      {"request", "fetch"}, {"labels", path_of(labels)}, {"centroids", path_of(centroids)}};
  if (!answer.memberships.empty()) {
    request["memberships"] = path_of(memberships);
  }
  timed_ask(request, download_seconds_);
  copy_back("labels", labels, answer.labels);
  copy_back("centroids", centroids, answer.centroids);
  copy_back("memberships", memberships, answer.memberships);
}

template <typename T>
json PeerVariant<T>::report() const {
  json report = loaded_;
  report.update(clock_.report());
  report["threads"] = connection_->threads();
  report["records"] = peer_.records;
  return report;
}

template <typename T>
json PeerVariant<T>::timed_ask(const json& request, double& seconds) {
  const auto start = std::chrono::steady_clock::now();
  json reply = connection_->ask(request);
  seconds = seconds_since(start);
  return reply;
}

template <typename T>
void PeerVariant<T>::hand_over_recording(const SharedMemory& file, Observer<T>& observer) {
  const std::string bytes = read_all(file.fd());
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  const std::size_t size = shape_.k * shape_.d;
  for (std::size_t first = 0; first + size <= values.size(); first += size) {
    observer.pass(std::span<const T>(values).subspan(first, size));
  }
}

template class PeerVariant<float>;
template class PeerVariant<double>;

} // namespace clusterbench
