// Variants with one bug each, and correct ones as the control. They are what the verifier is
// tested against, and are registered nowhere.
#pragma once

#include "impls/contract.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <string_view>
#include <vector>

namespace clusterbench::planted {

enum class Bug {
  none,
  drops_tail_block,      ///< the rows after the last full block of 32 reach no sum
  drops_one_row,         ///< the row in the middle reaches no sum
  stale_centroids,       ///< returns the labels or memberships of the state one pass earlier
  racy_sums,             ///< one addition in 16 is overwritten by another thread's
  counts_of_one_block,   ///< sums over all points, counts (weights) over the first 256 only
  returns_initial_state, ///< computes, then returns what it was given
  not_a_number,          ///< one value is NaN
  labels_off_by_one,     ///< counts clusters from 1
  wrong_labels_in_range, ///< every label is the next cluster's
  squared_loss,          ///< the loss rule sees squared distances (FCM: u instead of u^m)
  wrong_exponent,    ///< FCM: memberships from squared distances with the exponent of plain ones
  unweighted_power,  ///< FCM: centres weighted by u, not u^m
  not_normalised,    ///< FCM: memberships are not divided by their sum
  stops_early,       ///< makes one pass less than the rule asks for
  one_pass_too_many, ///< makes one pass more and says so
  hides_one_pass_too_many, ///< makes one pass more and does not say so
  empty_to_origin,         ///< an empty cluster moves to the origin
  ties_to_highest,         ///< ties go to the highest index
  wrong_later,             ///< right in its first run, wrong from the second on
  wrong_once,              ///< wrong in its third run only
  wrong_once_late,         ///< wrong in its 17th run only
  random_labels,           ///< every pass draws its labels, then takes their means
  inertia_too_high,        ///< returns centroids that raise the objective by 8e-4
};

/// What both families share: the state of a run, its end, and handing over.
template <typename T>
class PlantedVariant : public Variant<T> {
public:
  explicit PlantedVariant(Bug bug, DistanceForm form = DistanceForm::difference)
      : bug_(bug), form_(form) {}

  void prepare(const Problem<T>& problem) override {
    p_ = problem;
    runs_ = 0;
    dropped_row_ = p_.n / 2;
  }

  /// Drops another row than the middle one; after prepare().
  void drop_row(std::size_t row) { dropped_row_ = row; }

  void run(Observer<T>& observer) override {
    ++runs_;
    start();
    StopRule rule = p_.stop;
    if (bug_ == Bug::stops_early) {
      rule.threshold *= 100.0; // or, for rules with a threshold, a wider one
      rule.max_iterations = std::max<std::size_t>(1, rule.max_iterations - 1);
    }
    StopTest stop(rule);
    bool last = false;
    while (!last) {
      last = stop.after_pass(pass());
      first_pass_ = false;
      observer.pass(centroids_);
    }
    passes_ = stop.passes();
    if (bug_ == Bug::stops_early && p_.stop.kind == StopRule::Kind::iterations) {
      passes_ = p_.stop.max_iterations; // as if it had made them all
      if (observer.recording() && rule.max_iterations != p_.stop.max_iterations) {
        observer.pass(centroids_);
      }
    }
    if (bug_ == Bug::one_pass_too_many) {
      pass();
      observer.pass(centroids_);
      ++passes_;
    }
    if (bug_ == Bug::hides_one_pass_too_many) {
      pass();
    }
    if (bug_ == Bug::inertia_too_high) {
      spoil_objective();
    }
  }

  void fetch(Result<T>& result) override {
    std::copy(centroids_.begin(), centroids_.end(), result.centroids.begin());
    std::copy(memberships_.begin(), memberships_.end(), result.memberships.begin());
    const auto& labels = bug_ == Bug::stale_centroids ? labels_before_ : labels_;
    std::copy(labels.begin(), labels.end(), result.labels.begin());
    result.iterations = passes_;
    if (bug_ == Bug::stale_centroids) {
      std::copy(memberships_before_.begin(), memberships_before_.end(), result.memberships.begin());
    }
    if (bug_ == Bug::returns_initial_state) {
      std::copy(p_.centroids.begin(), p_.centroids.end(), result.centroids.begin());
      std::copy(p_.memberships.begin(), p_.memberships.end(), result.memberships.begin());
    }
    if (bug_ == Bug::not_a_number) {
      result.centroids[p_.k * p_.d / 2] = std::numeric_limits<T>::quiet_NaN();
    }
    for (std::int32_t& label : result.labels) {
      if (bug_ == Bug::labels_off_by_one) {
        ++label;
      } else if (bug_ == Bug::wrong_labels_in_range) {
        label = (label + 1) % static_cast<std::int32_t>(p_.k);
      }
    }
    if ((bug_ == Bug::wrong_later && runs_ > 1) || (bug_ == Bug::wrong_once && runs_ == 3) ||
        (bug_ == Bug::wrong_once_late && runs_ == 17)) {
      for (std::size_t f = 0; f < p_.d; ++f) {
        result.centroids[f] += (p_.points[f] - result.centroids[f]) / T(16) + T(1e-3);
      }
    }
  }

protected:
  virtual PassFacts pass() = 0;

  bool first_pass() const { return first_pass_; }

  void start() {
    first_pass_ = true;
    random_.seed(1);
    centroids_.assign(p_.centroids.begin(), p_.centroids.end());
    centroids_.resize(p_.k * p_.d);
    memberships_.assign(p_.memberships.begin(), p_.memberships.end());
    labels_.assign(p_.n, 0);
    labels_before_ = labels_;
    memberships_before_ = memberships_;
  }

  T squared_distance(std::size_t i, std::size_t j) const {
    const T* const x = p_.points.data() + i * p_.d;
    const T* const c = centroids_.data() + j * p_.d;
    T sum = 0;
    if (form_ == DistanceForm::difference) {
      for (std::size_t f = 0; f < p_.d; ++f) {
        sum += (x[f] - c[f]) * (x[f] - c[f]);
      }
      return sum;
    }
    T xx = 0;
    T xc = 0;
    T cc = 0;
    for (std::size_t f = 0; f < p_.d; ++f) {
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
    for (std::size_t j = 1; j < p_.k; ++j) {
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
    return !(bug_ == Bug::drops_tail_block && i >= p_.n / 32 * 32) &&
           !(bug_ == Bug::drops_one_row && i == dropped_row_);
  }
  bool loses_race(std::size_t i) const { return bug_ == Bug::racy_sums && i * 7 % 16 == 3; }
  bool reaches_counts(std::size_t i) const {
    return reaches_sums(i) && !(bug_ == Bug::counts_of_one_block && i >= 256);
  }

  /// New centroids from sums [k, d] and weights [k]; returns the squared shift.
  double divide(const std::vector<T>& sums, const std::vector<T>& weights) {
    double shift = 0.0;
    for (std::size_t j = 0; j < p_.k; ++j) {
      for (std::size_t f = 0; f < p_.d; ++f) {
        T& centroid = centroids_[j * p_.d + f];
        const T before = centroid;
        if (weights[j] > 0) {
          centroid = sums[j * p_.d + f] / weights[j];
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
    for (std::size_t i = 0; i < p_.n; ++i) {
      T smallest = 0;
      nearest(i, smallest);
      objective += static_cast<double>(smallest);
    }
    const double step = std::sqrt(8e-4 * objective / static_cast<double>(p_.n));
    for (std::size_t j = 0; j < p_.k; ++j) {
      centroids_[j * p_.d] += static_cast<T>(step);
    }
  }

  Bug bug_;
  DistanceForm form_;
  Problem<T> p_;
  std::vector<T> centroids_;
  std::vector<T> memberships_;
  std::vector<T> memberships_before_;
  std::vector<std::int32_t> labels_;
  std::vector<std::int32_t> labels_before_;
  std::size_t passes_ = 0;
  std::size_t runs_ = 0;
  bool first_pass_ = true;
  std::size_t dropped_row_ = 0;
  std::mt19937 random_;
};

/// Lloyd's algorithm in T, in the order of the rows.
template <typename T>
class PlantedKMeans final : public PlantedVariant<T> {
public:
  using PlantedVariant<T>::PlantedVariant;

protected:
  PassFacts pass() override {
    const auto& p = this->p_;
    PassFacts facts;
    facts.labels_changed = this->first_pass();
    this->labels_before_ = this->labels_;
    std::vector<T> sums(p.k * p.d);
    std::vector<T> counts(p.k);
    T loss = 0;
    for (std::size_t i = 0; i < p.n; ++i) {
      T smallest = 0;
      std::size_t best = this->nearest(i, smallest);
      if (this->bug_ == Bug::random_labels) {
        best = this->random_() % p.k;
      }
      const auto label = static_cast<std::int32_t>(best);
      facts.labels_changed = facts.labels_changed || this->labels_[i] != label;
      this->labels_[i] = label;
      loss += this->bug_ == Bug::squared_loss ? smallest : std::sqrt(smallest);
      if (this->reaches_sums(i) && !this->loses_race(i)) {
        for (std::size_t f = 0; f < p.d; ++f) {
          sums[best * p.d + f] += p.points[i * p.d + f];
        }
      }
      counts[best] += this->reaches_counts(i) ? T(1) : T(0);
    }
    facts.loss = static_cast<double>(loss);
    facts.squared_shift = this->divide(sums, counts);
    return facts;
  }
};

/// Fuzzy c-means in T, in the order of the rows.
template <typename T>
class PlantedFcm final : public PlantedVariant<T> {
public:
  using PlantedVariant<T>::PlantedVariant;

protected:
  PassFacts pass() override {
    PassFacts facts;
    facts.labels_changed = this->first_pass();
    const auto labels = this->labels_;
    this->labels_before_ = labels;
    this->memberships_before_ = this->memberships_;
    if (this->p_.memberships.empty()) {
      facts.loss = assign();
      facts.squared_shift = update();
      if (this->memberships_before_.empty()) {
        this->memberships_before_.assign(this->p_.n * this->p_.k,
                                         T(1) / static_cast<T>(this->p_.k));
      }
    } else {
      facts.squared_shift = update();
      facts.loss = assign();
    }
    facts.labels_changed = facts.labels_changed || labels != this->labels_;
    return facts;
  }

private:
  /// Memberships and labels from the centres; returns the objective.
  double assign() {
    const auto& p = this->p_;
    this->memberships_.resize(p.n * p.k);
    const T m = static_cast<T>(p.fuzzifier);
    const T exponent = (this->bug_ == Bug::wrong_exponent ? T(2) : T(1)) / (m - 1);
    T loss = 0;
    std::vector<T> squared(p.k);
    for (std::size_t i = 0; i < p.n; ++i) {
      T* const u = this->memberships_.data() + i * p.k;
      T smallest = 0;
      this->labels_[i] = static_cast<std::int32_t>(this->nearest(i, smallest));
      T sum = 0;
      for (std::size_t j = 0; j < p.k; ++j) {
        squared[j] = this->squared_distance(i, j);
        u[j] = squared[j] == smallest ? T(1) : std::pow(smallest / squared[j], exponent);
        sum += u[j];
      }
      for (std::size_t j = 0; j < p.k; ++j) {
        u[j] /= this->bug_ == Bug::not_normalised ? T(1) : sum;
        const T weight = this->bug_ == Bug::squared_loss ? u[j] : std::pow(u[j], m);
        loss += weight * squared[j];
      }
    }
    return static_cast<double>(loss);
  }

  /// Centres from the memberships; returns the squared shift.
  double update() {
    const auto& p = this->p_;
    const T m = this->bug_ == Bug::unweighted_power ? T(1) : static_cast<T>(p.fuzzifier);
    std::vector<T> sums(p.k * p.d);
    std::vector<T> weights(p.k);
    for (std::size_t i = 0; i < p.n; ++i) {
      for (std::size_t j = 0; j < p.k; ++j) {
        const T weight = std::pow(this->memberships_[i * p.k + j], m);
        if (this->reaches_sums(i) && !this->loses_race(i)) {
          for (std::size_t f = 0; f < p.d; ++f) {
            sums[j * p.d + f] += weight * p.points[i * p.d + f];
          }
        }
        weights[j] += this->reaches_counts(i) ? weight : T(0);
      }
    }
    return this->divide(sums, weights);
  }
};

} // namespace clusterbench::planted
