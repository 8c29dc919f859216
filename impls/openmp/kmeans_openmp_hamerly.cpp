// K-means that asks first whether a point can have changed its cluster: two bounds a point.
//
// Changed since kmeans_openmp: every point keeps an upper bound of the distance to its centroid and
//   a lower bound of that to all others. When centroids move, the bounds give way by as much; as
//   long as they do not meet, the point is not even read. Only points that change their cluster
//   touch the sums. Faster once centroids move little, and where clusters stand apart; the one
//   lower bound fails for all centroids at once, so it wears out soon where k or d is large.
// Source: Hamerly, Making k-means even faster, SIAM International Conference on Data Mining, 2010.
//   Bounds give way by the rounding as well (support/slack.hpp): labels are those of a plain pass.
// Cost per iteration: 4 n sizeof(T) + 4 n bytes, and d sizeof(T) for each point whose bounds meet;
//   3 d flops for each distance evaluated: 1 or k + 1 for such a point, k (k + 1) / 2 for
//   centroids.
// Limits: the rule `loss` asks for every point's distance, so no point is skipped unread.
#include "impls/contract.hpp"
#include "impls/openmp/support/bounded_lloyd.hpp"
#include "impls/openmp/support/slack.hpp"

#include <algorithm>

namespace clusterbench {
namespace {

/// The nearest centroid of a point and the next: their squared distances.
template <typename T>
struct Nearest {
  std::size_t label = 0;
  T smallest = std::numeric_limits<T>::infinity();
  T second = std::numeric_limits<T>::infinity();
};

template <typename T>
Nearest<T> nearest_of(const std::vector<T>& squared, std::size_t k) {
  Nearest<T> nearest;
  for (std::size_t j = 0; j < k; ++j) {
    if (squared[j] < nearest.smallest) { // ties go to the lowest index
      nearest = {j, squared[j], nearest.smallest};
    } else if (squared[j] < nearest.second) {
      nearest.second = squared[j];
    }
  }
  return nearest;
}

template <typename T>
class KmeansOpenmpHamerly final : public openmp::BoundedLloyd<T> {
  using Base = openmp::BoundedLloyd<T>;
  using Part = openmp::BoundedPart<T>;
  using Base::centroids_;
  using Base::labels_;
  using Base::points_;
  using Base::shape_;

public:
  void prepare(const Shape& shape, const Points<T>& points) override {
    Base::start(shape, points);
    upper_ = Base::bounds(1);
    lower_ = Base::bounds(1);
    separation_.resize(shape.k);
  }

private:
  std::uint64_t start_pass(bool first) override { return first ? 0 : separate(); }

  /// Half of a lower bound of each centroid's distance to the next one; infinite for a single one.
  /// Returns the number of distances.
  std::uint64_t separate() {
    const auto k = static_cast<std::ptrdiff_t>(shape_.k);
    const auto threads = static_cast<int>(Base::threads());
    const openmp::Distances<T>& distances = centroids_.distances();
    std::vector<T> smallest(shape_.k * Base::threads(), std::numeric_limits<T>::infinity());
#pragma omp parallel for num_threads(threads) schedule(static, 1)
    for (int p = 0; p < threads; ++p) {
      T* const mine = &smallest[static_cast<std::size_t>(p) * shape_.k];
      for (std::ptrdiff_t a = p; a < k; a += threads) { // rows of a triangle, dealt out in turn
        for (std::ptrdiff_t b = 0; b < a; ++b) {
          const T squared = distances.one(&centroids_.now()[static_cast<std::size_t>(a) * shape_.d],
                                          static_cast<std::size_t>(b));
          mine[a] = std::min(mine[a], squared);
          mine[b] = std::min(mine[b], squared);
        }
      }
    }
    for (std::size_t j = 0; j < shape_.k; ++j) {
      T squared = smallest[j];
      for (std::size_t p = 1; p < Base::threads(); ++p) {
        squared = std::min(squared, smallest[p * shape_.k + j]);
      }
      separation_[j] = centroids_.slack().lower(squared) / 2;
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
      const Nearest<T> nearest = search(x, i, squared);
      labels_[i] = static_cast<std::int32_t>(nearest.label);
      part.sums.join(nearest.label, x);
      loss += std::sqrt(double{nearest.smallest});
    }
    part.loss = loss;
  }

  /// Evaluates all distances of point i and renews its bounds.
  Nearest<T> search(const T* x, std::size_t i, std::vector<T>& squared) {
    centroids_.distances().all(x, squared.data());
    const Nearest<T> nearest = nearest_of(squared, shape_.k);
    upper_[i] = centroids_.slack().upper(nearest.smallest);
    lower_[i] = centroids_.slack().lower(nearest.second);
    return nearest;
  }

  void assign(Part& part, bool wants_loss) override {
    const openmp::Distances<T>& distances = centroids_.distances();
    const openmp::Slack<T>& slack = centroids_.slack();
    const std::vector<T>& moved = centroids_.moved();
    // Of the other centroids of a point none has moved farther than the one that moved most, or,
    // if that is the point's own, the next.
    const auto most = static_cast<std::size_t>(std::ranges::max_element(moved) - moved.begin());
    T second_most = 0;
    for (std::size_t j = 0; j < shape_.k; ++j) {
      second_most = j == most ? second_most : std::max(second_most, moved[j]);
    }
    std::vector<T> squared(distances.room());
    bool changed = false;
    double loss = 0.0;
    std::uint64_t evaluated = 0;
    for (std::size_t i = part.begin; i < part.end; ++i) {
      const auto label = static_cast<std::size_t>(labels_[i]);
      upper_[i] = slack.plus(upper_[i], moved[label]);
      lower_[i] = slack.minus(lower_[i], label == most ? second_most : moved[most]);
      const T bound = std::max(lower_[i], separation_[label]);
      if (bound > slack.must_exceed(upper_[i]) && !wants_loss) {
        continue;
      }
      const T* x = &points_[i * shape_.d];
      const T own = distances.one(x, label);
      ++evaluated;
      upper_[i] = slack.upper(own);
      if (bound > slack.must_exceed(upper_[i])) {
        loss += std::sqrt(double{own});
        continue;
      }
      const Nearest<T> nearest = search(x, i, squared);
      evaluated += shape_.k;
      loss += std::sqrt(double{nearest.smallest});
      if (nearest.label != label) {
        changed = true;
        labels_[i] = static_cast<std::int32_t>(nearest.label);
        part.sums.leave(label, x);
        part.sums.join(nearest.label, x);
      }
    }
    part.changed = changed;
    part.loss = loss;
    part.evaluated = evaluated;
  }

  std::unique_ptr<T[]> upper_, lower_; // [n] bounds of distances, not squared
  std::vector<T> separation_;          // [k]
};

const Registration registration({.name = "kmeans_openmp_hamerly",
                                 .idea = "two bounds a point skip what cannot have changed",
                                 .source = "Hamerly 2010",
                                 .max_d = openmp::kMaxD,
                                 .previous = "kmeans_openmp"},
                                both_precisions<KmeansOpenmpHamerly>());

} // namespace
} // namespace clusterbench
