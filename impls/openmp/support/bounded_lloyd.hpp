// The run that the k-means variants of bounds share: threads with a part of the points each, sums
// that follow the points that move, counted distances, stop rule. Which points are looked at is the
// variant's.
#pragma once

#include "impls/contract.hpp"
#include "impls/openmp/support/moving_sums.hpp"

#include <algorithm>
#include <tuple>

namespace clusterbench::openmp {

/// What one thread works on, points begin .. end - 1, and finds.
template <typename T>
struct BoundedPart {
  BoundedPart(std::size_t first, std::size_t last, std::size_t d, std::size_t k)
      : begin(first), end(last), sums(d, k) {}

  std::size_t begin, end;
  MovingSums<T> sums;
  bool changed = false;        // any label
  double loss = 0.0;           // sum of distances, not squared
  std::uint64_t evaluated = 0; // distances
};

/// A variant of bounds fills in what happens to a part's points in a pass; labels, sums and facts
/// are kept from pass to pass, so that only what changes is touched.
template <typename T>
class BoundedLloyd : public Variant<T> {
public:
  void run(const Start<T>& start, Answer<T>& answer, Observer<T>& observer) final {
    centroids_.start(start.centroids);
    labels_ = answer.labels;
    StopTest stop(shape_.stop);
    PassFacts facts;
    do {
      std::uint64_t evaluated = 0;
      {
        const Phase phase(observer, "assign and sum");
        const bool first = stop.passes() == 0;
        evaluated += start_pass(first);
        each_part([&](BoundedPart<T>& part) {
          first ? assign_first(part) : assign(part, stop.wants_loss());
        });
      }
      {
        const Phase phase(observer, "update");
        facts = {.labels_changed = false};
        for (const BoundedPart<T>& part : parts_) {
          facts.labels_changed |= part.changed;
          facts.loss += part.loss;
          evaluated += part.evaluated;
        }
        facts.squared_shift = centroids_.update(parts_);
        evaluated += shape_.k; // from each centroid to where it went
        centroids_moved();
      }
      observer.counter("distances", static_cast<double>(evaluated));
      observer.pass(centroids_.now());
    } while (!stop.after_pass(facts));
    std::ranges::copy(centroids_.now(), answer.centroids.begin());
    std::ranges::copy(centroids_.before(), answer.entering.begin());
    answer.iterations = stop.passes();
  }

  std::string chosen_path() const final { return centroids_.distances().layout(); }

protected:
  /// To be called by prepare() first.
  void start(const Shape& shape, const Points<T>& points) {
    shape_ = shape;
    points_ = points.rows;
    const auto [n, d, k] = std::tuple(shape.n, shape.d, shape.k);
    centroids_ = MovingCentroids<T>(d, k);
    const auto threads = static_cast<std::size_t>(std::max(shape.threads, 1));
    parts_.clear();
    for (std::size_t p = 0; p < threads; ++p) {
      parts_.emplace_back(n * p / threads, n * (p + 1) / threads, d, k);
    }
  }

  std::size_t threads() const { return parts_.size(); }

  /// Room for bounds [n, width], each touched first by the thread that works on its point.
  std::unique_ptr<T[]> bounds(std::size_t width) {
    auto values = std::make_unique_for_overwrite<T[]>(shape_.n * width);
    each_part([&](const BoundedPart<T>& part) {
      std::fill(&values[part.begin * width], &values[part.end * width], T{0});
    });
    return values;
  }

  Shape shape_;
  std::span<const T> points_; // [n, d]
  MovingCentroids<T> centroids_;
  std::span<std::int32_t> labels_; // [n] of the run's answer

private:
  /// What all points need before they are assigned. Returns the number of distances evaluated.
  virtual std::uint64_t start_pass(bool first) = 0;

  /// The first pass of a part: there is no bound yet, every distance is evaluated. Clears the sums
  /// and lets every point join one, sets its label, and all facts of the part.
  virtual void assign_first(BoundedPart<T>& part) = 0;

  /// A later pass: points whose label changes leave one sum and join another. Sets all facts of the
  /// part, the loss only if it is wanted.
  virtual void assign(BoundedPart<T>& part, bool wants_loss) = 0;

  /// Called after each update, when centroids_.moved() is known.
  virtual void centroids_moved() {}

  /// A loop over parts, not over threads: should the runtime grant fewer threads than asked for,
  /// the parts stay the same.
  template <typename Work>
  void each_part(Work work) {
    const auto threads = static_cast<int>(parts_.size());
#pragma omp parallel for num_threads(threads) schedule(static, 1)
    for (int p = 0; p < threads; ++p) {
      work(parts_[static_cast<std::size_t>(p)]);
    }
  }

  std::vector<BoundedPart<T>> parts_; // [threads]
};

} // namespace clusterbench::openmp
