// K-means over several processes: a rank labels and sums the rows of its shard, then the ranks
// exchange their sums, and every rank moves all centroids by itself.
//
// Changed since kmeans_simd: sums of threads are added up in a rank, and those of ranks after an
//   exchange, each in a fixed order. Every rank has the same sums and so the same centroids to the
//   bit. Ranks share no memory, so they may have the memory and the caches of several sockets. A
//   pass has two of kmeans_simd's kernels, one for labels and one for sums.
// Source: Dhillon and Modha 2000, A Data-Clustering Algorithm on Distributed Memory Multiprocessors
//   (an all-reduce of sums and counts in every pass).
// Cost per iteration: of each of R ranks, n/R d sizeof(T) bytes read; 3 n/R k d + n/R d flops;
//   R k (d + 1) doubles received, and as many added.
// Limits: bits differ between numbers of ranks and of threads. Every rank receives the sums of all
//   others, which is too much for many ranks with many centroids. Points are copied into columns.
#include "impls/contract.hpp"
#include "impls/mpi/support/gathered_sums.hpp"
#include "impls/simd/support/aligned.hpp"
#include "impls/simd/support/dispatch.hpp"
#include "impls/simd/support/team.hpp"

#include <algorithm>

namespace clusterbench {
namespace {

/// What one thread of a rank works on and finds. Aligned: neighbours must not share a cache line.
template <typename T>
struct alignas(64) Part {
  simd::Range points;
  std::vector<std::int32_t> labels; // of a chunk
  std::vector<T> distances;         // of a chunk
  std::vector<T> scratch;           // of the summing kernel, zeros
  std::vector<double> sums, counts; // [k, d], [k]; of weights, where points have some
  double loss = 0.0;
  std::size_t changed = 0; // labels
};

template <typename T>
class KmeansMpi final : public Variant<T> {
public:
  std::string refuse(const Shape& shape) const override {
    return shape.k < ranks::GatheredSums::kMost / (shape.d + 2)
               ? ""
               : "k (d + 1) sums are more than MPI can count";
  }

  void prepare(const Shape& shape, const Points<T>& points) override {
    shape_ = shape;
    points_ = points.rows;
    weights_ = points.weights;
    const auto [n, d, k] = std::tuple(shape.n, shape.d, shape.k);
    // About 32 KiB of points, so that summing finds in the cache what labelling read.
    chunk_ = simd::rounded_up(std::clamp<std::size_t>((32 << 10) / (d * sizeof(T)), 1, 4096));
    // A barrier of threads costs about as much as this many operations.
    constexpr std::size_t kWorthAThread = 20'000;
    const std::size_t worth = std::max<std::size_t>(n * d * k / kWorthAThread, 1);
    team_ = std::make_unique<simd::Team>(
        std::min(static_cast<std::size_t>(std::max(shape.threads, 1)), worth));
    parts_ = std::vector<Part<T>>(team_->size());
    columns_.resize(simd::rounded_up(n) * d);
    sums_ = {k * d + k + 2, static_cast<std::size_t>(shape.world)};
    team_->run([&, d = d, k = k, n = n](std::size_t t) {
      Part<T>& part = parts_[t];
      part.points = simd::share_of(n, t, parts_.size());
      part.labels.resize(chunk_);
      part.distances.resize(chunk_);
      part.scratch.resize(sums_by_label() ? simd::scratch_size<T>(k, d) : 0);
      part.sums.resize(k * d);
      part.counts.resize(k);
      for (std::size_t i = part.points.begin; i < part.points.end; i += simd::kRoundUp) {
        const std::size_t count = std::min(simd::kRoundUp, part.points.end - i);
        kernels_.columns_of_rows({&points_[i * d], nullptr, count, d}, nullptr, &columns_[i * d]);
      }
    });
  }

  void run(const Start<T>& start, Answer<T>& answer, Observer<T>& observer) override {
    std::ranges::copy(start.centroids, answer.centroids.begin());
    StopTest stop(shape_.stop);
    PassFacts facts;
    do {
      {
        const Phase phase(observer, "assign and sum");
        team_->run([&](std::size_t t) { assign_and_sum(parts_[t], answer, stop.wants_loss()); });
        add_up_parts();
      }
      std::span<const double> sums;
      {
        const Phase phase(observer, "exchange");
        sums = sums_.exchange();
      }
      {
        const Phase phase(observer, "update");
        facts.squared_shift = update(sums, answer);
      }
      facts.loss = sums[sums.size() - 2];
      facts.labels_changed = stop.passes() == 0 || sums.back() > 0.0;
      observer.pass(answer.centroids);
    } while (!stop.after_pass(facts));
    answer.iterations = stop.passes();
  }

  std::string chosen_path() const override {
    return std::string(shape_.d <= simd::kSmallD ? "few features" : "tiles") +
           (!weights_.empty() ? ", weighted sums, "
            : sums_by_label() ? ", sums by label, "
                              : ", sums in double, ") +
           kernels_.isa;
  }

private:
  /// Sums in T that stay in the cache; else in double at once.
  bool sums_by_label() const { return weights_.empty() && shape_.k * shape_.d <= 2048; }

  void assign_and_sum(Part<T>& part, Answer<T>& answer, bool wants_loss) const {
    const auto [d, k] = std::pair(shape_.d, shape_.k);
    const simd::AssignKernel<T> assign =
        d <= simd::kSmallD ? kernels_.assign_small_d[d] : kernels_.assign_columns;
    const simd::SumKernel<T> sum = sums_by_label() ? kernels_.sum_by_label : kernels_.sum_in_double;
    std::ranges::fill(part.sums, 0.0);
    std::ranges::fill(part.counts, 0.0);
    part.loss = 0.0;
    part.changed = 0;
    constexpr std::size_t kCollect = 4096; // points whose sums may stay in T
    std::size_t uncollected = 0;
    for (std::size_t i = part.points.begin; i < part.points.end; i += chunk_) {
      const std::size_t count = std::min(chunk_, part.points.end - i);
      const simd::Chunk<T> chunk{&points_[i * d], &columns_[i * d], count, d};
      std::int32_t* labels = part.labels.data();
      assign(chunk, answer.centroids.data(), k, labels,
             wants_loss ? part.distances.data() : nullptr);
      if (!weights_.empty()) {
        kernels_.sum_with_weights(chunk, &weights_[i], labels, part.sums.data(),
                                  part.counts.data());
      } else {
        std::fill(labels + count, labels + simd::rounded_up(count), -1);
        sum(chunk, labels, k, part.scratch.data(), part.sums.data(), part.counts.data());
      }
      uncollected += count;
      if (sums_by_label() && (uncollected >= kCollect || i + count == part.points.end)) {
        kernels_.collect_sums(k, d, part.scratch.data(), part.sums.data(), part.counts.data());
        uncollected = 0;
      }
      if (wants_loss) {
        part.loss += weights_.empty() ? kernels_.sum_of_roots(part.distances.data(), count)
                                      : kernels_.sum_of_weighted_roots(part.distances.data(),
                                                                       &weights_[i], count);
      }
      std::int32_t* previous = &answer.labels[i];
      for (std::size_t r = 0; r < count; ++r) {
        part.changed += labels[r] != previous[r] ? 1 : 0;
      }
      std::copy_n(labels, count, previous);
    }
  }

  /// Sums, counts, loss and changed labels of this rank: its threads in the order of their numbers.
  void add_up_parts() {
    const std::span own = sums_.own();
    std::ranges::fill(own, 0.0);
    for (const Part<T>& part : parts_) {
      auto to = std::ranges::transform(part.sums, own, own.begin(), std::plus{}).out;
      to = std::ranges::transform(part.counts, std::span(to, own.end()), to, std::plus{}).out;
      own[own.size() - 2] += part.loss;
      own.back() += static_cast<double>(part.changed);
    }
  }

  /// Moves every centroid to the mean of its points; that of an empty cluster stays. Returns the
  /// summed squared shift.
  double update(std::span<const double> sums, Answer<T>& answer) const {
    const std::span<const double> counts = sums.subspan(shape_.k * shape_.d, shape_.k);
    double squared_shift = 0.0;
    for (std::size_t c = 0; c < answer.centroids.size(); ++c) {
      const T entered = answer.entering[c] = answer.centroids[c];
      if (const double count = counts[c / shape_.d]; count > 0.0) {
        const auto mean = static_cast<T>(sums[c] / count);
        const double shift = double{mean} - double{entered};
        squared_shift += shift * shift;
        answer.centroids[c] = mean;
      }
    }
    return squared_shift;
  }

  const simd::Kernels<T>& kernels_ = *simd::executable_kernels<T>().back();
  Shape shape_;
  std::span<const T> points_;  // [n, d] of this rank
  std::span<const T> weights_; // [n] likewise, or empty: all are 1
  std::size_t chunk_ = 0;
  simd::UntouchedVector<T> columns_; // [n, d] in blocks of lanes
  ranks::GatheredSums sums_;         // [k, d], [k], loss, changed labels
  std::vector<Part<T>> parts_;       // [threads]
  std::unique_ptr<simd::Team> team_; // last: its threads end before what they use
};

const Registration
    registration({.name = "kmeans_mpi",
                  .idea = "a shard of rows per process, sums exchanged in a fixed order",
                  .source = "Dhillon and Modha 2000",
                  .device = Device::mpi,
                  .takes_weights = true,
                  .previous = "kmeans_simd"},
                 both_precisions<KmeansMpi>());

} // namespace
} // namespace clusterbench
