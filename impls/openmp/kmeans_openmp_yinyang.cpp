// K-means with one lower bound for every point and group of about ten centroids.
//
// Changed since kmeans_openmp_elkan: the centroids are grouped once, by a few passes of k-means
//   over themselves, and a point keeps a bound for a group instead of for a centroid: a tenth of
//   the memory. A group whose bound fails is looked through; of its centroids those are evaluated
//   that the group's bound of the pass before, less the centroid's own way, does not rule out. No
//   distances between centroids. Between Hamerly (one group) and Elkan (k groups) in memory and in
//   distances, but with one group alone it evaluates more than Hamerly; on the shapes that were
//   measured (docs/studies.md) one of the two is faster.
// Source: Ding et al., Yinyang K-means: a drop-in replacement of the classic K-means with
//   consistent speedup, ICML 2015. Rounding: support/slack.hpp; labels are those of a plain pass.
// Cost per iteration: (2 + k / 10) sizeof(T) n + 4 n bytes, d sizeof(T) for each point with a bound
//   that fails; 3 d flops for each distance evaluated; once, 5 k k / 10 distances for the groups.
// Limits: the rule `loss` asks for every point's distance; below k = 20 there is only one group.
#include "impls/contract.hpp"
#include "impls/openmp/support/bounded_lloyd.hpp"
#include "impls/openmp/support/slack.hpp"

#include <algorithm>
#include <numeric>

namespace clusterbench {
namespace {

/// The nearest centroid of a point, as far as it has been looked for.
template <typename T>
struct Nearest {
  std::size_t label = 0;
  T squared = std::numeric_limits<T>::infinity();
  T must_exceed = std::numeric_limits<T>::infinity(); ///< a lower bound, to rule out a centroid
};

template <typename T>
class KmeansOpenmpYinyang final : public openmp::BoundedLloyd<T> {
  using Base = openmp::BoundedLloyd<T>;
  using Part = openmp::BoundedPart<T>;
  using Base::centroids_;
  using Base::labels_;
  using Base::points_;
  using Base::shape_;

public:
  void prepare(const Shape& shape, const Points<T>& points) override {
    Base::start(shape, points);
    groups_ = std::max<std::size_t>(shape.k / 10, 1);
    upper_ = Base::bounds(1);
    lower_ = Base::bounds(groups_);
  }

private:
  std::uint64_t start_pass(bool first) override {
    if (!first) {
      return 0;
    }
    way_.assign(groups_, T{0});
    return group_centroids();
  }

  /// Groups the initial centroids by five passes of k-means, seeded by every tenth. Any grouping
  /// gives the same labels; a good one has centroids that move alike. Returns the distances.
  std::uint64_t group_centroids() {
    const auto [d, k] = std::pair(shape_.d, shape_.k);
    constexpr int kPasses = 5;
    const std::vector<T>& centroids = centroids_.now();
    std::vector<T> centres(groups_ * d);
    for (std::size_t g = 0; g < groups_; ++g) {
      std::copy_n(&centroids[g * k / groups_ * d], d, &centres[g * d]);
    }
    openmp::Distances<T> distances(d, groups_);
    std::vector<T> squared(distances.room());
    group_of_.assign(k, 0);
    for (int pass = 0; pass < kPasses && groups_ > 1; ++pass) {
      distances.set(centres);
      std::vector<double> sums(groups_ * d), counts(groups_);
      for (std::size_t j = 0; j < k; ++j) {
        distances.all(&centroids[j * d], squared.data());
        const auto all = std::span(squared).first(groups_);
        const auto g = static_cast<std::size_t>(std::ranges::min_element(all) - all.begin());
        group_of_[j] = g;
        counts[g] += 1.0;
        std::transform(&sums[g * d], &sums[g * d] + d, &centroids[j * d], &sums[g * d],
                       [](double sum, T value) { return sum + double{value}; });
      }
      for (std::size_t c = 0; c < centres.size(); ++c) {
        centres[c] = counts[c / d] > 0.0 ? static_cast<T>(sums[c] / counts[c / d]) : centres[c];
      }
    }
    members_.resize(k);
    std::iota(members_.begin(), members_.end(), std::size_t{0});
    std::ranges::stable_sort(members_, {}, [&](std::size_t j) { return group_of_[j]; });
    first_member_.assign(groups_ + 1, 0);
    for (const std::size_t g : group_of_) {
      ++first_member_[g + 1];
    }
    std::partial_sum(first_member_.begin(), first_member_.end(), first_member_.begin());
    return groups_ > 1 ? kPasses * k * groups_ : 0;
  }

  /// The way of a group is that of its farthest moving centroid, pass by pass.
  void centroids_moved() override {
    previous_way_ = way_;
    for (std::size_t g = 0; g < groups_; ++g) {
      T most = 0;
      for (std::size_t m = first_member_[g]; m < first_member_[g + 1]; ++m) {
        most = std::max(most, centroids_.moved()[members_[m]]);
      }
      way_[g] = centroids_.slack().plus(way_[g], most);
    }
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
      const T smallest = std::exchange(squared[nearest], std::numeric_limits<T>::infinity());
      for (std::size_t g = 0; g < groups_; ++g) {
        T next = std::numeric_limits<T>::infinity();
        for (std::size_t m = first_member_[g]; m < first_member_[g + 1]; ++m) {
          next = std::min(next, squared[members_[m]]);
        }
        lower_[i * groups_ + g] = centroids_.slack().lower(next);
      }
      labels_[i] = static_cast<std::int32_t>(nearest);
      upper_[i] = centroids_.slack().upper(smallest);
      part.sums.join(nearest, x);
      loss += std::sqrt(double{smallest});
    }
    part.loss = loss;
  }

  /// Looks for a nearer centroid in group g and renews the group's bound, which holds for all its
  /// centroids but the nearest. own: the squared distance to the label. Returns the distances.
  std::uint64_t search(std::size_t i, std::size_t g, T own, Nearest<T>& nearest) {
    const openmp::Slack<T>& slack = centroids_.slack();
    const auto label = static_cast<std::size_t>(labels_[i]);
    const T* x = &points_[i * shape_.d];
    T* const bounds = &lower_[i * groups_];
    const T before = slack.minus(bounds[g], previous_way_[g]);
    bounds[g] = std::numeric_limits<T>::infinity();
    const auto rule_out = [&](std::size_t group, T bound) {
      bounds[group] = std::min(bounds[group], slack.since(bound, way_[group]));
    };
    if (group_of_[label] == g && nearest.label != label) { // one of an earlier group is nearer
      rule_out(g, slack.lower(own));
    }
    std::uint64_t evaluated = 0;
    for (std::size_t m = first_member_[g]; m < first_member_[g + 1]; ++m) {
      const std::size_t j = members_[m];
      if (j == label) {
        continue;
      }
      if (const T bound = slack.minus(before, centroids_.moved()[j]); bound > nearest.must_exceed) {
        rule_out(g, bound);
        continue;
      }
      const T squared = centroids_.distances().one(x, j);
      ++evaluated;
      // Ties go to the lowest index, which need not be the first that is looked at.
      if (squared < nearest.squared || (squared == nearest.squared && j < nearest.label)) {
        rule_out(group_of_[nearest.label], slack.lower(nearest.squared));
        nearest = {j, squared, slack.must_exceed(slack.upper(squared))};
      } else {
        rule_out(g, slack.lower(squared));
      }
    }
    return evaluated;
  }

  void assign(Part& part, bool wants_loss) override {
    const openmp::Slack<T>& slack = centroids_.slack();
    bool changed = false;
    double loss = 0.0;
    std::uint64_t evaluated = 0;
    for (std::size_t i = part.begin; i < part.end; ++i) {
      const auto label = static_cast<std::size_t>(labels_[i]);
      upper_[i] = slack.plus(upper_[i], centroids_.moved()[label]);
      const T must_exceed = slack.must_exceed(upper_[i]);
      const T* bounds = &lower_[i * groups_];
      int fail = 0;
#pragma omp simd reduction(+ : fail)
      for (std::size_t g = 0; g < groups_; ++g) {
        fail += bounds[g] - way_[g] > must_exceed ? 0 : 1;
      }
      if (fail == 0 && !wants_loss) {
        continue;
      }
      const T* x = &points_[i * shape_.d];
      const T own = centroids_.distances().one(x, label);
      ++evaluated;
      Nearest<T> nearest{label, own, slack.must_exceed(slack.upper(own))};
      for (std::size_t g = 0; g < groups_ && fail > 0; ++g) {
        if (!(bounds[g] - way_[g] > nearest.must_exceed)) {
          evaluated += search(i, g, own, nearest);
        }
      }
      upper_[i] = slack.upper(nearest.squared);
      loss += std::sqrt(double{nearest.squared});
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

  std::size_t groups_ = 1;
  std::vector<std::size_t> group_of_;     // [k]
  std::vector<std::size_t> members_;      // [k] the centroids, group after group
  std::vector<std::size_t> first_member_; // [groups + 1] in members_
  std::vector<T> way_, previous_way_;     // [groups] gone in this run, and before the last update
  std::unique_ptr<T[]> upper_;            // [n] bounds of distances, not squared
  std::unique_ptr<T[]> lower_;            // [n, groups] each raised by the way its group had gone
};

const Registration registration({.name = "kmeans_openmp_yinyang",
                                 .idea = "a lower bound for every point and group of centroids",
                                 .source = "Ding et al. 2015",
                                 .max_d = openmp::kMaxD,
                                 .previous = "kmeans_openmp_elkan"},
                                both_precisions<KmeansOpenmpYinyang>());

} // namespace
} // namespace clusterbench
