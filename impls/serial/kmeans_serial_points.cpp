// K-means on points in the plane, written straight down with one struct per point.
//
// Idea: a point is a pair (x, y); find every point's nearest mean, then sum and divide.
// First step. No matrix and no square root; the distance is one expression without a loop over
//   features, so the compiler sees all of it.
// Source: article 004, section "C++" (there in double only). Not kept: there the mean of an empty
//   cluster jumps to the origin (0 / 1); here it stays.
// Cost per iteration: 4 n sizeof(T) + 8 n bytes; 6 n k flops.
// Limits: d = 2; one thread; sums in T, as a plain program would, lose digits in float as n grows.
#include "impls/contract.hpp"

#include <algorithm>

namespace clusterbench {
namespace {

template <typename T>
struct Point {
  T x = 0;
  T y = 0;
};

template <typename T>
T squared_distance(Point<T> a, Point<T> b) {
  return (a.x - b.x) * (a.x - b.x) + (a.y - b.y) * (a.y - b.y);
}

template <typename T>
std::vector<Point<T>> as_points(std::span<const T> coordinates) {
  std::vector<Point<T>> points(coordinates.size() / 2);
  for (std::size_t i = 0; i < points.size(); ++i) {
    points[i] = {coordinates[2 * i], coordinates[2 * i + 1]};
  }
  return points;
}

template <typename T>
void write(const std::vector<Point<T>>& points, std::span<T> coordinates) {
  for (std::size_t i = 0; i < points.size(); ++i) {
    coordinates[2 * i] = points[i].x;
    coordinates[2 * i + 1] = points[i].y;
  }
}

template <typename T>
class KmeansSerialPoints final : public Variant<T> {
public:
  std::string refuse(const Shape& shape) const override {
    return shape.d == 2 ? "" : "takes points in the plane only (d = 2)";
  }

  void prepare(const Shape& shape, const Points<T>& points) override {
    stop_rule_ = shape.stop;
    points_ = as_points(points.rows);
  }

  void run(const Start<T>& start, Answer<T>& answer, Observer<T>& observer) override {
    means_ = as_points(start.centroids);
    StopTest stop(stop_rule_);
    PassFacts facts;
    do {
      facts = {.labels_changed = stop.passes() == 0};
      write(means_, answer.entering);
      assign(answer.labels, observer, facts, stop.wants_loss());
      update(answer.labels, observer, facts);
      write(means_, answer.centroids);
      observer.pass(answer.centroids);
    } while (!stop.after_pass(facts));
    answer.iterations = stop.passes();
  }

private:
  void assign(std::span<std::int32_t> labels, Observer<T>& observer, PassFacts& facts,
              bool wants_loss) {
    const Phase phase(observer, "assign");
    for (std::size_t i = 0; i < points_.size(); ++i) {
      T smallest = std::numeric_limits<T>::infinity();
      std::int32_t label = 0;
      for (std::size_t j = 0; j < means_.size(); ++j) {
        const T distance = squared_distance(points_[i], means_[j]);
        if (distance < smallest) {
          smallest = distance;
          label = static_cast<std::int32_t>(j);
        }
      }
      facts.labels_changed |= std::exchange(labels[i], label) != label;
      facts.loss += wants_loss ? std::sqrt(double{smallest}) : 0.0;
    }
  }

  void update(std::span<const std::int32_t> labels, Observer<T>& observer, PassFacts& facts) {
    const Phase phase(observer, "update");
    std::vector<Point<T>> sums(means_.size());
    std::vector<std::size_t> counts(means_.size());
    for (std::size_t i = 0; i < points_.size(); ++i) {
      const auto j = static_cast<std::size_t>(labels[i]);
      sums[j].x += points_[i].x;
      sums[j].y += points_[i].y;
      ++counts[j];
    }
    for (std::size_t j = 0; j < means_.size(); ++j) {
      if (counts[j] > 0) {
        const auto count = static_cast<T>(counts[j]);
        const Point<T> mean{sums[j].x / count, sums[j].y / count};
        facts.squared_shift += double{squared_distance(mean, means_[j])};
        means_[j] = mean;
      }
    }
  }

  StopRule stop_rule_;
  std::vector<Point<T>> points_; // [n]
  std::vector<Point<T>> means_;  // [k]
};

const Registration registration({.name = "kmeans_serial_points",
                                 .idea = "points in the plane, one struct each",
                                 .source = "article 004, section \"C++\"",
                                 .min_d = 2,
                                 .max_d = 2,
                                 .previous = ""},
                                both_precisions<KmeansSerialPoints>());

} // namespace
} // namespace clusterbench
