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
  void prepare(const Shape& shape, const Points<T>& points) override {
    shape_ = shape;
    points_ = points.rows;
    weights_ = points.weights;
  }

  void run(const Start<T>& start, Answer<T>& answer, Observer<T>& observer) override {
    std::ranges::copy(start.centroids, answer.centroids.begin());
    StopTest stop(shape_.stop);
    PassFacts facts;
    do {
      facts = {.labels_changed = stop.passes() == 0};
      assign(answer, observer, facts, stop.wants_loss());
      update(answer, observer, facts);
      observer.pass(answer.centroids);
    } while (!stop.after_pass(facts));
    answer.iterations = stop.passes();
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

  void assign(Answer<T>& answer, Observer<T>& observer, PassFacts& facts, bool wants_loss) {
    const Phase phase(observer, "assign and sum");
    const std::size_t d = shape_.d;
    sums_.assign(shape_.k * d, 0.0);
    totals_.assign(shape_.k, 0.0);
    for (std::size_t i = 0; i < shape_.n; ++i) {
      const T* x = &points_[i * d];
      std::size_t nearest = 0;
      T smallest = std::numeric_limits<T>::infinity();
      for (std::size_t j = 0; j < shape_.k; ++j) {
        const T distance = squared_distance(x, &answer.centroids[j * d], d);
        if (distance < smallest) {
          smallest = distance;
          nearest = j;
        }
      }
      const auto label = static_cast<std::int32_t>(nearest);
      facts.labels_changed |= std::exchange(answer.labels[i], label) != label;
      const double weight = weights_.empty() ? 1.0 : double{weights_[i]};
      facts.loss += wants_loss ? weight * std::sqrt(double{smallest}) : 0.0;
      totals_[nearest] += weight;
      for (std::size_t f = 0; f < d; ++f) {
        sums_[nearest * d + f] += weight * double{x[f]};
      }
    }
  }

  void update(Answer<T>& answer, Observer<T>& observer, PassFacts& facts) {
    const Phase phase(observer, "update");
    for (std::size_t c = 0; c < sums_.size(); ++c) {
      const T entered = answer.entering[c] = answer.centroids[c];
      if (const double total = totals_[c / shape_.d]; total > 0.0) { // an empty cluster stays
        const auto mean = static_cast<T>(sums_[c] / total);
        facts.squared_shift += std::pow(double{mean} - double{entered}, 2);
        answer.centroids[c] = mean;
      }
    }
  }

  Shape shape_;
  std::span<const T> points_;         // [n, d]
  std::span<const T> weights_;        // [n], or empty: all are 1
  std::vector<double> sums_, totals_; // [k, d] weighted points and [k] their weights
};

const Registration registration({.name = "kmeans_serial",
                                 .idea = "assign and sum each point in one sweep",
                                 .source = "Lloyd 1982",
                                 .takes_weights = true,
                                 .previous = "kmeans_serial_distances"},
                                both_precisions<KmeansSerial>());

} // namespace
} // namespace clusterbench
