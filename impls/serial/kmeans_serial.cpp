// K-means in one sweep: a point is added to its cluster's sum while it is still in cache.
//
// Changed since kmeans_serial_distances: no matrix of distances, no square roots, and one sweep
//   over the data instead of 1 + k. `omp simd` lets the compiler reorder one sum, that of a
//   distance, so that it runs in vector registers (-fopenmp-simd: no library, no threads).
// Source: Lloyd, Least squares quantization in PCM, 1982.
// Cost per iteration: n d sizeof(T) bytes read; 3 n k d + n d flops.
// Limits: one thread. Sums are double: a million floats summed in float lose their last digits.
#include "impls/contract.hpp"

#include <algorithm>

namespace clusterbench {
namespace {

template <typename T>
class KmeansSerial final : public Variant<T> {
public:
  void prepare(const Problem<T>& problem) override { problem_ = problem; }

  void run(Observer<T>& observer) override {
    centroids_.assign(problem_.centroids.begin(), problem_.centroids.end());
    labels_.assign(problem_.n, -1);
    StopTest stop(problem_.stop);
    PassFacts facts;
    do {
      facts = {.labels_changed = false};
      assign(observer, facts, stop.wants_loss());
      update(observer, facts);
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
  static T squared_distance(const T* x, const T* c, std::size_t d) {
    T sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::size_t f = 0; f < d; ++f) {
      sum += (x[f] - c[f]) * (x[f] - c[f]);
    }
    return sum;
  }

  void assign(Observer<T>& observer, PassFacts& facts, bool wants_loss) {
    const Phase phase(observer, "assign");
    const std::size_t d = problem_.d;
    sums_.assign(problem_.k * d, 0.0);
    counts_.assign(problem_.k, 0.0);
    for (std::size_t i = 0; i < problem_.n; ++i) {
      const T* x = &problem_.points[i * d];
      std::size_t nearest = 0;
      T smallest = std::numeric_limits<T>::infinity();
      for (std::size_t j = 0; j < problem_.k; ++j) {
        if (const T distance = squared_distance(x, &centroids_[j * d], d); distance < smallest) {
          smallest = distance;
          nearest = j;
        }
      }
      const auto label = static_cast<std::int32_t>(nearest);
      facts.labels_changed |= std::exchange(labels_[i], label) != label;
      facts.loss += wants_loss ? std::sqrt(double{smallest}) : 0.0;
      counts_[nearest] += 1.0;
      for (std::size_t f = 0; f < d; ++f) {
        sums_[nearest * d + f] += double{x[f]};
      }
    }
  }

  void update(Observer<T>& observer, PassFacts& facts) {
    const Phase phase(observer, "update");
    for (std::size_t c = 0; c < centroids_.size(); ++c) {
      if (const double count = counts_[c / problem_.d]; count > 0.0) { // an empty cluster stays
        const auto mean = static_cast<T>(sums_[c] / count);
        facts.squared_shift += std::pow(double{mean} - double{centroids_[c]}, 2);
        centroids_[c] = mean;
      }
    }
  }

  Problem<T> problem_;
  std::vector<T> centroids_;          // [k, d]
  std::vector<double> sums_, counts_; // [k, d] and [k]
  std::vector<std::int32_t> labels_;  // [n]
  std::size_t iterations_ = 0;
};

const Registration registration({.name = "kmeans_serial",
                                 .idea = "assign and sum each point in one sweep",
                                 .source = "Lloyd 1982",
                                 .previous = "kmeans_serial_distances"},
                                both_precisions<KmeansSerial>());

} // namespace
} // namespace clusterbench
