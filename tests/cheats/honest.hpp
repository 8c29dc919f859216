// What every cheat is right with until it cheats: plain Lloyd.
#pragma once

#include "impls/contract.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace clusterbench::honest {

template <typename T>
double squared_distance(const T* x, const T* c, std::size_t d) {
  double sum = 0.0;
  for (std::size_t f = 0; f < d; ++f) {
    const double difference = static_cast<double>(x[f]) - static_cast<double>(c[f]);
    sum += difference * difference;
  }
  return sum;
}

template <typename T>
std::int32_t nearest(const T* x, std::span<const T> centroids, std::size_t d) {
  std::int32_t best = 0;
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t j = 0; j * d < centroids.size(); ++j) {
    const double distance = squared_distance(x, &centroids[j * d], d);
    if (distance < least) {
      least = distance;
      best = static_cast<std::int32_t>(j);
    }
  }
  return best;
}

/// So many passes from the start, which must be centroids, over every `stride`-th point; labels are
/// of all points in the last one.
template <typename T>
void lloyd(const Shape& shape, std::span<const T> rows, const Start<T>& start, Answer<T>& answer,
           Observer<T>& observer, std::size_t passes, std::size_t stride = 1) {
  const std::size_t n = shape.n, d = shape.d, k = shape.k;
  std::ranges::copy(start.centroids, answer.centroids.begin());
  for (std::size_t pass = 1; pass <= passes; ++pass) {
    std::ranges::copy(answer.centroids, answer.entering.begin());
    std::vector<double> sums(k * d), counts(k);
    for (std::size_t i = 0; i < n; i += pass == passes ? 1 : stride) {
      const std::int32_t label = nearest<T>(&rows[i * d], answer.entering, d);
      answer.labels[i] = label;
      if (i % stride != 0) {
        continue;
      }
      const auto j = static_cast<std::size_t>(label);
      counts[j] += 1.0;
      for (std::size_t f = 0; f < d; ++f) {
        sums[j * d + f] += static_cast<double>(rows[i * d + f]);
      }
    }
    for (std::size_t e = 0; e < k * d; ++e) {
      if (counts[e / d] > 0.0) {
        answer.centroids[e] = static_cast<T>(sums[e] / counts[e / d]);
      }
    }
    observer.pass(answer.centroids);
  }
  answer.iterations = passes;
}

/// An answer kept for later.
template <typename T>
struct Kept {
  std::vector<std::int32_t> labels;
  std::vector<T> centroids, entering;
  std::size_t iterations = 0;

  void keep(const Answer<T>& answer) {
    labels.assign(answer.labels.begin(), answer.labels.end());
    centroids.assign(answer.centroids.begin(), answer.centroids.end());
    entering.assign(answer.entering.begin(), answer.entering.end());
    iterations = answer.iterations;
  }
  void give(Answer<T>& answer) const {
    std::ranges::copy(labels, answer.labels.begin());
    std::ranges::copy(centroids, answer.centroids.begin());
    std::ranges::copy(entering, answer.entering.begin());
    answer.iterations = iterations;
  }
};

/// Cheats strike beyond the qualification's sizes.
inline bool is_a_cell(const Shape& shape) {
  return shape.n > 1500;
}

/// A class that keeps what prepare() gets.
template <typename T>
class Prepared : public Variant<T> {
public:
  std::string refuse(const Shape& shape) const override {
    return shape.stop.kind == StopRule::Kind::iterations ? "" : "a fixed number of passes only";
  }
  void prepare(const Shape& shape, const Points<T>& points) override {
    shape_ = shape;
    rows_ = points.rows;
  }

protected:
  void solve(const Start<T>& start, Answer<T>& answer, Observer<T>& observer) const {
    lloyd(shape_, rows_, start, answer, observer, shape_.stop.max_iterations);
  }

  Shape shape_;
  std::span<const T> rows_;
};

} // namespace clusterbench::honest

/// Registers the class template of a cheat.
#define CLUSTERBENCH_CHEAT(name_, class_)                                                          \
  const clusterbench::Registration registration(                                                   \
      {.name = name_, .idea = "a cheat", .source = "tests", .previous = ""},                       \
      clusterbench::both_precisions<class_>())
