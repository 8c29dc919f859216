#include "harness/judge/answer_objective.hpp"

#include "harness/judge/compensated_sum.hpp"
#include "harness/judge/distance_kernel.hpp"
#include "harness/judge/float64_math.hpp"
#include "harness/judge/row_chunks.hpp"

#include <vector>

namespace clusterbench {

template <typename T>
double answer_objective(Family family, const Problem<T>& problem, const JudgedAnswer<T>& answer) {
  const std::size_t k = problem.k;
  const std::size_t d = problem.d;
  const std::vector<double> centroids = to_float64(answer.centroids);
  const auto point = [&](std::size_t row) { return problem.points.data() + row * d; };
  if (family == Family::kmeans) {
    return combine_rows(problem.n, 1, 3.0 * static_cast<double>(d), CompensatedSum(), NoScratch{},
                        [&](RowChunk rows, CompensatedSum& sum, NoScratch&) {
                          for (std::size_t row = rows.begin; row < rows.end; ++row) {
                            const auto label = static_cast<std::size_t>(answer.labels[row]);
                            sum.add(problem.weight(row) *
                                    squared_distance(point(row), &centroids[label * d], d));
                          }
                        })
        .value();
  }
  const DistanceKernel kernel(centroids, k, d);
  return combine_rows(problem.n, 1, kernel.operations_per_row(), CompensatedSum(),
                      DistanceKernel::Scratch(kernel),
                      [&](RowChunk rows, CompensatedSum& sum, DistanceKernel::Scratch& scratch) {
                        kernel.for_each_row(rows.begin, rows.end, point, scratch,
                                            [&](std::size_t row, std::span<const double> squared) {
                                              for (std::size_t j = 0; j < k; ++j) {
                                                const auto u = static_cast<double>(
                                                    answer.memberships[row * k + j]);
                                                sum.add(power(u, problem.fuzzifier) * squared[j]);
                                              }
                                            });
                      })
      .value();
}

template double answer_objective(Family, const Problem<float>&, const JudgedAnswer<float>&);
template double answer_objective(Family, const Problem<double>&, const JudgedAnswer<double>&);

} // namespace clusterbench
