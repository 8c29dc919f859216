// K-means with a lower bound for every point and centroid: nearly no distance is evaluated twice.
//
// Changed since kmeans_openmp_hamerly: k lower bounds a point instead of one, and half the distance
//   between any two centroids. A centroid that has come near is evaluated alone, and the others
//   stay ruled out; of the three it evaluates the fewest distances. But reading k bounds costs
//   as much memory as reading k features: it is the fastest at d = 20 and 128 over 20 passes and
//   more, and loses to one bound a point at d = 2 and 9 and in the first passes (docs/studies.md).
// Source: Elkan, Using the triangle inequality to accelerate k-means, ICML 2003. A bound is not
//   rewritten whenever its centroid moves, but compared after subtracting the way that the centroid
//   has gone since. Rounding: support/slack.hpp; labels are those of a plain pass.
// Cost per iteration: 2 n sizeof(T) + 4 n bytes for all points, (k + d) sizeof(T) for each one
//   whose own bound meets half the distance to the next centroid; 3 d flops for each distance
//   evaluated, k (k + 1) / 2 of them for the centroids.
// Limits: n k bounds, at most 4 GiB of them; the rule `loss` asks for every point's distance.
#include "impls/contract.hpp"
#include "impls/openmp/support/bounded_lloyd.hpp"
#include "impls/openmp/support/slack.hpp"

#include <algorithm>

namespace clusterbench {
namespace {

constexpr std::size_t kMostBytes = std::size_t{4} << 30; // of lower bounds

template <typename T>
class KmeansOpenmpElkan final : public openmp::BoundedLloyd<T> {
  using Base = openmp::BoundedLloyd<T>;
  using Part = openmp::BoundedPart<T>;
  using Base::centroids_;
  using Base::labels_;
  using Base::points_;
  using Base::shape_;

public:
  std::string refuse(const Shape& shape) const override {
    if (shape.n > kMostBytes / sizeof(T) / shape.k) {
      return "a lower bound for every point and centroid would take more than 4 GiB";
    }
    return {};
  }

  void prepare(const Shape& shape, const Points<T>& points) override {
    Base::start(shape, points);
    upper_ = Base::bounds(1);
    lower_ = Base::bounds(shape.k);
    halves_.assign(shape.k * shape.k, std::numeric_limits<T>::infinity());
    separation_.resize(shape.k);
  }

private:
  std::uint64_t start_pass(bool first) override {
    if (first) {
      way_.assign(shape_.k, T{0});
      return 0;
    }
    return separate();
  }

  void centroids_moved() override {
    for (std::size_t j = 0; j < shape_.k; ++j) {
      way_[j] = centroids_.slack().plus(way_[j], centroids_.moved()[j]);
    }
  }

  /// Half of a lower bound of the distance between any two centroids, infinite on the diagonal, and
  /// the least of each row. Returns the number of distances.
  std::uint64_t separate() {
    const auto k = static_cast<std::ptrdiff_t>(shape_.k);
    const auto threads = static_cast<int>(Base::threads());
    const openmp::Distances<T>& distances = centroids_.distances();
#pragma omp parallel for num_threads(threads) schedule(static, 1)
    for (std::ptrdiff_t a = 0; a < k; ++a) { // rows of a triangle, dealt out in turn
      for (std::ptrdiff_t b = 0; b < a; ++b) {
        const T squared = distances.one(&centroids_.now()[static_cast<std::size_t>(a) * shape_.d],
                                        static_cast<std::size_t>(b));
        const T half = centroids_.slack().lower(squared) / 2;
        halves_[static_cast<std::size_t>(a * k + b)] = half;
        halves_[static_cast<std::size_t>(b * k + a)] = half;
      }
    }
    for (std::size_t j = 0; j < shape_.k; ++j) {
      const auto row = std::span(halves_).subspan(j * shape_.k, shape_.k);
      separation_[j] = *std::ranges::min_element(row);
    }
    return shape_.k * (shape_.k - 1) / 2;
  }

  void assign_first(Part& part) override {
    part.sums.clear();
    part.changed = true;
    part.evaluated = (part.end - part.begin) * shape_.k;
    double loss = 0.0;
    std::vector<T> squared(centroids_.distances().room());
    for (std::size_t i = part.begin; i < part.end; ++i) {
      const T* x = &points_[i * shape_.d];
      centroids_.distances().all(x, squared.data());
      const auto all = std::span(squared).first(shape_.k);
      const auto nearest = static_cast<std::size_t>(std::ranges::min_element(all) - all.begin());
      labels_[i] = static_cast<std::int32_t>(nearest);
      upper_[i] = centroids_.slack().upper(squared[nearest]);
      std::ranges::transform(all, &lower_[i * shape_.k],
                             [&](T value) { return centroids_.slack().lower(value); });
      part.sums.join(nearest, x);
      loss += std::sqrt(double{squared[nearest]});
    }
    part.loss = loss;
  }

  /// The first of the centroids from..k-1 that neither its lower bound nor its distance to the
  /// centroid `label` rules out; k if there is none.
  std::size_t next_candidate(std::size_t i, std::size_t label, T must_exceed,
                             std::size_t from) const {
    const std::size_t k = shape_.k;
    const T* lower = &lower_[i * k];
    const T* halves = &halves_[label * k];
    const auto possible = [&](std::size_t j) {
      return !(lower[j] - way_[j] > must_exceed) & !(halves[j] > must_exceed);
    };
    constexpr std::size_t kBlock = 32; // tested in vector registers; most have no candidate
    while (from < k) {
      const std::size_t end = std::min(from + kBlock, k);
      int candidates = 0;
#pragma omp simd reduction(+ : candidates)
      for (std::size_t j = from; j < end; ++j) {
        candidates += possible(j) ? 1 : 0;
      }
      if (candidates > 0) {
        while (!possible(from)) {
          ++from;
        }
        return from;
      }
      from = end;
    }
    return k;
  }

  void assign(Part& part, bool wants_loss) override {
    const openmp::Distances<T>& distances = centroids_.distances();
    const openmp::Slack<T>& slack = centroids_.slack();
    const std::size_t k = shape_.k;
    bool changed = false;
    double loss = 0.0;
    std::uint64_t evaluated = 0;
    for (std::size_t i = part.begin; i < part.end; ++i) {
      const auto label = static_cast<std::size_t>(labels_[i]);
      upper_[i] = slack.plus(upper_[i], centroids_.moved()[label]);
      T must_exceed = slack.must_exceed(upper_[i]);
      std::size_t j =
          separation_[label] > must_exceed ? k : next_candidate(i, label, must_exceed, 0);
      if (j == k && !wants_loss) {
        continue;
      }
      const T* x = &points_[i * shape_.d];
      const auto evaluate = [&](std::size_t centroid) {
        const T squared = distances.one(x, centroid);
        lower_[i * k + centroid] = slack.since(slack.lower(squared), way_[centroid]);
        ++evaluated;
        return squared;
      };
      std::size_t nearest = label;
      T smallest = evaluate(label);
      must_exceed = slack.must_exceed(slack.upper(smallest));
      for (j = j == k ? k : next_candidate(i, nearest, must_exceed, j); j < k;
           j = next_candidate(i, nearest, must_exceed, j + 1)) {
        if (j == label) {
          continue;
        }
        const T squared = evaluate(j);
        // Ties go to the lowest index, and the point's own may be a higher one.
        if (squared < smallest || (squared == smallest && j < nearest)) {
          nearest = j;
          smallest = squared;
          must_exceed = slack.must_exceed(slack.upper(smallest));
        }
      }
      upper_[i] = slack.upper(smallest);
      loss += std::sqrt(double{smallest});
      if (nearest != label) {
        changed = true;
        labels_[i] = static_cast<std::int32_t>(nearest);
        part.sums.leave(label, x);
        part.sums.join(nearest, x);
      }
    }
    part.changed = changed;
    part.loss = loss;
    part.evaluated = evaluated;
  }

  std::vector<T> way_;         // [k] at least the way that each centroid has gone in this run
  std::unique_ptr<T[]> upper_; // [n] bounds of distances, not squared
  std::unique_ptr<T[]> lower_; // [n, k] each raised by the way that its centroid had gone
  std::vector<T> halves_;      // [k, k]
  std::vector<T> separation_;  // [k]
};

const Registration registration({.name = "kmeans_openmp_elkan",
                                 .idea = "a lower bound for every point and centroid",
                                 .source = "Elkan 2003",
                                 .max_d = openmp::kMaxD,
                                 .previous = "kmeans_openmp_hamerly"},
                                both_precisions<KmeansOpenmpElkan>());

} // namespace
} // namespace clusterbench
