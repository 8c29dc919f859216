#include "harness/judge/origin.hpp"

#include "harness/judge/compensated_sum.hpp"
#include "harness/judge/rounding.hpp"
#include "harness/judge/row_chunks.hpp"

#include <cmath>

namespace clusterbench {
namespace {

/// Of one chunk of rows.
struct ColumnSums {
  explicit ColumnSums(std::size_t d) : values(1, d), magnitudes(d) {}
  CompensatedSums values;
  std::vector<double> magnitudes; ///< [d] sum of |x|

  void add(const ColumnSums& other) {
    values.add(other.values);
    for (std::size_t f = 0; f < magnitudes.size(); ++f) {
      magnitudes[f] += other.magnitudes[f];
    }
  }
};

} // namespace

template <typename T>
Origin origin_of(const Declaration& declared, const Problem<T>& problem) {
  const std::size_t d = problem.d;
  Origin origin{std::vector<double>(d), std::vector<double>(d), declared.centres_points};
  if (!declared.centres_points) {
    return origin;
  }
  const ColumnSums sums =
      combine_rows(problem.n, 3 * d, 8.0 * static_cast<double>(d), ColumnSums(d), NoScratch{},
                   [&](RowChunk rows, ColumnSums& part, NoScratch&) {
                     for (std::size_t i = rows.begin; i < rows.end; ++i) {
                       const T* const x = problem.points.data() + i * d;
                       part.values.add(0, x, 1.0);
                       for (std::size_t f = 0; f < d; ++f) {
                         part.magnitudes[f] += std::abs(static_cast<double>(x[f]));
                       }
                     }
                   });
  const double n = static_cast<double>(problem.n);
  for (std::size_t f = 0; f < d; ++f) {
    origin.at[f] = sums.values.value(0, f) / n;
    origin.in_doubt[f] = mean_rounding(n, unit_roundoff<T>) * sums.magnitudes[f] / n;
  }
  return origin;
}

template Origin origin_of(const Declaration&, const Problem<float>&);
template Origin origin_of(const Declaration&, const Problem<double>&);

} // namespace clusterbench
