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
  std::string refuse(const Problem<T>& problem) const override {
    return problem.fuzzifier > 1.0 ? "" : "the fuzzifier must be greater than 1";
  }

  void prepare(const Problem<T>& problem) override {
    problem_ = problem;
    n_ = static_cast<Eigen::Index>(problem.n);
    d_ = static_cast<Eigen::Index>(problem.d);
    k_ = static_cast<Eigen::Index>(problem.k);
    m_ = static_cast<T>(problem.fuzzifier);
    chunk_ = std::clamp<Eigen::Index>(kChunkBytes / (d_ * Eigen::Index{sizeof(T)}), 16, 1024);
  }

  void run(Observer<T>& observer) override {
    const bool starts_from_centres = problem_.memberships.empty();
    labels_.assign(problem_.n, -1);
    if (starts_from_centres) {
      centres_ = Eigen::Map<const Columns<T>>(problem_.centroids.data(), d_, k_);
      memberships_.resize(k_, n_);
    } else {
      centres_.setZero(d_, k_);
      memberships_ = Eigen::Map<const Array<T>>(problem_.memberships.data(), k_, n_);
      sweep(observer, false);
    }
    StopTest stop(problem_.stop);
    PassFacts facts;
    do {
      if (starts_from_centres) {
        facts = sweep(observer, true);
        facts.squared_shift = update_centres(observer);
      } else {
        // There were no centres before the first pass, so none can have come to rest in it.
        const double shift = update_centres(observer);
        facts = sweep(observer, true);
        facts.squared_shift = stop.passes() > 0 ? shift : std::numeric_limits<double>::infinity();
      }
      observer.pass({centres_.data(), problem_.k * problem_.d});
    } while (!stop.after_pass(facts));
    iterations_ = stop.passes();
  }

  void fetch(Result<T>& result) override {
    std::ranges::copy(labels_, result.labels.begin());
    std::copy_n(centres_.data(), centres_.size(), result.centroids.begin());
    std::copy_n(memberships_.data(), memberships_.size(), result.memberships.begin());
    result.iterations = iterations_;
  }

private:
  /// Memberships of all samples (or those at hand), and the sums that make the next centres.
  PassFacts sweep(Observer<T>& observer, bool renew_memberships) {
    const Phase phase(observer, "memberships and sums");
    const Eigen::Map<const Columns<T>> samples(problem_.points.data(), d_, n_);
    PassFacts facts{.labels_changed = false};
    sums_.setZero(d_, k_);
    weights_.setZero(k_);
    for (Eigen::Index first = 0; first < n_; first += chunk_) {
      const Eigen::Index count = std::min(chunk_, n_ - first);
      const auto chunk = samples.middleCols(first, count);
      auto u = memberships_.middleCols(first, count);
      if (renew_memberships) {
        measure(chunk);
        const auto smallest = distances_.colwise().minCoeff().replicate(k_, 1).eval();
        // The select gives 1, not 0 / 0, where a sample lies on a centre.
        ratios_ = (distances_ == smallest).select(T{1}, smallest / distances_);
        if (m_ != T{2}) {
          ratios_ = ratios_.pow(T{1} / (m_ - T{1})).eval();
        }
        u = ratios_.rowwise() / ratios_.colwise().sum();
      }
      powers_ = m_ == T{2} ? u.square().eval() : u.pow(m_).eval();
      sums_ += (chunk * powers_.matrix().transpose()).template cast<double>();
      weights_ += powers_.rowwise().sum().template cast<double>();
      if (renew_memberships) {
        facts.loss += (powers_ * distances_).template cast<double>().sum();
        facts.labels_changed |= label(first, count);
      }
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

  /// Labels of a chunk: the first of the largest memberships. Returns whether any changed.
  bool label(Eigen::Index first, Eigen::Index count) {
    bool changed = false;
    for (Eigen::Index i = first; i < first + count; ++i) {
      Eigen::Index largest = 0;
      memberships_.col(i).maxCoeff(&largest);
      const auto label = static_cast<std::int32_t>(largest);
      changed |= std::exchange(labels_[static_cast<std::size_t>(i)], label) != label;
    }
    return changed;
  }

  /// Moves every centre to its weighted mean; that of an empty cluster stays. Returns the summed
  /// squared shift.
  double update_centres(Observer<T>& observer) {
    const Phase phase(observer, "centres");
    double squared_shift = 0.0;
    for (Eigen::Index j = 0; j < k_; ++j) {
      if (weights_(j) > 0.0) {
        const auto centre = (sums_.col(j) / weights_(j)).template cast<T>().eval();
        squared_shift += (centre - centres_.col(j)).template cast<double>().squaredNorm();
        centres_.col(j) = centre;
      }
    }
    return squared_shift;
  }

  Problem<T> problem_;
  Eigen::Index n_ = 0, d_ = 0, k_ = 0, chunk_ = 0;
  T m_ = 2;
  Columns<T> centres_;                              // [d, k]
  Array<T> memberships_;                            // [k, n]
  Array<T> distances_, ratios_, powers_;            // [k, chunk]
  Columns<double> sums_;                            // [d, k] of u^m x
  Eigen::Array<double, Eigen::Dynamic, 1> weights_; // [k] of u^m
  std::vector<std::int32_t> labels_;
  std::size_t iterations_ = 0;
};

const Registration registration({.name = "fcm_eigen",
                                 .idea = "array expressions and a matrix product per chunk",
                                 .source = "article 001, section 2, with Eigen",
                                 .family = Family::fcm,
                                 .previous = "fcm_serial"},
                                both_precisions<FcmEigen>());

} // namespace
} // namespace clusterbench
