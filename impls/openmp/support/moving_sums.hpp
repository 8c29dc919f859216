// Sums of clusters that points join and leave, and the centroids that follow them.
//
// A sum that is updated drifts: each addition leaves a rounding error behind that no subtraction
// takes back. So what an addition loses is computed (Knuth's two-sum, The Art of Computer
// Programming, vol. 2, 4.2.2) and kept in a second word. Both words together are wrong by about
// 2^-100, so the means do not depend on the way by which the clusters came about.
#pragma once

#include "impls/openmp/support/distances.hpp"
#include "impls/openmp/support/slack.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace clusterbench::openmp {

/// The sums of one thread's points.
template <typename T>
class MovingSums {
public:
  MovingSums(std::size_t d, std::size_t k) : d_(d), high_(k * d), low_(k * d), counts_(k) {}

  void clear() {
    high_.assign(high_.size(), 0.0);
    low_.assign(low_.size(), 0.0);
    counts_.assign(counts_.size(), 0);
  }

  /// Point x, [d], joins cluster j.
  void join(std::size_t j, const T* x) {
    ++counts_[j];
    add(j, x, 1.0);
  }

  /// Point x leaves cluster j.
  void leave(std::size_t j, const T* x) {
    --counts_[j];
    add(j, x, -1.0);
  }

  std::int64_t count(std::size_t j) const { return counts_[j]; }

  /// Adds the sum of cluster j, feature f, to the two words.
  void add_to(double& high, double& low, std::size_t j, std::size_t f) const {
    two_sum(high, low, high_[j * d_ + f]);
    low += low_[j * d_ + f];
  }

private:
  static void two_sum(double& high, double& low, double value) {
    const double sum = high + value;
    const double added = sum - high;
    low += (high - (sum - added)) + (value - added);
    high = sum;
  }

  void add(std::size_t j, const T* x, double sign) {
    double* high = &high_[j * d_];
    double* low = &low_[j * d_];
#pragma omp simd
    for (std::size_t f = 0; f < d_; ++f) {
      two_sum(high[f], low[f], sign * double{x[f]});
    }
  }

  std::size_t d_;
  std::vector<double> high_, low_; // [k, d]
  std::vector<std::int64_t> counts_;
};

/// The centroids of all passes of a run: where they are, and how far the last update moved them.
template <typename T>
class MovingCentroids {
public:
  MovingCentroids() = default;

  MovingCentroids(std::size_t d, std::size_t k)
      : d_(d), k_(k), slack_(d), distances_(d, k), now_(k * d), before_(k * d), moved_(k),
        squared_shifts_(k) {}

  /// Starts a run at the initial centroids.
  void start(std::span<const T> initial) {
    std::ranges::copy(initial, now_.begin());
    distances_.set(now_);
  }

  const std::vector<T>& now() const { return now_; }
  /// Where they were before the last update.
  const std::vector<T>& before() const { return before_; }
  const Distances<T>& distances() const { return distances_; }
  const Slack<T>& slack() const { return slack_; }

  /// At least the distance that each centroid went in the last update, [k].
  const std::vector<T>& moved() const { return moved_; }

  /// Moves every centroid to the mean of its points in all parts, added up in the order of the
  /// parts; that of an empty cluster stays. Returns the summed squared shift.
  template <typename Part>
  double update(const std::vector<Part>& parts) {
    const auto threads = static_cast<int>(parts.size());
    const auto k = static_cast<std::ptrdiff_t>(k_);
    std::swap(now_, before_);
#pragma omp parallel for num_threads(threads) schedule(static) if (k_ * d_ > kWorthTheThreads)
    for (std::ptrdiff_t j = 0; j < k; ++j) {
      update(parts, static_cast<std::size_t>(j));
    }
    distances_.set(now_);
    double squared_shift = 0.0;
    for (const double shift : squared_shifts_) {
      squared_shift += shift;
    }
    return squared_shift;
  }

private:
  static constexpr std::size_t kWorthTheThreads = 4096; // values; fewer cost less than a fork

  template <typename Part>
  void update(const std::vector<Part>& parts, std::size_t j) {
    const T* from = &before_[j * d_];
    T* to = &now_[j * d_];
    std::int64_t count = 0;
    for (const Part& part : parts) {
      count += part.sums.count(j);
    }
    double squared_shift = 0.0;
    for (std::size_t f = 0; f < d_; ++f) {
      double high = 0.0, low = 0.0;
      for (const Part& part : parts) {
        part.sums.add_to(high, low, j, f);
      }
      to[f] = count > 0 ? static_cast<T>((high + low) / static_cast<double>(count)) : from[f];
      const double shift = double{to[f]} - double{from[f]};
      squared_shift += shift * shift;
    }
    squared_shifts_[j] = squared_shift;
    moved_[j] = squared_shift > 0.0 ? slack_.upper(distances_.between(from, to)) : T{0};
  }

  std::size_t d_ = 0, k_ = 0;
  Slack<T> slack_{1};
  Distances<T> distances_;
  std::vector<T> now_, before_; // [k, d]
  std::vector<T> moved_;        // [k]
  std::vector<double> squared_shifts_;
};

} // namespace clusterbench::openmp
