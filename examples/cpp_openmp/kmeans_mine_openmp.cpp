// K-means with OpenMP, as a project outside clusterbench would have it: this file and the contract.
#include <clusterbench/contract.hpp>

#include <algorithm>
#include <vector>

namespace {

using namespace clusterbench;

template <typename T>
class KmeansMineOpenmp final : public Variant<T> {
public:
  std::string refuse(const Shape& shape) const override {
    return shape.stop.kind == StopRule::Kind::iterations ? "" : "a fixed number of passes only";
  }

  void prepare(const Shape& shape, const Points<T>& points) override {
    shape_ = shape;
    rows_ = points.rows;
  }

  void run(const Start<T>& start, Answer<T>& answer, Observer<T>& observer) override {
    std::ranges::copy(start.centroids, answer.centroids.begin());
    for (std::size_t pass = 0; pass < shape_.stop.max_iterations; ++pass) {
      std::ranges::copy(answer.centroids, answer.entering.begin());
      one_pass(answer, observer);
      observer.pass(answer.centroids);
    }
    answer.iterations = shape_.stop.max_iterations;
  }

private:
  // Sums are double: a million floats summed in float lose their last digits.
  void one_pass(Answer<T>& answer, Observer<T>& observer) const {
    const std::size_t d = shape_.d, k = shape_.k;
    std::vector<double> sums(k * d), counts(k);
    double* const sum = sums.data();
    double* const count = counts.data();
    {
      const Phase<T> phase(observer, "assign and sum");
#pragma omp parallel for num_threads(shape_.threads) schedule(static)                              \
    reduction(+ : sum[ : k * d], count[ : k])
      for (std::size_t i = 0; i < shape_.n; ++i) {
        const T* const x = &rows_[i * d];
        const std::size_t best = nearest(x, answer.entering);
        answer.labels[i] = static_cast<std::int32_t>(best);
        count[best] += 1.0;
        for (std::size_t f = 0; f < d; ++f) {
          sum[best * d + f] += static_cast<double>(x[f]);
        }
      }
    }
    const Phase<T> phase(observer, "update");
    for (std::size_t e = 0; e < k * d; ++e) {
      if (count[e / d] > 0.0) { // an empty cluster keeps its centroid
        answer.centroids[e] = static_cast<T>(sum[e] / count[e / d]);
      }
    }
  }

  // Ties go to the lowest index.
  std::size_t nearest(const T* x, std::span<const T> centroids) const {
    const std::size_t d = shape_.d;
    std::size_t best = 0;
    T least = std::numeric_limits<T>::infinity();
    for (std::size_t j = 0; j < shape_.k; ++j) {
      T squared = 0;
#pragma omp simd reduction(+ : squared)
      for (std::size_t f = 0; f < d; ++f) {
        const T difference = x[f] - centroids[j * d + f];
        squared += difference * difference;
      }
      if (squared < least) {
        least = squared;
        best = j;
      }
    }
    return best;
  }

  Shape shape_;
  std::span<const T> rows_;
};

const Registration kRegistration({.name = "kmeans_mine_openmp",
                                  .idea = "a sum for each thread, added by OpenMP's reduction",
                                  .source = "Lloyd 1982",
                                  .deterministic = false},
                                 both_precisions<KmeansMineOpenmp>());

} // namespace
