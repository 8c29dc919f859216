// Sums over the rows of a data set that do not depend on the number of threads: rows are cut into
// chunks that follow from the problem's shape alone, each chunk is summed on its own, and the
// partial sums are combined in the order of the chunks.
#pragma once

#include "harness/machine/usable_processors.hpp"

#include <algorithm>
#include <cstddef>
#include <omp.h>
#include <vector>

namespace clusterbench {

struct RowChunk {
  std::size_t begin;
  std::size_t end;
};

/// Cuts n rows into chunks. values_per_chunk: doubles that one partial result holds; the more it
/// holds, the fewer the chunks, so that all of them together stay within 256 MiB.
inline std::vector<RowChunk> row_chunks(std::size_t n, std::size_t values_per_chunk) {
  constexpr std::size_t kRowsWorthAThread = 2048;
  constexpr std::size_t kMostChunks = 64;
  constexpr std::size_t kMostValues = std::size_t{1} << 25;
  const std::size_t by_memory = kMostValues / std::max<std::size_t>(values_per_chunk, 1);
  const std::size_t count =
      std::clamp<std::size_t>(std::min(n / kRowsWorthAThread, by_memory), 1, kMostChunks);
  std::vector<RowChunk> chunks(count);
  for (std::size_t i = 0; i < count; ++i) {
    chunks[i] = {n / count * i + std::min(i, n % count),
                 n / count * (i + 1) + std::min(i + 1, n % count)};
  }
  return chunks;
}

/// Calls body(index, chunk) for every chunk, on as many threads as OpenMP has and the container's quota allows. body
/// must not throw.
template <typename Body>
void for_each_chunk(const std::vector<RowChunk>& chunks, const Body& body) {
  const int threads = within_quota(omp_get_max_threads());
#pragma omp parallel for schedule(dynamic) num_threads(threads) if (chunks.size() > 1)
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    body(i, chunks[i]);
  }
}

/// A sum and what rounding has taken from it (Neumaier 1974, with Knuth's branch-free two-sum).
class CompensatedSum {
public:
  void add(double x) {
    const double sum = sum_ + x;
    const double x_arrived = sum - sum_;
    lost_ += (sum_ - (sum - x_arrived)) + (x - x_arrived);
    sum_ = sum;
  }
  void add(const CompensatedSum& other) {
    add(other.sum_);
    lost_ += other.lost_;
  }
  double value() const { return sum_ + lost_; }

private:
  double sum_ = 0.0;
  double lost_ = 0.0;
};

/// A matrix of compensated sums; sums and lost parts lie apart so that whole rows vectorise.
class CompensatedSums {
public:
  CompensatedSums(std::size_t rows, std::size_t columns)
      : columns_(columns), sums_(rows * columns), lost_(rows * columns) {}

  /// Adds weight * x to a row.
  template <typename T>
  void add(std::size_t row, const T* x, double weight) {
    double* const sums = sums_.data() + row * columns_;
    double* const lost = lost_.data() + row * columns_;
    for (std::size_t f = 0; f < columns_; ++f) {
      const double term = weight * static_cast<double>(x[f]);
      const double sum = sums[f] + term;
      const double term_arrived = sum - sums[f];
      lost[f] += (sums[f] - (sum - term_arrived)) + (term - term_arrived);
      sums[f] = sum;
    }
  }
  void add(const CompensatedSums& other) {
    const std::size_t rows = sums_.size() / columns_;
    for (std::size_t row = 0; row < rows; ++row) {
      add(row, other.sums_.data() + row * columns_, 1.0);
    }
    for (std::size_t i = 0; i < lost_.size(); ++i) {
      lost_[i] += other.lost_[i];
    }
  }
  double value(std::size_t row, std::size_t column) const {
    return sums_[row * columns_ + column] + lost_[row * columns_ + column];
  }

private:
  std::size_t columns_;
  std::vector<double> sums_;
  std::vector<double> lost_;
};

} // namespace clusterbench
