// Rows of which every cluster has a share, on their way into sums of clusters.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

namespace clusterbench {

/// Some rows with their weights in k clusters. They are added cluster by cluster, so that its sums
/// stay in the nearest cache for all of them; each sum sees its rows in the order in which they
/// came.
class WeighedRows {
public:
  explicit WeighedRows(std::size_t k) : k_(k), weights_(k * kMost), doubts_(k * kMost) {}

  /// One row more, which set() is then about; releases the others first if there is no room.
  template <typename Add>
  void next(std::size_t row, const Add& add) {
    if (count_ == kMost) {
      release(add);
    }
    rows_[count_++] = row;
  }
  /// doubt: by how much rounding may have the weight off.
  void set(std::size_t j, double weight, double doubt = 0.0) {
    weights_[j * kMost + count_ - 1] = weight;
    doubts_[j * kMost + count_ - 1] = doubt;
  }
  /// Calls add(j, row, weight, doubt) for all of them, and forgets them.
  template <typename Add>
  void release(const Add& add) {
    for (std::size_t j = 0; j < k_; ++j) {
      for (std::size_t i = 0; i < count_; ++i) {
        add(j, rows_[i], weights_[j * kMost + i], doubts_[j * kMost + i]);
      }
    }
    count_ = 0;
  }

private:
  static constexpr std::size_t kMost = 16;

  std::size_t k_, count_ = 0;
  std::array<std::size_t, kMost> rows_{};
  std::vector<double> weights_, doubts_; ///< [k, kMost]
};

} // namespace clusterbench
