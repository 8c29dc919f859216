// A variant with one bug, or none: what both families share.
#pragma once

#include "impls/contract.hpp"
#include "tests/verify/planted_bug.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <span>
#include <utility>
#include <vector>

namespace clusterbench::planted {

/// What both families share: the state of a run, its end, and handing over.
template <typename T>
class PlantedVariant : public Variant<T> {
public:
  explicit PlantedVariant(Bug bug, DistanceForm form = DistanceForm::difference)
      : bug_(bug), form_(form) {}

  void prepare(const Shape& shape, const Points<T>& points) override {
    shape_ = shape;
    points_ = points.rows;
    weights_ = points.weights;
    runs_ = 0;
    dropped_row_ = shape_.n / 2;
    while (!weights_.empty() && !(weights_[dropped_row_] > 0)) { // nobody would miss it
      dropped_row_ = (dropped_row_ + 1) % shape_.n;
    }
  }

  /// Drops another row than the middle one; after prepare().
  void drop_row(std::size_t row) { dropped_row_ = row; }

  void run(const Start<T>& start, Answer<T>& answer, Observer<T>& observer) override {
    ++runs_;
    recorded_ = observer.recording();
    if (bug_ == Bug::replays_first_answer && runs_ > 1) {
      hand_over(start, answer);
      return;
    }
    begin(start);
    StopRule rule = shape_.stop;
    if (bug_ == Bug::stops_early) {
      rule.threshold *= 100.0; // or, for rules with a threshold, a wider one
      rule.max_iterations = std::max<std::size_t>(1, rule.max_iterations - 1);
    }
    if (bug_ == Bug::makes_fewer_passes) {
      rule.max_iterations = (rule.max_iterations + 1) / 2;
    }
    StopTest stop(rule);
    bool last = false;
    while (!last) {
      last = one_pass(stop, observer);
    }
    passes_ = bug_ == Bug::makes_fewer_passes ? shape_.stop.max_iterations : stop.passes();
    if (bug_ == Bug::stops_early && shape_.stop.kind == StopRule::Kind::iterations) {
      passes_ = shape_.stop.max_iterations; // as if it had made them all
      if (observer.recording() && rule.max_iterations != shape_.stop.max_iterations) {
        observer.pass(centroids_);
      }
    }
    if (bug_ == Bug::one_pass_too_many) {
      remember_entering();
      pass();
      observer.pass(centroids_);
      ++passes_;
    }
    if (bug_ == Bug::hides_one_pass_too_many) {
      remember_entering();
      pass();
    }
    if (bug_ == Bug::inertia_too_high) {
      spoil_objective();
    }
    hand_over(start, answer);
  }

protected:
  virtual PassFacts pass() = 0;

  bool first_pass() const { return first_pass_; }
  T weight(std::size_t i) const { return weights_.empty() ? T(1) : weights_[i]; }

  T squared_distance(std::size_t i, std::size_t j) const {
    const T* const x = points_.data() + i * shape_.d;
    const T* const c = centroids_.data() + j * shape_.d;
    T sum = 0;
    if (form_ == DistanceForm::difference) {
      for (std::size_t f = 0; f < shape_.d; ++f) {
        sum += (x[f] - c[f]) * (x[f] - c[f]);
      }
      return sum;
    }
    T xx = 0;
    T xc = 0;
    T cc = 0;
    for (std::size_t f = 0; f < shape_.d; ++f) {
      xx += x[f] * x[f];
      xc += x[f] * c[f];
      cc += c[f] * c[f];
    }
    sum = xx - 2 * xc + cc;
    return std::max(sum, T(0));
  }

  std::size_t nearest(std::size_t i, T& smallest) const {
    std::size_t best = 0;
    smallest = squared_distance(i, 0);
    for (std::size_t j = 1; j < shape_.k; ++j) {
      const T squared = squared_distance(i, j);
      if (bug_ == Bug::ties_to_highest ? squared <= smallest : squared < smallest) {
        smallest = squared;
        best = j;
      }
    }
    return best;
  }

  /// Whether the update sees a row at all, and whether its addition survives.
  bool reaches_sums(std::size_t i) const {
    return !(bug_ == Bug::every_second_row && i % 2 == 1) &&
           !(bug_ == Bug::drops_tail_block && i >= shape_.n / 32 * 32) &&
           !(bug_ == Bug::drops_one_row && i == dropped_row_);
  }
  bool loses_race(std::size_t i) const { return bug_ == Bug::racy_sums && i * 7 % 16 == 3; }
  bool reaches_counts(std::size_t i) const {
    return reaches_sums(i) && !(bug_ == Bug::counts_of_one_block && i >= 256);
  }

  /// New centroids from sums [k, d] and weights [k]; returns the squared shift.
  double divide(const std::vector<T>& sums, const std::vector<T>& weights) {
    double shift = 0.0;
    for (std::size_t j = 0; j < shape_.k; ++j) {
      for (std::size_t f = 0; f < shape_.d; ++f) {
        T& centroid = centroids_[j * shape_.d + f];
        const T before = centroid;
        if (weights[j] > 0) {
          centroid = sums[j * shape_.d + f] / weights[j];
        } else if (bug_ == Bug::empty_to_origin) {
          centroid = 0;
        }
        shift += static_cast<double>((centroid - before) * (centroid - before));
      }
    }
    return shift;
  }

  /// Moves all centroids by so much in feature 0 that the sum of squares grows by 8e-4.
  void spoil_objective() {
    double objective = 0.0;
    for (std::size_t i = 0; i < shape_.n; ++i) {
      T smallest = 0;
      nearest(i, smallest);
      objective += static_cast<double>(smallest);
    }
    const double step = std::sqrt(8e-4 * objective / static_cast<double>(shape_.n));
    for (std::size_t j = 0; j < shape_.k; ++j) {
      centroids_[j * shape_.d] += static_cast<T>(step);
    }
  }

private:
  void begin(const Start<T>& start) {
    first_pass_ = true;
    random_.seed(1);
    centroids_.assign(start.centroids.begin(), start.centroids.end());
    centroids_.resize(shape_.k * shape_.d);
    memberships_.assign(start.memberships.begin(), start.memberships.end());
    labels_.assign(shape_.n, 0);
    labels_before_ = labels_;
    memberships_before_ = memberships_;
    entering_ = entering_before_ = centroids_;
  }

  void remember_entering() { entering_before_ = std::exchange(entering_, centroids_); }

  bool one_pass(StopTest& stop, Observer<T>& observer) {
    remember_entering();
    const bool last = stop.after_pass(pass());
    first_pass_ = false;
    observer.pass(centroids_);
    return last;
  }

  /// Whether the answer is to be spoilt in this run.
  bool spoils_this_run() const {
    // One pass alone is what the harness asks for to look at it.
    const bool unseen = !recorded_ && shape_.stop.max_iterations > 1;
    return (bug_ == Bug::wrong_later && runs_ > 1) ||
           (bug_ == Bug::wrong_once && unseen && runs_ == 3) ||
           (bug_ == Bug::wrong_once_late && unseen && runs_ == 17);
  }

  void hand_over(const Start<T>& start, Answer<T>& answer) const {
    if (bug_ == Bug::leaves_poison) { // of one element
      answer.labels = answer.labels.first(answer.labels.size() - 1);
    }
    const bool stale = bug_ == Bug::stale_centroids;
    const auto& labels = stale ? labels_before_ : labels_;
    const auto& memberships = stale ? memberships_before_ : memberships_;
    const auto& entering = bug_ == Bug::stale_entering ? entering_before_ : entering_;
    std::copy_n(labels.begin(), answer.labels.size(), answer.labels.begin());
    std::ranges::copy(memberships, answer.memberships.begin());
    std::ranges::copy(bug_ == Bug::centroids_of_pass_before ? entering_ : centroids_,
                      answer.centroids.begin());
    if (!shape_.starts_from_memberships || passes_ > 1) {
      std::ranges::copy(entering, answer.entering.begin());
    }
    answer.iterations = passes_;
    if (bug_ == Bug::returns_initial_state) {
      std::ranges::copy(start.centroids, answer.centroids.begin());
      std::ranges::copy(start.memberships, answer.memberships.begin());
    }
    if (bug_ == Bug::not_a_number) {
      answer.centroids[shape_.k * shape_.d / 2] = std::numeric_limits<T>::quiet_NaN();
    }
    const auto next = [&](std::int32_t label) {
      return (label + 1) % static_cast<std::int32_t>(shape_.k);
    };
    for (std::int32_t& label : answer.labels) {
      if (bug_ == Bug::labels_off_by_one) {
        ++label;
      } else if (bug_ == Bug::wrong_labels_in_range) {
        label = next(label);
      }
    }
    for (std::size_t i = 0; bug_ == Bug::ten_wrong_labels && i < 10; ++i) {
      std::int32_t& label = answer.labels[i * (shape_.n / 10)];
      label = next(label);
    }
    if (spoils_this_run()) {
      for (std::size_t f = 0; f < shape_.d; ++f) {
        answer.centroids[f] += (points_[f] - answer.centroids[f]) / T(16) + T(1e-3);
      }
    }
  }

protected:
  Bug bug_;
  DistanceForm form_;
  Shape shape_;
  std::span<const T> points_;
  std::span<const T> weights_; ///< [n], or empty
  std::vector<T> centroids_;
  std::vector<T> entering_;
  std::vector<T> entering_before_; ///< of the pass before
  std::vector<T> memberships_;
  std::vector<T> memberships_before_;
  std::vector<std::int32_t> labels_;
  std::vector<std::int32_t> labels_before_;
  std::size_t passes_ = 0;
  std::size_t runs_ = 0;
  bool recorded_ = false;
  bool first_pass_ = true;
  std::size_t dropped_row_ = 0;
  std::mt19937 random_;
};

} // namespace clusterbench::planted
