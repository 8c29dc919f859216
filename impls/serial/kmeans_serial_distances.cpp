// K-means as a first program writes it: all n x k distances, then one sweep per cluster.
//
// Idea: keep every Euclidean distance in an n x k matrix; then sweep the data once per cluster.
// First step. What it wastes: k sweeps to update, a square root per distance, and additions that
//   wait for one another (the compiler may square eight differences at once, but it adds them one
//   by one, in the order written, because -ffast-math is off).
// Source: article 000, section 3, operation by operation: its printed figures come out digit for
//   digit. So nothing may be contracted to a fused multiply-add: the folder's build recipe sets
//   -ffp-contract=off for this file. Not kept: the label -1 where all distances exceed 1e4, 0/0
//   for an empty cluster, ties to the last centroid.
// To learn: the loss is one float. At 1.08e7 neighbouring floats are 1 apart, so "changed by less
//   than 0.1" asks for equality: from pass 19 on rounding moves it up and down by a few units,
//   until two in a row happen to be equal, in pass 34. Summed in double it settles in pass 27.
// Cost per iteration: up to ((1 + k) n d + n k) sizeof(T) bytes; 3 n k d + n d flops.
// Limits: memory for n x k distances; sums in T lose digits as n grows.
#include "impls/contract.hpp"

#include <algorithm>
#include <array>

namespace clusterbench {
namespace {

template <typename T>
class KmeansSerialDistances final : public Variant<T> {
public:
  void prepare(const Shape& shape, const Points<T>& points) override {
    shape_ = shape;
    points_ = points.rows;
    distances_.resize(shape.n * shape.k);
    sum_.resize(shape.d);
  }

  void run(const Start<T>& start, Answer<T>& answer, Observer<T>& observer) override {
    std::ranges::copy(start.centroids, answer.centroids.begin());
    StopTest stop(shape_.stop);
    PassFacts facts;
    do {
      facts = {.labels_changed = stop.passes() == 0};
      {
        const Phase phase(observer, "assign");
        facts.loss = assign(answer, facts.labels_changed);
      }
      {
        const Phase phase(observer, "update");
        facts.squared_shift = update(answer);
      }
      observer.printed_loss(facts.loss);
      observer.pass(answer.centroids);
    } while (!stop.after_pass(facts));
    answer.iterations = stop.passes();
  }

private:
  /// Fills the distances and labels; returns the loss, summed in T in the order of the points.
  T assign(Answer<T>& answer, bool& changed) {
    const auto [n, d, k] = std::array{shape_.n, shape_.d, shape_.k};
    T loss = 0;
    for (std::size_t i = 0; i < n; ++i) {
      const T* x = &points_[i * d];
      T nearest = std::numeric_limits<T>::infinity();
      std::size_t nearest_one = 0;
      for (std::size_t j = 0; j < k; ++j) {
        const T* c = &answer.centroids[j * d];
        T sum = 0;
        for (std::size_t f = 0; f < d; ++f) {
          sum += (x[f] - c[f]) * (x[f] - c[f]);
        }
        distances_[i * k + j] = std::sqrt(sum);
        if (sum < nearest) {
          nearest = sum;
          nearest_one = j;
        }
      }
      const auto label = static_cast<std::int32_t>(nearest_one);
      changed |= std::exchange(answer.labels[i], label) != label;
      loss += distances_[i * k + nearest_one];
    }
    return loss;
  }

  /// Replaces each centroid by the mean of its points; returns the summed squared shift.
  double update(Answer<T>& answer) {
    const auto [n, d, k] = std::array{shape_.n, shape_.d, shape_.k};
    double squared_shift = 0.0;
    for (std::size_t j = 0; j < k; ++j) {
      std::ranges::fill(sum_, T{0});
      std::size_t count = 0;
      for (std::size_t i = 0; i < n; ++i) {
        if (answer.labels[i] != static_cast<std::int32_t>(j)) {
          continue;
        }
        for (std::size_t f = 0; f < d; ++f) {
          sum_[f] += points_[i * d + f];
        }
        ++count;
      }
      for (std::size_t c = j * d; c < (j + 1) * d; ++c) {
        const T entered = answer.entering[c] = answer.centroids[c];
        if (count > 0) {
          const T mean = sum_[c - j * d] / static_cast<T>(count);
          const auto shift = static_cast<double>(mean - entered);
          squared_shift += shift * shift;
          answer.centroids[c] = mean;
        }
      }
    }
    return squared_shift;
  }

  Shape shape_;
  std::span<const T> points_; // [n, d]
  std::vector<T> distances_;  // [n, k], not squared
  std::vector<T> sum_;        // [d] of one cluster
};

const Registration registration({.name = "kmeans_serial_distances",
                                 .idea = "all n x k distances, then one sweep per cluster",
                                 .source = "article 000, section 3",
                                 .previous = ""},
                                both_precisions<KmeansSerialDistances>());

} // namespace
} // namespace clusterbench
