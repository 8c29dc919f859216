// Fuzzy c-means over several processes: a rank computes the memberships of its shard's rows and
// their weighted sums, then the ranks exchange the sums, and every rank moves all centres by itself.
//
// Changed since fcm_simd: sums of threads are added up in a rank, and those of ranks after an
//   exchange, each in a fixed order. Every rank has the same sums and so the same centres to the
//   bit. Memberships never leave their rank.
// Source: article 001, section 2; the exchange is that of kmeans_mpi.
// Cost per iteration: of each of R ranks, n/R d sizeof(T) bytes read; 5 n/R k d flops;
//   R k (d + 1) doubles received, and as many added.
// Limits: bits differ between numbers of ranks and of threads. Every rank receives the sums of all
//   others, which is too much for many ranks with many centres. Started from memberships, the last
//   iteration sums centres that nobody asks for.
#include "impls/contract.hpp"
#include "impls/mpi/support/gathered_sums.hpp"
#include "impls/simd/support/aligned.hpp"
#include "impls/simd/support/dispatch.hpp"
#include "impls/simd/support/team.hpp"

#include <algorithm>

namespace clusterbench {
namespace {

constexpr std::size_t kChunk = simd::kRoundUp; ///< samples that the kernels take at once

/// What one thread of a rank works on and finds. Aligned: neighbours must not share a cache line.
template <typename T>
struct alignas(64) Part {
  simd::Range samples;
  simd::AlignedVector<T> distances, u; // [k, kChunk]
  simd::AlignedVector<T> uncollected;  // [k, padded(d)] of u^m x, not yet in sums
  std::vector<double> sums;            // [k, d] of u^m x
  std::vector<double> weights;         // [k] of u^m
  double loss = 0.0;
  bool changed = false; // a label
};

template <typename T>
class FcmMpi final : public Variant<T> {
public:
  std::string refuse(const Shape& shape) const override {
    return !(shape.fuzzifier > 1.0) ? "the fuzzifier must be greater than 1"
           : shape.k < ranks::GatheredSums::kMost / (shape.d + 2)
               ? ""
               : "k (d + 1) sums are more than MPI can count";
  }

  void prepare(const Shape& shape, const Points<T>& points) override {
    shape_ = shape;
    points_ = points.rows;
    const auto [n, d, k] = std::tuple(shape.n, shape.d, shape.k);
    constexpr std::size_t kWorthAThread = 10'000; // operations, about those of a barrier of threads
    const std::size_t worth = std::max<std::size_t>(n * d * k / kWorthAThread, 1);
    team_ = std::make_unique<simd::Team>(
        std::min(static_cast<std::size_t>(std::max(shape.threads, 1)), worth));
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
    sums_ = {k * d + k + 2, static_cast<std::size_t>(shape.world)};
  }

  void run(const Start<T>& start, Answer<T>& answer, Observer<T>& observer) override {
    const bool starts_from_centres = !shape_.starts_from_memberships;
    std::span<const double> sums;
    if (starts_from_centres) {
      std::ranges::copy(start.centroids, answer.centroids.begin());
      pad(answer);
    } else {
      std::ranges::fill(answer.centroids, T{0}); // of a cluster without any membership
      sums = sweep(start.memberships.data(), answer, observer, false);
    }
    StopTest stop(shape_.stop);
    PassFacts facts;
    do {
      const bool first = stop.passes() == 0;
      if (starts_from_centres) {
        sums = sweep(nullptr, answer, observer, stop.wants_loss());
      }
      const double shift = update_centres(sums, answer, observer);
      if (!starts_from_centres) {
        sums = sweep(nullptr, answer, observer, stop.wants_loss());
      }
      facts.loss = sums[sums.size() - 2];
      facts.labels_changed = first || sums.back() > 0.0;
      // There were no centres before the first pass, so none can have come to rest in it.
      facts.squared_shift = first && !starts_from_centres
                                ? std::numeric_limits<double>::infinity()
                                : shift;
      observer.pass(answer.centroids);
    } while (!stop.after_pass(facts));
    answer.iterations = stop.passes();
  }

  std::string chosen_path() const override { return std::string("rows, ") + kernels_.isa; }

private:
  std::size_t width() const { return simd::padded<T>(shape_.d); }

  /// Copies the centres to where the kernels read them.
  void pad(const Answer<T>& answer) {
    for (std::size_t j = 0; j < shape_.k; ++j) {
      std::copy_n(&answer.centroids[j * shape_.d], shape_.d, &padded_centres_[j * width()]);
    }
  }

  /// Memberships of all samples, unless they are given [n, k], and the sums of all ranks that make
  /// the next centres.
  std::span<const double> sweep(const T* given, Answer<T>& answer, Observer<T>& observer,
                                bool wants_loss) {
    {
      const Phase phase(observer, "memberships and sums");
      team_->run([&](std::size_t t) { sweep(given, answer, wants_loss, parts_[t]); });
      add_up_parts();
    }
    const Phase phase(observer, "exchange");
    return sums_.exchange();
  }

  void sweep(const T* given, Answer<T>& answer, bool wants_loss, Part<T>& part) const {
    const auto [d, k] = std::pair(shape_.d, shape_.k);
    const auto m = static_cast<T>(shape_.fuzzifier);
    std::ranges::fill(part.sums, 0.0);
    std::ranges::fill(part.weights, 0.0);
    part.loss = 0.0;
    part.changed = false;
    constexpr std::size_t kCollect = 1024; // samples whose sums may stay in T
    std::size_t uncollected = 0;
    for (std::size_t i = part.samples.begin; i < part.samples.end; i += kChunk) {
      const std::size_t count = std::min(kChunk, part.samples.end - i);
      const simd::Chunk<T> chunk{&points_[i * d], nullptr, count, d};
      if (given != nullptr) {
        each_membership(part, i, count, [&](T& u, std::size_t at) { u = given[at]; });
      } else {
        kernels_.distances_of_rows(chunk, padded_centres_.data(), k, part.distances.data(),
                                   /*alone=*/false);
        kernels_.memberships_of(part.distances.data(), k, T{1} / (m - T{1}), part.u.data());
        each_membership(part, i, count, [&](T& u, std::size_t at) { answer.memberships[at] = u; });
        part.changed |= label(part.u, answer.labels.subspan(i, count));
      }
      const bool weighs = given == nullptr && wants_loss;
      part.loss += kernels_.raise_to_weights(part.u.data(), k, count, m,
                                             weighs ? part.distances.data() : nullptr,
                                             part.weights.data());
      kernels_.weighted_sums_of_rows(chunk, part.u.data(), k, part.uncollected.data(),
                                     /*alone=*/given != nullptr);
      uncollected += count;
      if (uncollected >= kCollect || i + count == part.samples.end) {
        collect_sums(part);
        uncollected = 0;
      }
    }
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

  /// Sums, weights, loss and whether a label changed of this rank: its threads in the order of their
  /// numbers.
  void add_up_parts() {
    const std::span own = sums_.own();
    std::ranges::fill(own, 0.0);
    for (const Part<T>& part : parts_) {
      auto to = std::ranges::transform(part.sums, own, own.begin(), std::plus{}).out;
      to = std::ranges::transform(part.weights, std::span(to, own.end()), to, std::plus{}).out;
      own[own.size() - 2] += part.loss;
      own.back() += part.changed ? 1.0 : 0.0;
    }
  }

  /// Moves every centre to its weighted mean; that of an empty cluster stays. Returns the summed
  /// squared shift.
  double update_centres(std::span<const double> sums, Answer<T>& answer, Observer<T>& observer) {
    const Phase phase(observer, "centres");
    const std::span<const double> weights = sums.subspan(shape_.k * shape_.d, shape_.k);
    double squared_shift = 0.0;
    for (std::size_t c = 0; c < answer.centroids.size(); ++c) {
      const T entered = answer.entering[c] = answer.centroids[c];
      if (const double weight = weights[c / shape_.d]; weight > 0.0) {
        const auto centre = static_cast<T>(sums[c] / weight);
        const double shift = double{centre} - double{entered};
        squared_shift += shift * shift;
        answer.centroids[c] = centre;
      }
    }
    pad(answer);
    return squared_shift;
  }

  const simd::Kernels<T>& kernels_ = *simd::executable_kernels<T>().back();
  Shape shape_;
  std::span<const T> points_;             // [n, d] of this rank
  simd::AlignedVector<T> padded_centres_; // [k, padded(d)]
  ranks::GatheredSums sums_;              // [k, d], [k], loss, ranks with a changed label
  std::vector<Part<T>> parts_;            // [threads]
  std::unique_ptr<simd::Team> team_;      // last: its threads end before what they use
};

const Registration registration({.name = "fcm_mpi",
                                 .idea = "a shard of rows per process, sums exchanged in a fixed order",
                                 .source = "article 001, section 2, over processes",
                                 .family = Family::fcm,
                                 .device = Device::mpi,
                                 .previous = "fcm_simd"},
                                both_precisions<FcmMpi>());

} // namespace
} // namespace clusterbench
