#include "harness/judge/descent_check.hpp"

#include "harness/judge/compensated_sum.hpp"
#include "harness/judge/distance_kernel.hpp"
#include "harness/judge/float64_math.hpp"
#include "harness/judge/rounding.hpp"
#include "harness/judge/row_chunks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace clusterbench {
namespace {

/// Memory of one thread.
struct Scratch {
  DistanceKernel::Scratch distances;
  std::vector<double> memberships; ///< [k]
};

/// share(row, squared distances to `centroids`, scratch) of every selected point.
template <typename T, typename Share>
std::vector<double> shares(const Problem<T>& problem, std::span<const T> centroids,
                           const PointSelection& points, const Share& share) {
  const DistanceKernel kernel(to_float64(centroids), problem.k, problem.d);
  std::vector<double> result(points.size());
  for_each_chunk(row_chunks(points.size(), 1, kernel.operations_per_row()),
                 kernel.operations_per_row(),
                 Scratch{DistanceKernel::Scratch(kernel), std::vector<double>(problem.k)},
                 [&](std::size_t /*index*/, RowChunk rows, Scratch& s) {
                   kernel.for_each_row(
                       rows.begin, rows.end,
                       [&](std::size_t i) { return problem.points.data() + points[i] * problem.d; },
                       s.distances,
                       [&](std::size_t i, std::span<const double> squared) {
                         result[i] = share(points[i], squared, s);
                       });
                 });
  return result;
}

} // namespace

template <typename T>
std::optional<std::string> check_descent(const Declaration& declared, const Problem<T>& problem,
                                         std::span<const T> before, const JudgedAnswer<T>& answer,
                                         const PointSelection& points, double within) {
  const bool kmeans = declared.family == Family::kmeans;
  const auto weighted = [&](std::span<const double> squared, const auto& membership) {
    double sum = 0.0;
    for (std::size_t j = 0; j < problem.k; ++j) {
      sum += power(static_cast<double>(membership[j]), problem.fuzzifier) * squared[j];
    }
    return sum;
  };
  const auto at_first = shares(problem, before, points,
                               [&](std::size_t row, std::span<const double> squared, Scratch& s) {
                                 if (kmeans) {
                                   return problem.weight(row) * squared[nearest(squared)];
                                 }
                                 fuzzy_memberships(squared, problem.fuzzifier, s.memberships);
                                 return weighted(squared, s.memberships);
                               });
  const auto at_last = shares(
      problem, answer.centroids, points,
      [&](std::size_t row, std::span<const double> squared, Scratch&) {
        return kmeans ? problem.weight(row) * squared[static_cast<std::size_t>(answer.labels[row])]
                      : weighted(squared, answer.memberships.subspan(row * problem.k, problem.k));
      });
  const double count = static_cast<double>(points.size());
  CompensatedSum of_first, of_last, of_squares;
  for (std::size_t i = 0; i < points.size(); ++i) {
    of_first.add(at_first[i]);
    of_last.add(at_last[i]);
    of_squares.add((at_last[i] - at_first[i]) * (at_last[i] - at_first[i]));
  }
  const double rise = of_last.value() - of_first.value();
  const double variance = std::max(of_squares.value() - rise * rise / count, 0.0);
  const double allowed = (objective_drift<T>(declared.arithmetic) + within) * of_first.value() +
                         (points.is_sample() ? 8.0 * std::sqrt(variance) : 0.0) +
                         lost_objective(problem, problem.total_weight(), of_first.value(),
                                        longest_squared(answer.centroids, problem.d));
  return rise <= allowed ? std::nullopt
                         : std::optional(fmt::format(
                               "objective of {} points: got {:.9g}, an earlier state's is "
                               "{:.9g} (allowed +{:.2g})",
                               points.size(), of_last.value(), of_first.value(), allowed));
}

template std::optional<std::string> check_descent(const Declaration&, const Problem<float>&,
                                                  std::span<const float>,
                                                  const JudgedAnswer<float>&, const PointSelection&,
                                                  double);
template std::optional<std::string> check_descent(const Declaration&, const Problem<double>&,
                                                  std::span<const double>,
                                                  const JudgedAnswer<double>&,
                                                  const PointSelection&, double);

} // namespace clusterbench
