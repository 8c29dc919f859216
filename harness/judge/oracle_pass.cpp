#include "harness/judge/oracle_pass.hpp"

#include "harness/judge/compensated_sum.hpp"
#include "harness/judge/distance_kernel.hpp"
#include "harness/judge/float64_math.hpp"
#include "harness/judge/row_chunks.hpp"
#include "harness/judge/weighed_rows.hpp"

#include <cmath>
#include <span>
#include <utility>

namespace clusterbench {
namespace {

/// What one chunk of rows contributes to a pass.
struct Partial {
  Partial(std::size_t k, std::size_t d) : sums(k, d), weights(k, 1) {}
  CompensatedSums sums;    ///< [k, d] sum of weight * point
  CompensatedSums weights; ///< [k, 1]
  CompensatedSum loss;
  CompensatedSum inertia;
  bool labels_changed = false;

  template <typename T>
  void add_point(std::size_t cluster, const T* x, double weight) {
    const double one = 1.0;
    sums.add(cluster, x, weight);
    weights.add(cluster, &one, weight);
  }

  void add(const Partial& other) {
    sums.add(other.sums);
    weights.add(other.weights);
    loss.add(other.loss);
    inertia.add(other.inertia);
    labels_changed = labels_changed || other.labels_changed;
  }
};

/// Memory of one thread.
struct Scratch {
  DistanceKernel::Scratch distances;
  std::vector<double> memberships; ///< [k]
  WeighedRows weighed;             ///< of fuzzy c-means
};

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

std::size_t values_per_chunk(std::size_t k, std::size_t d) {
  return 2 * k * (d + 1);
}

} // namespace

template <typename T>
OraclePass oracle_pass(Family family, const Problem<T>& problem,
                       const std::vector<double>& centroids, std::vector<std::int32_t>& labels) {
  const std::size_t k = problem.k;
  const std::size_t d = problem.d;
  const DistanceKernel kernel(centroids, k, d);
  const auto point = [&](std::size_t row) { return problem.points.data() + row * d; };

  const auto add_hard = [&](std::size_t row, double squared, Partial& part) {
    const double weight = problem.weight(row);
    part.loss.add(weight * std::sqrt(squared));
    part.inertia.add(weight * squared);
    part.add_point(static_cast<std::size_t>(labels[row]), point(row), weight);
  };
  const auto add_to = [&](Partial& part) {
    return [&](std::size_t j, std::size_t row, double weight, double /*doubt*/) {
      part.add_point(j, point(row), weight);
    };
  };
  const auto add_fuzzy = [&](std::size_t row, std::span<const double> squared, Partial& part,
                             Scratch& scratch) {
    fuzzy_memberships(squared, problem.fuzzifier, scratch.memberships);
    scratch.weighed.next(row, add_to(part));
    for (std::size_t j = 0; j < k; ++j) {
      const double weight = power(scratch.memberships[j], problem.fuzzifier);
      part.loss.add(weight * squared[j]);
      scratch.weighed.set(j, weight);
    }
  };
  const Partial total = combine_rows(
      problem.n, values_per_chunk(k, d),
      (family == Family::kmeans ? 1.0 : 4.0) * kernel.operations_per_row(), Partial(k, d),
      Scratch{DistanceKernel::Scratch(kernel), std::vector<double>(k),
              WeighedRows(family == Family::fcm ? k : 0)},
      [&](RowChunk rows, Partial& part, Scratch& scratch) {
        kernel.for_each_row(rows.begin, rows.end, point, scratch.distances,
                            [&](std::size_t row, std::span<const double> squared) {
                              const std::size_t best = nearest(squared);
                              const auto label = static_cast<std::int32_t>(best);
                              part.labels_changed = part.labels_changed || labels[row] != label;
                              labels[row] = label;
                              if (family == Family::kmeans) {
                                add_hard(row, squared[best], part);
                              } else {
                                add_fuzzy(row, squared, part, scratch);
                              }
                            });
        scratch.weighed.release(add_to(part));
      });
  OraclePass result{total.loss.value(), total.inertia.value(), total.labels_changed, false,
                    means(total, centroids, k, d)};
  for (std::size_t j = 0; j < k; ++j) {
    result.empty_cluster = result.empty_cluster || !(total.weights.value(j, 0) > 0.0);
  }
  return result;
}

template <typename T>
std::vector<double> centres_of_initial_memberships(const Problem<T>& problem) {
  const std::size_t k = problem.k;
  const std::size_t d = problem.d;
  const Partial total =
      combine_rows(problem.n, values_per_chunk(k, d), 8.0 * static_cast<double>(k * d),
                   Partial(k, d), NoScratch{}, [&](RowChunk rows, Partial& part, NoScratch&) {
                     for (std::size_t row = rows.begin; row < rows.end; ++row) {
                       for (std::size_t j = 0; j < k; ++j) {
                         const double membership =
                             static_cast<double>(problem.memberships[row * k + j]);
                         part.add_point(j, problem.points.data() + row * d,
                                        power(membership, problem.fuzzifier));
                       }
                     }
                   });
  return means(total, std::vector<double>(k * d), k, d);
}

template OraclePass oracle_pass(Family, const Problem<float>&, const std::vector<double>&,
                                std::vector<std::int32_t>&);
template OraclePass oracle_pass(Family, const Problem<double>&, const std::vector<double>&,
                                std::vector<std::int32_t>&);
template std::vector<double> centres_of_initial_memberships(const Problem<float>&);
template std::vector<double> centres_of_initial_memberships(const Problem<double>&);

} // namespace clusterbench
