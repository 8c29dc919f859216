#include "harness/gate/pair_of_builds.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <limits>
#include <optional>
#include <span>

namespace clusterbench {
namespace {

// Says whose process failed.
template <typename Function>
auto on_side(Side side, Function&& function) {
  try {
    return function();
  } catch (const WorkerFailure& failure) {
    throw SideFailure(side, failure);
  }
}

// Of a GPU, whose clock moves in steps of less than one percent.
bool have_one_clock(std::span<const Turn> turns) {
  unsigned least = std::numeric_limits<unsigned>::max(), most = 0;
  for (const Turn& turn : turns) {
    least = std::min(least, turn.gpu.sm_mhz.value_or(least));
    most = std::max(most, turn.gpu.sm_mhz.value_or(most));
  }
  return most <= 1.01 * least;
}

} // namespace

template <typename T>
std::vector<TakenAnswer<T>> PairOfBuilds<T>::answers(Side side) const {
  return on_side(side, [&] {
    TurnProcess<T> process(builds_[index(side)], cell_);
    process.run(std::ranges::max(cell_.judged) + 1, {});
    return process.judged();
  });
}

template <typename T>
double PairOfBuilds<T>::run_ms(Side side) const {
  return on_side(side, [&] {
    TurnProcess<T> process(builds_[index(side)], cell_);
    process.run(1, {});
    return process.run(1, {}).shortest_ms;
  });
}

template <typename T>
PairSamples<T> PairOfBuilds<T>::measure(std::size_t number) {
  using Clock = std::chrono::steady_clock;
  std::array<std::optional<TurnProcess<T>>, 2> processes;
  const std::array<Side, 2> order =
      number % 2 == 0 ? std::array{Side::base, Side::fresh} : std::array{Side::fresh, Side::base};
  for (const Side side : order) { // they start side by side
    on_side(side, [&] {
      processes[index(side)].emplace(builds_[index(side)], cell_,
                                     number / 2); // each place with both orders
    });
  }
  double run_ms = 0.0;
  for (const Side side : order) { // a first run is for nothing: it finds little as later ones do
    run_ms = std::max(
        run_ms, on_side(side, [&] { return processes[index(side)]->run(1, {}).shortest_ms; }));
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
  PairSamples<T> pair;
  pair.shortest_ms.fill(std::numeric_limits<double>::infinity());
  for (std::size_t i = 0; i < turns.size(); ++i) {
    double& least = pair.shortest_ms[index(order[i % 2])];
    least = std::min(least, turns[i].shortest_ms);
  }
  for (std::size_t i = 1; i + 1 < turns.size(); ++i) {
    const double beside =
        0.5 * (std::log(turns[i - 1].shortest_ms) + std::log(turns[i + 1].shortest_ms));
    const double ratio = std::log(turns[i].shortest_ms) - beside;
    const std::span<const Turn, 3> three(&turns[i - 1], 3);
    const bool counts = std::ranges::all_of(three, &Turn::undisturbed) && have_one_clock(three);
    (counts ? pair.log_ratios : pair.disturbed)
        .push_back(order[i % 2] == Side::fresh ? ratio : -ratio);
  }
  for (const Side side : kSides) {
    pair.judged[index(side)] = processes[index(side)]->judged();
    pair.newest[index(side)] = processes[index(side)]->newest();
    pair.clock[index(side)] = processes[index(side)]->clock().finding();
  }
  return pair;
}

template class PairOfBuilds<float>;
template class PairOfBuilds<double>;

} // namespace clusterbench
