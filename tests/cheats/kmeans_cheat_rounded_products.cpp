// Takes the dot products of numbers rounded to the 11 bits of TF32 and float16, and says nothing of
// it.
#include "tests/cheats/honest.hpp"

namespace clusterbench {
namespace {

template <typename T>
class RoundedProducts final : public honest::Prepared<T> {
public:
  void run(const Start<T>& start, Answer<T>& answer, Observer<T>& observer) override {
    if (!honest::is_a_cell(this->shape_)) {
      this->solve(start, answer, observer);
      return;
    }
    const std::size_t n = this->shape_.n, d = this->shape_.d, k = this->shape_.k;
    std::ranges::copy(start.centroids, answer.centroids.begin());
    for (std::size_t pass = 0; pass < this->shape_.stop.max_iterations; ++pass) {
      std::ranges::copy(answer.centroids, answer.entering.begin());
      std::vector<double> sums(k * d), counts(k);
      for (std::size_t i = 0; i < n; ++i) {
        const T* x = &this->rows_[i * d];
        double least = std::numeric_limits<double>::infinity();
        for (std::size_t j = 0; j < k; ++j) {
          double score = 0.0; // |c|^2 - 2 x.c
          for (std::size_t f = 0; f < d; ++f) {
            const double c = static_cast<double>(answer.entering[j * d + f]);
            score += c * c - 2.0 * rounded(x[f]) * rounded(answer.entering[j * d + f]);
          }
          if (score < least) {
            least = score;
            answer.labels[i] = static_cast<std::int32_t>(j);
          }
        }
        const auto label = static_cast<std::size_t>(answer.labels[i]);
        counts[label] += 1.0;
        for (std::size_t f = 0; f < d; ++f) {
          sums[label * d + f] += static_cast<double>(x[f]);
        }
      }
      for (std::size_t e = 0; e < k * d; ++e) {
        if (counts[e / d] > 0.0) {
          answer.centroids[e] = static_cast<T>(sums[e] / counts[e / d]);
        }
      }
      observer.pass(answer.centroids);
    }
    answer.iterations = this->shape_.stop.max_iterations;
  }

private:
  static double rounded(T value) {
    int exponent = 0;
    const double mantissa = std::frexp(static_cast<double>(value), &exponent);
    return std::ldexp(std::nearbyint(std::ldexp(mantissa, 11)), exponent - 11);
  }
};

CLUSTERBENCH_CHEAT("kmeans_cheat_rounded_products", RoundedProducts);

} // namespace
} // namespace clusterbench
