// The run of the variants for many clusters whose points stay in host memory: kernels, memory,
// passes.
#pragma once

#include "impls/contract.hpp"
#include "impls/cuda/common/runtime.hpp"
#include "impls/cuda/many_clusters/exact_sums.cuh"
#include "impls/cuda/many_clusters/half_copy.cuh"
#include "impls/cuda/many_clusters/second_level.cuh"
#include "impls/cuda/many_clusters/wgmma_sweep.cuh"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

namespace clusterbench::cuda {

// ---- kernels
//
// They run beside the sweep, on multiprocessors that it leaves alone, and fill these with threads.
// A row takes microseconds to come over the link, so it is full only while many are on their way:
// here up to a megabyte.

inline constexpr unsigned kSpare = 8;
inline constexpr unsigned kFetchThreads = 1024;

static __global__ void fill_iota(unsigned* rows, std::size_t n) {
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n;
       i += std::size_t{gridDim.x} * blockDim.x) {
    rows[i] = static_cast<unsigned>(i);
  }
}

/// Every tile's counters = those of the pass, in which nothing is counted yet.
static __global__ void start_tiles(const PassCounters* pass, PassCounters* tiles, unsigned count) {
  const unsigned tile = blockIdx.x * blockDim.x + threadIdx.x;
  if (tile < count) {
    tiles[tile] = *pass;
  }
}

/// *moved = rows of all tiles whose label has changed. One block.
static __global__ void sum_moved(const PassCounters* tiles, unsigned count, unsigned* moved) {
  unsigned own = 0;
  for (unsigned tile = threadIdx.x; tile < count; tile += blockDim.x) {
    own += tiles[tile].moved;
  }
  const unsigned of_warp = __reduce_add_sync(0xffffffffu, own);
  if (threadIdx.x == 0) {
    *moved = 0;
  }
  __syncthreads(); // before the first warp adds to it
  if (threadIdx.x % 32 == 0) {
    atomicAdd(moved, of_warp);
  }
}

template <bool kFour>
using Unit = std::conditional_t<kFour, float4, float>; ///< that a thread copies at once

/// to[i] = row rows[i] of `from`, which is host memory, for all i < *count. kFour: d is a multiple
/// of 4.
template <bool kFour>
static __global__ void __launch_bounds__(kFetchThreads)
    fetch_rows(const float* from, const unsigned* rows, const unsigned* count, unsigned d,
               float* to) {
  constexpr unsigned kAtOnce = 8;
  const unsigned width = kFour ? d / 4 : d, stride = gridDim.x * blockDim.x;
  const unsigned size = *count * width; // of a tile
  const Unit<kFour>* source = reinterpret_cast<const Unit<kFour>*>(from);
  Unit<kFour>* target = reinterpret_cast<Unit<kFour>*>(to);
  for (unsigned first = blockIdx.x * blockDim.x + threadIdx.x; first < size;
       first += kAtOnce * stride) {
    Unit<kFour> values[kAtOnce]; // on their way together
#pragma unroll
    for (unsigned e = 0; e < kAtOnce; ++e) {
      const unsigned unit = min(first + e * stride, size - 1);
      values[e] = source[std::size_t{rows[unit / width]} * width + unit % width];
    }
#pragma unroll
    for (unsigned e = 0; e < kAtOnce; ++e) {
      if (first + e * stride < size) {
        target[first + e * stride] = values[e];
      }
    }
  }
}

/// Rows that have changed their cluster, and between which. count: zero before.
struct MovedView {
  unsigned* rows;          ///< [tile]
  std::int32_t *from, *to; ///< [tile] each, -1 behind the last one
  unsigned* count;
};

static __global__ void __launch_bounds__(kFetchThreads)
    list_moved(const std::int32_t* before, const std::int32_t* labels, std::size_t n,
               const MovedView moved) {
  const std::size_t lane = threadIdx.x % 32, stride = std::size_t{gridDim.x} * blockDim.x;
  for (std::size_t first = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x - lane; first < n;
       first += stride) { // all lanes of the warp together
    const std::size_t row = first + lane;
    const bool moves = row < n && before[row] != labels[row];
    const unsigned place = take_place(moves, moved.count);
    if (moves) {
      moved.rows[place] = static_cast<unsigned>(row);
      moved.from[place] = before[row];
      moved.to[place] = labels[row];
    }
  }
}

// ---- memory

inline cudaError_t allocate_locked(void** memory, std::size_t bytes) {
  return cudaHostAlloc(memory, bytes, cudaHostAllocMapped);
}
inline cudaError_t free_locked(void* memory) {
  return cudaFreeHost(memory);
}

/// Rows in host memory that the device reads itself: locked where they lie, or a locked copy where
/// the system does not lock them there.
class LockedRows {
public:
  /// The rows must outlive this. Throws std::runtime_error.
  void lock(std::span<const float> rows, int threads) {
    void* memory = const_cast<float*>(rows.data()); // nobody writes there
    unsigned flags = cudaHostRegisterMapped;
    cudaError_t error = cudaHostRegister(memory, rows.size_bytes(), flags);
    if (error != cudaSuccess && device_attribute(cudaDevAttrHostRegisterReadOnlySupported) != 0) {
      flags |= cudaHostRegisterReadOnly; // it may be a mapping that cannot be written to
      error = cudaHostRegister(memory, rows.size_bytes(), flags);
    }
    static_cast<void>(cudaGetLastError()); // that it cannot be locked is no fault
    if (error == cudaSuccess) {
      locked_.reset(memory);
      host_ = rows.data();
    } else {
      copy(rows, static_cast<std::size_t>(std::max(threads, 1)));
    }
    void* seen = nullptr;
    check(cudaHostGetDevicePointer(&seen, const_cast<float*>(host_), 0),
          "cudaHostGetDevicePointer");
    device_ = static_cast<const float*>(seen);
  }

  const float* host() const { return host_; }
  const float* device() const { return device_; } ///< the same memory, for kernels
  std::string path() const { return locked_ != nullptr ? "rows where they lie" : "copied rows"; }

private:
  void copy(std::span<const float> rows, std::size_t threads) {
    copy_ = Buffer<float, allocate_locked, free_locked>(rows.size());
    std::vector<std::jthread> team;
    for (std::size_t t = 0; t < threads; ++t) {
      const std::size_t first = rows.size() * t / threads, end = rows.size() * (t + 1) / threads;
      team.emplace_back([this, part = rows.subspan(first, end - first), first] {
        std::ranges::copy(part, copy_.data() + first);
      });
    }
    team.clear(); // waits for them
    host_ = copy_.data();
  }

  struct Unlock {
    void operator()(void* memory) const { static_cast<void>(cudaHostUnregister(memory)); }
  };
  std::unique_ptr<void, Unlock> locked_;
  Buffer<float, allocate_locked, free_locked> copy_;
  const float *host_ = nullptr, *device_ = nullptr;
};

/// How the rows are cut into tiles: all but the last have as many.
struct Tiling {
  std::size_t n, rows;

  /// wave: rows that the sweep works on at a time. Whole waves, so that no multiprocessor waits for
  /// the last rows of a tile; few enough that two tiles in float are a small part of the points.
  static Tiling of(std::size_t n, std::size_t wave) {
    constexpr std::size_t kTiles = 64, kMostWaves = 8;
    const std::size_t waves = std::clamp<std::size_t>(n / kTiles / wave, 1, kMostWaves);
    return {n, ceil_div(waves * wave, WgmmaSweep<>::kPaddedRows) * WgmmaSweep<>::kPaddedRows};
  }
  unsigned count() const { return static_cast<unsigned>(ceil_div(n, rows)); }
  std::size_t first(std::size_t tile) const { return tile * rows; }
  std::size_t size(std::size_t tile) const { return std::min(rows, n - first(tile)); }
};

inline constexpr unsigned kLossParts = 32; ///< of a tile

/// All that prepare() allocates.
struct OutOfCoreArrays {
  OutOfCoreArrays() = default;
  /// keeps: a half-precision copy of all rows
  OutOfCoreArrays(const Shape& shape, const Tiling& tiling, bool keeps, std::byte* memory)
      : OutOfCoreArrays(shape, tiling, keeps, Arena{memory}) {}

  HalfArrays points{};      ///< of all rows, or none
  HalfArrays streamed[2]{}; ///< else of a tile, by turns
  PlacedCentroids placed{};
  long long* high = nullptr; ///< see SumsView
  long long* low = nullptr;
  unsigned* counts = nullptr;
  std::size_t sums_bytes = 0;     ///< of those three together
  std::int32_t* labels = nullptr; ///< [n], by turns with those of the answer
  PassCounters* pass = nullptr;   ///< the largest terms of the next pass
  PassCounters* tiles = nullptr;  ///< [tiles]
  FlaggedView flagged[2] = {};    ///< of a tile, by turns
  float* rows[2] = {};            ///< [tile, d], by turns: rows of a tile in float
  unsigned* places = nullptr;     ///< [tile] 0, 1, 2, ...
  MovedView moved{};
  double* partial = nullptr; ///< [k], or [tiles, kLossParts] if that is more
  double* loss = nullptr;
  double* shift = nullptr;
  unsigned* moved_rows = nullptr; ///< of a pass
  std::size_t used = 0;

private:
  OutOfCoreArrays(const Shape& shape, const Tiling& tiling, bool keeps, Arena cutter) {
    const std::size_t k = shape.k, d = shape.d;
    const std::size_t tile = std::min(tiling.rows, tiling.n), pairs = 2 * tile + 65536;
    if (keeps) {
      points = HalfArrays::cut(shape.n, d, WgmmaSweep<>::kPaddedRows, cutter);
    } else {
      for (HalfArrays& each : streamed) {
        each = HalfArrays::cut(tile, d, WgmmaSweep<>::kPaddedRows, cutter);
      }
    }
    placed = PlacedCentroids::cut(k, d, cutter);
    const std::size_t before_sums = cutter.used;
    high = cutter.take<long long>(k * d);
    low = cutter.take<long long>(k * d);
    counts = cutter.take<unsigned>(k);
    sums_bytes = cutter.used - before_sums;
    labels = cutter.take<std::int32_t>(shape.n);
    pass = cutter.take<PassCounters>(1);
    tiles = cutter.take<PassCounters>(tiling.count());
    for (unsigned turn = 0; turn < 2; ++turn) {
      flagged[turn] = {.rows = cutter.take<unsigned>(tile),
                       .thresholds = cutter.take<float>(tile),
                       .candidates = cutter.take<unsigned>(tile),
                       .nearest = cutter.take<unsigned long long>(tile),
                       .overflowed = cutter.take<bool>(tile),
                       .pairs = cutter.take<uint2>(pairs),
                       .capacity = static_cast<unsigned>(pairs)};
      rows[turn] = cutter.take<float>(tile * d);
    }
    places = cutter.take<unsigned>(tile);
    moved.rows = cutter.take<unsigned>(tile);
    moved.from = cutter.take<std::int32_t>(tile);
    moved.to = cutter.take<std::int32_t>(tile);
    partial = cutter.take<double>(std::max<std::size_t>(k, tiling.count() * kLossParts));
    loss = cutter.take<double>(1);
    shift = cutter.take<double>(1);
    moved_rows = cutter.take<unsigned>(1);
    used = cutter.used;
  }
};

// ---- the run

/// Three streams: the sweeps go to the default one, the copies of whole tiles to a second, and what
/// is done with rows in float to a third, `beside`. Tiles take turns with two sets of lists and
/// rows. Ranks: as LargeK has them.
template <typename Ranks = OneDevice>
class OutOfCore final : public Variant<float> {
public:
  static constexpr bool kPointsOnHost = true; ///< see RankedRun

  explicit OutOfCore(Ranks ranks = {}) : ranks_(std::move(ranks)) {}

  std::string refuse(const Shape& shape) const override {
    if (shape.n >= std::size_t{1} << 31 || shape.k >= std::size_t{1} << 30) {
      return "points and clusters are counted in 32 bits";
    }
    return WgmmaSweep<>::refuse(shape);
  }

  void prepare(const Shape& shape, const Points<float>& points) override {
    shape_ = shape;
    host_rows_.lock(points.rows, shape.threads);
    copies_ = Stream::create();
    beside_ = Stream::create();
    for (auto* events : {&swept_, &copied_, &free_}) {
      for (Event& event : *events) {
        event = Event::create();
      }
    }
    points_.measure({host_rows_.device(), points.rows.size()}, shape.d);
    const CentroidsView<> sizes =
        PlacedCentroids{}.view<float>(static_cast<unsigned>(shape.k), nullptr);
    sweep_.prepare({points_.view(), sizes, {}, nullptr, nullptr, points_.frame()}, kSpare);
    tiling_ = Tiling::of(shape.n, sweep_.wave());
    allocate();
    points_.prepare(at_.points, &host_[0].largest, kHeadroom<Ranks>);
    take_range(shape.n, points_.largest());
    const HalfTiles tiles = points_.view().shape;
    fill_bytes(std::span(at_.placed.tiles, tiles.size(shape.k)),
               0); // they stay zero behind d and k
    fill_iota<<<blocks_at_most(tile_rows(), 256, 4096), 256>>>(at_.places, tile_rows());
    check_launch("fill_iota");
    second_level_ = SecondLevel<kFetchThreads>(tiles, shape.d);
    fetch_ = shape.d % 4 == 0 ? fetch_rows<true> : fetch_rows<false>;
    move_points_ = MovePoints<float>(shape.d, false);
  }

  /// As those of LargeK.
  double largest() const { return points_.largest(); }
  void take_range(std::size_t n, double largest) { point_ = FixedPoint::of(n, largest); }
  std::size_t words() const { return at_.sums_bytes / sizeof(long long); }

  void run(const Start<float>& start, Answer<float>& answer, Observer<float>& observer) override {
    StopTest stop(shape_.stop);
    points_.measure_start(start.centroids);
    points_.fit();
    float* centroids = answer.centroids.data();
    std::int32_t *labels = answer.labels.data(), *before = at_.labels;
    fill_bytes(std::span(before, shape_.n), 0xFF); // -1: no cluster yet
    copy_values(start.centroids, centroids);
    fill_bytes(std::span(reinterpret_cast<std::byte*>(at_.high), at_.sums_bytes), 0);
    fill_bytes(std::span(at_.loss, 1), 0);
    place(sums(), centroids, nullptr, nullptr); // no sums yet: only rounds
    bool last = false;
    while (!last) {
      {
        const Phase phase(observer, "assign, fetch and move", kDefaultStream);
        const bool all_rows = !keeps_ || stop.passes() == 0 || stop.wants_loss();
        start_tiles<<<blocks_for(tiling_.count(), 256), 256>>>(at_.pass, at_.tiles,
                                                               tiling_.count());
        check_launch("start_tiles");
        for (unsigned tile = 0; tile < tiling_.count() && ranks_.has_points(); ++tile) {
          pass_over(tile, centroids, before, labels, all_rows, stop.wants_loss());
        }
        free_[(tiling_.count() - 1) % 2].hold(kDefaultStream);
      }
      PassTotals all{};
      {
        const Phase phase(observer, "update", kDefaultStream);
        if (stop.wants_loss() && ranks_.has_points()) {
          sum_up(tiling_.count() * kLossParts, at_.loss);
        }
        sum_moved<<<1, 256>>>(at_.tiles, tiling_.count(), at_.moved_rows);
        check_launch("sum_moved");
        all = ranks_.of_all(PassTotals{sums(), words(), at_.loss, at_.moved_rows});
        place(all.sums, centroids, answer.entering.data(),
              stop.wants_shift() ? at_.partial : nullptr);
      }
      PassFacts facts;
      if (stop.wants_loss()) {
        facts.loss = download(all.loss, host_[0].total);
      }
      if (stop.wants_shift()) {
        sum_up(static_cast<unsigned>(shape_.k), at_.shift);
        const double scale = points_.frame().scale;
        facts.squared_shift = download(at_.shift, host_[0].total) / scale / scale;
      }
      if (stop.wants_labels_changed()) {
        facts.labels_changed = download(all.moved, host_[0].moved) != 0;
      }
      if (observer.recording()) {
        counted().report(observer, shape_.n);
      }
      observer.pass(answer.centroids);
      std::swap(labels, before); // the newest labels are now those before
      last = stop.after_pass(facts);
    }
    if (before != answer.labels.data()) {
      copy_values(std::span(before, shape_.n), labels);
    }
    answer.iterations = stop.passes();
  }

  std::string chosen_path() const override {
    return std::string(keeps_ ? "a copy of half the size" : "all rows in every pass") + ", " +
           host_rows_.path() + ", " + std::to_string(tiling_.count()) + " tiles of " +
           std::to_string(tiling_.rows) + ", " + sweep_.path();
  }

private:
  /// What the host asks for.
  struct HostWords {
    double total;
    unsigned moved;
    LargestBits<float> largest;
  };

  std::size_t tile_rows() const { return std::min(tiling_.rows, tiling_.n); }

  /// With the copy if there is room for it.
  void allocate() {
    for (const bool keeps : {true, false}) {
      keeps_ = keeps;
      const std::size_t bytes = OutOfCoreArrays(shape_, tiling_, keeps, nullptr).used;
      try {
        memory_ = DeviceBuffer<std::byte>(bytes);
        break;
      } catch (const std::runtime_error&) {
        if (!keeps) {
          throw Refusal("needs " + std::to_string(bytes >> 20) +
                        " MiB of device memory for labels, tiles of rows and sums: not there");
        }
      }
    }
    at_ = OutOfCoreArrays(shape_, tiling_, keeps_, memory_.data());
    host_ = PinnedBuffer<HostWords>(1);
    counters_ = PinnedBuffer<PassCounters>(tiling_.count());
  }

  CentroidsView<> centroids_view(const float* centroids) const {
    return at_.placed.view(static_cast<unsigned>(shape_.k), centroids);
  }
  SumsView sums() const { return {point_, at_.high, at_.low, at_.counts}; }

  /// A tile's rows: rounded where they are, in float where they will be.
  PointsView<> points_of(unsigned tile) const {
    PointsView<> view = points_.view();
    const std::size_t first = tiling_.first(tile);
    view.n = tiling_.size(tile);
    view.exact = at_.rows[tile % 2];
    if (keeps_) {
      view.rounded += first / kHalfTileRows * view.shape.tile_size();
      view.residual += first;
      view.norm += first;
    } else {
      const HalfArrays& streamed = at_.streamed[tile % 2];
      view.rounded = streamed.tiles;
      view.residual = streamed.residual;
      view.norm = streamed.norm;
    }
    return view;
  }

  /// Labels and sums of a tile; does not block. all_rows: they come in order, else only those
  /// needed.
  void pass_over(unsigned tile, const float* centroids, const std::int32_t* all_before,
                 std::int32_t* all_labels, bool all_rows, bool wants_loss) {
    const unsigned turn = tile % 2;
    const std::size_t first = tiling_.first(tile);
    const std::int32_t* before = all_before + first;
    const SweepTask<> task{points_of(tile),  centroids_view(centroids), at_.flagged[turn],
                           at_.tiles + tile, all_labels + first,        points_.frame()};
    if (all_rows) {
      free_[turn].hold(copies_);
      copy_values({host_rows_.host() + first * shape_.d, task.points.n * shape_.d}, at_.rows[turn],
                  copies_);
      copied_[turn].record(copies_);
    }
    free_[turn].hold(kDefaultStream);
    if (!keeps_) {
      copied_[turn].hold(kDefaultStream);
      points_.round_rows(at_.rows[turn], task.points.n, at_.streamed[turn]);
    }
    sweep_.launch(task);
    second_level_.find(task);
    swept_[turn].record(kDefaultStream);
    swept_[turn].hold(beside_);
    if (all_rows) {
      copied_[turn].hold(beside_);
      second_level_.label(task, task, kSpare, beside_);
      move(task, before, task.labels, &task.counters->moved);
      if (wants_loss) {
        sum_distances<false><<<kLossParts, 256, 0, beside_>>>(task.points, centroids, task.labels,
                                                              at_.partial + tile * kLossParts, {});
        check_launch("sum_distances");
      }
    } else {
      fetch(task, task.flagged.rows, &task.counters->flagged);
      SweepTask<> fetched = task; // row i is that of slot i
      fetched.flagged.rows = at_.places;
      second_level_.label(fetched, task, kSpare, beside_);
      move_fetched(task, before);
    }
    free_[turn].record(beside_);
  }

  void move_fetched(const SweepTask<>& task, const std::int32_t* before) {
    MovedView moved = at_.moved;
    moved.count = &task.counters->moved;
    fill_bytes(std::span(moved.from, task.points.n), 0xFF, beside_);
    fill_bytes(std::span(moved.to, task.points.n), 0xFF, beside_);
    beside("list_moved", list_moved, kFetchThreads, before, task.labels, task.points.n, moved);
    fetch(task, moved.rows, moved.count);
    move(task, moved.from, moved.to, nullptr);
  }

  /// See MoveTask.
  void move(const SweepTask<>& task, const std::int32_t* before, const std::int32_t* labels,
            unsigned* moved) {
    move_points_.launch_beside({.points = task.points,
                                .before = before,
                                .labels = labels,
                                .sums = sums(),
                                .moved = moved,
                                .weights = {},
                                .k = task.centroids.k},
                               kSpare, beside_);
  }

  /// Brings rows of a tile to the front of its place in float.
  void fetch(const SweepTask<>& task, const unsigned* rows, const unsigned* count) {
    const std::size_t tile = static_cast<std::size_t>(task.counters - at_.tiles);
    beside("fetch_rows", fetch_, kFetchThreads,
           host_rows_.device() + tiling_.first(tile) * shape_.d, rows, count, task.points.d,
           at_.rows[tile % 2]);
  }

  /// A block for each multiprocessor that the sweep leaves.
  template <typename... Parameters>
  void beside(const char* name, void (*kernel)(Parameters...), unsigned threads,
              std::type_identity_t<Parameters>... arguments) {
    kernel<<<kSpare, threads, 0, beside_>>>(arguments...);
    check_launch(name);
  }

  /// See place_centroids().
  void place(const SumsView& of_all, float* centroids, float* entering, double* shifts) {
    fill_bytes(std::span(at_.pass, 1), 0);
    place_all(of_all, static_cast<unsigned>(shape_.k), static_cast<unsigned>(shape_.d),
              points_.frame(), points_.view().shape, centroids, entering, at_.placed, at_.pass,
              shifts, WeightsView<float>{}, false);
  }

  void sum_up(unsigned count, double* total) {
    sum_in_order<<<1, 256>>>(at_.partial, count, total);
    check_launch("sum_in_order");
  }
  /// Waits for it.
  template <typename Word>
  static Word download(const Word* from, Word& to) {
    copy_values(std::span(from, 1), &to);
    check(cudaStreamSynchronize(kDefaultStream), "cudaStreamSynchronize after a download");
    return to;
  }

  /// What all tiles have counted.
  PassCounters counted() {
    copy_values(std::span(at_.tiles, tiling_.count()), counters_.data());
    check(cudaStreamSynchronize(kDefaultStream), "cudaStreamSynchronize after a download");
    PassCounters all{};
    for (const PassCounters& tile : std::as_const(counters_).span()) {
      all.flagged += tile.flagged;
      all.pairs += tile.pairs;
      all.alone += tile.alone;
      all.moved += tile.moved;
    }
    return all;
  }

  Ranks ranks_;
  Shape shape_;
  LockedRows host_rows_;
  HalfCopy<> points_;
  WgmmaSweep<> sweep_;
  Tiling tiling_{};
  bool keeps_ = true; ///< a half-precision copy of all rows
  FixedPoint point_{};
  Stream copies_, beside_;
  // Of each turn: its tile is swept; its rows are there; its lists and rows are done with.
  Event swept_[2], copied_[2], free_[2];
  SecondLevel<kFetchThreads> second_level_;
  MovePoints<float> move_points_;
  void (*fetch_)(const float*, const unsigned*, const unsigned*, unsigned, float*) = nullptr;
  DeviceBuffer<std::byte> memory_;
  OutOfCoreArrays at_;
  PinnedBuffer<HostWords> host_;
  PinnedBuffer<PassCounters> counters_;
};

} // namespace clusterbench::cuda
