// K-means on CPU threads: each thread keeps its own sums, which are added up in a fixed order.
//
// Changed since kmeans_serial: the points are cut into one contiguous part per thread. A thread
//   labels its part, notes whether any label changed, and sums into memory of its own, so that
//   nothing is shared while it works: no atomics, no locks. Faster by about the number of cores,
//   until the memory's bandwidth is reached.
// Source: article 003, sections 3 and 5 (one thread per point, a changed flag, atomic sums). Its
//   atomics add in the order of arrival; adding whole parts in the order of their numbers gives
//   the same bits in every run with the same number of threads.
// Cost per iteration: n d sizeof(T) bytes read; 3 n k d + n d flops.
// Limits: bits differ between numbers of threads; the parts are added up by one thread.
#include "impls/contract.hpp"

#include <algorithm>

namespace clusterbench {
namespace {

template <typename T>
T squared_distance(const T* x, const T* c, std::size_t d) {
  T sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::size_t f = 0; f < d; ++f) {
    sum += (x[f] - c[f]) * (x[f] - c[f]);
  }
  return sum;
}

/// What one thread finds in its part of the points.
struct Part {
  std::size_t begin = 0;
  std::size_t end = 0;
  bool changed = false;
  double loss = 0.0;
  std::vector<double> sums;   // [k, d] of weighted points
  std::vector<double> totals; // [k] of their weights
};

template <typename T>
class KmeansOpenmp final : public Variant<T> {
public:
  void prepare(const Shape& shape, const Points<T>& points) override {
    shape_ = shape;
    points_ = points.rows;
    weights_ = points.weights;
    const auto threads = static_cast<std::size_t>(std::max(shape.threads, 1));
    parts_.assign(threads, {});
    for (std::size_t p = 0; p < threads; ++p) {
      parts_[p].begin = shape.n * p / threads;
      parts_[p].end = shape.n * (p + 1) / threads;
    }
  }

  void run(const Start<T>& start, Answer<T>& answer, Observer<T>& observer) override {
    std::ranges::copy(start.centroids, answer.centroids.begin());
    const auto threads = static_cast<int>(parts_.size());
    StopTest stop(shape_.stop);
    PassFacts facts;
    do {
      {
        const Phase phase(observer, "assign and sum");
        // A loop over parts, not over threads: should the runtime grant fewer threads than asked
        // for, the parts and hence the bits stay the same.
#pragma omp parallel for num_threads(threads) schedule(static, 1)
        for (int p = 0; p < threads; ++p) {
          assign(answer, stop.wants_loss(), parts_[static_cast<std::size_t>(p)]);
        }
      }
      {
        const Phase phase(observer, "update");
        facts = combine();
        facts.labels_changed |= stop.passes() == 0;
        facts.squared_shift = update(answer);
      }
      observer.pass(answer.centroids);
    } while (!stop.after_pass(facts));
    answer.iterations = stop.passes();
  }

private:
  /// Labels the points of one part and sums them by cluster.
  void assign(Answer<T>& answer, bool wants_loss, Part& part) const {
    const auto [d, k] = std::pair(shape_.d, shape_.k);
    const T* centroids = answer.centroids.data();
    part.sums.assign(k * d, 0.0);
    part.totals.assign(k, 0.0);
    // Plain locals: what neighbouring threads write per point must not share a cache line.
    bool changed = false;
    double loss = 0.0;
    for (std::size_t i = part.begin; i < part.end; ++i) {
      const T* x = &points_[i * d];
      T smallest = std::numeric_limits<T>::infinity();
      std::size_t nearest = 0;
      for (std::size_t j = 0; j < k; ++j) {
        const T distance = squared_distance(x, &centroids[j * d], d);
        if (distance < smallest) {
          smallest = distance;
          nearest = j;
        }
      }
      const auto label = static_cast<std::int32_t>(nearest);
      changed |= std::exchange(answer.labels[i], label) != label;
      const double weight = weights_.empty() ? 1.0 : double{weights_[i]};
      loss += wants_loss ? weight * std::sqrt(double{smallest}) : 0.0;
      part.totals[nearest] += weight;
      double* sum = &part.sums[nearest * d];
      for (std::size_t f = 0; f < d; ++f) {
        sum[f] += weight * double{x[f]};
      }
    }
    part.changed = changed;
    part.loss = loss;
  }

  /// Adds every other part to the first, in the order of their numbers.
  PassFacts combine() {
    Part& total = parts_.front();
    for (std::size_t p = 1; p < parts_.size(); ++p) {
      total.changed |= parts_[p].changed;
      total.loss += parts_[p].loss;
      std::ranges::transform(total.sums, parts_[p].sums, total.sums.begin(), std::plus{});
      std::ranges::transform(total.totals, parts_[p].totals, total.totals.begin(), std::plus{});
    }
    return {.loss = total.loss, .labels_changed = total.changed};
  }

  /// Moves every centroid to the mean of its points; that of an empty cluster stays. Returns the
  /// summed squared shift.
  double update(Answer<T>& answer) const {
    const Part& total = parts_.front();
    double squared_shift = 0.0;
    for (std::size_t c = 0; c < total.sums.size(); ++c) {
      const T entered = answer.entering[c] = answer.centroids[c];
      if (const double weight = total.totals[c / shape_.d]; weight > 0.0) {
        const auto mean = static_cast<T>(total.sums[c] / weight);
        squared_shift += std::pow(double{mean} - double{entered}, 2);
        answer.centroids[c] = mean;
      }
    }
    return squared_shift;
  }

  Shape shape_;
  std::span<const T> points_;  // [n, d]
  std::span<const T> weights_; // [n], or empty: all are 1
  std::vector<Part> parts_;    // [threads]
};

const Registration registration({.name = "kmeans_openmp",
                                 .idea = "private sums per thread, added up in a fixed order",
                                 .source = "article 003, sections 3 and 5, on CPU threads",
                                 .takes_weights = true,
                                 .previous = "kmeans_serial"},
                                both_precisions<KmeansOpenmp>());

} // namespace
} // namespace clusterbench
