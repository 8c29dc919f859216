#include "harness/judge/oracle.hpp"

#include "harness/judge/compensated_sum.hpp"
#include "harness/judge/float64_math.hpp"
#include "harness/judge/oracle_pass.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <utility>

namespace clusterbench {
namespace {

template <typename T>
void require_shapes(Family family, const Problem<T>& problem) {
  const bool from_memberships = !problem.memberships.empty();
  if (problem.n == 0 || problem.d == 0 || problem.k == 0 ||
      problem.points.size() != problem.n * problem.d) {
    throw std::invalid_argument("oracle: points are not [n, d], or one of n, d, k is 0");
  }
  if (!problem.weights.empty() &&
      (family != Family::kmeans || problem.weights.size() != problem.n ||
       !(problem.total_weight() > 0.0))) {
    throw std::invalid_argument("oracle: weights are not [n] of k-means, or all 0");
  }
  if (from_memberships && (family != Family::fcm || !problem.centroids.empty() ||
                           problem.memberships.size() != problem.n * problem.k)) {
    throw std::invalid_argument("oracle: memberships are not the [n, k] initial state of FCM");
  }
  if (!from_memberships && problem.centroids.size() != problem.k * problem.d) {
    throw std::invalid_argument("oracle: initial centroids are not [k, d]");
  }
  if (family == Family::fcm && !(problem.fuzzifier > 1.0)) {
    throw std::invalid_argument("oracle: the fuzzifier must exceed 1");
  }
}

double squared_shift(const std::vector<double>& from, const std::vector<double>& to) {
  CompensatedSum sum;
  for (std::size_t i = 0; i < from.size(); ++i) {
    sum.add((to[i] - from[i]) * (to[i] - from[i]));
  }
  return sum.value();
}

/// FCM approaches its fixed point without ever arriving: centres that move by less than this part
/// of their length stand still.
constexpr double kStandsStill = 1e-9;

bool centres_moved(const std::vector<double>& from, const std::vector<double>& to) {
  const double length = squared_shift(std::vector<double>(from.size()), from);
  return squared_shift(from, to) > kStandsStill * kStandsStill * length;
}

/// Finds out that a state has been there before, from a state that it compares all others with and
/// that it exchanges ever more rarely (Brent 1980).
class RepetitionFinder {
public:
  /// How many passes ago the run was in this state; 0 if that is not known.
  std::size_t length(const std::vector<double>& state) {
    ++since_;
    if (state == reference_) {
      return since_;
    }
    if (since_ == lifetime_) {
      reference_ = state;
      lifetime_ *= 2;
      since_ = 0;
    }
    return 0;
  }

private:
  std::vector<double> reference_;
  std::size_t since_ = 0;
  std::size_t lifetime_ = 1;
};

} // namespace

template <typename T>
std::size_t affordable_passes(const Problem<T>& problem, double budget) {
  constexpr double kMostPasses = 1 << 22; // two numbers of each are kept
  const double passes = budget / (2.0 * static_cast<double>(problem.n) *
                                  static_cast<double>(problem.d) * static_cast<double>(problem.k));
  return std::min(problem.stop.max_iterations,
                  static_cast<std::size_t>(std::min(passes, kMostPasses)));
}

template <typename T>
OracleRun run_oracle(Family family, const Problem<T>& problem, const OracleOptions& options) {
  require_shapes(family, problem);
  const InterruptScope scope(options.interrupted);
  const bool from_memberships = !problem.memberships.empty();
  const std::size_t affordable = affordable_passes(problem, options.budget);
  const std::size_t most = problem.stop.max_iterations;
  OracleRun run;
  if (affordable == 0) {
    run.complete = false;
    return run;
  }
  std::vector<double> current =
      from_memberships ? centres_of_initial_memberships(problem) : to_float64(problem.centroids);
  std::vector<std::int32_t> labels(problem.n, -1);
  StopTest stop(problem.stop);
  RepetitionFinder repetition;
  StateKeeper keeper(run.states);
  std::size_t repeats = 0; // found, but the stop rule has not seen a whole repetition
  std::size_t remaining = 0;
  keeper.add(0, current);

  // A pass started from centres ends with new centres; one started from memberships ends with the
  // memberships of the centres that the pass was given.
  for (;;) {
    OraclePass found = oracle_pass(family, problem, current, labels);
    const std::vector<double>& before = run.states.back().centroids;
    const std::vector<double>& produced = from_memberships ? current : found.means;
    const bool first = run.iterations == 0;
    run.loss.push_back(found.loss);
    if (family == Family::kmeans) {
      run.inertia.push_back(found.inertia);
    }
    run.still_moving = family == Family::kmeans
                           ? found.labels_changed
                           : (from_memberships && first) || centres_moved(before, produced);
    PassFacts facts;
    facts.loss = found.loss;
    facts.labels_changed = found.labels_changed;
    facts.squared_shift = from_memberships && first ? std::numeric_limits<double>::infinity()
                                                    : squared_shift(before, produced);
    const bool last = stop.after_pass(facts);
    run.iterations = stop.passes();
    if (found.empty_cluster && run.empty_at == 0) {
      run.empty_at = run.iterations;
    }
    if (!run.still_moving && run.stood_still_at == 0) {
      run.stood_still_at = run.iterations;
    }
    keeper.add(run.iterations, produced);
    const bool stands = found.means == current;
    current = std::move(found.means);
    if (last) {
      break;
    }
    if (repeats > 0) {
      if (--remaining == 0) { // the state is now that of the very last pass
        run.repeats = repeats;
        run.states[run.states.size() - 2].pass = most - 1;
        run.states.back().pass = run.iterations = most;
        break;
      }
      continue;
    }
    const std::size_t length = stands ? 1 : repetition.length(current);
    const std::size_t left = most - run.iterations;
    if (length > 0 && left > 2 * length + 1) {
      repeats = length;
      remaining = length + 1 + (left - length - 1) % length;
    } else if (run.iterations == affordable) {
      run.complete = false;
      break;
    }
  }

  if (from_memberships) {
    run.final_objective = run.loss_of(run.iterations);
  } else {
    const OraclePass next = oracle_pass(family, problem, current, labels);
    run.final_objective = family == Family::kmeans ? next.inertia : next.loss;
  }
  return run;
}

template <typename T>
bool fits(const OracleRun& run, Family family, const Problem<T>& problem) {
  if (run.iterations == 0) {
    return !run.complete;
  }
  const std::size_t computed = run.loss.size();
  const auto right_size = [&](const OracleState& state) {
    return state.centroids.size() == problem.k * problem.d;
  };
  const auto not_before = [](const OracleState& a, const OracleState& b) {
    return a.pass >= b.pass;
  };
  return run.iterations <= problem.stop.max_iterations && computed > 0 &&
         (run.repeats == 0 ? computed == run.iterations
                           : computed < run.iterations && run.repeats <= computed) &&
         run.inertia.size() == (family == Family::kmeans ? computed : 0) &&
         run.states.size() >= 2 && run.states.front().pass == 0 &&
         run.states.back().pass == run.iterations &&
         std::ranges::adjacent_find(run.states, not_before) == run.states.end() &&
         std::ranges::all_of(run.states, right_size);
}

template std::size_t affordable_passes(const Problem<float>&, double);
template std::size_t affordable_passes(const Problem<double>&, double);
template OracleRun run_oracle(Family, const Problem<float>&, const OracleOptions&);
template OracleRun run_oracle(Family, const Problem<double>&, const OracleOptions&);
template bool fits(const OracleRun&, Family, const Problem<float>&);
template bool fits(const OracleRun&, Family, const Problem<double>&);

} // namespace clusterbench
