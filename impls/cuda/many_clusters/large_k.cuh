// The run that the variants for many clusters share: what is theirs is the first sweep over all
// centroids. It leaves every row a label or a flag; the rest of a pass is the same for all.
#pragma once

#include "impls/contract.hpp"
#include "impls/cuda/common/magnitudes.hpp"
#include "impls/cuda/common/runtime.hpp"
#include "impls/cuda/many_clusters/exact_sums.cuh"
#include "impls/cuda/many_clusters/second_level.cuh"

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

namespace clusterbench::cuda {

inline constexpr unsigned kLossBlocks = 1024;

/// A sweep that moves rows itself says how many copies of the sums it adds to.
template <typename Sweep>
concept MovesRows = requires(const Shape& shape) {
  Sweep::copies(shape);
};

/// A sweep that lists the candidates of the rows that it has flagged, or has it done.
template <typename Sweep>
concept FindsCandidates = requires(Sweep sweep, const SweepTask<typename Sweep::Real>& task,
                                   const SecondLevel<256, typename Sweep::Real>& second) {
  sweep.find(task, second);
};

/// A sweep that leaves rows alone is told how far centroids have moved.
template <typename Sweep>
concept LeavesRows = requires(Sweep sweep, const SweepTask<typename Sweep::Real>& task,
                              const PassBefore& before) {
  sweep.launch(task, before);
};

/// Copies of the sums, to which blocks add by turns: additions to one word wait for one another.
/// With few points, making them zero and adding them up takes longer.
inline unsigned copies_of_sums(const Shape& shape) {
  const std::size_t rows = std::clamp<std::size_t>(shape.n / 512, 256, 2048);
  return static_cast<unsigned>(std::clamp<std::size_t>(rows / shape.k, 1, 8));
}

/// What a Sweep needs of PassArrays: it works on padded_rows points at a time; where it moves rows
/// itself, it needs copies of the sums and no lists of rows, and labels of two passes or of one.
struct PassNeeds {
  unsigned padded_rows, copies;
  bool lists, labels;
  bool ranked_in_one; ///< see FlaggedView

  /// of_rank: the points are one device's share, whose sums are exchanged as they are.
  template <typename Sweep>
  static PassNeeds of(const Shape& shape, bool of_rank) {
    if constexpr (MovesRows<Sweep>) {
      return {Sweep::kPaddedRows, Sweep::copies(shape), false, Sweep::passes_apart(shape) > 0,
              true};
    } else {
      return {Sweep::kPaddedRows, of_rank ? 1 : copies_of_sums(shape), true, true,
              kRankedInOne<typename Sweep::Real>};
    }
  }
};

/// All that prepare() allocates for a Sweep.
struct PassArrays {
  PassArrays() = default;
  PassArrays(const Shape& shape, const PassNeeds& needs, std::byte* memory)
      : PassArrays(shape, needs, Arena{memory}) {}
  static std::size_t bytes(const Shape& shape, const PassNeeds& needs) {
    return PassArrays(shape, needs, nullptr).used;
  }

  HalfArrays points{};
  PlacedCentroids placed{};
  long long* high = nullptr; ///< see SumsView
  long long* low = nullptr;
  unsigned* counts = nullptr;
  long long* weights_high = nullptr; ///< of the points' weights, if they have some
  long long* weights_low = nullptr;
  std::size_t sums_bytes = 0;       ///< of those five together
  std::int32_t* labels = nullptr;   ///< [n], by turns with those of the answer
  PassCounters* counters = nullptr; ///< [2], by turns
  FlaggedView flagged{};
  double* partial = nullptr; ///< [k], or kLossBlocks if that is more
  double* loss = nullptr;
  double* shift = nullptr;
  std::size_t used = 0;

private:
  PassArrays(const Shape& shape, const PassNeeds& needs, Arena cutter) {
    const std::size_t n = shape.n, k = shape.k, values = needs.copies * k * shape.d;
    points = HalfArrays::cut(n, shape.d, needs.padded_rows, cutter);
    placed = PlacedCentroids::cut(k, shape.d, cutter);
    const std::size_t before_sums = cutter.used;
    high = cutter.take<long long>(values);
    low = cutter.take<long long>(values);
    counts = cutter.take<unsigned>(needs.copies * k);
    weights_high = cutter.take<long long>(shape.weighted ? k : 0);
    weights_low = cutter.take<long long>(shape.weighted ? k : 0);
    sums_bytes = cutter.used - before_sums;
    counters = cutter.take<PassCounters>(2);
    partial = cutter.take<double>(std::max<std::size_t>(k, kLossBlocks));
    loss = cutter.take<double>(1);
    shift = cutter.take<double>(1);
    if (needs.labels) {
      labels = cutter.take<std::int32_t>(n);
    }
    if (needs.lists) {
      take_lists(n, k, needs.ranked_in_one, cutter);
    }
    used = cutter.used;
  }

  void take_lists(std::size_t n, std::size_t k, bool ranked_in_one, Arena& cutter) {
    // Where clusters are tight, most rows have some ten candidates.
    const std::size_t many = std::min(n * std::min<std::size_t>(k, 16), std::size_t{1} << 26);
    const std::size_t pairs =
        std::min<std::size_t>(std::max(2 * n, many) + 65536, std::size_t{1} << 31);
    flagged = {.rows = cutter.take<unsigned>(n),
               .thresholds = cutter.take<float>(n),
               .candidates = cutter.take<unsigned>(n),
               .nearest = cutter.take<unsigned long long>(ranked_in_one ? n : 2 * n),
               .overflowed = cutter.take<bool>(n),
               .pairs = cutter.take<uint2>(pairs),
               .capacity = static_cast<unsigned>(pairs)};
  }
};

/// Bytes of memory of the current device; 0 where there is none. Does not create a context.
inline std::size_t device_memory() {
  int device = 0;
  cudaDeviceProp properties{};
  if (cudaGetDevice(&device) != cudaSuccess ||
      cudaGetDeviceProperties(&properties, device) != cudaSuccess) {
    static_cast<void>(cudaGetLastError()); // no device is an answer here, not a fault
    return 0;
  }
  return properties.totalGlobalMem;
}

/// Makes what a run begins with: no row has a cluster, sums, counters and loss are 0, centroids
/// [values] are those of the start. labels: [n]; sums: [words]
template <typename T>
static __global__ void begin_run(std::int32_t* labels, std::size_t n, long long* sums,
                                 std::size_t words, const T* start, T* centroids,
                                 std::size_t values, PassCounters* counters, double* loss) {
  const std::size_t own = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const std::size_t all = std::size_t{gridDim.x} * blockDim.x;
  for (std::size_t i = own; i < n; i += all) {
    labels[i] = -1;
  }
  for (std::size_t i = own; i < words; i += all) {
    sums[i] = 0;
  }
  for (std::size_t i = own; i < values; i += all) {
    centroids[i] = start[i];
  }
  if (own == 0) {
    *counters = {};
    *loss = 0.0;
  }
}

/// Sweep has: Real, the type of the data; kPaddedRows, points of a block; refuse(shape), or empty;
/// bytes(shape), what it allocates itself; prepare(task), once, and follow(task), whenever the
/// points have been rounded, both with tasks of which points and sizes count; launch(task); path(),
/// in words; find(task, second), if it lists the candidates of flagged rows itself. None blocks.
/// One that MovesRows leaves final labels where the last ones were. Its launch(task, sums, moves)
/// also clears the counters of the next pass, and changes the sums if `moves`: not in the first
/// passes_apart(shape), in which many rows move. copies(shape) says how many copies of the sums it
/// adds to.
/// Ranks, where the points are one device's share, has: of_all(own), the totals of all devices from
/// those of this one, in the order of the stream; and has_points(), else it only takes part.
template <typename Sweep, typename Ranks = OneDevice>
class LargeK final : public Variant<typename Sweep::Real> {
  using T = typename Sweep::Real;

public:
  explicit LargeK(Ranks ranks = {}) : ranks_(std::move(ranks)) {}

  std::string refuse(const Shape& shape) const override {
    const std::size_t most = std::size_t{1} << 31;
    if (shape.n >= most || shape.k >= most / 2) {
      return "points and clusters are counted in 32 bits";
    }
    if (shape.d > kMostFeatures) {
      return "d = " + std::to_string(shape.d) + ": the bound on a score's error ends at " +
             std::to_string(kMostFeatures) + " features";
    }
    static const std::size_t there = device_memory(); // asking takes longer than a pass
    if (there > 0) {                                  // 0: no device, which others report
      if (const std::size_t needed = bytes(shape); needed > there) {
        return "needs " + std::to_string(needed >> 20) + " MiB of device memory, there are " +
               std::to_string(there >> 20);
      }
    }
    return Sweep::refuse(shape);
  }

  void prepare(const Shape& shape, const Points<T>& points) override {
    shape_ = shape;
    points_.measure(points.rows, shape.d); // goes on while memory is allocated
    const auto needs = PassNeeds::of<Sweep>(shape, kOfRank);
    memory_ = DeviceBuffer<std::byte>(PassArrays::bytes(shape, needs));
    at_ = PassArrays(shape, needs, memory_.data());
    copies_ = needs.copies;
    // Between the kernels of ranks there are exchanges.
    overlaps_ = !kOfRank && may_overlap(place_centroids<32, false, T>);
    host_ = PinnedBuffer<HostWords>(1);
    points_.prepare(at_.points, &host_[0].largest, kHeadroom<Ranks>);
    refuse_far();
    const double heaviest = shape.weighted ? take_weights(points.weights) : 1.0;
    take_range(shape.n, heaviest * points_.largest());
    const HalfTiles tiles = points_.view().shape;
    fill_bytes(std::span(at_.placed.tiles, tiles.size(shape.k)),
               0); // they stay zero behind d and k
    if constexpr (!kMovesRows) {
      second_level_ = SecondLevel<256, T>(tiles, shape.d);
      wide_blocks_ = static_cast<unsigned>(multiprocessors() * 8);
    }
    if (needs.labels) {
      move_points_ = MovePoints<T>(shape.d, shape.weighted);
    }
    const SweepTask<T> before_any = task(nullptr, nullptr, nullptr);
    sweep_.prepare(before_any);
    sweep_.follow(before_any);
  }

  /// The largest |coordinate| of the points; and to make sums of n points up to `largest` possible,
  /// for all devices the same, before a run.
  double largest() const { return points_.largest(); }
  /// Throws Refusal.
  void take_range(std::size_t n, double largest) {
    constexpr double kMost = 0x1p900; // of doubles: powers of two that take them to integers exist
    if (largest > kMost || (largest > 0.0 && largest < 1.0 / kMost)) {
      throw Refusal(
          "coordinates beyond 2^900, or none above 2^-900: sums in integers have no unit");
    }
    point_ = FixedPoint::of(n, largest);
  }
  /// The words of PassTotals.
  std::size_t words() const { return at_.sums_bytes / sizeof(long long); }

  void run(const Start<T>& start, Answer<T>& answer, Observer<T>& observer) override {
    StopTest stop(shape_.stop);
    T* centroids = answer.centroids.data();
    std::int32_t *labels = answer.labels.data(), *before = kMovesRows ? labels : at_.labels;
    PassCounters *now = at_.counters, *next = at_.counters + 1;
    begin_run<<<blocks_at_most(std::max({shape_.n, words(), start.centroids.size()}), 256, 1024),
                256>>>(before, shape_.n, at_.high, words(), start.centroids.data(), centroids,
                       start.centroids.size(), now, at_.loss);
    check_launch("begin_run");
    points_.measure_start(start.centroids);
    if (points_.fit()) { // rare; but float16 has to hold the centroids, too
      sweep_.follow(task(nullptr, nullptr, nullptr));
    }
    refuse_far();
    place(sums(), centroids, nullptr, now, nullptr); // no sums yet: only rounds
    bool last = false;
    while (!last) {
      const SweepTask<T> pass = task(centroids, labels, now, next);
      const bool first = stop.passes() == 0, apart = moves_apart(stop.passes());
      {
        const Phase phase(observer, kMovesRows ? "assign and move" : "assign", kDefaultStream);
        if constexpr (kMovesRows) {
          if (apart && !first) {
            copy_values(std::span(labels, shape_.n), at_.labels);
          }
          sweep_.launch(pass, sums(), !apart);
        } else if constexpr (LeavesRows<Sweep>) {
          sweep_.launch(pass, PassBefore{stop.passes(), before, at_.partial});
        } else {
          sweep_.launch(pass);
        }
      }
      if constexpr (!kMovesRows) {
        const Phase phase(observer, "recheck", kDefaultStream);
        if constexpr (FindsCandidates<Sweep>) {
          sweep_.find(pass, second_level_);
        } else {
          second_level_.find(pass);
        }
        second_level_.label(pass, pass, wide_blocks_);
      }
      if (stop.wants_loss() && ranks_.has_points()) {
        const Phase phase(observer, "check", kDefaultStream);
        add_distances(pass);
      }
      PassTotals all{};
      {
        const Phase phase(observer, "update", kDefaultStream);
        if (apart && ranks_.has_points()) {
          move_points_.launch({.points = points_.view(),
                               .before = first        ? nullptr
                                         : kMovesRows ? at_.labels
                                                      : before,
                               .labels = labels,
                               .sums = sums(),
                               .moved = kMovesRows ? nullptr : &now->moved, // else counted already
                               .weights = weights_,
                               .k = static_cast<unsigned>(shape_.k)},
                              overlaps_);
        }
        all = ranks_.of_all(PassTotals{sums(), words(), at_.loss, &now->moved});
        place(all.sums, centroids, answer.entering.data(), next,
              stop.wants_shift() || LeavesRows<Sweep> ? at_.partial : nullptr);
      }
      PassFacts facts;
      if (stop.wants_loss()) {
        facts.loss = download(all.loss, host_[0].total);
      }
      if (stop.wants_shift()) {
        sum_up(at_.partial, static_cast<unsigned>(shape_.k), at_.shift);
        const double scale = points_.frame().scale;
        facts.squared_shift = download(at_.shift, host_[0].total) / scale / scale;
      }
      if (stop.wants_labels_changed()) {
        facts.labels_changed = download(all.moved, host_[0].moved) != 0;
      }
      if (observer.recording()) {
        const PassCounters& counters = download(now);
        counters.report(observer, shape_.n);
        if constexpr (LeavesRows<Sweep>) {
          observer.counter("left_alone", counters.left_alone / static_cast<double>(shape_.n));
        }
      }
      observer.pass(answer.centroids);
      std::swap(now, next);
      std::swap(labels, before); // the newest labels are now those before
      last = stop.after_pass(facts);
    }
    if (before != answer.labels.data()) {
      copy_values(std::span(before, shape_.n), labels);
    }
    answer.iterations = stop.passes();
  }

  std::string chosen_path() const override { return sweep_.path(); }

private:
  static constexpr bool kMovesRows = MovesRows<Sweep>;
  static constexpr bool kOfRank = !std::is_same_v<Ranks, OneDevice>;
  static_assert(!kMovesRows || !kOfRank, "ranks exchange sums, not copies");

  /// What the host asks for.
  struct HostWords {
    PassCounters counters;
    double total;
    unsigned moved; ///< points that the rule asks for
    LargestBits<T> largest;
  };

  /// Nothing is proved of distances beyond all numbers. Of ranks, one alone must not leave.
  void refuse_far() const {
    if (!kOfRank && !points_.is_finite()) {
      throw Refusal("coordinates are farther from the mean of the points than a number can tell");
    }
  }

  /// Device memory for the points and what prepare() allocates.
  static std::size_t bytes(const Shape& shape) {
    return shape.n * (shape.d + (shape.weighted ? 1 : 0)) * sizeof(T) +
           PassArrays::bytes(shape, PassNeeds::of<Sweep>(shape, kOfRank)) + Sweep::bytes(shape);
  }

  /// Returns the largest. Throws Refusal.
  double take_weights(std::span<const T> d_weights) {
    const Magnitudes found = device_magnitudes(d_weights, 1);
    const FixedPoint point = FixedPoint::of(d_weights.size(), found.longest);
    if (const std::string reason = refuse_weights<T>(found.shortest, found.longest, point);
        !reason.empty()) {
      throw Refusal(reason);
    }
    weights_ = {d_weights.data(), {point, at_.weights_high, at_.weights_low, nullptr}};
    return found.longest;
  }

  SweepTask<T> task(const T* centroids, std::int32_t* labels, PassCounters* counters,
                    PassCounters* next = nullptr) const {
    return {points_.view(), at_.placed.view(static_cast<unsigned>(shape_.k), centroids),
            at_.flagged,    counters,
            labels,         points_.frame(),
            next,           overlaps_};
  }

  SumsView sums() const { return {point_, at_.high, at_.low, at_.counts, copies_}; }

  /// Whether a pass leaves it to a kernel of its own to move rows.
  bool moves_apart(std::size_t pass) const {
    if constexpr (kMovesRows) {
      return pass < Sweep::passes_apart(shape_);
    }
    return true;
  }

  const PassCounters& download(const PassCounters* counters) {
    return download(counters, host_[0].counters);
  }

  template <typename Word>
  const Word& download(const Word* from, Word& to) {
    copy_values(std::span(from, 1), &to);
    check(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize after a download");
    return to;
  }

  /// See place_centroids().
  void place(const SumsView& all, T* centroids, T* entering, PassCounters* counters,
             double* shifts) {
    place_all(all, static_cast<unsigned>(shape_.k), static_cast<unsigned>(shape_.d),
              points_.frame(), points_.view().shape, centroids, entering, at_.placed, counters,
              shifts, weights_, overlaps_);
  }

  void add_distances(const SweepTask<T>& pass) {
    const auto kernel = shape_.weighted ? sum_distances<true, T> : sum_distances<false, T>;
    kernel<<<kLossBlocks, 256>>>(pass.points, pass.centroids.exact, pass.labels, at_.partial,
                                 weights_);
    check_launch("sum_distances");
    sum_up(at_.partial, kLossBlocks, at_.loss);
  }

  static void sum_up(const double* values, unsigned count, double* total) {
    sum_in_order<<<1, 256>>>(values, count, total);
    check_launch("sum_in_order");
  }

  Ranks ranks_;
  Shape shape_;
  Sweep sweep_;
  HalfCopy<T> points_;
  FixedPoint point_{};
  WeightsView<T> weights_{};
  bool overlaps_ = false;
  unsigned copies_ = 1, wide_blocks_ = 0;
  SecondLevel<256, T> second_level_;
  MovePoints<T> move_points_;
  DeviceBuffer<std::byte> memory_;
  PassArrays at_;
  PinnedBuffer<HostWords> host_;
};

} // namespace clusterbench::cuda
