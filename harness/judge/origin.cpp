#include "harness/judge/origin.hpp"

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
};

} // namespace

template <typename T>
Origin origin_of(const Declaration& declared, const Problem<T>& problem) {
  const std::size_t d = problem.d;
  Origin origin{std::vector<double>(d), std::vector<double>(d), declared.centres_points};
  if (!declared.centres_points) {
    return origin;
  }
  const auto chunks = row_chunks(problem.n, 3 * d);
  std::vector<ColumnSums> sums(chunks.size(), ColumnSums(d));
  for_each_chunk(chunks, [&](std::size_t index, RowChunk chunk) {
    ColumnSums& part = sums[index];
    for (std::size_t i = chunk.begin; i < chunk.end; ++i) {
      const T* const x = problem.points.data() + i * d;
      part.values.add(0, x, 1.0);
      for (std::size_t f = 0; f < d; ++f) {
        part.magnitudes[f] += std::abs(static_cast<double>(x[f]));
      }
    }
  });
  for (std::size_t i = 1; i < sums.size(); ++i) {
    sums[0].values.add(sums[i].values);
    for (std::size_t f = 0; f < d; ++f) {
      sums[0].magnitudes[f] += sums[i].magnitudes[f];
    }
  }
  const double n = static_cast<double>(problem.n);
  for (std::size_t f = 0; f < d; ++f) {
    origin.at[f] = sums[0].values.value(0, f) / n;
    origin.in_doubt[f] = mean_rounding(n, unit_roundoff<T>) * sums[0].magnitudes[f] / n;
  }
  return origin;
}

template Origin origin_of(const Declaration&, const Problem<float>&);
template Origin origin_of(const Declaration&, const Problem<double>&);

} // namespace clusterbench
