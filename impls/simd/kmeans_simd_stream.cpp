// K-means on a file that need not fit the memory: a block of rows is labelled and summed while the
// next ones are read.
//
// Changed since kmeans_simd: the points are never in memory as a whole. Three buffers go round: one
//   is worked on, two are being read, past the kernel's cache where the file was opened so. Reading
//   is asynchronous (io_submit), which takes no thread and hardly any processor time: a pass takes
//   as long as reading the file or as its own arithmetic, whichever is longer. The reads of the
//   next pass begin before this one ends. A chunk of a block is turned into columns in every pass,
//   where kmeans_simd does so once.
// Source: Bradley, Fayyad and Reina, Scaling clustering algorithms to large databases, 1998 (passes
//   over a file, a buffer at a time); the passes are kmeans_simd's.
// Cost per iteration: n d sizeof(T) bytes read from the file; 3 n k d + n d flops.
// Limits: bits differ between numbers of threads and between instruction sets. Many centroids go
//   without kmeans_simd's sieve. Where the file can only be read through the cache, reading is no
//   longer asynchronous.
#include "impls/contract.hpp"
#include "impls/simd/support/aligned.hpp"
#include "impls/simd/support/dispatch.hpp"
#include "impls/simd/support/row_blocks.hpp"
#include "impls/simd/support/team.hpp"

#include <algorithm>
#include <chrono>

namespace clusterbench {
namespace {

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// What one thread works on and finds. Aligned: neighbours must not share a cache line.
template <typename T>
struct alignas(64) Part {
  simd::AlignedVector<T> columns;   // of a chunk
  std::vector<std::int32_t> labels; // of a chunk
  std::vector<T> distances;         // of a chunk
  std::vector<T> scratch;           // of the summing kernel, zeros
  std::vector<double> sums, counts; // [k, d], [k]
  double loss = 0.0;
  bool changed = false; // some label
};

template <typename T>
class KmeansSimdStream final : public Variant<T> {
public:
  void prepare(const Shape& shape, const Points<T>& points) override {
    shape_ = shape;
    const auto [n, d, k] = std::tuple(shape.n, shape.d, shape.k);
    blocks_ = std::make_unique<simd::RowBlocks<T>>(n, d, points.in_file);
    // About 32 KiB of points, so that summing finds in the cache what labelling read.
    chunk_ = simd::rounded_up(std::clamp<std::size_t>((32 << 10) / (d * sizeof(T)), 1, 4096));
    // A barrier of threads costs about as much as this many operations.
    constexpr std::size_t kWorthAThread = 20'000;
    const std::size_t worth = std::max<std::size_t>(n * d * k / kWorthAThread, 1);
    team_ = std::make_unique<simd::Team>(
        std::min(static_cast<std::size_t>(std::max(shape.threads, 1)), worth));
    parts_ = std::vector<Part<T>>(team_->size());
    for (Part<T>& part : parts_) {
      part.columns.resize(by_rows() ? 0 : chunk_ * d);
      part.labels.resize(chunk_);
      part.distances.resize(chunk_);
      part.scratch.resize(sums_in_scratch() ? simd::scratch_size<T>(k, d) : 0);
      part.sums.resize(k * d);
      part.counts.resize(k);
    }
  }

  void run(const Start<T>& start, Answer<T>& answer, Observer<T>& observer) override {
    std::ranges::copy(start.centroids, answer.centroids.begin());
    blocks_->rewind();
    StopTest stop(shape_.stop);
    PassFacts facts;
    do {
      const auto begin = std::chrono::steady_clock::now();
      team_->run([&](std::size_t t) { assign_and_sum(t, answer, stop.wants_loss()); });
      const double waited = blocks_->finish_sweep();
      observer.phase("wait for rows", waited);
      observer.phase("assign and sum", seconds_since(begin) - waited);
      {
        const Phase phase(observer, "update");
        facts = update(answer);
        facts.labels_changed |= stop.passes() == 0;
      }
      observer.pass(answer.centroids);
    } while (!stop.after_pass(facts));
    answer.iterations = stop.passes();
  }

  std::string chosen_path() const override {
    return std::string(by_rows()                   ? "rows, "
                       : shape_.d <= simd::kSmallD ? "few features, "
                                                   : "tiles, ") +
           kernels_.isa;
  }

private:
  /// Labels and sums in one sweep over rows, without columns.
  bool by_rows() const { return shape_.d > simd::kSmallD && shape_.k <= 8; }
  /// Sums in T that stay in the cache; else in double at once.
  bool sums_in_scratch() const { return by_rows() || shape_.k * shape_.d <= 2048; }

  /// A pass as thread t sees it.
  void assign_and_sum(std::size_t t, Answer<T>& answer, bool wants_loss) {
    Part<T>& part = parts_[t];
    std::ranges::fill(part.sums, 0.0);
    std::ranges::fill(part.counts, 0.0);
    part.loss = 0.0;
    part.changed = false;
    blocks_->sweep(*team_, t, [&](const T* rows, std::size_t first, std::size_t count) {
      assign_and_sum_rows(part, rows, first, count, answer, wants_loss);
    });
    if (sums_in_scratch()) {
      kernels_.collect_sums(shape_.k, shape_.d, part.scratch.data(), part.sums.data(),
                            part.counts.data());
    }
  }

  /// So many rows, the first of which is point `first`.
  void assign_and_sum_rows(Part<T>& part, const T* rows, std::size_t first, std::size_t total,
                           Answer<T>& answer, bool wants_loss) const {
    constexpr std::size_t kCollect = 4096; // points whose sums may stay in T
    std::size_t uncollected = 0;
    for (std::size_t i = 0; i < total; i += chunk_) {
      const std::size_t count = std::min(chunk_, total - i);
      assign_and_sum_chunk(part, &rows[i * shape_.d], count, answer.centroids.data(), wants_loss);
      uncollected += count;
      if (sums_in_scratch() && uncollected >= kCollect) {
        kernels_.collect_sums(shape_.k, shape_.d, part.scratch.data(), part.sums.data(),
                              part.counts.data());
        uncollected = 0;
      }
      if (wants_loss) {
        part.loss += kernels_.sum_of_roots(part.distances.data(), count);
      }
      std::int32_t* labels = &answer.labels[first + i];
      part.changed |= !std::equal(labels, labels + count, part.labels.data());
      std::copy_n(part.labels.data(), count, labels);
    }
  }

  void assign_and_sum_chunk(Part<T>& part, const T* rows, std::size_t count, const T* centroids,
                            bool wants_loss) const {
    const auto [d, k] = std::pair(shape_.d, shape_.k);
    std::int32_t* labels = part.labels.data();
    T* distances = wants_loss ? part.distances.data() : nullptr;
    T* scratch = part.scratch.data();
    double *sums = part.sums.data(), *counts = part.counts.data();
    if (by_rows()) {
      kernels_.pass_by_rows({rows, nullptr, count, d}, centroids, k, labels, distances, scratch,
                            sums, counts);
      return;
    }
    const simd::Chunk<T> chunk{rows, part.columns.data(), count, d};
    kernels_.columns_of_rows({rows, nullptr, count, d}, nullptr, part.columns.data());
    (d <= simd::kSmallD ? kernels_.assign_small_d[d] : kernels_.assign_columns)(chunk, centroids, k,
                                                                                labels, distances);
    std::fill(labels + count, labels + simd::rounded_up(count), -1);
    (sums_in_scratch() ? kernels_.sum_by_label : kernels_.sum_in_double)(chunk, labels, k, scratch,
                                                                         sums, counts);
  }

  /// Moves every centroid to the mean of its points, sums of threads in the order of their numbers;
  /// that of an empty cluster stays.
  PassFacts update(Answer<T>& answer) {
    PassFacts facts{.labels_changed = false};
    for (const Part<T>& part : parts_) {
      facts.loss += part.loss;
      facts.labels_changed |= part.changed;
    }
    for (std::size_t c = 0; c < answer.centroids.size(); ++c) {
      const T entered = answer.entering[c] = answer.centroids[c];
      double sum = 0.0, count = 0.0;
      for (const Part<T>& part : parts_) {
        sum += part.sums[c];
        count += part.counts[c / shape_.d];
      }
      if (count > 0.0) {
        const auto mean = static_cast<T>(sum / count);
        const double shift = double{mean} - double{entered};
        facts.squared_shift += shift * shift;
        answer.centroids[c] = mean;
      }
    }
    return facts;
  }

  const simd::Kernels<T>& kernels_ = *simd::executable_kernels<T>().back();
  Shape shape_;
  std::unique_ptr<simd::RowBlocks<T>> blocks_;
  std::size_t chunk_ = 0;
  std::vector<Part<T>> parts_;       // [threads]
  std::unique_ptr<simd::Team> team_; // last: its threads end before what they use
};

const Registration registration({.name = "kmeans_simd_stream",
                                 .idea = "blocks of rows are read while those before are worked on",
                                 .source = "Bradley, Fayyad and Reina 1998",
                                 .streams = true,
                                 .previous = "kmeans_simd"},
                                both_precisions<KmeansSimdStream>());

} // namespace
} // namespace clusterbench
