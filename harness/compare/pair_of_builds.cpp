#include "harness/compare/pair_of_builds.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <optional>

namespace clusterbench {
namespace {

PaceJob job_for(const std::string& variant, const Workload& work, int threads) {
  PaceJob job;
  job.variant = variant;
  job.precision = work.precision;
  job.n = work.n;
  job.d = work.d;
  job.k = work.k;
  job.stop = work.stop;
  job.fuzzifier = work.spec.fuzzifier;
  job.threads = threads;
  job.starts_from_memberships = work.starts_from_memberships;
  job.points_fd = work.points->memory.fd();
  job.initial_fd = work.initial.fd();
  return job;
}

std::size_t element_size(Precision precision) {
  return precision == Precision::f32 ? sizeof(float) : sizeof(double);
}

const char* name_of(Side side) {
  return side == Side::base ? "base" : "new";
}

// Says whose process failed.
template <typename Function>
auto on_side(Side side, Function&& function) {
  try {
    return function();
  } catch (const PaceFailure& failure) {
    throw PaceFailure(failure.status(), fmt::format("{}: {}", name_of(side), failure.what()));
  }
}

} // namespace

void QuietLevel::learn(const PairSamples& pair) {
  for (const Side side : kSides) {
    double& shortest = shortest_ns_[index(side)];
    for (const PacedSample& sample : pair.samples[index(side)]) {
      shortest = shortest == 0.0 ? sample.yardstick_ns : std::min(shortest, sample.yardstick_ns);
    }
  }
}

bool QuietLevel::undisturbed(Side side, const PacedSample& sample) const {
  constexpr double kHardlyAny = 0.02;
  const bool quiet = most_ns(side) == 0.0 || sample.yardstick_ns <= most_ns(side);
  return quiet && sample.waited_ms <= kHardlyAny * sample.wall_ms;
}

PairOfBuilds::PairOfBuilds(std::array<std::filesystem::path, 2> executables,
                           const std::string& variant, Family family, const Workload& work,
                           int threads, PairOptions options)
    : executables_(std::move(executables)), job_(job_for(variant, work, threads)),
      options_(options), slots_(work.n, work.d, work.k, family, element_size(work.precision)),
      results_{SharedMemory("results", slots_.bytes()), SharedMemory("results", slots_.bytes())} {}

PaceJob PairOfBuilds::job(Side side) const {
  PaceJob job = job_;
  job.result_fd = results_[index(side)].fd();
  return job;
}

PairSamples PairOfBuilds::measure(bool fresh_first, const QuietLevel& quiet) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  std::array<std::optional<PacedProcess>, 2> processes;
  const Side first = fresh_first ? Side::fresh : Side::base;
  const Side second = fresh_first ? Side::base : Side::fresh;
  for (const Side side : {first, second}) { // they start side by side
    processes[index(side)].emplace(executables_[index(side)], std::vector{job(side)},
                                   options_.timeout);
  }
  PairSamples pair;
  double run_ms = 0.0;
  for (const Side side : {first, second}) {
    const auto warm_up = on_side(side, [&] {
      processes[index(side)]->wait_until_ready();
      return processes[index(side)]->run(1, 0.0, {});
    });
    run_ms = std::max(run_ms, warm_up.front().wall_ms);
  }
  constexpr double kMostRuns = 200.0;
  const auto runs = static_cast<std::size_t>(
      std::clamp(options_.turn_ms / std::max(run_ms, 1e-6), 1.0, kMostRuns));
  // A run that takes long is dearer than the caches that it finds: none is dropped, and no side has
  // two turns on end, so that both find the caches alike.
  const bool takes_long = run_ms > options_.turn_ms;
  const int dropped = takes_long ? 0 : 1;
  const std::array<Side, 4> turns = takes_long ? std::array{first, second, first, second}
                                               : std::array{first, second, second, first};
  const auto take_turn = [&](Side side) {
    const auto samples = on_side(side, [&] {
      return processes[index(side)]->run(static_cast<std::size_t>(dropped) + runs,
                                         quiet.most_ns(side), options_.patience);
    });
    auto& kept = pair.samples[index(side)];
    kept.insert(kept.end(), samples.begin() + dropped, samples.end());
  };
  const auto enough = [&](Side side) {
    const auto count = std::ranges::count_if(pair.samples[index(side)], [&](const auto& sample) {
      return quiet.undisturbed(side, sample);
    });
    return static_cast<std::size_t>(count) >= options_.undisturbed;
  };
  // As long as nobody knows what quiet looks like, there is no use in waiting for it.
  const bool knows_quiet = quiet.most_ns(first) > 0.0 && quiet.most_ns(second) > 0.0;
  const std::size_t most_quads = knows_quiet ? options_.most_quads : 1;
  for (std::size_t quad = 0; quad < most_quads; ++quad) {
    for (const Side side : turns) {
      take_turn(side);
    }
    if (std::ranges::all_of(kSides, enough) || Clock::now() - begin > options_.enough) {
      break;
    }
  }
  for (const Side side : kSides) {
    pair.answers[index(side)] = on_side(side, [&] { return processes[index(side)]->fetch(); });
  }
  return pair;
}

} // namespace clusterbench
