// Fuzzy c-means in vector registers, a chunk of samples at a time.
//
// Changed since fcm_openmp: a chunk's distances are tiles of two samples by eight centres, added up
//   together; its memberships are loops over samples, which vectorise; its weighted sums stay in
//   registers for the whole chunk, where each sample used to load and store all k d of them. One
//   team of threads stays for the whole run. The kernels are compiled for several instruction sets.
//   Sums and memberships that nobody will read are not made.
// Source: article 001, section 2.
// Cost per iteration: n d sizeof(T) bytes read; 5 n k d flops, two of the three instructions
//   multiply-adds.
// Limits: bits differ between numbers of threads and between instruction sets; rows of fewer
//   features than a register has lanes leave the others idle.
#include "impls/contract.hpp"
#include "impls/simd/support/aligned.hpp"
#include "impls/simd/support/dispatch.hpp"
#include "impls/simd/support/team.hpp"

#include <algorithm>

namespace clusterbench {
namespace {

constexpr std::size_t kChunk = simd::kRoundUp; ///< samples; at d = 500 they are 128 KB of floats

/// What one thread works on and finds. Aligned: neighbours must not share a cache line.
template <typename T>
struct alignas(64) Part {
  simd::Range samples;
  simd::AlignedVector<T> distances, u; // [k, kChunk]
  simd::AlignedVector<T> uncollected;  // [k, padded(d)] of u^m x, not yet in sums
  std::vector<double> sums, weights;   // [k, d] of u^m x, [k] of u^m
  PassFacts facts[2];                  // of even and odd passes, see kmeans_simd
};

/// What a sweep over the samples is for.
template <typename T>
struct Purpose {
  const T* given; ///< memberships [n, k] of the start, or null: they come from the centres
  bool keep;      ///< they and the labels may be the answer
  bool sum;       ///< there will be another update of the centres
};

template <typename T>
class FcmSimd final : public Variant<T> {
public:
  std::string refuse(const Shape& shape) const override {
    return shape.fuzzifier > 1.0 ? "" : "the fuzzifier must be greater than 1";
  }

  void prepare(const Shape& shape, const Points<T>& points) override {
    shape_ = shape;
    points_ = points.rows;
    const auto [n, d, k] = std::tuple(shape.n, shape.d, shape.k);
    constexpr std::size_t kWorthAThread = 10'000; // operations, about those of a barrier
    const std::size_t worth = std::max<std::size_t>(n * d * k / kWorthAThread, 1);
    const auto threads = static_cast<std::size_t>(std::max(shape.threads, 1));
    team_ = std::make_unique<simd::Team>(std::min(threads, worth));
    parts_ = std::vector<Part<T>>(team_->size());
    for (std::size_t t = 0; t < parts_.size(); ++t) {
      Part<T>& part = parts_[t];
      part.samples = simd::share_of(n, t, parts_.size());
      part.distances.resize(k * kChunk);
      part.u.resize(k * kChunk);
      part.uncollected.resize(k * width());
      part.sums.resize(k * d);
      part.weights.resize(k);
    }
    padded_centres_.resize(k * width());
  }

  void run(const Start<T>& start, Answer<T>& answer, Observer<T>& observer) override {
    if (shape_.starts_from_memberships) {
      std::ranges::fill(answer.centroids, T{0}); // of a cluster without any membership
    } else {
      std::ranges::copy(start.centroids, answer.centroids.begin());
    }
    for (std::size_t j = 0; j < shape_.k; ++j) {
      pad(answer, j);
    }
    team_->run([&](std::size_t t) {
      Observer<T> nobody;
      run(t, start, answer, t == 0 ? observer : nobody);
    });
  }

  std::string chosen_path() const override { return std::string("rows, ") + kernels_.isa; }

private:
  std::size_t width() const { return simd::padded<T>(shape_.d); }

  /// Copies centre j to where the kernels read it.
  void pad(const Answer<T>& answer, std::size_t j) {
    std::copy_n(&answer.centroids[j * shape_.d], shape_.d, &padded_centres_[j * width()]);
  }

  /// The whole run as thread t sees it; every thread decides by itself when it is over.
  void run(std::size_t t, const Start<T>& start, Answer<T>& answer, Observer<T>& observer) {
    const bool starts_from_centres = !shape_.starts_from_memberships;
    StopTest stop(shape_.stop);
    PassFacts facts;
    if (!starts_from_centres) {
      sweep(parts_[t], {start.memberships.data(), false, true}, stop, answer, observer);
    }
    do {
      const std::size_t parity = stop.passes() % 2;
      const bool last = stop.passes() + 1 >= shape_.stop.max_iterations;
      const bool keep = last || shape_.stop.kind != StopRule::Kind::iterations;
      const auto renew = [&] {
        sweep(parts_[t], {nullptr, keep, starts_from_centres || !last}, stop, answer, observer);
      };
      if (starts_from_centres) {
        renew();
      }
      team_->barrier();
      const double shift = update_centres(t, answer, observer);
      team_->barrier();
      if (!starts_from_centres) {
        renew();
      }
      // There were no centres before the first pass, so none can have come to rest in it.
      const bool had_centres = starts_from_centres || stop.passes() > 0;
      parts_[t].facts[parity].squared_shift =
          had_centres ? shift : std::numeric_limits<double>::infinity();
      team_->barrier();
      facts = {.labels_changed = stop.passes() == 0};
      for (const Part<T>& part : parts_) {
        facts.loss += part.facts[parity].loss;
        facts.labels_changed |= part.facts[parity].labels_changed;
        facts.squared_shift += part.facts[parity].squared_shift;
      }
      observer.pass(answer.centroids); // nobody writes them before this thread's next barrier
    } while (!stop.after_pass(facts));
    if (t == 0) {
      answer.iterations = stop.passes();
    }
  }

  void sweep(Part<T>& part, Purpose<T> purpose, const StopTest& stop, Answer<T>& answer,
             Observer<T>& observer) const {
    const Phase phase(observer, "memberships and sums");
    const auto [d, k] = std::pair(shape_.d, shape_.k);
    std::ranges::fill(part.sums, 0.0);
    std::ranges::fill(part.weights, 0.0);
    const auto m = static_cast<T>(shape_.fuzzifier);
    PassFacts facts{.labels_changed = false};
    constexpr std::size_t kCollect = 1024; // samples whose sums may stay in T
    std::size_t uncollected = 0;
    for (std::size_t i = part.samples.begin; i < part.samples.end; i += kChunk) {
      const std::size_t count = std::min(kChunk, part.samples.end - i);
      const simd::Chunk<T> chunk{&points_[i * d], nullptr, count, d};
      if (purpose.given == nullptr) {
        kernels_.distances_of_rows(chunk, padded_centres_.data(), k, part.distances.data(),
                                   !purpose.sum);
        kernels_.memberships_of(part.distances.data(), k, T{1} / (m - T{1}), part.u.data());
      } else {
        each_membership(part, i, count, [&](T& u, std::size_t at) { u = purpose.given[at]; });
      }
      if (purpose.keep) {
        each_membership(part, i, count, [&](T u, std::size_t at) { answer.memberships[at] = u; });
        facts.labels_changed |= label(part.u, answer.labels.subspan(i, count));
      }
      if (!purpose.sum && !stop.wants_loss()) {
        continue;
      }
      const T* weighed =
          purpose.given == nullptr && stop.wants_loss() ? part.distances.data() : nullptr;
      facts.loss +=
          kernels_.raise_to_weights(part.u.data(), k, count, m, weighed, part.weights.data());
      kernels_.weighted_sums_of_rows(chunk, part.u.data(), k, part.uncollected.data(),
                                     purpose.given != nullptr);
      uncollected += count;
      if (uncollected >= kCollect || i + count == part.samples.end) {
        collect_sums(part);
        uncollected = 0;
      }
    }
    part.facts[stop.passes() % 2] = facts;
  }

  /// Calls visit(membership, its index in [n, k]) for all of a chunk, which begins with sample i.
  template <class Visit>
  void each_membership(Part<T>& part, std::size_t i, std::size_t count, Visit visit) const {
    for (std::size_t r = 0; r < count; ++r) {
      for (std::size_t j = 0; j < shape_.k; ++j) {
        visit(part.u[j * kChunk + r], (i + r) * shape_.k + j);
      }
    }
  }

  /// The largest membership of each sample, ties to the lowest index; whether any label changed.
  bool label(const simd::AlignedVector<T>& u, std::span<std::int32_t> labels) const {
    T largest[kChunk];
    std::int32_t best[kChunk] = {};
    std::copy_n(u.begin(), kChunk, largest);
    for (std::size_t j = 1; j < shape_.k; ++j) {
      for (std::size_t r = 0; r < kChunk; ++r) {
        const bool larger = u[j * kChunk + r] > largest[r];
        best[r] = larger ? static_cast<std::int32_t>(j) : best[r];
        largest[r] = larger ? u[j * kChunk + r] : largest[r];
      }
    }
    const bool changed = !std::equal(labels.begin(), labels.end(), best);
    std::copy_n(best, labels.size(), labels.begin());
    return changed;
  }

  /// Moves the sums of the last chunks to double.
  void collect_sums(Part<T>& part) const {
    for (std::size_t j = 0; j < shape_.k; ++j) {
      T* sum = &part.uncollected[j * width()];
      for (std::size_t f = 0; f < shape_.d; ++f) {
        part.sums[j * shape_.d + f] += double{sum[f]};
        sum[f] = T{0};
      }
    }
  }

  /// Moves this thread's share of the centres to their weighted means, the parts added up in the
  /// order of their numbers; that of an empty cluster stays. Returns the summed squared shift.
  double update_centres(std::size_t t, Answer<T>& answer, Observer<T>& observer) {
    const Phase phase(observer, "centres");
    const auto [d, k] = std::pair(shape_.d, shape_.k);
    double squared_shift = 0.0;
    for (std::size_t j = k * t / parts_.size(); j < k * (t + 1) / parts_.size(); ++j) {
      std::copy_n(&answer.centroids[j * d], d, &answer.entering[j * d]);
      double weight = 0.0;
      for (const Part<T>& part : parts_) {
        weight += part.weights[j];
      }
      for (std::size_t c = j * d; c < (j + 1) * d && weight > 0.0; ++c) {
        double sum = 0.0;
        for (const Part<T>& part : parts_) {
          sum += part.sums[c];
        }
        const auto centre = static_cast<T>(sum / weight);
        const double shift = double{centre} - double{answer.centroids[c]};
        squared_shift += shift * shift;
        answer.centroids[c] = centre;
      }
      pad(answer, j);
    }
    return squared_shift;
  }

  Shape shape_;
  std::span<const T> points_; // [n, d]
  const simd::Kernels<T>& kernels_ = *simd::executable_kernels<T>().back();
  simd::AlignedVector<T> padded_centres_; // [k, padded(d)]
  std::vector<Part<T>> parts_;            // [threads]
  std::unique_ptr<simd::Team> team_;      // last: its threads end before what they use
};

const Registration registration({.name = "fcm_simd",
                                 .idea = "chunks in vector registers, sums kept there",
                                 .source = "article 001, section 2, on CPU threads and vectors",
                                 .family = Family::fcm,
                                 .previous = "fcm_openmp"},
                                both_precisions<FcmSimd>());

} // namespace
} // namespace clusterbench
