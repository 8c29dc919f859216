// Rows that leave a cluster and join another, and what that changes of the exact sums. A block
// brings rows into the order of their clusters and adds up in registers those of one cluster, before
// it adds to the sums: additions to one word wait for one another.
#pragma once

#include "impls/contract.hpp"
#include "impls/cuda/common/exact_words.cuh"
#include "impls/cuda/common/runtime.hpp"
#include "impls/cuda/many_clusters/exact_sums.cuh"
#include "impls/cuda/many_clusters/half_copy.cuh"

#include <cstddef>
#include <cub/block/block_scan.cuh>
#include <type_traits>

namespace clusterbench::cuda {

inline constexpr unsigned kMovingThreads = 512; ///< of a block
inline constexpr unsigned kMovingAtOnce = 8;    ///< rows that a thread looks at

template <typename T>
struct MoveTask {
  PointsView<T> points;
  const std::int32_t* before; ///< [n] labels, -1 where a point had no cluster yet; null: none had
  const std::int32_t* labels; ///< [n]
  SumsView sums;
  unsigned* moved; ///< to count in the rows that move, or null
  WeightsView<T> weights;
  unsigned k;
  unsigned rows_at_once = 0; ///< that a block looks at, at most MovingRows::kMost
};

/// Of a block, in shared memory: rows that move, and the order of their clusters. Each has an entry
/// there for the cluster that it joins, and one for that which it leaves, if it had one.
struct MovingRows {
  static constexpr unsigned kMost = kMovingThreads * kMovingAtOnce;
  static constexpr unsigned kBins = 2048; ///< of neighbouring clusters, where these are more
  using Scan = cub::BlockScan<unsigned, kMovingThreads>;

  unsigned rows[kMost];
  std::int32_t from[kMost], to[kMost];
  unsigned short order[2 * kMost]; ///< twice the place of a row, and one more where it leaves
  unsigned starts[kBins];          ///< of entries in `order`, and where the next one goes
  unsigned kept;                   ///< rows in the lists
  typename Scan::TempStorage scan;

  __device__ void clear() {
    if (threadIdx.x == 0) {
      kept = 0;
    }
  }

  /// Lists those of `count` rows whose label has changed.
  template <typename T>
  __device__ void list(const MoveTask<T>& task, std::size_t first, unsigned count) {
    const unsigned lane = threadIdx.x % 32;
    std::int32_t old_label[kMovingAtOnce], new_label[kMovingAtOnce];
#pragma unroll
    for (unsigned e = 0; e < kMovingAtOnce; ++e) {
      const unsigned own = e * kMovingThreads + threadIdx.x;
      old_label[e] = own < count && task.before != nullptr ? task.before[first + own] : -1;
      new_label[e] = own < count ? task.labels[first + own] : -1;
    }
    unsigned movers[kMovingAtOnce], in_warp = 0;
#pragma unroll
    for (unsigned e = 0; e < kMovingAtOnce; ++e) {
      movers[e] = __ballot_sync(kAllLanes, old_label[e] != new_label[e]);
      in_warp += static_cast<unsigned>(__popc(movers[e]));
    }
    if (in_warp == 0) {
      return;
    }
    unsigned place = lane == 0 ? atomicAdd(&kept, in_warp) : 0;
    place = __shfl_sync(kAllLanes, place, 0);
#pragma unroll
    for (unsigned e = 0; e < kMovingAtOnce; ++e) {
      if (old_label[e] != new_label[e]) {
        const unsigned at = place + static_cast<unsigned>(__popc(movers[e] & ((1u << lane) - 1)));
        rows[at] = static_cast<unsigned>(first + e * kMovingThreads + threadIdx.x);
        from[at] = old_label[e];
        to[at] = new_label[e];
      }
      place += static_cast<unsigned>(__popc(movers[e]));
    }
  }

  /// Brings entries into the order of their clusters, or of bins of these; fewer than clusters stay
  /// as they come. Returns their number.
  __device__ unsigned sort(unsigned k) {
    constexpr unsigned kOwn = kBins / kMovingThreads;
    const bool many = 2 * kept >= k;
    const int bits = 32 - __clz(static_cast<int>((k - 1) / kBins)); // of the clusters of a bin
    unsigned entries = 0;
    for (unsigned bin = threadIdx.x; bin < (many ? kBins : 1); bin += kMovingThreads) {
      starts[bin] = 0;
    }
    __syncthreads(); // all bins are empty
    if (many) {
      unsigned own[kOwn];
      for_each([&](unsigned, unsigned cluster) { atomicAdd(&starts[cluster >> bits], 1u); });
      __syncthreads(); // all are counted
#pragma unroll
      for (unsigned b = 0; b < kOwn; ++b) {
        own[b] = starts[threadIdx.x * kOwn + b];
      }
      Scan(scan).ExclusiveSum(own, own, entries);
#pragma unroll
      for (unsigned b = 0; b < kOwn; ++b) {
        starts[threadIdx.x * kOwn + b] = own[b];
      }
      __syncthreads(); // bins begin behind those before them
    }
    for_each([&](unsigned entry, unsigned cluster) {
      const unsigned place = atomicAdd(&starts[many ? cluster >> bits : 0], 1u);
      order[place] = static_cast<unsigned short>(entry);
    });
    __syncthreads(); // the order is there
    return many ? entries : starts[0];
  }

private:
  template <typename Visit>
  __device__ void for_each(const Visit& visit) const {
    for (unsigned place = threadIdx.x; place < kept; place += kMovingThreads) {
      visit(2 * place, static_cast<unsigned>(to[place]));
      if (from[place] >= 0) {
        visit(2 * place + 1, static_cast<unsigned>(from[place]));
      }
    }
  }
};

/// A sum of some values, as words.
template <typename T>
class WordSum {
public:
  __device__ void add(T value, const PointOf<T>& point) {
    const FixedWords own = FixedWords::of(value, point);
    words_.high += own.high;
    words_.low += own.low;
  }
  __device__ FixedWords take(const FixedPoint&) {
    const FixedWords all = words_;
    words_ = {};
    return all;
  }

private:
  FixedWords words_;
};

/// A sum of up to kMostValues floats, which double holds exactly if none is too small. In a third
/// of the instructions that words take.
class DoubleSum {
public:
  static constexpr unsigned kMostValues = 64;

  /// Of the largest float that words have room for 2^-24: 24 bits of that lie 47 bits below, and
  /// kMostValues are 6 bits more. Its bits, doubled.
  __device__ static unsigned least(const FixedPoint& point) {
    const int largest = (__double2hiint(point.to_low) - __double2hiint(point.to_high)) >> 20;
    return static_cast<unsigned>(max(largest - 24 + 127, 0)) << 24;
  }
  /// Whether a value other than 0 is less than that.
  __device__ static bool is_small(float value, unsigned least) { return doubled(value) < least; }
  __device__ static bool any_is_small(const float (&x)[4], unsigned least) {
    return min(min(doubled(x[0]), doubled(x[1])), min(doubled(x[2]), doubled(x[3]))) < least;
  }
  /// sign: 1 or -1
  __device__ void add(float value, double sign) {
    sum_ = __fma_rn(static_cast<double>(value), sign, sum_);
  }
  __device__ FixedWords take(const FixedPoint& point) {
    const FixedWords all = FixedWords::of(sum_, point);
    sum_ = 0.0;
    return all;
  }

private:
  /// The bits without the sign, and 0 behind all others.
  __device__ static unsigned doubled(float value) { return __float_as_uint(value) * 2 - 1; }

  double sum_ = 0.0;
};

/// What kLanes lanes add up of the rows of one cluster, four features each, kLanes apart.
template <unsigned kLanes, bool kWeighted, typename T>
class ClusterSum {
  static constexpr bool kDoubles = std::is_same_v<T, float> && !kWeighted;
  using Word = std::conditional_t<kWeighted, double, T>; ///< of a product with a weight: double

public:
  /// feature: the first of this lane, of d; counts: whether it counts the rows, too.
  __device__ ClusterSum(const SumsView& sums, const SumsView& of_weights, unsigned feature,
                        unsigned d, bool counts)
      : sums_(sums), of_weights_(of_weights), point_(sums.point), feature_(feature), d_(d),
        counts_(counts), least_(kDoubles ? DoubleSum::least(sums.point) : 0) {}

  /// Adds a row, or takes it away; gives what there is to the sums before if its cluster is another.
  __device__ void add(std::int32_t cluster, bool leaves, T (&x)[4], double weight) {
    if (cluster != cluster_) {
      give();
      cluster_ = cluster;
    }
    const double sign = leaves ? -1.0 : 1.0;
    count_ += leaves ? -1 : 1;
    if constexpr (kDoubles) {
      if (DoubleSum::any_is_small(x, least_)) { // rare
        give_small(leaves, x);
      }
#pragma unroll
      for (unsigned e = 0; e < 4; ++e) {
        own_[e].add(x[e], sign);
      }
    } else {
      if constexpr (kWeighted) {
        weight_.add(sign * weight, of_weights_.point);
      }
#pragma unroll
      for (unsigned e = 0; e < 4; ++e) {
        own_[e].add(static_cast<Word>(sign * weight * static_cast<double>(x[e])), point_);
      }
    }
  }

  /// Adds what there is to the sums.
  __device__ void give() {
    if (cluster_ < 0) {
      return;
    }
    const std::size_t place = static_cast<std::size_t>(cluster_) * d_ + feature_;
#pragma unroll
    for (unsigned e = 0; e < 4; ++e) {
      const FixedWords words = own_[e].take(sums_.point);
      if (feature_ + e * kLanes < d_) {
        add_exactly(sums_, place + e * kLanes, words);
      }
    }
    if (counts_) {
      if constexpr (kWeighted) {
        add_exactly(of_weights_, static_cast<std::size_t>(cluster_),
                    weight_.take(of_weights_.point));
      } else {
        atomicAdd(&sums_.counts[cluster_], static_cast<unsigned>(count_));
      }
    }
    count_ = 0;
  }

private:
  /// Values that a sum in double would round.
  __device__ void give_small(bool leaves, T (&x)[4]) {
    const std::size_t place = static_cast<std::size_t>(cluster_) * d_ + feature_;
#pragma unroll
    for (unsigned e = 0; e < 4; ++e) {
      if (DoubleSum::is_small(x[e], least_)) {
        add_exactly(sums_, place + e * kLanes, FixedWords::of(leaves ? -x[e] : x[e], point_));
        x[e] = 0;
      }
    }
  }

  const SumsView &sums_, &of_weights_;
  PointOf<Word> point_;
  unsigned feature_, d_;
  bool counts_;
  unsigned least_;
  std::int32_t cluster_ = -1;
  int count_ = 0;
  std::conditional_t<kDoubles, DoubleSum, WordSum<Word>> own_[4];
  WordSum<double> weight_;
};

/// Adds the entries of a block to the sums. Groups of kLanes lanes take pieces of the order.
template <unsigned kLanes, bool kWeighted, typename T>
__device__ void add_in_order(const MovingRows& moving, unsigned entries, const MoveTask<T>& task,
                             const SumsView& sums) {
  constexpr unsigned kGroups = kMovingThreads / kLanes, kAtOnce = 4;
  const unsigned group = threadIdx.x / kLanes, lane = threadIdx.x % kLanes, d = task.points.d;
  const unsigned parts = (d + kLanes * 4 - 1) / (kLanes * 4); // of a row
  const unsigned even = (entries * parts + kGroups - 1) / kGroups;
  const unsigned piece = min(max(even, 1u), DoubleSum::kMostValues);
  const unsigned pieces = (entries + piece - 1) / piece;
#pragma unroll 1
  for (unsigned item = group; item < pieces * parts; item += kGroups) {
    const unsigned part = item / pieces, first = (item - part * pieces) * piece;
    const unsigned end = min(first + piece, entries);
    const unsigned feature = part * kLanes * 4 + lane;
    ClusterSum<kLanes, kWeighted, T> sum(sums, task.weights.sums, feature, d,
                                         part == 0 && lane == 0);
#pragma unroll 1
    for (unsigned r = first; r < end; r += kAtOnce) {
      T x[kAtOnce][4]; // of rows that are on their way together
      double weight[kAtOnce];
      std::int32_t cluster[kAtOnce];
      bool leaves[kAtOnce];
#pragma unroll
      for (unsigned a = 0; a < kAtOnce; ++a) {
        const unsigned entry = moving.order[min(r + a, end - 1)], place = entry / 2;
        const std::size_t row = moving.rows[place];
        leaves[a] = entry % 2 != 0;
        cluster[a] = leaves[a] ? moving.from[place] : moving.to[place];
        weight[a] = kWeighted ? task.weights.of(row) : 1.0;
        const T* values = task.points.exact + row * d + feature;
#pragma unroll
        for (unsigned e = 0; e < 4; ++e) {
          x[a][e] = feature + e * kLanes < d ? values[e * kLanes] : T{0};
        }
      }
#pragma unroll
      for (unsigned a = 0; a < kAtOnce; ++a) {
        if (r + a < end) {
          sum.add(cluster[a], leaves[a], x[a], weight[a]);
        }
      }
    }
    sum.give();
  }
}

/// Changes some copy of the sums for all points whose label has changed. A block looks at
/// rows_at_once rows at a time, until its lists have no room for as many more. Dynamic shared
/// memory: MovingRows.
template <unsigned kLanes, bool kWeighted, typename T>
static __global__ void __launch_bounds__(kMovingThreads,
                                         std::is_same_v<T, float> && !kWeighted ? 2 : 1)
    move_points(const __grid_constant__ MoveTask<T> task) {
  extern __shared__ __align__(16) unsigned char s_memory[];
  MovingRows& moving = *reinterpret_cast<MovingRows*>(s_memory);
  const SumsView sums = copy_of_block(task.sums, task.k, task.points.d);
  moving.clear();
  __syncthreads(); // the lists are empty
  let_next_kernel_begin();
  wait_for_kernels_before();
  const std::size_t n = task.points.n, stride = std::size_t{gridDim.x} * task.rows_at_once;
  unsigned moved = 0;
#pragma unroll 1
  for (std::size_t first = std::size_t{blockIdx.x} * task.rows_at_once; first < n;
       first += stride) {
    const std::size_t left = n - first;
    moving.list(task, first,
                left < task.rows_at_once ? static_cast<unsigned>(left) : task.rows_at_once);
    __syncthreads(); // the lists have them
    const unsigned kept = moving.kept;
    if (kept > 0 && (left <= stride || kept + task.rows_at_once > MovingRows::kMost)) {
      add_in_order<kLanes, kWeighted>(moving, moving.sort(task.k), task, sums);
      __syncthreads(); // all are added
      moving.clear();
      moved += kept;
    }
    __syncthreads(); // all know how many there were
  }
  if (task.moved != nullptr && threadIdx.x == 0 && moved > 0) {
    atomicAdd(task.moved, moved);
  }
}

/// The kernel for a shape, and its launches.
template <typename T = float>
class MovePoints {
public:
  MovePoints() = default;
  /// Throws std::runtime_error.
  MovePoints(std::size_t d, bool weighted)
      : kernel_(weighted ? kernel_for<true>(d) : kernel_for<false>(d)) {
    allow_shared_memory(kernel_, sizeof(MovingRows));
    per_multiprocessor_ =
        resident_blocks(kernel_, kMovingThreads, sizeof(MovingRows)) / multiprocessors();
  }

  /// See move_points(); does not block. overlaps: see launch_of_pass(). Throws std::runtime_error.
  void launch(const MoveTask<T>& task, bool overlaps) const {
    launch(task, multiprocessors(), overlaps, kDefaultStream);
  }
  /// The same on some multiprocessors, beside other kernels.
  void launch_beside(const MoveTask<T>& task, std::size_t multiprocessors,
                     cudaStream_t stream) const {
    launch(task, multiprocessors, false, stream);
  }

private:
  template <bool kWeighted>
  static auto kernel_for(std::size_t d) {
    return d <= 32   ? move_points<8, kWeighted, T>
           : d <= 64 ? move_points<16, kWeighted, T>
                     : move_points<32, kWeighted, T>;
  }

  void launch(MoveTask<T> task, std::size_t multiprocessors, bool overlaps,
              cudaStream_t stream) const {
    const std::size_t n = task.points.n, most = multiprocessors * per_multiprocessor_;
    const std::size_t rounds = ceil_div(n, most * MovingRows::kMost);
    const std::size_t rows = ceil_div(ceil_div(n, most * rounds), 32) * 32; // whole warps
    task.rows_at_once = static_cast<unsigned>(rows);
    launch_of_pass("move_points", kernel_,
                   {.blocks = blocks_at_most(n, rows, most),
                    .threads = kMovingThreads,
                    .shared_bytes = sizeof(MovingRows),
                    .stream = stream},
                   overlaps, task);
  }

  void (*kernel_)(MoveTask<T>) = nullptr;
  std::size_t per_multiprocessor_ = 1;
};

} // namespace clusterbench::cuda
