#include "harness/judge/one_step_states.hpp"

#include "harness/judge/distance_kernel.hpp"
#include "harness/judge/float64_math.hpp"
#include "harness/judge/row_chunks.hpp"

#include <algorithm>
#include <span>
#include <utility>

namespace clusterbench {
namespace {

template <typename T>
std::vector<T> rounded(const std::vector<double>& values) {
  std::vector<T> result(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    result[i] = static_cast<T>(values[i]);
  }
  return result;
}

/// k rows of the data, evenly spread; a row equal to one already taken is passed over while other
/// rows are left.
template <typename T>
std::vector<T> distinct_rows(const Problem<T>& problem) {
  const auto row = [&](std::size_t i) {
    return problem.points.subspan(i % problem.n * problem.d, problem.d);
  };
  std::vector<T> taken;
  for (std::size_t j = 0; j < problem.k; ++j) {
    const std::size_t start = j * problem.n / problem.k;
    std::size_t choice = start;
    for (std::size_t step = 0; step < problem.n; ++step) {
      bool is_new = true;
      for (std::size_t t = 0; t < j && is_new; ++t) {
        is_new = !std::equal(row(start + step).begin(), row(start + step).end(),
                             taken.begin() + static_cast<std::ptrdiff_t>(t * problem.d));
      }
      if (is_new) {
        choice = start + step;
        break;
      }
    }
    taken.insert(taken.end(), row(choice).begin(), row(choice).end());
  }
  return taken;
}

/// The memberships of all points in `centroids`, [n, k].
template <typename T>
std::vector<T> memberships_of(const Problem<T>& problem, const std::vector<double>& centroids) {
  struct Scratch {
    DistanceKernel::Scratch distances;
    std::vector<double> memberships;
  };
  const DistanceKernel kernel(centroids, problem.k, problem.d);
  std::vector<T> result(problem.n * problem.k);
  for_each_chunk(row_chunks(problem.n, 1, kernel.operations_per_row()), kernel.operations_per_row(),
                 Scratch{DistanceKernel::Scratch(kernel), std::vector<double>(problem.k)},
                 [&](std::size_t /*index*/, RowChunk rows, Scratch& scratch) {
                   kernel.for_each_row(
                       rows.begin, rows.end,
                       [&](std::size_t row) { return problem.points.data() + row * problem.d; },
                       scratch.distances,
                       [&](std::size_t row, std::span<const double> squared) {
                         fuzzy_memberships(squared, problem.fuzzifier, scratch.memberships);
                         for (std::size_t j = 0; j < problem.k; ++j) {
                           result[row * problem.k + j] = static_cast<T>(scratch.memberships[j]);
                         }
                       });
                 });
  return result;
}

} // namespace

template <typename T>
std::vector<OneStepState<T>> one_step_states(Family family, const Problem<T>& problem,
                                             const OracleRun& oracle) {
  const bool from_memberships = !problem.memberships.empty();
  std::vector<OneStepState<T>> states;
  const auto add = [&](std::string name, const std::vector<double>& centroids) {
    OneStepState<T> state;
    state.name = std::move(name);
    if (from_memberships) {
      state.memberships = memberships_of(problem, centroids);
    } else {
      state.centroids = rounded<T>(centroids);
    }
    states.push_back(std::move(state));
  };

  OneStepState<T> initial;
  initial.name = "initial state";
  initial.centroids.assign(problem.centroids.begin(), problem.centroids.end());
  initial.memberships.assign(problem.memberships.begin(), problem.memberships.end());
  states.push_back(std::move(initial));
  if (oracle.states.size() > 2) {
    const OracleState& last_but_one = oracle.states[oracle.states.size() - 2];
    const auto after_middle = std::ranges::find_if(oracle.states, [&](const OracleState& state) {
      return state.pass > oracle.iterations / 2;
    });
    const OracleState& middle = *(after_middle - 1);
    if (middle.pass > 0 && middle.pass < last_but_one.pass) {
      add("after pass " + std::to_string(middle.pass), middle.centroids);
    }
    add("after pass " + std::to_string(last_but_one.pass), last_but_one.centroids);
  }
  if (family == Family::fcm) {
    const std::vector<T> rows = distinct_rows(problem);
    add("data rows as centres", to_float64(std::span<const T>(rows)));
  }
  return states;
}

template <typename T>
Problem<T> one_pass_problem(const Problem<T>& problem, const OneStepState<T>& state) {
  Problem<T> one_pass = problem;
  one_pass.centroids = state.centroids;
  one_pass.memberships = state.memberships;
  one_pass.stop = {StopRule::Kind::iterations, 0.0, 1};
  return one_pass;
}

template std::vector<OneStepState<float>> one_step_states(Family, const Problem<float>&,
                                                          const OracleRun&);
template std::vector<OneStepState<double>> one_step_states(Family, const Problem<double>&,
                                                           const OracleRun&);
template Problem<float> one_pass_problem(const Problem<float>&, const OneStepState<float>&);
template Problem<double> one_pass_problem(const Problem<double>&, const OneStepState<double>&);

} // namespace clusterbench
