// K-means as array expressions on replicated data: broadcasting for a library that has none.
//
// Idea: copy each feature into k equal columns, so that the squared distances of all points to all
//   centroids are a few whole-array expressions, as one would write them in NumPy.
// Changed since kmeans_serial_points: no loop over points or clusters in the distances, and any d.
//   Slower all the same: k copies of the data and the n x k distances go through memory, and the
//   arg-min walks along rows of a column-major array. The article found that too.
// Source: article 004, section on Eigen. Its bugs are not kept: there the counts start at one, so
//   that every mean is drawn to the origin, and an initial centroid is one random coefficient of
//   the data broadcast to x and y.
// Cost per iteration: 3 n k d sizeof(T) bytes or so; 3 n k d + n d flops.
// Limits: memory n k d values, refused above 4 GiB; one thread; sums in T.
#include "impls/contract.hpp"

#include <Eigen/Core>

#include <algorithm>

namespace clusterbench {
namespace {

constexpr double kLargestReplicaGiB = 4.0;

template <typename T>
using Array = Eigen::Array<T, Eigen::Dynamic, Eigen::Dynamic>; // column-major

template <typename T>
using RowMajor = Eigen::Array<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

template <typename T>
class KmeansEigenReplicated final : public Variant<T> {
public:
  std::string refuse(const Shape& shape) const override {
    const double bytes = double(shape.n) * double(shape.k) * double(shape.d) * sizeof(T);
    return bytes <= kLargestReplicaGiB * 0x1p30 ? "" : "its k copies of the data exceed 4 GiB";
  }

  void prepare(const Shape& shape, const Points<T>& points) override {
    stop_rule_ = shape.stop;
    n_ = static_cast<Eigen::Index>(shape.n);
    d_ = static_cast<Eigen::Index>(shape.d);
    k_ = static_cast<Eigen::Index>(shape.k);
    points_ = Eigen::Map<const RowMajor<T>>(points.rows.data(), n_, d_);
    replicas_.clear();
    for (Eigen::Index f = 0; f < d_; ++f) {
      replicas_.push_back(points_.col(f).rowwise().replicate(k_));
    }
    distances_.resize(n_, k_);
  }

  void run(const Start<T>& start, Answer<T>& answer, Observer<T>& observer) override {
    centroids_ = Eigen::Map<const RowMajor<T>>(start.centroids.data(), k_, d_);
    StopTest stop(stop_rule_);
    PassFacts facts;
    do {
      facts = {.labels_changed = stop.passes() == 0};
      measure(observer);
      assign_and_update(answer, observer, facts, stop.wants_loss());
      observer.pass(answer.centroids);
    } while (!stop.after_pass(facts));
    answer.iterations = stop.passes();
  }

private:
  /// All squared distances, one feature after another.
  void measure(Observer<T>& observer) {
    const Phase phase(observer, "distances");
    distances_.setZero();
    for (Eigen::Index f = 0; f < d_; ++f) {
      const auto& replica = replicas_[static_cast<std::size_t>(f)];
      distances_ += (replica.rowwise() - centroids_.col(f).transpose()).square();
    }
  }

  /// Eigen has no arg-min of every row at once, hence a loop, which also sums and counts.
  void assign_and_update(Answer<T>& answer, Observer<T>& observer, PassFacts& facts,
                         bool wants_loss) {
    const Phase phase(observer, "update");
    RowMajor<T> sums = RowMajor<T>::Zero(k_, d_);
    Eigen::Array<T, Eigen::Dynamic, 1> counts = Eigen::Array<T, Eigen::Dynamic, 1>::Zero(k_);
    for (Eigen::Index i = 0; i < n_; ++i) {
      Eigen::Index nearest = 0; // minCoeff keeps the first of equal minima
      const T smallest = distances_.row(i).minCoeff(&nearest);
      const auto label = static_cast<std::int32_t>(nearest);
      facts.labels_changed |=
          std::exchange(answer.labels[static_cast<std::size_t>(i)], label) != label;
      facts.loss += wants_loss ? std::sqrt(double{smallest}) : 0.0;
      sums.row(nearest) += points_.row(i);
      counts(nearest) += 1;
    }
    const auto filled = (counts > T{0}).template cast<T>().replicate(1, d_).eval();
    // An empty cluster keeps its centroid; the division by max(count, 1) is then not used.
    const RowMajor<T> means = (filled > T{0}).select(sums.colwise() / counts.max(T{1}), centroids_);
    facts.squared_shift = (means - centroids_).template cast<double>().square().sum();
    std::copy_n(centroids_.data(), centroids_.size(), answer.entering.begin());
    std::copy_n(means.data(), means.size(), answer.centroids.begin());
    centroids_ = means;
  }

  StopRule stop_rule_;
  Eigen::Index n_ = 0, d_ = 0, k_ = 0;
  Array<T> points_;                // [n, d]
  std::vector<Array<T>> replicas_; // d times [n, k], all columns of a replica equal
  Array<T> distances_;             // [n, k], squared
  RowMajor<T> centroids_;          // [k, d]
};

const Registration registration({.name = "kmeans_eigen_replicated",
                                 .idea = "whole-array expressions on k copies of the data",
                                 .source = "article 004, section on Eigen",
                                 .previous = "kmeans_serial_points"},
                                both_precisions<KmeansEigenReplicated>());

} // namespace
} // namespace clusterbench
