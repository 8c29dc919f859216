#include "harness/compare/pair_of_builds.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <limits>
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

// Says whose process failed.
template <typename Function>
auto on_side(Side side, Function&& function) {
  try {
    return function();
  } catch (const PaceFailure& failure) {
    throw SideFailure(side, failure);
  }
}

} // namespace

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

PacedAnswer PairOfBuilds::run_once(Side side, const PaceJob& job) const {
  return on_side(side, [&] {
    PacedProcess process(executables_[index(side)], {job}, options_.timeout);
    process.wait_until_ready();
    process.run(1, {});
    return process.fetch();
  });
}

PacedAnswer PairOfBuilds::answer(Side side) const {
  return run_once(side, job(side));
}

PacedAnswer PairOfBuilds::passes(Side side, std::size_t passes, int initial) {
  if (result_of_passes_.fd() < 0) {
    result_of_passes_ = SharedMemory("passes", slots_.bytes());
  }
  PaceJob shorter = job_;
  shorter.stop.max_iterations = passes;
  shorter.initial_fd = initial >= 0 ? initial : job_.initial_fd;
  shorter.result_fd = result_of_passes_.fd();
  return run_once(side, shorter);
}

double PairOfBuilds::run_ms(Side side) const {
  return on_side(side, [&] {
    PacedProcess process(executables_[index(side)], {job(side)}, options_.timeout);
    process.wait_until_ready();
    process.run(1, {});
    return process.run(1, {}).shortest_ms;
  });
}

PairSamples PairOfBuilds::measure(std::size_t number) {
  using Clock = std::chrono::steady_clock;
  std::array<std::optional<PacedProcess>, 2> processes;
  const std::array<Side, 2> order =
      number % 2 == 0 ? std::array{Side::base, Side::fresh} : std::array{Side::fresh, Side::base};
  for (const Side side : order) { // they start side by side
    on_side(side, [&] {
      processes[index(side)].emplace(executables_[index(side)], std::vector{job(side)},
                                     options_.timeout, number / 2); // each place with both orders
    });
  }
  double run_ms = 0.0;
  for (const Side side : order) { // a first run is for nothing: it finds little as later ones do
    run_ms = std::max(run_ms, on_side(side, [&] {
                        processes[index(side)]->wait_until_ready();
                        return processes[index(side)]->run(1, {}).shortest_ms;
                      }));
  }
  constexpr double kMostRuns = 200.0;
  const auto runs = static_cast<std::size_t>(
      std::clamp(options_.turn_ms / std::max(run_ms, 1e-6), 1.0, kMostRuns));
  std::vector<Turn> turns; // of order[0], order[1], order[0], ...
  const auto begin = Clock::now();
  while (turns.size() < 3 || Clock::now() - begin < options_.enough) {
    const Side side = order[turns.size() % 2];
    turns.push_back(
        on_side(side, [&] { return processes[index(side)]->run(runs, options_.patience); }));
  }
  PairSamples pair;
  pair.shortest_ms.fill(std::numeric_limits<double>::infinity());
  for (std::size_t i = 0; i < turns.size(); ++i) {
    double& least = pair.shortest_ms[index(order[i % 2])];
    least = std::min(least, turns[i].shortest_ms);
  }
  for (std::size_t i = 1; i + 1 < turns.size(); ++i) {
    const double beside =
        0.5 * (std::log(turns[i - 1].shortest_ms) + std::log(turns[i + 1].shortest_ms));
    const double ratio = std::log(turns[i].shortest_ms) - beside;
    const bool counts =
        turns[i - 1].undisturbed() && turns[i].undisturbed() && turns[i + 1].undisturbed();
    (counts ? pair.log_ratios : pair.disturbed)
        .push_back(order[i % 2] == Side::fresh ? ratio : -ratio);
  }
  for (const Side side : kSides) {
    pair.answers[index(side)] = on_side(side, [&] { return processes[index(side)]->fetch(); });
  }
  return pair;
}

} // namespace clusterbench
