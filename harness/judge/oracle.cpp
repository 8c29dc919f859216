#include "harness/judge/oracle.hpp"

#include "harness/judge/float64_math.hpp"
#include "harness/judge/row_chunks.hpp"

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

/// What one chunk of rows contributes to a sweep.
struct Partial {
  Partial(std::size_t k, std::size_t d) : sums(k, d), weights(k, 1) {}
  CompensatedSums sums;    ///< [k, d] sum of weight * point
  CompensatedSums weights; ///< [k, 1]
  CompensatedSum loss;
  CompensatedSum inertia;
  bool labels_changed = false;

  void add(const Partial& other) {
    sums.add(other.sums);
    weights.add(other.weights);
    loss.add(other.loss);
    inertia.add(other.inertia);
    labels_changed = labels_changed || other.labels_changed;
  }
};

/// Runs body(row, partial, scratch) over all rows; scratch: [2, k], for distances and memberships.
template <typename T, typename Body>
Partial sum_over_rows(const Problem<T>& problem, const Body& body) {
  const auto chunks = row_chunks(problem.n, 2 * problem.k * (problem.d + 1));
  std::vector<Partial> partials(chunks.size(), Partial(problem.k, problem.d));
  std::vector<std::vector<double>> scratch(chunks.size(), std::vector<double>(2 * problem.k));
  for_each_chunk(chunks, [&](std::size_t index, RowChunk chunk) {
    for (std::size_t row = chunk.begin; row < chunk.end; ++row) {
      body(row, partials[index], std::span<double>(scratch[index]));
    }
  });
  for (std::size_t i = 1; i < partials.size(); ++i) {
    partials[0].add(partials[i]);
  }
  return std::move(partials[0]);
}

/// The weighted means; a cluster without weight keeps its entry of `fallback`.
std::vector<double> means(const Partial& total, std::vector<double> fallback, std::size_t k,
                          std::size_t d) {
  for (std::size_t j = 0; j < k; ++j) {
    const double weight = total.weights.value(j, 0);
    if (weight > 0.0) {
      for (std::size_t f = 0; f < d; ++f) {
        fallback[j * d + f] = total.sums.value(j, f) / weight;
      }
    }
  }
  return fallback;
}

/// What one sweep over the data finds out about a set of centroids.
struct Sweep {
  double loss = 0.0;
  double inertia = 0.0;
  bool labels_changed = false;
  bool empty_cluster = false;
  std::vector<double> means; ///< the centroids that follow
};

/// Compares all points with `centroids`, updates `labels`, and averages.
template <typename T>
Sweep sweep(Family family, const Problem<T>& problem, const std::vector<double>& centroids,
            std::vector<std::int32_t>& labels) {
  const std::size_t k = problem.k;
  const std::size_t d = problem.d;
  const double one = 1.0;
  const Partial total =
      sum_over_rows(problem, [&](std::size_t row, Partial& part, std::span<double> scratch) {
        const T* const x = problem.points.data() + row * d;
        const auto distances = scratch.first(k);
        for (std::size_t j = 0; j < k; ++j) {
          distances[j] = squared_distance(x, centroids.data() + j * d, d);
        }
        const std::size_t best = nearest(distances);
        const auto label = static_cast<std::int32_t>(best);
        part.labels_changed = part.labels_changed || labels[row] != label;
        labels[row] = label;

        if (family == Family::kmeans) {
          part.loss.add(std::sqrt(distances[best]));
          part.inertia.add(distances[best]);
          part.sums.add(best, x, 1.0);
          part.weights.add(best, &one, 1.0);
          return;
        }
        const auto memberships = scratch.last(k);
        fuzzy_memberships(distances, problem.fuzzifier, memberships);
        for (std::size_t j = 0; j < k; ++j) {
          const double weight = power(memberships[j], problem.fuzzifier);
          part.loss.add(weight * distances[j]);
          part.sums.add(j, x, weight);
          part.weights.add(j, &one, weight);
        }
      });
  Sweep result{total.loss.value(), total.inertia.value(), total.labels_changed, false,
               means(total, centroids, k, d)};
  for (std::size_t j = 0; j < k; ++j) {
    result.empty_cluster = result.empty_cluster || !(total.weights.value(j, 0) > 0.0);
  }
  return result;
}

/// The centres that follow from the initial memberships of an FCM problem.
template <typename T>
std::vector<double> centres_of_initial_memberships(const Problem<T>& problem) {
  const double one = 1.0;
  const Partial total =
      sum_over_rows(problem, [&](std::size_t row, Partial& part, std::span<double> /*scratch*/) {
        for (std::size_t j = 0; j < problem.k; ++j) {
          const double weight = power(static_cast<double>(problem.memberships[row * problem.k + j]),
                                      problem.fuzzifier);
          part.sums.add(j, problem.points.data() + row * problem.d, weight);
          part.weights.add(j, &one, weight);
        }
      });
  return means(total, std::vector<double>(problem.k * problem.d), problem.k, problem.d);
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

} // namespace

template <typename T>
OracleRun run_oracle(Family family, const Problem<T>& problem) {
  require_shapes(family, problem);
  const bool from_memberships = !problem.memberships.empty();
  std::vector<double> current =
      from_memberships ? centres_of_initial_memberships(problem) : to_float64(problem.centroids);
  std::vector<std::int32_t> labels(problem.n, -1);
  StopTest stop(problem.stop);
  OracleRun run;
  run.centroids.push_back(current);

  // A pass started from centres ends with new centres; one started from memberships ends with the
  // memberships of the centres that the sweep was given.
  for (bool last = false; !last;) {
    Sweep found = sweep(family, problem, current, labels);
    const std::vector<double>& before = run.centroids.back();
    std::vector<double> produced = from_memberships ? current : found.means;
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
    last = stop.after_pass(facts);
    run.iterations = stop.passes();
    if (found.empty_cluster && run.empty_at == 0) {
      run.empty_at = run.iterations;
    }
    if (!run.still_moving && run.stood_still_at == 0) {
      run.stood_still_at = run.iterations;
    }
    run.centroids.push_back(std::move(produced));
    current = std::move(found.means);
  }

  if (from_memberships) {
    run.final_objective = run.loss.back();
  } else {
    const Sweep final_sweep = sweep(family, problem, current, labels);
    run.final_objective = family == Family::kmeans ? final_sweep.inertia : final_sweep.loss;
  }
  return run;
}

template <typename T>
Trace evaluate_trace(Family family, const Problem<T>& problem, std::span<const T> recorded) {
  require_shapes(family, problem);
  const std::size_t size = problem.k * problem.d;
  if (recorded.empty() || recorded.size() % size != 0) {
    throw std::invalid_argument("evaluate_trace: recorded centroids are not [passes, k, d]");
  }
  const bool from_memberships = !problem.memberships.empty();
  std::vector<std::int32_t> labels(problem.n, -1);
  Trace trace;
  for (std::size_t pass = 0; pass < recorded.size() / size; ++pass) {
    // The loss of a pass belongs to the centres that it computed distances from.
    const std::span<const T> centroids = from_memberships ? recorded.subspan(pass * size, size)
                                         : pass == 0      ? problem.centroids
                                                     : recorded.subspan((pass - 1) * size, size);
    const Sweep found = sweep(family, problem, to_float64(centroids), labels);
    trace.loss.push_back(found.loss);
    if (family == Family::kmeans) {
      trace.inertia.push_back(found.inertia);
    }
  }
  return trace;
}

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
  std::vector<T> result(problem.n * problem.k);
  sum_over_rows(problem, [&](std::size_t row, Partial& /*part*/, std::span<double> scratch) {
    const auto distances = scratch.first(problem.k);
    const auto memberships = scratch.last(problem.k);
    for (std::size_t j = 0; j < problem.k; ++j) {
      distances[j] = squared_distance(problem.points.data() + row * problem.d,
                                      centroids.data() + j * problem.d, problem.d);
    }
    fuzzy_memberships(distances, problem.fuzzifier, memberships);
    for (std::size_t j = 0; j < problem.k; ++j) {
      result[row * problem.k + j] = static_cast<T>(memberships[j]);
    }
  });
  return result;
}

} // namespace

template <typename T>
std::vector<OneStepState<T>> one_step_states(Family family, const Problem<T>& problem,
                                             const OracleRun& oracle) {
  require_shapes(family, problem);
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
  const std::size_t middle = oracle.iterations / 2;
  const std::size_t last_but_one = oracle.iterations - 1;
  if (middle > 0) {
    add("after pass " + std::to_string(middle), oracle.centroids[middle]);
  }
  if (last_but_one > middle) {
    add("after pass " + std::to_string(last_but_one), oracle.centroids[last_but_one]);
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

template OracleRun run_oracle(Family, const Problem<float>&);
template OracleRun run_oracle(Family, const Problem<double>&);
template Trace evaluate_trace(Family, const Problem<float>&, std::span<const float>);
template Trace evaluate_trace(Family, const Problem<double>&, std::span<const double>);
template std::vector<OneStepState<float>> one_step_states(Family, const Problem<float>&,
                                                          const OracleRun&);
template std::vector<OneStepState<double>> one_step_states(Family, const Problem<double>&,
                                                           const OracleRun&);
template Problem<float> one_pass_problem(const Problem<float>&, const OneStepState<float>&);
template Problem<double> one_pass_problem(const Problem<double>&, const OneStepState<double>&);

} // namespace clusterbench
