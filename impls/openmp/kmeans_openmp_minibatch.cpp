// Mini-batch k-means: centroids move after every 1024 rows, not after all of them.
//
// Changed since kmeans_openmp: a pass draws ceil(n / 1024) batches of 1024 rows. Each batch is
//   labelled with the centroids of that moment. Then a centroid becomes the mean of all rows that
//   it was given since the start of the run, so that its steps get shorter and shorter. The last
//   pass is one of Lloyd's over all rows: labels have to be made anyway, and their means come with
//   them. Fewer passes are needed to be near the end, and the end is often another, worse one.
// Source: Sculley, Web-scale k-means clustering, 2010; scikit-learn's MiniBatchKMeans, whose batch,
//   iteration and weights these are (without its re-seeding of clusters that get few rows).
// Cost per iteration: n d sizeof(T) bytes, read at random; 3 n k d + n d flops.
// Limits: a fixed number of iterations; up to 1024 rows are one batch, and every pass is Lloyd's;
//   bits differ between numbers of threads.
#include "impls/openmp/support/distances.hpp"

#include "impls/contract.hpp"

#include <algorithm>
#include <random>
#include <ranges>

namespace clusterbench {
namespace {

constexpr std::size_t kBatch = 1024; // scikit-learn's default

/// What one thread finds in its part of a batch.
template <typename T>
struct Part {
  std::vector<double> sums;   // [k, d]
  std::vector<double> counts; // [k]
  std::vector<T> squared;     // [k, rounded up], of one row
};

template <typename T>
class KmeansOpenmpMinibatch final : public Variant<T> {
public:
  std::string refuse(const Shape& shape) const override {
    return shape.stop.kind == StopRule::Kind::iterations
               ? ""
               : "it stops after a fixed number of iterations only: a batch tells neither the loss "
                 "nor the labels of the other rows";
  }

  void prepare(const Shape& shape, const Points<T>& points) override {
    shape_ = shape;
    points_ = points.rows;
    distances_ = openmp::Distances<T>(shape.d, shape.k);
    parts_.assign(static_cast<std::size_t>(std::max(shape.threads, 1)), {});
    batch_.resize(kBatch);
  }

  void run(const Start<T>& start, Answer<T>& answer, Observer<T>& observer) override {
    std::ranges::copy(start.centroids, answer.centroids.begin());
    weights_.assign(shape_.k, 0.0);
    std::mt19937_64 random; // the same rows in every run
    StopTest stop(shape_.stop);
    do {
      std::ranges::copy(answer.centroids, answer.entering.begin());
      const bool last = stop.passes() + 1 == shape_.stop.max_iterations;
      if (last || shape_.n <= kBatch) {
        weights_.assign(shape_.k, 0.0); // means of these labels alone
        step(std::views::iota(std::size_t{0}, shape_.n), answer, observer);
      } else {
        for (std::size_t drawn = 0; drawn < shape_.n; drawn += kBatch) {
          // Not by a distribution of the standard library, which differs from one to another.
          std::ranges::generate(batch_, [&] { return random() % shape_.n; });
          step(batch_, answer, observer);
        }
      }
      observer.pass(answer.centroids);
    } while (!stop.after_pass({}));
    answer.iterations = stop.passes();
  }

private:
  /// Labels these rows, and moves the centroids to the means of all that they were given.
  void step(const auto& rows, Answer<T>& answer, Observer<T>& observer) {
    const auto threads = static_cast<int>(parts_.size());
    distances_.set(answer.centroids);
    {
      const Phase phase(observer, "assign and sum");
      // Over parts, not over threads: the bits stay if the runtime grants fewer of these.
#pragma omp parallel for num_threads(threads) schedule(static, 1)
      for (int p = 0; p < threads; ++p) {
        assign(rows, answer.labels, static_cast<std::size_t>(p));
      }
    }
    const Phase phase(observer, "update");
    for (std::size_t j = 0; j < shape_.k; ++j) {
      update(j, &answer.centroids[j * shape_.d]);
    }
  }

  /// Labels and sums the rows of part p. Labels of a batch are overwritten by the last pass.
  void assign(const auto& rows, std::span<std::int32_t> labels, std::size_t p) {
    const auto [d, k] = std::pair(shape_.d, shape_.k);
    Part<T>& part = parts_[p];
    part.sums.assign(k * d, 0.0);
    part.counts.assign(k, 0.0);
    part.squared.resize(distances_.room());
    const std::size_t end = std::size(rows) * (p + 1) / parts_.size();
    for (std::size_t r = std::size(rows) * p / parts_.size(); r < end; ++r) {
      const std::size_t i = rows[r];
      const T* x = &points_[i * d];
      distances_.all(x, part.squared.data());
      const auto smallest = std::ranges::min_element(part.squared);
      const auto nearest = static_cast<std::size_t>(smallest - part.squared.begin());
      labels[i] = static_cast<std::int32_t>(nearest);
      part.counts[nearest] += 1.0;
      double* sum = &part.sums[nearest * d];
      for (std::size_t f = 0; f < d; ++f) {
        sum[f] += double{x[f]};
      }
    }
  }

  /// The mean of the rows that cluster j was given before and of those of this batch: a step
  /// towards their mean by count / weight. Without any the centroid stays.
  void update(std::size_t j, T* centroid) {
    const double before = weights_[j];
    for (const Part<T>& part : parts_) {
      weights_[j] += part.counts[j];
    }
    if (weights_[j] > before) {
      for (std::size_t f = 0; f < shape_.d; ++f) {
        double sum = before * double{centroid[f]};
        for (const Part<T>& part : parts_) {
          sum += part.sums[j * shape_.d + f];
        }
        centroid[f] = static_cast<T>(sum / weights_[j]);
      }
    }
  }

  Shape shape_;
  std::span<const T> points_; // [n, d]
  openmp::Distances<T> distances_;
  std::vector<Part<T>> parts_;     // [threads]
  std::vector<double> weights_;    // [k], rows that each cluster was given so far
  std::vector<std::size_t> batch_; // [kBatch], drawn with replacement
};

const Registration registration({.name = "kmeans_openmp_minibatch",
                                 .idea = "centroids move after every 1024 drawn rows",
                                 .source = "Sculley 2010; scikit-learn's MiniBatchKMeans",
                                 // Another minimum: docs/ladder/mini_batch.md.
                                 .approximate_within = 1.0,
                                 .previous = "kmeans_openmp"},
                                both_precisions<KmeansOpenmpMinibatch>());

} // namespace
} // namespace clusterbench
