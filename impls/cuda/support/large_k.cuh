// The run that the variants for many clusters share: what is theirs is the first sweep over all
// centroids. It leaves every row a label or a flag; the rest of a pass is the same for all.
#pragma once

#include "impls/contract.hpp"
#include "impls/cuda/support/exact_sums.cuh"
#include "impls/cuda/support/phase_timer.hpp"
#include "impls/cuda/support/second_level.cuh"
#include "impls/cuda/support/sorted_sums.cuh"

#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace clusterbench::cuda {

inline constexpr std::size_t kMostFeatures = 1024; ///< 64 rows and two stages fit shared memory

/// Sweep has: kPaddedRows, points of a block; refuse(shape), or empty; bytes(shape), what it
/// allocates itself; prepare(task), with everything but the counters, whenever the points have been
/// rounded; launch(task, stream); path(), in words.
template <typename Sweep>
class LargeK final : public Variant<float> {
public:
  std::string refuse(const Shape& shape) const override {
    const std::size_t most = std::size_t{1} << 31;
    if (shape.n >= most || shape.k >= most / 2) {
      return "points and clusters are counted in 32 bits";
    }
    if (shape.d > kMostFeatures) {
      return "d = " + std::to_string(shape.d) + ": a tile of 64 rows in shared memory ends at " +
             std::to_string(kMostFeatures) + " features";
    }
    const std::size_t needed = bytes(shape), there = device_memory();
    if (there > 0 && needed > there) { // 0: no device, which others report
      return "needs " + std::to_string(needed >> 20) + " MiB of device memory, there are " +
             std::to_string(there >> 20);
    }
    return Sweep::refuse(shape);
  }

  void prepare(const Shape& shape, std::span<const float> points) override {
    shape_ = shape;
    const std::size_t n = shape.n, d = shape.d, k = shape.k;
    stream_ = Stream::create();
    points_.prepare(points, d, Sweep::kPaddedRows, stream_);
    point_ = FixedPoint::of(n, points_.largest());
    const HalfTiles tiles = points_.view().shape;
    tiles_ = static_cast<unsigned>(ceil_div(k, kHalfTileRows));
    d_centroids_ = DeviceBuffer<float>(k * d);
    d_rounded_ = DeviceBuffer<__half>(tiles.size(k));
    d_rounded_.zero(stream_); // and stays zero behind d and k
    d_half_squares_ = DeviceBuffer<float>(std::size_t{tiles_} * kHalfTileRows);
    d_terms_ = DeviceBuffer<float4>(std::size_t{tiles_} * kHalfTileRows);
    for (auto* labels : {&d_labels_, &d_before_}) {
      *labels = DeviceBuffer<std::int32_t>(n);
    }
    d_high_ = DeviceBuffer<long long>(k * d);
    d_low_ = DeviceBuffer<long long>(k * d);
    d_counts_ = DeviceBuffer<unsigned>(k);
    d_counters_ = DeviceBuffer<PassCounters>(2);
    counters_ = PinnedBuffer<PassCounters>(1);
    d_rows_ = DeviceBuffer<unsigned>(n);
    d_thresholds_ = DeviceBuffer<float>(n);
    d_candidates_ = DeviceBuffer<unsigned>(n);
    d_nearest_ = DeviceBuffer<unsigned long long>(n);
    d_overflowed_ = DeviceBuffer<bool>(n);
    d_pairs_ = DeviceBuffer<uint2>(std::min<std::size_t>(2 * n + 65536, std::size_t{1} << 31));
    d_partial_ = DeviceBuffer<double>(std::max<std::size_t>(k, kLossBlocks));
    d_total_ = DeviceBuffer<double>(1);
    total_ = PinnedBuffer<double>(1);
    find_candidates_ = tiles.width == 64 ? find_candidates<64> : find_candidates<32>;
    compare_ = d > 64 ? compare_candidates<32> : compare_candidates<8>;
    compare_with_all_ = d > 64 ? compare_with_all<32> : compare_with_all<8>;
    second_bytes_ = second_sweep_shared_bytes(tiles);
    allow_shared_memory(find_candidates_, second_bytes_);
    second_blocks_ =
        static_cast<unsigned>(resident_blocks(find_candidates_, kSecondThreads, second_bytes_));
    wide_blocks_ = static_cast<unsigned>(resident_blocks(move_points, 256, 0));
    sorted_.prepare(points_.view(), k, stream_);
    sweep_.prepare(task(nullptr));
    stream_.synchronize();
  }

  void run(const Start<float>& start, Result<float>& answer, Observer<float>& observer) override {
    StopTest stop(shape_.stop);
    if (points_.fit(start.centroids, stream_)) { // rare; but float16 has to hold the centroids, too
      sweep_.prepare(task(nullptr));
    }
    d_centroids_.copy_from(start.centroids, stream_);
    d_before_.fill_bytes(0xFF, stream_); // -1: no cluster yet
    zero_sums();
    d_counters_.zero(stream_);
    PassCounters* now = d_counters_.data();
    PassCounters* next = d_counters_.data() + 1;
    place(now, nullptr); // no sums yet: only rounds the initial centroids
    PhaseTimer<float> timer(observer, stream_);
    std::vector<float> recorded(observer.recording() ? d_centroids_.size() : 0);
    bool last = false;
    while (!last) {
      const SweepTask pass = task(now);
      timer.measure("assign", [&] { sweep_.launch(pass, stream_); });
      timer.measure("recheck", [&] { recheck(pass); });
      PassFacts facts;
      if (stop.wants_loss()) {
        timer.measure("check", [&] { facts.loss = loss(); });
      }
      timer.measure("update", [&] {
        add_points(now, stop.passes() == 0);
        check(cudaMemsetAsync(next, 0, sizeof *next, stream_), "cudaMemsetAsync of counters");
        place(next, stop.wants_shift() ? d_partial_.data() : nullptr);
      });
      if (stop.wants_shift()) {
        facts.squared_shift = total(d_partial_.data(), static_cast<unsigned>(shape_.k));
      }
      if (stop.wants_labels_changed() || observer.recording()) {
        facts.labels_changed = download(now).moved != 0;
      }
      if (observer.recording()) {
        report(observer, counters_[0]);
        d_centroids_.download(recorded, stream_);
        observer.pass(recorded);
      }
      std::swap(now, next);
      std::swap(d_labels_, d_before_); // the newest labels are now those before
      last = stop.after_pass(facts);
    }
    d_before_.copy_to(answer.labels, stream_);
    d_centroids_.copy_to(answer.centroids, stream_);
    answer.iterations = stop.passes();
  }

  std::string chosen_path() const override { return sweep_.path(); }

private:
  static constexpr unsigned kLossBlocks = 1024;
  static constexpr std::size_t kFewValues = std::size_t{1} << 22; ///< not worth the sort's launches

  /// Device memory for the points and for what prepare() allocates, to within a few pages.
  static std::size_t bytes(const Shape& shape) {
    const std::size_t n = shape.n, d = shape.d, k = shape.k;
    const HalfTiles tiles = HalfTiles::of(d);
    const std::size_t of_points = n * (d * sizeof(float) + 2 * sizeof(float)) +
                                  tiles.size(n) * sizeof(__half) + SortedSums::bytes(n);
    const std::size_t of_rows = n * (4 * sizeof(int) + sizeof(float) + sizeof(long long) +
                                     sizeof(bool) + 2 * sizeof(uint2));
    const std::size_t of_centroids =
        k * d * (sizeof(float) + 2 * sizeof(long long)) + tiles.size(k) * sizeof(__half) + k * 32;
    return of_points + of_rows + of_centroids + Sweep::bytes(shape);
  }

  SweepTask task(PassCounters* counters) {
    const CentroidsView centroids{
        static_cast<unsigned>(shape_.k), tiles_,         d_centroids_.data(), d_rounded_.data(),
        d_half_squares_.data(),          d_terms_.data()};
    const FlaggedView flagged{d_rows_.data(),
                              d_thresholds_.data(),
                              d_candidates_.data(),
                              d_nearest_.data(),
                              d_overflowed_.data(),
                              d_pairs_.data(),
                              static_cast<unsigned>(d_pairs_.size())};
    return {points_.view(), centroids, flagged, counters, d_labels_.data(), points_.frame()};
  }

  SumsView sums() { return {point_, d_high_.data(), d_low_.data(), d_counts_.data()}; }

  void zero_sums() {
    d_high_.zero(stream_);
    d_low_.zero(stream_);
    d_counts_.zero(stream_);
  }

  /// Sums of the new labels. As long as many points move, all are summed afresh, sorted by label;
  /// from the first pass on in which few do, only those that have moved.
  void add_points(PassCounters* now, bool first_pass) {
    const std::size_t n = shape_.n;
    many_move_ = first_pass ? n * shape_.d >= kFewValues : many_move_;
    bool counted = false;
    if (many_move_) {
      count_moved<<<wide_blocks_, 256, 0, stream_>>>(d_before_.data(), d_labels_.data(), n,
                                                     &now->moved);
      check_launch("count_moved");
      counted = true;
      many_move_ = first_pass || download(now).moved > n / 4;
    }
    if (many_move_) {
      if (!first_pass) {
        zero_sums();
      }
      sorted_.add_all(points_.view(), d_labels_.data(), sums(), stream_);
    } else {
      move_points<<<wide_blocks_, 256, 0, stream_>>>(points_.view(), d_before_.data(),
                                                     d_labels_.data(), sums(),
                                                     counted ? nullptr : &now->moved);
      check_launch("move_points");
    }
  }

  const PassCounters& download(const PassCounters* counters) {
    check(cudaMemcpyAsync(counters_.data(), counters, sizeof *counters, cudaMemcpyDeviceToHost,
                          stream_),
          "cudaMemcpyAsync of counters");
    stream_.synchronize();
    return counters_[0];
  }

  void recheck(const SweepTask& pass) {
    find_candidates_<<<second_blocks_, kSecondThreads, second_bytes_, stream_>>>(pass);
    check_launch("find_candidates");
    compare_<<<wide_blocks_, 256, 0, stream_>>>(pass);
    check_launch("compare_candidates");
    compare_with_all_<<<wide_blocks_, 256, 0, stream_>>>(pass);
    check_launch("compare_with_all");
    settle_flagged<<<wide_blocks_, 256, 0, stream_>>>(pass);
    check_launch("settle_flagged");
  }

  void place(PassCounters* counters, double* shifts) {
    const HalfTiles shape = points_.view().shape;
    place_centroids<<<blocks_for(std::size_t{tiles_} * kHalfTileRows * 32, 256), 256, 0, stream_>>>(
        sums(), static_cast<unsigned>(shape_.k), static_cast<unsigned>(shape_.d), points_.frame(),
        shape, d_centroids_.data(), d_rounded_.data(), d_half_squares_.data(), d_terms_.data(),
        counters, shifts);
    check_launch("place_centroids");
  }

  double loss() {
    sum_distances<<<kLossBlocks, 256, 0, stream_>>>(points_.view(), d_centroids_.data(),
                                                    d_labels_.data(), d_partial_.data());
    check_launch("sum_distances");
    return total(d_partial_.data(), kLossBlocks);
  }

  double total(const double* values, unsigned count) {
    sum_in_order<<<1, 256, 0, stream_>>>(values, count, d_total_.data());
    check_launch("sum_in_order");
    check(cudaMemcpyAsync(total_.data(), d_total_.data(), sizeof(double), cudaMemcpyDeviceToHost,
                          stream_),
          "cudaMemcpyAsync of a total");
    stream_.synchronize();
    return total_[0];
  }

  void report(Observer<float>& observer, const PassCounters& counters) const {
    const double n = static_cast<double>(shape_.n);
    observer.counter("certified_at_once", (n - counters.flagged) / n);
    observer.counter("certified_at_second_level", counters.alone / n);
    observer.counter("recomputed_in_float32", (counters.flagged - counters.alone) / n);
    observer.counter("candidates", static_cast<double>(counters.pairs));
    observer.counter("moved", counters.moved / n);
  }

  Shape shape_;
  Stream stream_;
  Sweep sweep_;
  HalfCopy points_;
  FixedPoint point_{};
  SortedSums sorted_;
  bool many_move_ = true; ///< in the last pass
  unsigned tiles_ = 0, second_blocks_ = 0, wide_blocks_ = 0;
  std::size_t second_bytes_ = 0;
  void (*find_candidates_)(SweepTask) = nullptr;
  void (*compare_)(SweepTask) = nullptr;
  void (*compare_with_all_)(SweepTask) = nullptr;
  DeviceBuffer<float> d_centroids_, d_half_squares_, d_thresholds_;
  DeviceBuffer<float4> d_terms_;
  DeviceBuffer<__half> d_rounded_;
  DeviceBuffer<std::int32_t> d_labels_, d_before_;
  DeviceBuffer<long long> d_high_, d_low_;
  DeviceBuffer<unsigned> d_counts_, d_rows_, d_candidates_;
  DeviceBuffer<PassCounters> d_counters_;
  PinnedBuffer<PassCounters> counters_;
  DeviceBuffer<unsigned long long> d_nearest_;
  DeviceBuffer<bool> d_overflowed_;
  DeviceBuffer<uint2> d_pairs_;
  DeviceBuffer<double> d_partial_, d_total_;
  PinnedBuffer<double> total_;
};

} // namespace clusterbench::cuda
