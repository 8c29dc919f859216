// The sums behind a MeansView.
#pragma once

#include "harness/judge/compensated_sum.hpp"
#include "harness/judge/means_view.hpp"
#include "harness/judge/origin.hpp"
#include "harness/judge/rounding.hpp"
#include "harness/problem/problem.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

namespace clusterbench {

/// What the weights of a cluster's points are like.
struct WeightsOfCluster {
  double count = 0.0; ///< of those that are not 0
  double total = 0.0, squares = 0.0;

  void add(const WeightsOfCluster& other) {
    count += other.count;
    total += other.total;
    squares += other.squares;
  }
};

/// How far T may have a mean off, relative to the magnitudes: of so many values with this mean and
/// this standard deviation, and where the points have weights, with those.
template <typename T>
double rounding_of_mean(const Problem<T>& problem, const WeightsOfCluster& weights, double mean,
                        double deviation) {
  constexpr double u = unit_roundoff<T>;
  if (problem.weights.empty()) {
    return mean_rounding(weights.count, mean, deviation, u);
  }
  const double weight = weights.total / weights.count;
  const double spread = std::sqrt(std::max(weights.squares / weights.count - weight * weight, 0.0));
  return weighted_mean_rounding(weights.count, mean, deviation, weight, spread, u);
}

/// Adds one row of d features to what MeanSums has of one cluster. A function of its own, not
/// inlined: then the compiler believes that no two arrays overlap, and makes vectors of the loop.
template <bool kDoubtful, typename T>
[[gnu::noinline]] void add_to_means(std::size_t d, const T* __restrict x,
                                    const T* __restrict produced, const double* __restrict origin,
                                    double weight, double doubt, double* __restrict sums,
                                    double* __restrict lost, double* __restrict magnitude,
                                    double* __restrict squares, double* __restrict slack) {
  for (std::size_t f = 0; f < d; ++f) {
    const double value = static_cast<double>(x[f]);
    const double difference = value - static_cast<double>(produced[f]);
    magnitude[f] += weight * std::abs(value - origin[f]);
    squares[f] += weight * difference * difference;
    add_compensated(weight * difference, sums[f], lost[f]);
    if constexpr (kDoubtful) {
      slack[f] += doubt * std::abs(difference);
    }
  }
}

/// Sums of one chunk of rows, taken relative to the produced centroids: sum(w * (x - produced)) is
/// W * (mean - produced) without the cancellation of two large sums, and a mean that differs from
/// the float64 one because of doubtful weight h differs by at most sum(h * |x - produced|) / W.
template <typename T>
class MeanSums {
public:
  /// Refers to its arguments.
  MeanSums(std::span<const T> produced, std::size_t k, std::size_t d, const Origin& origin)
      : produced_(produced), origin_(&origin), d_(d), weight_(k), doubtful_(k), deviation_(k, d),
        magnitude_(k * d), squares_(k * d), slack_(k * d), weights_(k) {}

  /// Adds the point x with a weight that rounding leaves uncertain by `doubt`.
  void add(std::size_t j, const T* x, double weight, double doubt) {
    weight_[j].add(weight);
    doubtful_[j].add(doubt);
    weights_[j].add({weight > 0.0 ? 1.0 : 0.0, weight, weight * weight});
    const auto add_features = doubt > 0.0 ? add_to_means<true, T> : add_to_means<false, T>;
    add_features(d_, x, produced_.data() + j * d_, origin_->at.data(), weight, doubt,
                 deviation_.sums(j), deviation_.lost(j), magnitude_.data() + j * d_,
                 squares_.data() + j * d_, slack_.data() + j * d_);
  }

  void add(const MeanSums& other) {
    for (std::size_t j = 0; j < weight_.size(); ++j) {
      weight_[j].add(other.weight_[j]);
      doubtful_[j].add(other.doubtful_[j]);
      weights_[j].add(other.weights_[j]);
    }
    deviation_.add(other.deviation_);
    for (std::size_t i = 0; i < slack_.size(); ++i) {
      magnitude_[i] += other.magnitude_[i];
      squares_[i] += other.squares_[i];
      slack_[i] += other.slack_[i];
    }
  }

  /// rounding_of(weights, mean, deviation): relative error that T allows for a mean with these
  /// weights, of values with this mean and this standard deviation. What is rounded is measured
  /// from the variant's origin; adding that to the mean rounds once more.
  template <typename RoundingOf>
  MeansView view(const RoundingOf& rounding_of) const {
    MeansView result;
    result.deviation.resize(slack_.size());
    result.rounding.resize(slack_.size());
    result.slack.resize(slack_.size());
    result.origin = origin_->at;
    for (std::size_t j = 0; j < weight_.size(); ++j) {
      const double weight = weight_[j].value();
      result.weight.push_back(weight);
      result.doubtful.push_back(doubtful_[j].value());
      if (weight > 0.0) {
        for (std::size_t i = j * d_; i < (j + 1) * d_; ++i) {
          result.deviation[i] = deviation_.value(j, i - j * d_) / weight;
          const double off = result.deviation[i];
          const double spread = std::sqrt(std::max(squares_[i] / weight - off * off, 0.0));
          const double mean = static_cast<double>(produced_[i]) + off - origin_->at[i - j * d_];
          result.slack[i] = slack_[i] / weight;
          // What is in doubt may be among the values that are rounded.
          result.rounding[i] =
              rounding_of(weights_[j], mean, spread) *
                  (magnitude_[i] / weight + result.slack[i] + origin_->in_doubt[i - j * d_]) +
              smallest_normal<T>;
          if (origin_->is_mean) {
            result.rounding[i] +=
                2.0 * unit_roundoff<T> * std::abs(static_cast<double>(produced_[i]));
          }
        }
      }
    }
    return result;
  }

private:
  std::span<const T> produced_;
  const Origin* origin_;
  std::size_t d_;
  std::vector<CompensatedSum> weight_;
  std::vector<CompensatedSum> doubtful_;
  CompensatedSums deviation_;
  std::vector<double> magnitude_; ///< sum(w * |x - origin|)
  std::vector<double> squares_;   ///< sum(w * (x - produced)^2)
  std::vector<double> slack_;
  std::vector<WeightsOfCluster> weights_;
};

} // namespace clusterbench
