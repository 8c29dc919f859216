// Fuzzy c-means in array expressions and matrix products, one chunk of samples after another.
//
// Changed since fcm_serial: memberships are whole-array expressions, and the weighted sums of the
//   samples are a matrix product X U^m, which keeps blocks of both in registers. Both happen while
//   a chunk of samples (at most 256 KiB) is in cache, so an iteration reads the data once, not
//   twice. Started from memberships, the sums for the next pass come from the sweep before.
// The distances stay differences: |x|^2 - 2 x.v + |v|^2 cannot tell a sample on a centre from one
//   close to it, and its membership hangs on exactly that.
// Source: article 001, section 2; Eigen as in article 004.
// Cost per iteration: (n d + n k) sizeof(T) bytes; 5 n k d flops.
// Limits: one thread. Sums of a chunk are in T, those of chunks in double.
#define EIGEN_DONT_PARALLELIZE // one thread, also where OpenMP is switched on
#include "impls/contract.hpp"

#include <Eigen/Core>

#include <algorithm>

namespace clusterbench {
namespace {

constexpr Eigen::Index kChunkBytes = 256 * 1024; // of samples; a part of a usual L2 cache

/// Samples, centres and memberships are columns: row-major [n, d] read as [d, n].
template <typename T>
using Columns = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic>;

template <typename T>
using Array = Eigen::Array<T, Eigen::Dynamic, Eigen::Dynamic>;

template <typename T>
class FcmEigen final : public Variant<T> {
public:
  std::string refuse(const Shape& shape) const override {
    return shape.fuzzifier > 1.0 ? "" : "the fuzzifier must be greater than 1";
  }

  void prepare(const Shape& shape, const Points<T>& points) override {
    shape_ = shape;
    samples_ = points.rows.data();
    n_ = static_cast<Eigen::Index>(shape.n);
    d_ = static_cast<Eigen::Index>(shape.d);
    k_ = static_cast<Eigen::Index>(shape.k);
    m_ = static_cast<T>(shape.fuzzifier);
    chunk_ = std::clamp<Eigen::Index>(kChunkBytes / (d_ * Eigen::Index{sizeof(T)}), 16, 1024);
  }

  void run(const Start<T>& start, Answer<T>& answer, Observer<T>& observer) override {
    const bool starts_from_centres = !shape_.starts_from_memberships;
    if (starts_from_centres) {
      centres_ = Eigen::Map<const Columns<T>>(start.centroids.data(), d_, k_);
    } else {
      centres_.setZero(d_, k_);
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
    const Eigen::Map<const Columns<T>> samples(samples_, d_, n_);
    PassFacts facts{.labels_changed = false};
    sums_.setZero(d_, k_);
    weights_.setZero(k_);
    for (Eigen::Index first = 0; first < n_; first += chunk_) {
      const Eigen::Index count = std::min(chunk_, n_ - first);
      const auto chunk = samples.middleCols(first, count);
      if (given != nullptr) {
        raise(Eigen::Map<const Array<T>>(given + first * k_, k_, count));
      } else {
        Eigen::Map<Array<T>> u(answer.memberships.data() + first * k_, k_, count);
        measure(chunk);
        const auto smallest = distances_.colwise().minCoeff().replicate(k_, 1).eval();
        // The select gives 1, not 0 / 0, where a sample lies on a centre.
        ratios_ = (distances_ == smallest).select(T{1}, smallest / distances_);
        if (m_ != T{2}) {
          ratios_ = ratios_.pow(T{1} / (m_ - T{1})).eval();
        }
        u = ratios_.rowwise() / ratios_.colwise().sum();
        raise(u);
        facts.loss += (powers_ * distances_).template cast<double>().sum();
        facts.labels_changed |= label(u, answer.labels.data() + first);
      }
      sums_ += (chunk * powers_.matrix().transpose()).template cast<double>();
      weights_ += powers_.rowwise().sum().template cast<double>();
    }
    return facts;
  }

  /// Squared distances [k, chunk], as differences.
  template <typename Chunk>
  void measure(const Chunk& chunk) {
    distances_.resize(k_, chunk.cols());
    for (Eigen::Index i = 0; i < chunk.cols(); ++i) {
      for (Eigen::Index j = 0; j < k_; ++j) {
        distances_(j, i) = (chunk.col(i) - centres_.col(j)).squaredNorm();
      }
    }
  }

  /// Powers u^m of the memberships of a chunk.
  template <typename Memberships>
  void raise(const Memberships& u) {
    powers_ = m_ == T{2} ? u.square().eval() : u.pow(m_).eval();
  }

  /// Labels of a chunk: the first of the largest memberships. Returns whether any changed.
  static bool label(const Eigen::Map<Array<T>>& u, std::int32_t* labels) {
    bool changed = false;
    for (Eigen::Index i = 0; i < u.cols(); ++i) {
      Eigen::Index largest = 0;
      u.col(i).maxCoeff(&largest);
      const auto label = static_cast<std::int32_t>(largest);
      changed |= std::exchange(labels[i], label) != label;
    }
    return changed;
  }

  /// Moves every centre to its weighted mean; that of an empty cluster stays. Returns the summed
  /// squared shift.
  double update_centres(Answer<T>& answer, Observer<T>& observer) {
    const Phase phase(observer, "centres");
    std::copy_n(centres_.data(), centres_.size(), answer.entering.begin());
    double squared_shift = 0.0;
    for (Eigen::Index j = 0; j < k_; ++j) {
      if (weights_(j) > 0.0) {
        const auto centre = (sums_.col(j) / weights_(j)).template cast<T>().eval();
        squared_shift += (centre - centres_.col(j)).template cast<double>().squaredNorm();
        centres_.col(j) = centre;
      }
    }
    std::copy_n(centres_.data(), centres_.size(), answer.centroids.begin());
    return squared_shift;
  }

  Shape shape_;
  const T* samples_ = nullptr; // [n, d]
  Eigen::Index n_ = 0, d_ = 0, k_ = 0, chunk_ = 0;
  T m_ = 2;
  Columns<T> centres_;                              // [d, k]
  Array<T> distances_, ratios_, powers_;            // [k, chunk]
  Columns<double> sums_;                            // [d, k] of u^m x
  Eigen::Array<double, Eigen::Dynamic, 1> weights_; // [k] of u^m
};

const Registration registration({.name = "fcm_eigen",
                                 .idea = "array expressions and a matrix product per chunk",
                                 .source = "article 001, section 2, with Eigen",
                                 .family = Family::fcm,
                                 .previous = "fcm_serial"},
                                both_precisions<FcmEigen>());

} // namespace
} // namespace clusterbench
