// K-means in vector registers: labels and sums in one pass over the data, by kernels for the shape.
//
// Changed since kmeans_openmp: a chunk of points is labelled and summed while it is in the cache, by
//   kernels of vectors (support/): a lane is a point where there are few features, or a feature
//   where there are many; sums are registers where they fit. The kernels are compiled for several
//   instruction sets, the widest is taken at run time. One team of threads stays for the whole run
//   and meets twice a pass, where a parallel region per phase would be started and ended.
// Source: Lloyd 1982; privatised sums as in kmeans_openmp. The table of shapes below is measured.
// Cost per iteration: n d sizeof(T) bytes read; 3 n k d + n d flops, one instruction for 8 to 48.
// Limits: points are copied into another layout unless the path reads rows; bits differ between
//   numbers of threads and between instruction sets.
#include "impls/contract.hpp"
#include "impls/simd/support/columns.hpp"
#include "impls/simd/support/dispatch.hpp"
#include "impls/simd/support/sieve.hpp"
#include "impls/simd/support/team.hpp"

#include <algorithm>

namespace clusterbench {
namespace {

using simd::Chunk;
using simd::Kernels;

/// How points are labelled; the first two sum them at the same time.
enum class Assign { and_sum_in_registers, and_sum_rows, small_d, columns, sieve };
enum class Sum { at_once, by_mask, by_label, in_double };

/// How a shape is worked on.
struct Path {
  std::string_view name;
  std::size_t max_d, max_k, max_kd; ///< the largest shape that it is for
  Assign assign;
  Sum sum;
};

constexpr std::size_t kAny = std::numeric_limits<std::size_t>::max();

/// The first that takes a shape is the fastest for it.
constexpr Path kPaths[] = {
    {"registers", 3, 5, kAny, Assign::and_sum_in_registers, Sum::at_once},
    {"registers", 2, simd::kPassK, kAny, Assign::and_sum_in_registers, Sum::at_once},
    {"few features, masked sums", simd::kSmallD, kAny, 40, Assign::small_d, Sum::by_mask},
    {"few features, sums by label", simd::kSmallD, kAny, 2048, Assign::small_d, Sum::by_label},
    {"few features, sums in double", simd::kSmallD, kAny, kAny, Assign::small_d, Sum::in_double},
    {"rows", kAny, 8, kAny, Assign::and_sum_rows, Sum::at_once},
    {"tiles, sums by label", 24, 64, 2048, Assign::columns, Sum::by_label},
    {"sieve, sums by label", kAny, kAny, 2048, Assign::sieve, Sum::by_label},
    {"sieve, sums in double", kAny, kAny, kAny, Assign::sieve, Sum::in_double},
};

const Path& path_for(std::size_t d, std::size_t k) {
  return *std::ranges::find_if(kPaths, [&](const Path& path) {
    return d <= path.max_d && k <= path.max_k && k * d <= path.max_kd;
  });
}

/// The kernels of a path: one that does everything, or two, one after the other.
template <typename T>
struct PathKernels {
  PathKernels(const Kernels<T>& kernels, const Path& path, std::size_t d, std::size_t k) {
    switch (path.assign) {
    case Assign::and_sum_in_registers:
      pass = kernels.pass_in_registers[d - 1][k - 1];
      break;
    case Assign::and_sum_rows:
      pass = kernels.pass_by_rows;
      break;
    case Assign::small_d:
      assign = kernels.assign_small_d[d];
      break;
    case Assign::columns:
      assign = kernels.assign_columns;
      break;
    case Assign::sieve:
      sieve = kernels.sieve_columns;
      break;
    }
    switch (path.sum) {
    case Sum::at_once:
      break;
    case Sum::by_mask:
      sum = kernels.sum_by_mask;
      break;
    case Sum::by_label:
      sum = kernels.sum_by_label;
      break;
    case Sum::in_double:
      sum = kernels.sum_in_double;
      break;
    }
    reads_columns = path.assign != Assign::and_sum_rows && path.assign != Assign::sieve;
    uses_scratch = path.assign == Assign::and_sum_rows || path.sum == Sum::by_label;
    needs_labels = path.assign != Assign::and_sum_in_registers;
  }

  simd::PassKernel<T> pass = nullptr;
  simd::AssignKernel<T> assign = nullptr;
  simd::SieveKernel<T> sieve = nullptr;
  simd::SumKernel<T> sum = nullptr;
  bool reads_columns, uses_scratch, needs_labels;
};

/// Points of a chunk: about 32 KiB of them, so that summing finds in the cache what labelling read.
std::size_t chunk_size(std::size_t d, std::size_t bytes_per_value) {
  constexpr std::size_t kBytes = 32 << 10;
  return simd::rounded_up(std::clamp<std::size_t>(kBytes / (d * bytes_per_value), 1, 4096));
}

/// What one thread works on and finds. Aligned: neighbours must not share a cache line.
template <typename T>
struct alignas(64) Part {
  std::size_t begin = 0, end = 0;   // points
  std::vector<std::int32_t> labels; // of a chunk
  std::vector<T> distances;         // of a chunk
  std::vector<T> scratch;           // of the summing kernel, zeros
  std::vector<T> minima;            // of the sieve
  std::vector<double> sums, counts; // [k, d], [k]
  /// Facts of even and odd passes: a thread that is ahead must not overwrite what others read.
  PassFacts facts[2];
};

template <typename T>
class KmeansSimd final : public Variant<T> {
public:
  void prepare(const Problem<T>& problem) override {
    problem_ = problem;
    const auto [n, d, k] = std::tuple(problem.n, problem.d, problem.k);
    path_ = &path_for(d, k);
    work_ = PathKernels<T>(kernels_, *path_, d, k);
    chunk_ = chunk_size(d, sizeof(T));
    columns_.clear();
    if (work_.reads_columns) {
      columns_ = simd::as_columns(problem.points, n, d, kernels_.lanes);
    }
    labels_.resize(n);
    // A barrier costs about as much as this many operations; less work is done by one thread.
    constexpr std::size_t kWorthAThread = 20'000;
    const std::size_t worth = std::max<std::size_t>(n * d * k / kWorthAThread, 1);
    const auto threads = static_cast<std::size_t>(std::max(problem.threads, 1));
    team_ = std::make_unique<simd::Team>(std::min(threads, worth));
    parts_ = std::vector<Part<T>>(team_->size());
    const std::size_t group = kernels_.sieve_group;
    if (work_.sieve != nullptr) {
      sieve_ = simd::SieveMaker<T>(problem.points, n, d, k, group, kernels_.lanes, team_->size());
    }
    for (std::size_t t = 0; t < parts_.size(); ++t) {
      Part<T>& part = parts_[t];
      const std::size_t rounds = simd::rounded_up(n) / simd::kRoundUp;
      part.begin = std::min(rounds * t / parts_.size() * simd::kRoundUp, n);
      part.end = std::min(rounds * (t + 1) / parts_.size() * simd::kRoundUp, n);
      part.labels.resize(chunk_);
      part.distances.resize(chunk_);
      part.scratch.resize(work_.uses_scratch ? simd::scratch_size<T>(k, d) : 0);
      part.minima.resize(work_.sieve != nullptr ? (k / group + 1) * simd::kRoundUp : 0);
      part.sums.resize(k * d);
      part.counts.resize(k);
    }
  }

  void run(Observer<T>& observer) override {
    centroids_.assign(problem_.centroids.begin(), problem_.centroids.end());
    std::ranges::fill(labels_, -1);
    team_->run([&](std::size_t t) {
      Observer<T> nobody;
      run(t, t == 0 ? observer : nobody);
    });
  }

  void fetch(Result<T>& result) override {
    std::ranges::copy(labels_, result.labels.begin());
    std::ranges::copy(centroids_, result.centroids.begin());
    result.iterations = iterations_;
  }

  std::string chosen_path() const override {
    return std::string(path_->name) + ", " + kernels_.isa;
  }

private:
  /// The whole run as thread t sees it. Every thread decides by itself, from the same facts, when
  /// it is over: that saves a barrier.
  void run(std::size_t t, Observer<T>& observer) {
    StopTest stop(problem_.stop);
    PassFacts facts;
    do {
      const std::size_t parity = stop.passes() % 2;
      {
        const Phase phase(observer, "assign and sum");
        if (work_.sieve != nullptr) {
          sieve_.pack(centroids_, t);
          team_->barrier();
        }
        assign_and_sum(parts_[t], parity, stop);
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

  void assign_and_sum(Part<T>& part, std::size_t parity, const StopTest& stop) {
    const auto [d, k] = std::pair(problem_.d, problem_.k);
    std::ranges::fill(part.sums, 0.0);
    std::ranges::fill(part.counts, 0.0);
    PassFacts facts{.labels_changed = false};
    // Labels are part of the answer, so only the last pass must keep them, where it is known.
    const bool keep_labels = problem_.stop.kind != StopRule::Kind::iterations ||
                             stop.passes() + 1 == problem_.stop.max_iterations;
    constexpr std::size_t kCollect = 4096; // points whose sums may stay in T
    std::size_t uncollected = 0;
    const simd::Sieve<T> sieve = work_.sieve != nullptr ? sieve_.sieve() : simd::Sieve<T>{};
    for (std::size_t i = part.begin; i < part.end; i += chunk_) {
      const std::size_t count = std::min(chunk_, part.end - i);
      const Chunk<T> chunk{&problem_.points[i * d], columns_.empty() ? nullptr : &columns_[i * d],
                           count, d};
      T* distances = stop.wants_loss() ? part.distances.data() : nullptr;
      std::int32_t* labels = keep_labels || work_.needs_labels ? part.labels.data() : nullptr;
      T* scratch = part.scratch.data();
      if (work_.pass != nullptr) {
        work_.pass(chunk, centroids_.data(), k, labels, distances, scratch, part.sums.data(),
                   part.counts.data());
      } else {
        if (work_.sieve != nullptr) {
          work_.sieve({chunk.points, sieve_.columns(i), count, d}, sieve_.norms(i), sieve,
                      centroids_.data(), k, part.minima.data(), labels, distances);
        } else {
          work_.assign(chunk, centroids_.data(), k, labels, distances);
        }
        std::fill(labels + count, labels + simd::rounded_up(count), -1);
        work_.sum(chunk, labels, k, scratch, part.sums.data(), part.counts.data());
      }
      uncollected += count;
      if (work_.uses_scratch && (uncollected >= kCollect || i + count == part.end)) {
        kernels_.collect_sums(k, d, scratch, part.sums.data(), part.counts.data());
        uncollected = 0;
      }
      if (stop.wants_loss()) {
        facts.loss += kernels_.sum_of_roots(part.distances.data(), count);
      }
      if (keep_labels) {
        facts.labels_changed |=
            stop.wants_labels_changed() && !std::equal(labels, labels + count, &labels_[i]);
        std::copy_n(labels, count, &labels_[i]);
      }
    }
    part.facts[parity] = facts;
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

  Problem<T> problem_;
  const Kernels<T>& kernels_ = *simd::executable_kernels<T>().back();
  const Path* path_ = nullptr;
  PathKernels<T> work_{kernels_, kPaths[0], 1, 1};
  std::size_t chunk_ = 0;
  std::vector<T> columns_;           // [n, d] in blocks of lanes, if the path reads them
  simd::SieveMaker<T> sieve_;        // if the path has one
  std::vector<T> centroids_;         // [k, d]
  std::vector<std::int32_t> labels_; // [n]
  std::vector<Part<T>> parts_;       // [threads]
  std::size_t iterations_ = 0;
  std::unique_ptr<simd::Team> team_; // last: its threads end before what they use
};

const Registration registration({.name = "kmeans_simd",
                                 .idea = "fused passes in vector registers, a path for each shape",
                                 .source = "Lloyd 1982",
                                 .previous = "kmeans_openmp"},
                                both_precisions<KmeansSimd>());

} // namespace
} // namespace clusterbench
