// Squared distances of blocks of rows to one set of centroids, in float64: what the oracle and the
// verifier spend their time on.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <type_traits>
#include <vector>

namespace clusterbench {

/// sum((x - c)^2) for every row of a block and every centroid, as one running sum over the
/// features: the bits depend on the row and the centroid alone, not on the block or the number of
/// threads.
class DistanceKernel {
public:
  /// Rows that share one look at the centroids.
  static constexpr std::size_t kBlockRows = 16;
  static constexpr std::size_t kLanes = 8; ///< centroids side by side

  /// centroids: [k, d].
  DistanceKernel(std::span<const double> centroids, std::size_t k, std::size_t d);

  /// Memory of one thread.
  struct Scratch {
    explicit Scratch(const DistanceKernel& kernel);
    /// The distances of row r of the last block, [k].
    std::span<double> of(std::size_t r) { return {squared.data() + r * stride, k}; }

    std::size_t k, stride;
    std::size_t row_stride;      ///< some more than d: else lines of all rows could want one place
    std::vector<double> rows;    ///< [kBlockRows, row_stride], d of each are in use
    std::vector<double> squared; ///< [kBlockRows, stride], k of each are in use
  };

  /// rows[i]: one row [d]; at most kBlockRows of them.
  template <typename T>
  void measure(std::span<const T* const> rows, Scratch& scratch) const;

  /// Calls see(i, distances [k]) for begin <= i < end, in order. row_of(i): the coordinates, [d].
  template <typename RowOf, typename See>
  void for_each_row(std::size_t begin, std::size_t end, const RowOf& row_of, Scratch& scratch,
                    const See& see) const {
    using Row = std::decay_t<decltype(row_of(begin))>;
    std::array<Row, kBlockRows> rows;
    for (std::size_t i = begin; i < end; i += kBlockRows) {
      const std::size_t count = std::min(kBlockRows, end - i);
      for (std::size_t r = 0; r < count; ++r) {
        rows[r] = row_of(i + r);
      }
      measure(std::span<const Row>(rows.data(), count), scratch);
      for (std::size_t r = 0; r < count; ++r) {
        see(i + r, std::span<const double>(scratch.of(r)));
      }
    }
  }

  /// Of one row against all centroids.
  double operations_per_row() const { return 3.0 * static_cast<double>(k_ * d_); }

private:
  std::size_t k_, d_;
  std::vector<double> packed_; ///< [k / kLanes, d, kLanes], rounded up
};

} // namespace clusterbench
