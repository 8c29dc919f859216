// The run that the k-means variants of vectors share: threads that stay, chunks of points labelled
// and summed while they are in the cache, means, stop rule. How a chunk is labelled is the
// variant's.
#pragma once

#include "impls/contract.hpp"
#include "impls/simd/support/aligned.hpp"
#include "impls/simd/support/dispatch.hpp"
#include "impls/simd/support/fixed_sums.hpp"
#include "impls/simd/support/team.hpp"

#include <type_traits>

namespace clusterbench::simd {

/// Points of a chunk: about 32 KiB of them, so that summing finds in the cache what labelling read.
inline std::size_t chunk_size(std::size_t d, std::size_t bytes_per_value) {
  constexpr std::size_t kBytes = 32 << 10;
  return rounded_up(std::clamp<std::size_t>(kBytes / (d * bytes_per_value), 1, 4096));
}

/// What one thread works on and finds. Aligned: neighbours must not share a cache line.
template <typename T>
struct alignas(64) Part {
  Range points;
  std::vector<std::int32_t> labels;    // of a chunk
  std::vector<T> distances;            // of a chunk
  std::vector<T> scratch;              // of the summing kernel, zeros
  UntouchedVector<double> sums;        // [k, d]; a run sets these two to zero
  std::vector<double> counts;          // [k]; of weights, where points have some
  UntouchedVector<std::uint64_t> kept; // sums from pass to pass, in the place of `sums`, or empty
  /// Facts of even and odd passes: a thread that is ahead must not overwrite what others read.
  PassFacts facts[2];
};

template <typename T>
class Lloyd : public Variant<T> {
public:
  void run(const Start<T>& start, Answer<T>& answer, Observer<T>& observer) final {
    std::ranges::copy(start.centroids, answer.centroids.begin());
    answer_ = answer;
    team_->run([&](std::size_t t) {
      Observer<T> nobody;
      const std::size_t passes = run(t, t == 0 ? observer : nobody);
      if (t == 0) {
        answer.iterations = passes;
      }
    });
  }

protected:
  const Shape& shape() const { return shape_; }
  std::span<const T> points() const { return points_; }
  std::span<const T> weights() const { return weights_; }            // of the points, or empty
  std::span<const T> centroids() const { return answer_.centroids; } // that enter the pass
  const Kernels<T>& kernels() const { return kernels_; }
  Team& team() { return *team_; }

  /// To be called by prepare(), these three in their order.
  void start_team(const Shape& shape, const Points<T>& points) {
    shape_ = shape;
    points_ = points.rows;
    weights_ = points.weights;
    chunk_ = chunk_size(shape.d, sizeof(T));
    // A barrier costs about as much as this many operations; less work is done by one thread.
    constexpr std::size_t kWorthAThread = 20'000;
    const std::size_t worth = std::max<std::size_t>(shape.n * shape.d * shape.k / kWorthAThread, 1);
    const auto threads = static_cast<std::size_t>(std::max(shape.threads, 1));
    team_ = std::make_unique<Team>(std::min(threads, worth));
    fixed_ = {};
  }

  /// Reads all points once. moves: whether rows that change their cluster may be moved, where they
  /// are float and finite. take(t, i, count) gets `count` points from i on that thread t has in its
  /// first-level cache: a multiple of kRoundUp, or what is left.
  template <class Take>
  void read_points(bool moves, Take take) {
    const bool looks = moves && std::is_same_v<T, float>;
    if constexpr (std::is_same_v<T, float>) {
      fixed_ = looks ? FixedSums(points_, shape_.d, team_->size()) : FixedSums();
    }
    const std::size_t step = chunk_size(shape_.d, 2 * sizeof(T)); // half of a chunk's bytes
    team_->run([&](std::size_t t) {
      const auto [begin, end] = share_of(shape_.n, t, team_->size());
      for (std::size_t i = begin; i < end; i += step) {
        const std::size_t count = std::min(step, end - i);
        if (looks) {
          fixed_.look(t, i, count);
        }
        take(t, i, count);
      }
    });
    if (looks) {
      fixed_.settle(*team_);
    }
  }

  /// uses_scratch: points are summed with scratch, where they are not moved.
  void make_parts(bool uses_scratch) {
    const auto [n, d, k] = std::tuple(shape_.n, shape_.d, shape_.k);
    uses_scratch_ = uses_scratch && !fixed_.usable();
    parts_ = std::vector<Part<T>>(team_->size());
    team_->run([&](std::size_t t) { // each touches its own first
      Part<T>& part = parts_[t];
      part.points = share_of(n, t, parts_.size());
      part.labels.resize(chunk_);
      part.distances.resize(chunk_);
      part.scratch.resize(uses_scratch_ ? scratch_size<T>(k, d) : 0);
      part.sums.resize(fixed_.usable() ? 0 : k * d);
      part.kept.resize(fixed_.usable() ? k * fixed_.width() : 0);
      part.counts.resize(k);
    });
  }

  /// Whether rows that change their cluster are moved; then assign_and_sum() only assigns.
  bool moves() const { return fixed_.usable(); }

private:
  /// Whether assign_and_sum() needs room for labels even if nobody asks for them.
  virtual bool needs_labels() const = 0;

  /// What thread t does for a new set of centroids; followed by a barrier if others depend on it.
  virtual void start_pass(std::size_t t) = 0;

  /// Labels `count` points from point i on, and adds them to the sums of the part or to its
  /// scratch.
  virtual void assign_and_sum(std::size_t t, Part<T>& part, std::size_t i, std::size_t count,
                              std::int32_t* labels, T* distances) = 0;

  /// The whole run as thread t sees it, and the number of passes. Every thread decides by itself,
  /// from the same facts, when it is over: that saves a barrier.
  std::size_t run(std::size_t t, Observer<T>& observer) {
    StopTest stop(shape_.stop);
    PassFacts facts;
    if (moves()) {
      forget(parts_[t]);
    }
    do {
      const std::size_t parity = stop.passes() % 2;
      {
        const Phase phase(observer, "assign and sum");
        start_pass(t);
        assign_and_sum(t, parity, stop);
        team_->barrier();
      }
      {
        const Phase phase(observer, "update");
        parts_[t].facts[parity].squared_shift = update(t);
        team_->barrier();
      }
      facts = {.labels_changed = false};
      for (const Part<T>& part : parts_) {
        facts.loss += part.facts[parity].loss;
        facts.labels_changed |= part.facts[parity].labels_changed;
        facts.squared_shift += part.facts[parity].squared_shift;
      }
      observer.pass(centroids()); // nobody writes centroids before this thread's next barrier
    } while (!stop.after_pass(facts));
    return stop.passes();
  }

  /// No point belongs to a cluster.
  void forget(Part<T>& part) {
    std::ranges::fill(part.kept, 0);
    std::ranges::fill(part.counts, 0.0);
    const auto [begin, end] = part.points;
    std::ranges::fill(answer_.labels.subspan(begin, end - begin), -1);
  }

  void assign_and_sum(std::size_t t, std::size_t parity, const StopTest& stop) {
    Part<T>& part = parts_[t];
    if (!moves()) {
      std::ranges::fill(part.sums, 0.0);
      std::ranges::fill(part.counts, 0.0);
    }
    std::size_t changed = 0; // labels
    PassFacts facts{.labels_changed = false};
    // Labels are part of the answer, so only the last pass must keep them, where it is known.
    const bool keep_labels = moves() || shape_.stop.kind != StopRule::Kind::iterations ||
                             stop.passes() + 1 == shape_.stop.max_iterations;
    constexpr std::size_t kCollect = 4096; // points whose sums may stay in T
    std::size_t uncollected = 0;
    for (std::size_t i = part.points.begin; i < part.points.end; i += chunk_) {
      const std::size_t count = std::min(chunk_, part.points.end - i);
      T* distances = stop.wants_loss() ? part.distances.data() : nullptr;
      std::int32_t* labels = keep_labels || needs_labels() ? part.labels.data() : nullptr;
      assign_and_sum(t, part, i, count, labels, distances);
      uncollected += count;
      if (uses_scratch_ && (uncollected >= kCollect || i + count == part.points.end)) {
        kernels_.collect_sums(shape_.k, shape_.d, part.scratch.data(), part.sums.data(),
                              part.counts.data());
        uncollected = 0;
      }
      if (stop.wants_loss()) {
        facts.loss += weights_.empty() ? kernels_.sum_of_roots(part.distances.data(), count)
                                       : kernels_.sum_of_weighted_roots(part.distances.data(),
                                                                        &weights_[i], count);
      }
      std::int32_t* previous = &answer_.labels[i];
      if (moves()) {
        changed += move(part, i, count, labels, previous);
      } else if (keep_labels) {
        for (std::size_t r = 0; r < count; ++r) {
          changed += labels[r] != previous[r];
        }
        std::copy_n(labels, count, previous);
      }
    }
    facts.labels_changed = changed > 0 || stop.passes() == 0; // at first there are no labels
    part.facts[parity] = facts;
  }

  std::size_t move(Part<T>& part, std::size_t i, std::size_t count, const std::int32_t* labels,
                   std::int32_t* previous) {
    if constexpr (std::is_same_v<T, float>) {
      return kernels_.move_rows({&points_[i * shape_.d], nullptr, count, shape_.d}, labels,
                                previous, fixed_.kernel(), part.kept.data(), part.counts.data());
    } else {
      return 0;
    }
  }

  /// Moves this thread's share of the centroids to the means of their points, the parts added up in
  /// the order of their numbers. Returns their summed squared shift.
  double update(std::size_t t) {
    const auto [d, k] = std::pair(shape_.d, shape_.k);
    double squared_shift = 0.0;
    std::vector<double> total(d);
    std::vector<std::size_t> anew; // clusters to be summed from their points
    for (std::size_t j = k * t / parts_.size(); j < k * (t + 1) / parts_.size(); ++j) {
      std::copy_n(&answer_.centroids[j * d], d, &answer_.entering[j * d]);
      const double count = count_of(j);
      if (count == 0.0) { // an empty cluster stays
        continue;
      }
      if (add_up_parts(j, count, total)) {
        squared_shift += move_centroid(j, count, total.data());
      } else {
        anew.push_back(j);
      }
    }
    return squared_shift + (anew.empty() ? 0.0 : update_anew(anew));
  }

  double count_of(std::size_t j) const {
    double count = 0.0;
    for (const Part<T>& part : parts_) {
      count += part.counts[j];
    }
    return count;
  }

  double move_centroid(std::size_t j, double count, const double* total) {
    double squared_shift = 0.0;
    for (std::size_t f = 0; f < shape_.d; ++f) {
      const auto mean = static_cast<T>(total[f] / count);
      T& value = answer_.centroids[j * shape_.d + f];
      const double shift = double{mean} - double{value};
      squared_shift += shift * shift;
      value = mean;
    }
    return squared_shift;
  }

  /// The sums [d] over the `count` points of cluster j; false if they are not near enough.
  bool add_up_parts(std::size_t j, double count, std::vector<double>& total) const {
    if (!moves()) {
      std::ranges::fill(total, 0.0);
      for (const Part<T>& part : parts_) {
        for (std::size_t f = 0; f < shape_.d; ++f) {
          total[f] += part.sums[j * shape_.d + f];
        }
      }
      return true;
    }
    bool near_enough = true;
    for (std::size_t f = 0; f < shape_.d; ++f) {
      std::uint64_t units = 0;
      for (const Part<T>& part : parts_) {
        units += part.kept[j * fixed_.width() + f];
      }
      total[f] = fixed_.value(units, count, f);
      near_enough &= fixed_.near_enough(total[f], count, f);
    }
    return near_enough;
  }

  /// update() for clusters that moved sums do not serve: one look at all labels.
  double update_anew(const std::vector<std::size_t>& clusters) {
    const std::size_t d = shape_.d;
    std::vector<std::int32_t> place(shape_.k, -1);
    for (std::size_t c = 0; c < clusters.size(); ++c) {
      place[clusters[c]] = static_cast<std::int32_t>(c);
    }
    std::vector<double> sums(clusters.size() * d);
    for (std::size_t i = 0; i < shape_.n; ++i) {
      const std::int32_t c = place[static_cast<std::size_t>(answer_.labels[i])];
      for (std::size_t f = 0; c >= 0 && f < d; ++f) {
        sums[static_cast<std::size_t>(c) * d + f] += double{points_[i * d + f]};
      }
    }
    double squared_shift = 0.0;
    for (std::size_t c = 0; c < clusters.size(); ++c) {
      squared_shift += move_centroid(clusters[c], count_of(clusters[c]), &sums[c * d]);
    }
    return squared_shift;
  }

  const Kernels<T>& kernels_ = *executable_kernels<T>().back();
  Shape shape_;
  std::span<const T> points_;  // [n, d]
  std::span<const T> weights_; // [n], or empty: all are 1
  bool uses_scratch_ = false;
  FixedSums fixed_; // if points are moved
  std::size_t chunk_ = 0;
  Answer<T> answer_;           // of the run
  std::vector<Part<T>> parts_; // [threads]
  std::unique_ptr<Team> team_; // its threads sleep between runs
};

} // namespace clusterbench::simd
