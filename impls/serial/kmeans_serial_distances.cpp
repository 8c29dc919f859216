// K-means as a first program writes it: all n x k distances, then one sweep per cluster.
//
// Idea: keep every Euclidean distance in an n x k matrix; then sweep the data once per cluster.
// First rung. What it wastes: k sweeps to update, a square root per distance, and additions that
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

/// Fills distances [n, k] and labels [n]; returns the loss, summed in T in the order of the points.
template <typename T>
T assign(const Problem<T>& problem, const std::vector<T>& centroids, std::vector<T>& distances,
         std::vector<std::int32_t>& labels, bool& changed) {
  const auto [n, d, k] = std::array{problem.n, problem.d, problem.k};
  T loss = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const T* x = &problem.points[i * d];
    T nearest = std::numeric_limits<T>::infinity();
    std::size_t label = 0;
    for (std::size_t j = 0; j < k; ++j) {
      const T* c = &centroids[j * d];
      T sum = 0;
      for (std::size_t f = 0; f < d; ++f) {
        sum += (x[f] - c[f]) * (x[f] - c[f]);
      }
      distances[i * k + j] = std::sqrt(sum);
      if (sum < nearest) {
        nearest = sum;
        label = j;
      }
    }
    changed |= labels[i] != static_cast<std::int32_t>(label);
    labels[i] = static_cast<std::int32_t>(label);
    loss += distances[i * k + label];
  }
  return loss;
}

/// Replaces each centroid by the mean of its points; returns the summed squared shift.
template <typename T>
double update(const Problem<T>& problem, const std::vector<std::int32_t>& labels,
              std::vector<T>& centroids) {
  const auto [n, d, k] = std::array{problem.n, problem.d, problem.k};
  std::vector<T> sum(d);
  double squared_shift = 0.0;
  for (std::size_t j = 0; j < k; ++j) {
    std::ranges::fill(sum, T{0});
    std::size_t count = 0;
    for (std::size_t i = 0; i < n; ++i) {
      if (labels[i] != static_cast<std::int32_t>(j)) {
        continue;
      }
      for (std::size_t f = 0; f < d; ++f) {
        sum[f] += problem.points[i * d + f];
      }
      ++count;
    }
    for (std::size_t f = 0; f < d && count > 0; ++f) {
      T& c = centroids[j * d + f];
      const T mean = sum[f] / static_cast<T>(count);
      squared_shift += static_cast<double>(mean - c) * static_cast<double>(mean - c);
      c = mean;
    }
  }
  return squared_shift;
}

template <typename T>
class KmeansSerialDistances final : public Variant<T> {
public:
  void prepare(const Problem<T>& problem) override {
    problem_ = problem;
    labels_.resize(problem.n);
    distances_.resize(problem.n * problem.k);
  }

  void run(Observer<T>& observer) override {
    centroids_.assign(problem_.centroids.begin(), problem_.centroids.end());
    std::ranges::fill(labels_, -1);
    StopTest stop(problem_.stop);
    PassFacts facts;
    do {
      {
        const Phase phase(observer, "assign");
        facts.labels_changed = false;
        facts.loss = assign(problem_, centroids_, distances_, labels_, facts.labels_changed);
      }
      {
        const Phase phase(observer, "update");
        facts.squared_shift = update(problem_, labels_, centroids_);
      }
      observer.printed_loss(facts.loss);
      observer.pass(centroids_);
    } while (!stop.after_pass(facts));
    iterations_ = stop.passes();
  }

  void fetch(Result<T>& result) override {
    std::ranges::copy(labels_, result.labels.begin());
    std::ranges::copy(centroids_, result.centroids.begin());
    result.iterations = iterations_;
  }

private:
  Problem<T> problem_;
  std::vector<T> centroids_;         // [k, d]
  std::vector<T> distances_;         // [n, k], not squared
  std::vector<std::int32_t> labels_; // [n]
  std::size_t iterations_ = 0;
};

const Registration registration({.name = "kmeans_serial_distances",
                                 .idea = "all n x k distances, then one sweep per cluster",
                                 .source = "article 000, section 3",
                                 .previous = ""},
                                both_precisions<KmeansSerialDistances>());

} // namespace
} // namespace clusterbench
