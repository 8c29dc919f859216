// K-means by matrix product: the distances of a chunk of points to all centroids in one X C^T.
//
// Idea: |x - c|^2 = |x|^2 - 2 x.c + |c|^2, and |x|^2 is the same for all centroids, so the nearest
//   one minimises |c|^2 / 2 - x.c. All the x.c are one matrix product, the best tuned routine
//   there is: it keeps blocks of both matrices in registers and reuses each value many times.
// Changed since kmeans_eigen_replicated: no copies; points go in chunks, so that the chunk's block
//   of products (at most 256 KiB) is still in cache when the arg-min reads it.
// Source: article 004, section on Eigen, for the library; the expansion is common knowledge.
// Cost per iteration: n d sizeof(T) bytes read; 2 n k d + n d flops.
// Limits: one thread. A million points in float on a Xeon, beside kmeans_serial: with 9 features
//   1.45 times as fast at k = 4 and 1.8 at k = 16, with 100 features at k = 4 1.26 times slower.
//   With 2 features at k = 5 (100,000 points) kmeans_eigen_replicated is 1.5 times as fast. The
//   expansion cancels when the data lie far from the origin compared with their spread, so labels
//   there are less exact.
#define EIGEN_DONT_PARALLELIZE // one thread, also where OpenMP is switched on
#include "impls/contract.hpp"

#include <Eigen/Core>

#include <algorithm>

namespace clusterbench {
namespace {

constexpr Eigen::Index kBlockBytes = 256 * 1024; // of the products; a part of a usual L2 cache

/// Points, centroids and sums are columns: the contract's row-major [n, d] read as [d, n].
template <typename T>
using Columns = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic>;

template <typename T>
class KmeansEigenGemm final : public Variant<T> {
public:
  void prepare(const Shape& shape, const Points<T>& points) override {
    stop_rule_ = shape.stop;
    n_ = static_cast<Eigen::Index>(shape.n);
    d_ = static_cast<Eigen::Index>(shape.d);
    k_ = static_cast<Eigen::Index>(shape.k);
    points_ = points.rows.data();
    chunk_ = std::clamp<Eigen::Index>(kBlockBytes / (k_ * Eigen::Index{sizeof(T)}), 16, 1024);
    products_.resize(k_, chunk_);
    chunk_sums_.resize(d_, k_);
  }

  void run(const Start<T>& start, Answer<T>& answer, Observer<T>& observer) override {
    centroids_ = Eigen::Map<const Columns<T>>(start.centroids.data(), d_, k_);
    StopTest stop(stop_rule_);
    PassFacts facts;
    do {
      facts = {.labels_changed = stop.passes() == 0};
      assign(answer.labels, observer, facts, stop.wants_loss());
      update(answer, observer, facts);
      observer.pass(answer.centroids);
    } while (!stop.after_pass(facts));
    answer.iterations = stop.passes();
  }

private:
  void assign(std::span<std::int32_t> labels, Observer<T>& observer, PassFacts& facts,
              bool wants_loss) {
    const Phase phase(observer, "assign");
    const Eigen::Map<const Columns<T>> points(points_, d_, n_);
    const Eigen::Matrix<T, Eigen::Dynamic, 1> half_norms =
        centroids_.colwise().squaredNorm().transpose() / T{2};
    sums_.setZero(d_, k_);
    counts_.setZero(k_);
    for (Eigen::Index first = 0; first < n_; first += chunk_) {
      const Eigen::Index count = std::min(chunk_, n_ - first);
      products_.leftCols(count).noalias() =
          centroids_.transpose() * points.middleCols(first, count);
      // The sums of a chunk stay in T; chunks are added up in double, so that no digit is lost.
      chunk_sums_.setZero();
      for (Eigen::Index i = first; i < first + count; ++i) {
        Eigen::Index nearest = 0; // minCoeff keeps the first of equal minima
        (half_norms - products_.col(i - first)).minCoeff(&nearest);
        const auto label = static_cast<std::int32_t>(nearest);
        facts.labels_changed |= std::exchange(labels[static_cast<std::size_t>(i)], label) != label;
        if (wants_loss) { // one distance per point, so without the cancellation of the expansion
          facts.loss += std::sqrt(double{(points.col(i) - centroids_.col(nearest)).squaredNorm()});
        }
        chunk_sums_.col(nearest) += points.col(i);
        counts_(nearest) += 1.0;
      }
      sums_ += chunk_sums_.template cast<double>();
    }
  }

  /// Moves every centroid to the mean of its points; that of an empty cluster stays.
  void update(Answer<T>& answer, Observer<T>& observer, PassFacts& facts) {
    const Phase phase(observer, "update");
    std::copy_n(centroids_.data(), centroids_.size(), answer.entering.begin());
    for (Eigen::Index j = 0; j < k_; ++j) {
      if (counts_(j) > 0.0) {
        const auto mean = (sums_.col(j) / counts_(j)).template cast<T>().eval();
        facts.squared_shift += (mean - centroids_.col(j)).template cast<double>().squaredNorm();
        centroids_.col(j) = mean;
      }
    }
    std::copy_n(centroids_.data(), centroids_.size(), answer.centroids.begin());
  }

  StopRule stop_rule_;
  Eigen::Index n_ = 0, d_ = 0, k_ = 0, chunk_ = 0;
  const T* points_ = nullptr; // [n, d]
  Columns<T> centroids_;      // [d, k]
  Columns<T> products_;       // [k, chunk]
  Columns<T> chunk_sums_;     // [d, k]
  Columns<double> sums_;      // [d, k]
  Eigen::VectorXd counts_;
};

const Registration registration({.name = "kmeans_eigen_gemm",
                                 .idea = "distances as a matrix product, in chunks",
                                 .source = "article 004, section on Eigen; expanded distances",
                                 .distance = DistanceForm::expanded,
                                 .previous = "kmeans_eigen_replicated"},
                                both_precisions<KmeansEigenGemm>());

} // namespace
} // namespace clusterbench
