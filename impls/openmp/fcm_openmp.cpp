// Fuzzy c-means on CPU threads, one sweep an iteration: a sample goes into the sums of the next
// centres as soon as its memberships are known.
//
// Changed since fcm_eigen: the samples are cut into one contiguous part per thread, with sums of
//   its own; the parts are added up in the order of their numbers, so a number of threads always
//   gives the same bits. A row of memberships is used while it is in registers or cache instead of
//   in arrays of a chunk. Measured with 2 threads beside fcm_eigen's one (article 001, a Xeon):
//   1.27 times as fast with 8 features in float, 1.39 with 500 in double, no difference told with
//   8 in double, and 1.40 times slower with 500 in float.
// Source: article 001, section 2; the privatised sums are article 003's atomics made orderly.
// Cost per iteration: (n d + n k) sizeof(T) bytes; 5 n k d flops.
// Limits: bits differ between numbers of threads. Started from memberships, the last iteration
//   sums centres that nobody asks for.
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

/// Memberships u [k] of sample x in the centres [k, d]: ratios to the smallest squared distance,
/// which neither overflow nor divide by zero. Returns the sample's term of the objective.
template <typename T>
double memberships_of(const T* x, const T* centres, std::size_t d, T m, std::span<T> distances,
                      T* u) {
  for (std::size_t j = 0; j < distances.size(); ++j) {
    distances[j] = squared_distance(x, &centres[j * d], d);
  }
  const T smallest = std::ranges::min(distances);
  T sum = 0;
  for (std::size_t j = 0; j < distances.size(); ++j) {
    u[j] = distances[j] == smallest ? T{1} : power(smallest / distances[j], T{1} / (m - T{1}));
    sum += u[j];
  }
  double objective = 0.0;
  for (std::size_t j = 0; j < distances.size(); ++j) {
    u[j] /= sum;
    objective += double{power(u[j], m) * distances[j]};
  }
  return objective;
}

/// What one thread finds in its part of the samples.
struct Part {
  std::size_t begin = 0;
  std::size_t end = 0;
  bool changed = false;
  double loss = 0.0;
  std::vector<double> sums;    // [k, d] of u^m x
  std::vector<double> weights; // [k] of u^m
};

template <typename T>
class FcmOpenmp final : public Variant<T> {
public:
  std::string refuse(const Shape& shape) const override {
    return shape.fuzzifier > 1.0 ? "" : "the fuzzifier must be greater than 1";
  }

  void prepare(const Shape& shape, const Points<T>& points) override {
    shape_ = shape;
    points_ = points.rows;
    const auto threads = static_cast<std::size_t>(std::max(shape.threads, 1));
    parts_.assign(threads, {});
    for (std::size_t p = 0; p < threads; ++p) {
      parts_[p].begin = shape.n * p / threads;
      parts_[p].end = shape.n * (p + 1) / threads;
    }
  }

  void run(const Start<T>& start, Answer<T>& answer, Observer<T>& observer) override {
    const bool starts_from_centres = !shape_.starts_from_memberships;
    if (starts_from_centres) {
      std::ranges::copy(start.centroids, answer.centroids.begin());
    } else {
      std::ranges::fill(answer.centroids, T{0}); // of a cluster without any membership
      sweep(start.memberships.data(), answer, observer);
    }
    StopTest stop(shape_.stop);
    PassFacts facts;
    do {
      const bool first = stop.passes() == 0;
      if (starts_from_centres) {
        facts = sweep(nullptr, answer, observer);
        facts.squared_shift = update_centres(answer, observer);
      } else {
        // There were no centres before the first pass, so none can have come to rest in it.
        const double shift = update_centres(answer, observer);
        facts = sweep(nullptr, answer, observer);
        facts.squared_shift = first ? std::numeric_limits<double>::infinity() : shift;
      }
      facts.labels_changed |= first;
      observer.pass(answer.centroids);
    } while (!stop.after_pass(facts));
    answer.iterations = stop.passes();
  }

private:
  /// Memberships of all samples, unless they are given [n, k], and the sums that make the next
  /// centres.
  PassFacts sweep(const T* given, Answer<T>& answer, Observer<T>& observer) {
    const Phase phase(observer, "memberships and sums");
    const auto threads = static_cast<int>(parts_.size());
    // A loop over parts, not over threads: should the runtime grant fewer threads than asked for,
    // the parts and hence the bits stay the same.
#pragma omp parallel for num_threads(threads) schedule(static, 1)
    for (int p = 0; p < threads; ++p) {
      sweep(given, answer, parts_[static_cast<std::size_t>(p)]);
    }
    PassFacts facts{.labels_changed = false};
    for (const Part& part : parts_) {
      facts.labels_changed |= part.changed;
      facts.loss += part.loss;
    }
    return facts;
  }

  void sweep(const T* given, Answer<T>& answer, Part& part) const {
    const auto [d, k] = std::pair(shape_.d, shape_.k);
    const auto m = static_cast<T>(shape_.fuzzifier);
    part.sums.assign(k * d, 0.0);
    part.weights.assign(k, 0.0);
    std::vector<T> distances(k);
    const T* centres = answer.centroids.data();
    const T* memberships = given != nullptr ? given : answer.memberships.data();
    // Plain locals: what neighbouring threads write per sample must not share a cache line.
    bool changed = false;
    double loss = 0.0;
    for (std::size_t i = part.begin; i < part.end; ++i) {
      const T* x = &points_[i * d];
      const T* u = &memberships[i * k];
      if (given == nullptr) {
        loss += memberships_of<T>(x, centres, d, m, distances, &answer.memberships[i * k]);
        const auto label = static_cast<std::int32_t>(std::max_element(u, u + k) - u);
        changed |= std::exchange(answer.labels[i], label) != label;
      }
      for (std::size_t j = 0; j < k; ++j) {
        const double weight{power(u[j], m)};
        part.weights[j] += weight;
        double* sum = &part.sums[j * d];
        for (std::size_t f = 0; f < d; ++f) {
          sum[f] += weight * double{x[f]};
        }
      }
    }
    part.changed = changed;
    part.loss = loss;
  }

  /// Moves every centre to its weighted mean, the parts added up in the order of their numbers;
  /// that of an empty cluster stays. Returns the summed squared shift.
  double update_centres(Answer<T>& answer, Observer<T>& observer) const {
    const Phase phase(observer, "centres");
    double squared_shift = 0.0;
    for (std::size_t c = 0; c < answer.centroids.size(); ++c) {
      double sum = 0.0;
      double weight = 0.0;
      for (const Part& part : parts_) {
        sum += part.sums[c];
        weight += part.weights[c / shape_.d];
      }
      const T entered = answer.entering[c] = answer.centroids[c];
      if (weight > 0.0) {
        const auto centre = static_cast<T>(sum / weight);
        squared_shift += std::pow(double{centre} - double{entered}, 2);
        answer.centroids[c] = centre;
      }
    }
    return squared_shift;
  }

  Shape shape_;
  std::span<const T> points_; // [n, d]
  std::vector<Part> parts_;   // [threads]
};

const Registration registration({.name = "fcm_openmp",
                                 .idea = "one sweep, private sums per thread, fixed order",
                                 .source = "article 001, section 2, on CPU threads",
                                 .family = Family::fcm,
                                 .previous = "fcm_eigen"},
                                both_precisions<FcmOpenmp>());

} // namespace
} // namespace clusterbench
