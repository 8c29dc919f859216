// Fuzzy c-means, straight from its formulas: memberships from centres, centres from memberships.
//
// Idea: u_ij = 1 / sum_k (d_ij / d_ik)^(2 / (m - 1)),  v_j = sum_i u_ij^m x_i / sum_i u_ij^m, and
//   the objective J = sum_ij u_ij^m d_ij^2 of the memberships with the centres they came from.
// Here every squared distance is divided into the smallest of its row: these weights lie in [0, 1],
//   their sum in [1, k], so nothing overflows, the pairs (j, k) need one power each and not k, and
//   a sample on a centre needs no case of its own (it is shared by the centres that it lies on).
// Source: article 001, section 2 (there on a GPU; its kernel pairs J with the memberships of the
//   pass before). Starts from memberships as there, or from centres.
// Cost per iteration: 2 (n d + n k) sizeof(T) bytes; 5 n k d flops.
// Limits: one thread. Sums are double, or a million floats added up would lose their last digits.
#include "impls/contract.hpp"

#include <algorithm>

namespace clusterbench {
namespace {

template <typename T>
T squared_distance(const T* x, const T* v, std::size_t d) {
  T sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::size_t f = 0; f < d; ++f) {
    sum += (x[f] - v[f]) * (x[f] - v[f]);
  }
  return sum;
}

/// x^exponent; the usual exponents 1 and 2 (m = 2) do not pay for std::pow.
template <typename T>
T power(T x, T exponent) {
  return exponent == T{1} ? x : exponent == T{2} ? x * x : std::pow(x, exponent);
}

template <typename T>
class FcmSerial final : public Variant<T> {
public:
  std::string refuse(const Shape& shape) const override {
    return shape.fuzzifier > 1.0 ? "" : "the fuzzifier must be greater than 1";
  }

  void prepare(const Shape& shape, const Points<T>& points) override {
    shape_ = shape;
    points_ = points.rows;
    row_.resize(shape.k);
  }

  void run(const Start<T>& start, Answer<T>& answer, Observer<T>& observer) override {
    if (shape_.starts_from_memberships) {
      std::ranges::fill(answer.centroids, T{0}); // of a cluster without any membership
    } else {
      std::ranges::copy(start.centroids, answer.centroids.begin());
    }
    StopTest stop(shape_.stop);
    PassFacts facts;
    do {
      const bool first = stop.passes() == 0;
      facts = {.labels_changed = first};
      if (shape_.starts_from_memberships) {
        update_centres(first ? start.memberships : answer.memberships, answer, observer, facts);
        update_memberships(answer, observer, facts);
        if (first) { // there were no centres before, so none has come to rest
          facts.squared_shift = std::numeric_limits<double>::infinity();
        }
      } else {
        update_memberships(answer, observer, facts);
        update_centres(answer.memberships, answer, observer, facts);
      }
      observer.pass(answer.centroids);
    } while (!stop.after_pass(facts));
    answer.iterations = stop.passes();
  }

private:
  void update_memberships(Answer<T>& answer, Observer<T>& observer, PassFacts& facts) {
    const Phase phase(observer, "memberships");
    const auto m = static_cast<T>(shape_.fuzzifier);
    const T exponent = T{1} / (m - T{1});
    for (std::size_t i = 0; i < shape_.n; ++i) {
      const T* x = &points_[i * shape_.d];
      for (std::size_t j = 0; j < shape_.k; ++j) {
        row_[j] = squared_distance(x, &answer.centroids[j * shape_.d], shape_.d);
      }
      const T smallest = std::ranges::min(row_);
      T* u = &answer.memberships[i * shape_.k];
      T sum = 0;
      for (std::size_t j = 0; j < shape_.k; ++j) {
        u[j] = row_[j] == smallest ? T{1} : power(smallest / row_[j], exponent);
        sum += u[j];
      }
      for (std::size_t j = 0; j < shape_.k; ++j) {
        u[j] /= sum;
        facts.loss += double{power(u[j], m) * row_[j]};
      }
      const auto label = static_cast<std::int32_t>(std::max_element(u, u + shape_.k) - u);
      facts.labels_changed |= std::exchange(answer.labels[i], label) != label;
    }
  }

  void update_centres(std::span<const T> memberships, Answer<T>& answer, Observer<T>& observer,
                      PassFacts& facts) {
    const Phase phase(observer, "centres");
    const std::size_t d = shape_.d;
    const auto m = static_cast<T>(shape_.fuzzifier);
    sums_.assign(shape_.k * d, 0.0);
    weights_.assign(shape_.k, 0.0);
    for (std::size_t i = 0; i < shape_.n; ++i) {
      const T* x = &points_[i * d];
      for (std::size_t j = 0; j < shape_.k; ++j) {
        const double weight{power(memberships[i * shape_.k + j], m)};
        weights_[j] += weight;
        for (std::size_t f = 0; f < d; ++f) {
          sums_[j * d + f] += weight * double{x[f]};
        }
      }
    }
    for (std::size_t c = 0; c < sums_.size(); ++c) {
      const T entered = answer.entering[c] = answer.centroids[c];
      if (const double weight = weights_[c / d]; weight > 0.0) { // an empty cluster stays
        const auto centre = static_cast<T>(sums_[c] / weight);
        facts.squared_shift += std::pow(double{centre} - double{entered}, 2);
        answer.centroids[c] = centre;
      }
    }
  }

  Shape shape_;
  std::span<const T> points_;          // [n, d]
  std::vector<T> row_;                 // [k] squared distances of one sample
  std::vector<double> sums_, weights_; // [k, d] and [k]
};

const Registration registration({.name = "fcm_serial",
                                 .idea = "the formulas as they stand, one thread",
                                 .source = "article 001, section 2",
                                 .family = Family::fcm,
                                 .previous = ""},
                                both_precisions<FcmSerial>());

} // namespace
} // namespace clusterbench
