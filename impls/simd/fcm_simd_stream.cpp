// Fuzzy c-means on a file that need not fit the memory: memberships and sums of a block of rows are made
// while the next blocks are read.
//
// Changed since fcm_simd: the points are never in memory as a whole; the reader is that of
//   kmeans_simd_stream. The threads share each block, and sums of threads are added up by the first.
//   Memberships are made anew from the centres in every pass, so only the last one, whose are the
//   answer, writes them down.
// Source: article 001, section 2; passes over a file: Bradley, Fayyad and Reina 1998.
// Cost per iteration: n d sizeof(T) bytes read from the file; 5 n k d flops.
// Limits: the answer has n k memberships, which are in memory. Other stop rules than a number of
//   iterations write them in every pass. Started from memberships, a run reads the file once more.
//   Bits differ between numbers of threads and between instruction sets.
#include "impls/contract.hpp"
#include "impls/simd/support/aligned.hpp"
#include "impls/simd/support/dispatch.hpp"
#include "impls/simd/support/row_blocks.hpp"
#include "impls/simd/support/team.hpp"

#include <algorithm>
#include <chrono>

namespace clusterbench {
namespace {

constexpr std::size_t kChunk = simd::kRoundUp; ///< samples that the kernels take at once

/// What one thread works on and finds. Aligned: neighbours must not share a cache line.
template <typename T>
struct alignas(64) Part {
  simd::AlignedVector<T> distances, u; // [k, kChunk]
  simd::AlignedVector<T> uncollected;  // [k, padded(d)] of u^m x, not yet in sums
  std::vector<double> sums, weights;   // [k, d] of u^m x, [k] of u^m
  double loss = 0.0;
  bool changed = false; // a label
};

/// What a sweep over the samples is for.
template <typename T>
struct Purpose {
  const T* given; ///< memberships [n, k] of the start, or null: they come from the centres
  bool keep;      ///< they and the labels may be the answer
  bool sum;       ///< there will be another update of the centres
  bool loss;      ///< the stop rule asks for the objective
};

template <typename T>
class FcmSimdStream final : public Variant<T> {
public:
  std::string refuse(const Shape& shape) const override {
    return shape.fuzzifier > 1.0 ? "" : "the fuzzifier must be greater than 1";
  }

  void prepare(const Shape& shape, const Points<T>& points) override {
    shape_ = shape;
    const auto [n, d, k] = std::tuple(shape.n, shape.d, shape.k);
    blocks_ = std::make_unique<simd::RowBlocks<T>>(n, d, points.in_file);
    constexpr std::size_t kWorthAThread = 10'000; // operations, about those of a barrier
    const std::size_t worth = std::max<std::size_t>(n * d * k / kWorthAThread, 1);
    const auto threads = static_cast<std::size_t>(std::max(shape.threads, 1));
    team_ = std::make_unique<simd::Team>(std::min(threads, worth));
    parts_ = std::vector<Part<T>>(team_->size());
    for (Part<T>& part : parts_) {
      part.distances.resize(k * kChunk);
      part.u.resize(k * kChunk);
      part.uncollected.resize(k * width());
      part.sums.resize(k * d);
      part.weights.resize(k);
    }
    padded_centres_.resize(k * width());
  }

  void run(const Start<T>& start, Answer<T>& answer, Observer<T>& observer) override {
    const bool from_centres = !shape_.starts_from_memberships;
    blocks_->rewind();
    StopTest stop(shape_.stop);
    if (from_centres) {
      std::ranges::copy(start.centroids, answer.centroids.begin());
      pad(answer);
    } else {
      std::ranges::fill(answer.centroids, T{0}); // of a cluster without any membership
      sweep({start.memberships.data(), false, true, false}, answer, observer);
    }
    PassFacts facts;
    do {
      const bool first = stop.passes() == 0;
      const bool last = stop.passes() + 1 >= shape_.stop.max_iterations;
      const bool keep = last || shape_.stop.kind != StopRule::Kind::iterations;
      const Purpose<T> purpose{nullptr, keep, from_centres || !last, stop.wants_loss()};
      if (from_centres) {
        facts = sweep(purpose, answer, observer);
      }
      const double shift = update_centres(answer, observer);
      if (!from_centres) {
        facts = sweep(purpose, answer, observer);
      }
      facts.labels_changed |= first;
      // There were no centres before the first pass, so none can have come to rest in it.
      facts.squared_shift =
          first && !from_centres ? std::numeric_limits<double>::infinity() : shift;
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

  /// Memberships of all samples, and the sums of each thread. Returns loss and whether a label changed.
  PassFacts sweep(const Purpose<T>& purpose, Answer<T>& answer, Observer<T>& observer) {
    const auto begin = std::chrono::steady_clock::now();
    team_->run([&](std::size_t t) {
      Part<T>& part = parts_[t];
      std::ranges::fill(part.sums, 0.0);
      std::ranges::fill(part.weights, 0.0);
      part.loss = 0.0;
      part.changed = false;
      blocks_->sweep(*team_, t, [&](const T* rows, std::size_t first, std::size_t count) {
        sweep_rows(part, purpose, rows, first, count, answer);
      });
    });
    const double waited = blocks_->finish_sweep();
    const std::chrono::duration<double> all = std::chrono::steady_clock::now() - begin;
    observer.phase("wait for rows", waited);
    observer.phase("memberships and sums", all.count() - waited);
    PassFacts facts{.labels_changed = false};
    for (const Part<T>& part : parts_) {
      facts.loss += part.loss;
      facts.labels_changed |= part.changed;
    }
    return facts;
  }

  /// So many rows, the first of which is sample `first`.
  void sweep_rows(Part<T>& part, const Purpose<T>& purpose, const T* rows, std::size_t first,
                  std::size_t total, Answer<T>& answer) const {
    const auto [d, k] = std::pair(shape_.d, shape_.k);
    const auto m = static_cast<T>(shape_.fuzzifier);
    constexpr std::size_t kCollect = 1024; // samples whose sums may stay in T
    std::size_t uncollected = 0;
    for (std::size_t i = 0; i < total; i += kChunk) {
      const std::size_t count = std::min(kChunk, total - i);
      const simd::Chunk<T> chunk{&rows[i * d], nullptr, count, d};
      if (purpose.given == nullptr) {
        kernels_.distances_of_rows(chunk, padded_centres_.data(), k, part.distances.data(),
                                   !purpose.sum);
        kernels_.memberships_of(part.distances.data(), k, T{1} / (m - T{1}), part.u.data());
      } else {
        each_membership(part, first + i, count,
                        [&](T& u, std::size_t at) { u = purpose.given[at]; });
      }
      if (purpose.keep) {
        each_membership(part, first + i, count,
                        [&](T u, std::size_t at) { answer.memberships[at] = u; });
        part.changed |= label(part.u, answer.labels.subspan(first + i, count));
      }
      if (!purpose.sum && !purpose.loss) {
        continue;
      }
      part.loss += kernels_.raise_to_weights(part.u.data(), k, count, m,
                                             purpose.loss ? part.distances.data() : nullptr,
                                             part.weights.data());
      kernels_.weighted_sums_of_rows(chunk, part.u.data(), k, part.uncollected.data(),
                                     purpose.given != nullptr);
      uncollected += count;
      if (uncollected >= kCollect || i + count == total) {
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

  /// Moves every centre to its weighted mean, sums of threads in the order of their numbers; that of an
  /// empty cluster stays. Returns the summed squared shift.
  double update_centres(Answer<T>& answer, Observer<T>& observer) {
    const Phase phase(observer, "centres");
    double squared_shift = 0.0;
    for (std::size_t c = 0; c < answer.centroids.size(); ++c) {
      const T entered = answer.entering[c] = answer.centroids[c];
      double sum = 0.0, weight = 0.0;
      for (const Part<T>& part : parts_) {
        sum += part.sums[c];
        weight += part.weights[c / shape_.d];
      }
      if (weight > 0.0) {
        const auto centre = static_cast<T>(sum / weight);
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
  std::unique_ptr<simd::RowBlocks<T>> blocks_;
  simd::AlignedVector<T> padded_centres_; // [k, padded(d)]
  std::vector<Part<T>> parts_;            // [threads]
  std::unique_ptr<simd::Team> team_;      // last: its threads end before what they use
};

const Registration registration({.name = "fcm_simd_stream",
                                 .idea = "blocks of rows are read while those before are worked on",
                                 .source = "article 001, section 2, over a file",
                                 .family = Family::fcm,
                                 .streams = true,
                                 .previous = "fcm_simd"},
                                both_precisions<FcmSimdStream>());

} // namespace
} // namespace clusterbench
