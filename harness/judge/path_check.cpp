#include "harness/judge/path_check.hpp"

#include "harness/judge/distance_kernel.hpp"
#include "harness/judge/float64_math.hpp"
#include "harness/judge/known_sets.hpp"
#include "harness/judge/point_selection.hpp"
#include "harness/judge/rounding.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <ranges>
#include <span>
#include <vector>

namespace clusterbench {
namespace {

/// "Is much nearer": an eighth of the distance, squared.
constexpr double kMuchNearer = 1.0 / 64.0;
/// A run of many passes may fall behind the oracle by one of so many: where clusters hang for a
/// while, a point that rounding has sent elsewhere decides when they go on.
constexpr std::size_t kPassesOfALag = 32;

const OracleState* state_after(const OracleRun& oracle, std::size_t passes) {
  const auto found = std::ranges::find(oracle.states, passes, &OracleState::pass);
  return found == oracle.states.end() ? nullptr : &*found;
}

} // namespace

template <typename T>
std::optional<std::string> earlier_pass(const Declaration& declared, const Problem<T>& problem,
                                        const JudgedAnswer<T>& answer, const OracleRun& oracle) {
  const std::span<const T> entering = known_entering(problem, answer);
  const OracleState* const same = state_after(oracle, answer.iterations);
  if (entering.empty() || same == nullptr) {
    return std::nullopt;
  }
  const std::size_t size = problem.k * problem.d;
  const auto away = [&](const std::vector<double>& from) {
    return squared_distance(answer.centroids.data(), from.data(), size);
  };
  // What float runs drift apart by, in terms of the distances within clusters.
  const double drift =
      (sizeof(T) == sizeof(float) ? 1e-3 : 1e-8) + 16.0 * input_roundoff(declared.arithmetic);
  const double floor = drift * drift * static_cast<double>(problem.k) * oracle.final_objective /
                       problem.total_weight();
  const double from_same = away(same->centroids);
  if (!(from_same > floor) || !(away(to_float64(entering)) > floor)) {
    return std::nullopt;
  }
  const std::size_t behind = answer.iterations - answer.iterations / kPassesOfALag;
  for (const OracleState& state : std::views::reverse(oracle.states)) {
    if (state.pass < behind && away(state.centroids) <= kMuchNearer * from_same) {
      return fmt::format("iteration {}: the centroids are those after iteration {}",
                         answer.iterations, state.pass);
    }
  }
  return std::nullopt;
}

template <typename T>
std::optional<std::string> other_numbers(const Problem<T>& problem, const JudgedAnswer<T>& answer,
                                         const OracleRun& oracle, std::uint64_t seed) {
  constexpr std::size_t kMostClusters = 256;
  // Clusters keep their numbers from pass to pass: the nearest state that is known will do.
  const auto same =
      std::prev(std::ranges::upper_bound(oracle.states, answer.iterations, {}, &OracleState::pass));
  const PointSelection clusters = PointSelection::sample(problem.k, kMostClusters, seed);
  const DistanceKernel kernel(same->centroids, problem.k, problem.d);
  DistanceKernel::Scratch scratch(kernel);
  // Fuzzy centres may all be one, where rounding decides which is nearer to which.
  const double apart = 1e-6 * oracle.final_objective / problem.total_weight();
  std::size_t others = 0;
  std::string example;
  for (std::size_t i = 0; i < clusters.size(); ++i) {
    const std::size_t j = clusters[i];
    const std::array<const T*, 1> row = {answer.centroids.data() + j * problem.d};
    kernel.measure(std::span<const T* const>(row), scratch);
    const std::span<const double> squared = scratch.of(0);
    const std::size_t best = nearest(squared);
    if (squared[j] > apart && squared[best] < kMuchNearer * squared[j]) {
      ++others;
      example =
          example.empty() ? fmt::format("cluster {} is the oracle's cluster {}", j, best) : example;
    }
  }
  // Two may change places by chance where rounding leads a run elsewhere, among many.
  return others >= 2 && 5 * others > clusters.size()
             ? std::optional(fmt::format("{}, and so on: {} of {} clusters", example, others,
                                         clusters.size()))
             : std::nullopt;
}

template std::optional<std::string> earlier_pass(const Declaration&, const Problem<float>&,
                                                 const JudgedAnswer<float>&, const OracleRun&);
template std::optional<std::string> earlier_pass(const Declaration&, const Problem<double>&,
                                                 const JudgedAnswer<double>&, const OracleRun&);
template std::optional<std::string> other_numbers(const Problem<float>&, const JudgedAnswer<float>&,
                                                  const OracleRun&, std::uint64_t);
template std::optional<std::string>
other_numbers(const Problem<double>&, const JudgedAnswer<double>&, const OracleRun&, std::uint64_t);

} // namespace clusterbench
