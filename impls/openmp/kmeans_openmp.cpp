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
  std::vector<double> sums;   // [k, d]
  std::vector<double> counts; // [k]
};

/// Labels the points of one part and sums them by cluster.
template <typename T>
void assign(const Problem<T>& problem, const std::vector<T>& centroids, bool wants_loss,
            std::vector<std::int32_t>& labels, Part& part) {
  const std::size_t d = problem.d;
  std::ranges::fill(part.sums, 0.0);
  std::ranges::fill(part.counts, 0.0);
  // Plain locals: what neighbouring threads write per point must not share a cache line.
  bool changed = false;
  double loss = 0.0;
  for (std::size_t i = part.begin; i < part.end; ++i) {
    const T* x = &problem.points[i * d];
    T smallest = std::numeric_limits<T>::infinity();
    std::size_t nearest = 0;
    for (std::size_t j = 0; j < problem.k; ++j) {
      const T distance = squared_distance(x, &centroids[j * d], d);
      if (distance < smallest) {
        smallest = distance;
        nearest = j;
      }
    }
    const auto label = static_cast<std::int32_t>(nearest);
    changed |= std::exchange(labels[i], label) != label;
    loss += wants_loss ? std::sqrt(double{smallest}) : 0.0;
    part.counts[nearest] += 1.0;
    double* sum = &part.sums[nearest * d];
    for (std::size_t f = 0; f < d; ++f) {
      sum[f] += double{x[f]};
    }
  }
  part.changed = changed;
  part.loss = loss;
}

/// Adds every other part to the first, in the order of their numbers.
PassFacts combine(std::vector<Part>& parts) {
  Part& total = parts.front();
  for (std::size_t p = 1; p < parts.size(); ++p) {
    total.changed |= parts[p].changed;
    total.loss += parts[p].loss;
    std::ranges::transform(total.sums, parts[p].sums, total.sums.begin(), std::plus{});
    std::ranges::transform(total.counts, parts[p].counts, total.counts.begin(), std::plus{});
  }
  return {.loss = total.loss, .labels_changed = total.changed};
}

/// Moves every centroid to the mean of its points; that of an empty cluster stays. Returns the
/// summed squared shift.
template <typename T>
double update(const Part& total, std::size_t d, std::vector<T>& centroids) {
  double squared_shift = 0.0;
  for (std::size_t c = 0; c < centroids.size(); ++c) {
    if (const double count = total.counts[c / d]; count > 0.0) {
      const auto mean = static_cast<T>(total.sums[c] / count);
      squared_shift += std::pow(double{mean} - double{centroids[c]}, 2);
      centroids[c] = mean;
    }
  }
  return squared_shift;
}

template <typename T>
class KmeansOpenmp final : public Variant<T> {
public:
  void prepare(const Problem<T>& problem) override {
    problem_ = problem;
    labels_.resize(problem.n);
    const auto threads = static_cast<std::size_t>(std::max(problem.threads, 1));
    parts_.assign(threads, {});
    for (std::size_t p = 0; p < threads; ++p) {
      parts_[p].begin = problem.n * p / threads;
      parts_[p].end = problem.n * (p + 1) / threads;
      parts_[p].sums.resize(problem.k * problem.d);
      parts_[p].counts.resize(problem.k);
    }
  }

  void run(Observer<T>& observer) override {
    centroids_.assign(problem_.centroids.begin(), problem_.centroids.end());
    std::ranges::fill(labels_, -1);
    const auto threads = static_cast<int>(parts_.size());
    StopTest stop(problem_.stop);
    PassFacts facts;
    do {
      {
        const Phase phase(observer, "assign");
        // A loop over parts, not over threads: should the runtime grant fewer threads than asked
        // for, the parts and hence the bits stay the same.
#pragma omp parallel for num_threads(threads) schedule(static, 1)
        for (int p = 0; p < threads; ++p) {
          assign(problem_, centroids_, stop.wants_loss(), labels_,
                 parts_[static_cast<std::size_t>(p)]);
        }
      }
      {
        const Phase phase(observer, "update");
        facts = combine(parts_);
        facts.squared_shift = update(parts_.front(), problem_.d, centroids_);
      }
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
  std::vector<Part> parts_;          // [threads]
  std::vector<T> centroids_;         // [k, d]
  std::vector<std::int32_t> labels_; // [n]
  std::size_t iterations_ = 0;
};

const Registration registration({.name = "kmeans_openmp",
                                 .idea = "private sums per thread, added up in a fixed order",
                                 .source = "article 003, sections 3 and 5, on CPU threads",
                                 .previous = "kmeans_serial"},
                                both_precisions<KmeansOpenmp>());

} // namespace
} // namespace clusterbench
