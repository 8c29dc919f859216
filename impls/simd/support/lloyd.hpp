// The run that the k-means variants of vectors share: threads that stay, chunks of points labelled and
// summed while they are in the cache, means, stop rule. How a chunk is labelled is the variant's.
#pragma once

#include "impls/contract.hpp"
#include "impls/simd/support/aligned.hpp"
#include "impls/simd/support/columns.hpp"
#include "impls/simd/support/dispatch.hpp"
#include "impls/simd/support/team.hpp"

namespace clusterbench::simd {

/// Points of a chunk: about 32 KiB of them, so that summing finds in the cache what labelling read.
inline std::size_t chunk_size(std::size_t d, std::size_t bytes_per_value) {
  constexpr std::size_t kBytes = 32 << 10;
  return rounded_up(std::clamp<std::size_t>(kBytes / (d * bytes_per_value), 1, 4096));
}

/// What one thread works on and finds. Aligned: neighbours must not share a cache line.
template <typename T>
struct alignas(64) Part {
  std::size_t begin = 0, end = 0;   // points
  std::vector<std::int32_t> labels; // of a chunk
  std::vector<T> distances;         // of a chunk
  std::vector<T> scratch;           // of the summing kernel, zeros
  std::vector<double> sums, counts; // [k, d], [k]
  bool keeps = false;               // its sums from pass to pass
  std::size_t changed = 0;          // labels in the last pass
  AlignedVector<double> kept;       // sums of sum_changes
  /// Facts of even and odd passes: a thread that is ahead must not overwrite what others read.
  PassFacts facts[2];
};

template <typename T>
class Lloyd : public Variant<T> {
public:
  void run(Observer<T>& observer) final {
    centroids_.assign(problem_.centroids.begin(), problem_.centroids.end());
    std::ranges::fill(labels_, -1);
    team_->run([&](std::size_t t) {
      Observer<T> nobody;
      run(t, t == 0 ? observer : nobody);
    });
  }

  void fetch(Result<T>& result) final {
    std::ranges::copy(labels_, result.labels.begin());
    std::ranges::copy(centroids_, result.centroids.begin());
    result.iterations = iterations_;
  }

protected:
  const Problem<T>& problem() const { return problem_; }
  const std::vector<T>& centroids() const { return centroids_; }
  std::size_t threads() const { return parts_.size(); }
  void barrier() { team_->barrier(); }

  /// To be called by prepare() first. may_keep_sums: there is a sum_changes().
  void start_team(const Problem<T>& problem, bool uses_scratch, bool may_keep_sums = false) {
    problem_ = problem;
    uses_scratch_ = uses_scratch;
    may_keep_sums_ = may_keep_sums;
    const auto [n, d, k] = std::tuple(problem.n, problem.d, problem.k);
    chunk_ = chunk_size(d, sizeof(T));
    labels_.resize(n);
    // A barrier costs about as much as this many operations; less work is done by one thread.
    constexpr std::size_t kWorthAThread = 20'000;
    const std::size_t worth = std::max<std::size_t>(n * d * k / kWorthAThread, 1);
    const auto threads = static_cast<std::size_t>(std::max(problem.threads, 1));
    team_ = std::make_unique<Team>(std::min(threads, worth));
    parts_ = std::vector<Part<T>>(team_->size());
    for (std::size_t t = 0; t < parts_.size(); ++t) {
      Part<T>& part = parts_[t];
      const std::size_t rounds = rounded_up(n) / kRoundUp;
      part.begin = std::min(rounds * t / parts_.size() * kRoundUp, n);
      part.end = std::min(rounds * (t + 1) / parts_.size() * kRoundUp, n);
      part.labels.resize(chunk_);
      part.distances.resize(chunk_);
      part.scratch.resize(uses_scratch ? scratch_size<T>(k, d) : 0);
      part.sums.resize(k * d);
      part.counts.resize(k);
      part.kept.resize(may_keep_sums ? 2 * k * padded<double>(d) : 0);
    }
  }

private:
  /// Whether assign_and_sum() needs room for labels even if nobody asks for them.
  virtual bool needs_labels() const = 0;

  /// What thread t does for a new set of centroids; followed by a barrier if others depend on it.
  virtual void start_pass(std::size_t t) = 0;

  /// Labels `count` points from point i on, and adds them to the sums of the part or to its scratch.
  virtual void assign_and_sum(std::size_t t, Part<T>& part, std::size_t i, std::size_t count,
                              std::int32_t* labels, T* distances) = 0;

  /// For a part that keeps its sums: moves the points of a chunk that have changed their labels, or
  /// adds all of them. Returns how many have changed.
  virtual std::size_t sum_changes(Part<T>& /*part*/, std::size_t /*i*/, std::size_t /*count*/,
                                  const std::int32_t* /*labels*/, std::int32_t* /*previous*/,
                                  bool /*all*/) {
    return 0;
  }

  /// The whole run as thread t sees it. Every thread decides by itself, from the same facts, when
  /// it is over: that saves a barrier.
  void run(std::size_t t, Observer<T>& observer) {
    StopTest stop(problem_.stop);
    PassFacts facts;
    parts_[t].keeps = false;
    parts_[t].changed = problem_.n;
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
      observer.pass(centroids_); // nobody writes centroids before this thread's next barrier
    } while (!stop.after_pass(facts));
    if (t == 0) {
      iterations_ = stop.passes();
    }
  }

  void assign_and_sum(std::size_t t, std::size_t parity, const StopTest& stop) {
    Part<T>& part = parts_[t];
    const bool starts_keeping = keeps_from_now_on(part);
    if (!part.keeps || starts_keeping) {
      std::ranges::fill(part.sums, 0.0);
      std::ranges::fill(part.counts, 0.0);
    }
    part.changed = 0;
    PassFacts facts{.labels_changed = false};
    // Labels are part of the answer, so only the last pass must keep them, where it is known.
    const bool keep_labels = may_keep_sums_ || problem_.stop.kind != StopRule::Kind::iterations ||
                             stop.passes() + 1 == problem_.stop.max_iterations;
    constexpr std::size_t kCollect = 4096; // points whose sums may stay in T
    std::size_t uncollected = 0;
    for (std::size_t i = part.begin; i < part.end; i += chunk_) {
      const std::size_t count = std::min(chunk_, part.end - i);
      T* distances = stop.wants_loss() ? part.distances.data() : nullptr;
      std::int32_t* labels = keep_labels || needs_labels() ? part.labels.data() : nullptr;
      assign_and_sum(t, part, i, count, labels, distances);
      uncollected += count;
      if (uses_scratch_ && !part.keeps && (uncollected >= kCollect || i + count == part.end)) {
        kernels_.collect_sums(problem_.k, problem_.d, part.scratch.data(), part.sums.data(),
                              part.counts.data());
        uncollected = 0;
      }
      if (stop.wants_loss()) {
        facts.loss += kernels_.sum_of_roots(part.distances.data(), count);
      }
      if (part.keeps) {
        part.changed += sum_changes(part, i, count, labels, &labels_[i], starts_keeping);
      } else if (keep_labels) {
        for (std::size_t r = 0; r < count; ++r) {
          part.changed += labels[r] != labels_[i + r];
        }
        std::copy_n(labels, count, &labels_[i]);
      }
    }
    if (part.keeps) {
      join_kept_sums(part);
    }
    facts.labels_changed = part.changed > 0;
    part.facts[parity] = facts;
  }

  /// Whether a part begins to keep its sums: to set them up costs as much as some passes without.
  bool keeps_from_now_on(Part<T>& part) const {
    constexpr std::size_t kFew = 16; // one label of so many has changed
    if (!may_keep_sums_ || part.keeps || part.changed * kFew > part.end - part.begin) {
      return false;
    }
    std::ranges::fill(part.kept, 0.0);
    part.keeps = true;
    return true;
  }

  void join_kept_sums(Part<T>& part) const {
    const auto [d, k] = std::pair(problem_.d, problem_.k);
    const std::size_t width = padded<double>(d);
    for (std::size_t j = 0; j < k; ++j) {
      const double* high = &part.kept[j * width];
      for (std::size_t f = 0; f < d; ++f) {
        part.sums[j * d + f] = high[f] + high[k * width + f];
      }
    }
  }

  /// Moves this thread's share of the centroids to the means of their points, the parts added up in
  /// the order of their numbers. Returns their summed squared shift.
  double update(std::size_t t) {
    const auto [d, k] = std::pair(problem_.d, problem_.k);
    double squared_shift = 0.0;
    for (std::size_t j = k * t / parts_.size(); j < k * (t + 1) / parts_.size(); ++j) {
      double count = 0.0;
      for (const Part<T>& part : parts_) {
        count += part.counts[j];
      }
      if (count == 0.0) { // an empty cluster stays
        continue;
      }
      for (std::size_t c = j * d; c < (j + 1) * d; ++c) {
        double sum = 0.0;
        for (const Part<T>& part : parts_) {
          sum += part.sums[c];
        }
        const auto mean = static_cast<T>(sum / count);
        const double shift = double{mean} - double{centroids_[c]};
        squared_shift += shift * shift;
        centroids_[c] = mean;
      }
    }
    return squared_shift;
  }

  const Kernels<T>& kernels_ = *executable_kernels<T>().back();
  Problem<T> problem_;
  bool uses_scratch_ = false, may_keep_sums_ = false;
  std::size_t chunk_ = 0;
  std::vector<T> centroids_;         // [k, d]
  std::vector<std::int32_t> labels_; // [n]
  std::vector<Part<T>> parts_;       // [threads]
  std::size_t iterations_ = 0;
  std::unique_ptr<Team> team_; // its threads sleep between runs
};

} // namespace clusterbench::simd
