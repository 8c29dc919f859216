// Sums by cluster, exact and of several devices: what rows that leave a cluster and join another
// change of them, and their means.
#pragma once

#include "impls/contract.hpp"
#include "impls/cuda/common/exact_words.cuh"
#include "impls/cuda/common/runtime.hpp"
#include "impls/cuda/many_clusters/half_copy.cuh"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cub/block/block_scan.cuh>
#include <string>
#include <type_traits>
#include <vector>

namespace clusterbench::cuda {

// ---- weights

/// Weights of the points and their exact sums by cluster, which take the place of SumsView::counts.
/// A weighted point is the product of two floats: in double it is exact, too. That of two doubles
/// is rounded, to the same whenever the point moves.
template <typename T = float>
struct WeightsView {
  const T* of_point; ///< [n]; null: there are none
  SumsView sums;     ///< [k], without counts

  __device__ double of(std::size_t i) const { return static_cast<double>(of_point[i]); }
  __device__ double of_cluster(unsigned j) const {
    const double total =
        static_cast<double>(sums.high[j]) + static_cast<double>(sums.low[j]) / sums.point.to_low;
    return total / sums.point.to_high;
  }
};

/// Room for the smallest of some weights: all the bits of a float, and as many for values that are
/// smaller than the largest one; or all the bits of a double. Empty if it is there, else why not.
template <typename T = float>
std::string refuse_weights(double smallest, double largest, const FixedPoint& point) {
  constexpr double kRoom = std::is_same_v<T, float> ? 0x1p48 : 0x1p54;
  const double most = point.to_low * point.to_low / kRoom;
  return largest <= most * smallest
             ? ""
             : "weights that differ by a factor of 2^" +
                   std::to_string(std::ilogb(largest / smallest)) +
                   ": sums in integers have room for 2^" + std::to_string(std::ilogb(most));
}

/// One of the copies of the sums [k, d], by turns.
__device__ inline SumsView copy_of(const SumsView& all, std::size_t turn, std::size_t k,
                                   std::size_t d) {
  const std::size_t copy = turn % all.copies;
  return {all.point, all.high + copy * k * d, all.low + copy * k * d, all.counts + copy * k};
}

// ---- rows that move, listed by a warp of a sweep

/// As a cluster's number below: none.
inline constexpr unsigned kNoCluster = 0xffff;

/// A row and the clusters that it leaves and joins; never 0.
__device__ inline unsigned long long mover(unsigned row, std::int32_t from, unsigned to) {
  return static_cast<unsigned long long>(to) << 48 |
         static_cast<unsigned long long>(static_cast<unsigned>(from) & 0xffffu) << 32 | (row + 1);
}

/// Changes the sums for rows that move: an entry a lane, 0 for none. All lanes of the warp must
/// call it.
template <typename T>
__device__ void move_rows(const PointsView<T>& points, const SumsView& own,
                          unsigned long long entry) {
  constexpr unsigned kAtOnce = 8;
  const PointOf<T> point(own.point);
  const unsigned d = points.d, lane = threadIdx.x % 32;
  const unsigned lanes = d <= 8 ? 8 : d <= 16 ? 16 : 32, side = 32 / lanes; // rows side by side
  if (entry != 0) {
    atomicAdd(&own.counts[entry >> 48], 1u);
    if (const unsigned from = static_cast<unsigned>(entry >> 32) & 0xffffu; from != kNoCluster) {
      atomicSub(&own.counts[from], 1u);
    }
  }
#pragma unroll 1
  for (unsigned first = 0; first < d; first += lanes) {
    const unsigned f = min(first + lane % lanes, d - 1);
    const bool real = first + lane % lanes < d;
#pragma unroll 1
    for (unsigned base = 0; base < 32; base += side * kAtOnce) {
      unsigned place[kAtOnce][2]; // of the sums that a row joins and leaves, ~0u of none
      T x[kAtOnce];
#pragma unroll
      for (unsigned u = 0; u < kAtOnce; ++u) {
        const unsigned long long mover =
            __shfl_sync(0xffffffffu, entry, static_cast<int>(base + u * side + lane / lanes));
        const unsigned to = static_cast<unsigned>(mover >> 48);
        const unsigned from = static_cast<unsigned>(mover >> 32) & 0xffffu;
        const unsigned row = max(static_cast<unsigned>(mover), 1u) - 1;
        x[u] = points.exact[std::size_t{row} * d + f];
        place[u][0] = mover != 0 && real ? to * d + f : ~0u;
        place[u][1] = mover != 0 && real && from != kNoCluster ? from * d + f : ~0u;
      }
      // In float little lies beneath a high word, and to look for it once is enough.
      constexpr bool kLater = std::is_same_v<T, float>;
      bool lower = false;
#pragma unroll
      for (unsigned u = 0; u < kAtOnce; ++u) {
        const FixedWords words = FixedWords::of(x[u], point);
        lower = lower || words.low != 0;
        for (unsigned leaves = 0; leaves < 2; ++leaves) {
          if (place[u][leaves] != ~0u) {
            add_word(own.high + place[u][leaves], leaves == 0 ? words.high : -words.high);
            if (!kLater && words.low != 0) {
              add_word(own.low + place[u][leaves], leaves == 0 ? words.low : -words.low);
            }
          }
        }
      }
      if (kLater && lower) {
#pragma unroll
        for (unsigned u = 0; u < kAtOnce; ++u) {
          const long long low = FixedWords::of(x[u], point).low;
          for (unsigned leaves = 0; leaves < 2; ++leaves) {
            if (low != 0 && place[u][leaves] != ~0u) {
              add_word(own.low + place[u][leaves], leaves == 0 ? low : -low);
            }
          }
        }
      }
    }
  }
}

// ---- all rows that move
//
// A block brings them into the order of their clusters and adds up in registers those of one
// cluster, before it adds to the sums: additions to one word wait for one another.

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
    unsigned place = take_places(in_warp, &kept);
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

  /// Brings entries into the order of their clusters, or of bins of these. Where they must be fewer
  /// than clusters, they stay as they come. Returns their number.
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
class WordSum {
public:
  __device__ void add(double value, const FixedPoint& point) {
    const FixedWords own = FixedWords::of(value, point);
    words_.high += own.high;
    words_.low += own.low;
  }
  __device__ FixedWords take(const FixedPoint&) { // which a DoubleSum asks for
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

  /// Words have room for values below 2^e. Floats from 2^(e - 24) on are multiples of 2^(e - 47),
  /// and kMostValues of them are below 2^(e + 6): 53 bits. The bits of 2^(e - 24), doubled.
  __device__ static unsigned least(const FixedPoint& point) {
    const int largest = (__double2hiint(point.to_low) - __double2hiint(point.to_high)) >> 20;
    return static_cast<unsigned>(max(largest - 24 + 127, 0)) << 24;
  }
  /// Whether a value other than 0 is no more than that.
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
  /// The bits without the sign, less one: 0 wraps around, and is the largest.
  __device__ static unsigned doubled(float value) { return __float_as_uint(value) * 2 - 1; }

  double sum_ = 0.0;
};

/// What kLanes lanes add up of the rows of one cluster, four features each, kLanes apart.
template <unsigned kLanes, bool kWeighted, typename T>
class ClusterSum {
  static constexpr bool kDoubles = std::is_same_v<T, float> && !kWeighted;

public:
  /// feature: the first of this lane, of d; counts: whether it counts the rows, too.
  __device__ ClusterSum(const SumsView& sums, const SumsView& of_weights, unsigned feature,
                        unsigned d, bool counts)
      : sums_(sums), of_weights_(of_weights), point_(sums.point), feature_(feature), d_(d),
        counts_(counts), least_(kDoubles ? DoubleSum::least(sums.point) : 0) {}

  /// Adds a row, or takes it away. Before one of another cluster, what there is goes to the sums.
  /// Makes values 0 that it adds to the sums at once.
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
        own_[e].add(sign * weight * static_cast<double>(x[e]), sums_.point);
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
  /// Values that a sum in double would round: they are 0 behind it.
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
  PointOf<T> point_;
  unsigned feature_, d_;
  bool counts_;
  unsigned least_;
  std::int32_t cluster_ = -1;
  int count_ = 0;
  std::conditional_t<kDoubles, DoubleSum, WordSum> own_[4];
  WordSum weight_;
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
  const SumsView sums = copy_of(task.sums, blockIdx.x, task.k, task.points.d);
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

// ---- means

/// Where centroids are written, rounded for the next pass; see CentroidsView.
struct PlacedCentroids {
  __half* tiles;
  float* half_squares;
  float4* terms;
  __half* tails;

  static PlacedCentroids cut(std::size_t k, std::size_t d, Arena& cutter) {
    const std::size_t padded_k = ceil_div(k, kHalfTileRows) * kHalfTileRows;
    return {cutter.take<__half>(HalfTiles::of(d).size(k)), cutter.take<float>(padded_k),
            cutter.take<float4>(padded_k), cutter.take<__half>(HalfTiles::of_tails().size(k))};
  }
  template <typename T>
  CentroidsView<T> view(unsigned k, const T* exact) const {
    return {
        k,    static_cast<unsigned>(ceil_div(k, kHalfTileRows)), exact, tiles, half_squares, terms,
        tails};
  }
  /// Of a centroid, or of one that does not exist, which is far away. Not its tile.
  __device__ void set(unsigned j, float half_square, const ScoreError& error, bool exists) const {
    const __half zero = __float2half(0.0f), most = __float2half(65504.0f);
    const HalfSquare parts(exists ? fminf(half_square, kMostHalfSquare) : 0.0f);
    alignas(16)
        const __half tail[16] = {exists ? parts.high : most, parts.middle, parts.low,
                                 exists ? __float2half(0x1p15f) : zero, exists ? zero : most};
    half_squares[j] = half_square;
    terms[j] = {error.of_residual, error.of_norm, error.fixed, half_square};
    for (unsigned group = 0; group < 2; ++group) {
      *reinterpret_cast<uint4*>(tails + HalfTiles::of_tails().offset(j, group * 8)) =
          reinterpret_cast<const uint4*>(tail)[group];
    }
  }
};

/// 1 / power, of a power of two whose inverse is a normal number.
__device__ inline double reciprocal_of_power(double power) {
  return __hiloint2double(0x7fe00000 - __double2hiint(power), 0);
}

/// How far a centroid has moved, or a little more, from the square of that.
__device__ inline float drift_of(double shift) {
  return __fsqrt_ru(__double2float_ru(shift * (1.0 + 0x1p-30)));
}

/// Threads of a block that places centroids, kThreads each.
template <unsigned kThreads>
inline constexpr unsigned kPlacingThreads = std::max(kThreads, 256u);

/// Adds up a feature's sum over its copies [copies, stride]. They are read in eights, whose loads
/// do not wait for one another. Lanes of `group` take every `groups`-th eight: a part of the sum.
__device__ inline FixedWords sum_of_copies(const SumsView& sums, std::size_t place,
                                           std::size_t stride, unsigned group, unsigned groups) {
  constexpr unsigned kAtOnce = 8;
  if (sums.copies == 1) { // of many clusters: seven loads more of it would be for nothing
    return group == 0 ? FixedWords{sums.high[place], sums.low[place]} : FixedWords{};
  }
  FixedWords all;
  for (unsigned first = group * kAtOnce; first < sums.copies; first += groups * kAtOnce) {
    FixedWords of[kAtOnce];
#pragma unroll
    for (unsigned e = 0; e < kAtOnce; ++e) {
      const std::size_t at = place + min(first + e, sums.copies - 1) * stride;
      of[e] = {sums.high[at], sums.low[at]};
    }
#pragma unroll
    for (unsigned e = 0; e < kAtOnce; ++e) {
      all.high += first + e < sums.copies ? of[e].high : 0;
      all.low += first + e < sums.copies ? of[e].low : 0;
    }
  }
  return all;
}

/// Moves every centroid to its mean, kThreads threads a centroid, and rounds it for the next pass;
/// behind k, says that there is none. An empty cluster stays where it is. entering: [k, d], what
/// centroids were before, or null; shifts: [k] squared, scaled like the copies, or null. Bounds of
/// one block: for more the compiler saves registers, and loads wait for one another.
template <unsigned kThreads, bool kWeighted, typename T>
static __global__ void __launch_bounds__(kPlacingThreads<kThreads>, 1)
    place_centroids(SumsView sums, unsigned k, unsigned d, Normalization<T> frame, HalfTiles shape,
                    T* centroids, T* entering, PlacedCentroids placed, PassCounters* next,
                    double* shifts, const WeightsView<T> weights) {
  const unsigned j = blockIdx.x * (blockDim.x / kThreads) + threadIdx.x / kThreads;
  const unsigned thread = threadIdx.x % kThreads, lane = threadIdx.x % 32;
  // Up to 16 features leave lanes of a warp free, which take copies of the sums.
  const unsigned width = kThreads > 32 || d > 16 ? kThreads : d > 8 ? 16 : 8;
  const unsigned group = thread / width;
  let_next_kernel_begin();
  wait_for_kernels_before();
  if (j >= (k + kHalfTileRows - 1) / kHalfTileRows * kHalfTileRows) {
    return;
  }
  if (j >= k) { // its tile is zero since the beginning
    if (thread == 0) {
      placed.set(j, kFarAway, {}, false);
    }
    return;
  }
  T* centroid = centroids + std::size_t{j} * d;
  unsigned own = 0; // of the copies of the count
  for (unsigned copy = lane; copy < sums.copies; copy += 32) {
    own += sums.counts[copy * k + j];
  }
  const double of_low = reciprocal_of_power(sums.point.to_low);
  const int low_bits = (__double2hiint(sums.point.to_low) >> 20) - 1023;
  double weight = 0.0, scale = 0.0, shift[1] = {}, squares[3] = {};
  for (unsigned first = 0; first < d; first += width) {
    const unsigned f = first + thread % width, from = min(f, d - 1);
    const T before = centroid[from], origin = frame.mean[from];
    FixedWords all =
        sum_of_copies(sums, std::size_t{j} * d + from, std::size_t{k} * d, group, kThreads / width);
    if (first == 0) { // not before, as all that is read shall be on its way together
      const unsigned count = __reduce_add_sync(0xffffffffu, own);
      weight = kWeighted ? weights.of_cluster(j) : static_cast<double>(count);
      scale = weight > 0.0 ? reciprocal_of_power(sums.point.to_high) / weight : 0.0;
    }
    if constexpr (kThreads == 32) {
      for (unsigned offset = width; offset < 32; offset *= 2) {
        all.high += __shfl_xor_sync(0xffffffffu, all.high, static_cast<int>(offset));
        all.low += __shfl_xor_sync(0xffffffffu, all.low, static_cast<int>(offset));
      }
    }
    if (group > 0 || f >= d) {
      continue;
    }
    if (entering != nullptr) {
      entering[std::size_t{j} * d + f] = before;
    }
    // The words of a sum are split the same whatever was added up first. The low one has room for
    // half a unit of the high one more for each of some 4n rows that joined this cluster together
    // and leave it alone.
    const long long carry = (all.low + (1ll << (low_bits - 1))) >> low_bits;
    all.high += carry;
    all.low -= carry << low_bits;
    T now = before;
    if (weight > 0.0) {
      const double sum = static_cast<double>(all.high) + static_cast<double>(all.low) * of_low;
      now = static_cast<T>(sum * scale);
      const double difference =
          (static_cast<double>(now) - static_cast<double>(before)) * frame.scale;
      shift[0] += difference * difference;
      centroid[f] = now;
    }
    placed.tiles[shape.offset(j, f)] = round_value(now, origin, frame.scale, squares);
  }
  add_over<kThreads>(squares);
  if (shifts != nullptr) {
    add_over<kThreads>(shift);
  }
  if (thread == 0) {
    const RoundedNorms norms = norms_of(squares[0], squares[1], squares[2]);
    const ScoreError error = score_error(norms, shape.steps * 16);
    placed.set(j, static_cast<float>(0.5 * norms.exact * norms.exact), error, true);
    atomicMax(&next->of_residual, __float_as_uint(error.of_residual));
    atomicMax(&next->of_norm, __float_as_uint(error.of_norm));
    // A rank's scale is of its own points: centroids may come to lie where the tail has no room.
    const float fixed =
        norms.exact * norms.exact <= 2.0f * kMostHalfSquare ? error.fixed : INFINITY;
    atomicMax(&next->fixed, __float_as_uint(fixed));
    if (shifts != nullptr) {
      shifts[j] = shift[0];
      atomicMax(&next->fastest, __float_as_uint(drift_of(shift[0])));
    }
  }
}

/// Launches it, with a warp a centroid, or more threads where there are many features, or few
/// centroids. overlaps: see launch_of_pass(). Does not block. Throws std::runtime_error.
template <typename T>
void place_all(const SumsView& sums, unsigned k, unsigned d, const Normalization<T>& frame,
               const HalfTiles& shape, T* centroids, T* entering, const PlacedCentroids& placed,
               PassCounters* next, double* shifts, const WeightsView<T>& weights, bool overlaps) {
  const auto launch = [&]<unsigned kThreads>() {
    const auto kernel = weights.of_point != nullptr ? place_centroids<kThreads, true, T>
                                                    : place_centroids<kThreads, false, T>;
    constexpr unsigned kBlock = kPlacingThreads<kThreads>;
    const std::size_t padded_k = ceil_div(k, kHalfTileRows) * kHalfTileRows;
    const unsigned blocks = blocks_for(padded_k * kThreads, kBlock);
    launch_of_pass("place_centroids", kernel, {.blocks = blocks, .threads = kBlock}, overlaps, sums,
                   k, d, frame, shape, centroids, entering, placed, next, shifts, weights);
  };
  constexpr std::size_t kThreadsAtOnce = std::size_t{1} << 18; // about what an H200 holds
  if (d > 256 && std::size_t{k} * 1024 <= kThreadsAtOnce) {
    launch.template operator()<1024>();
  } else if (d > 256 || (d > 64 && std::size_t{k} * 256 <= kThreadsAtOnce)) {
    launch.template operator()<256>();
  } else {
    launch.template operator()<32>();
  }
}

/// Distances of all points to their centroids, with the points' weights, one sum a block: a warp a
/// point.
template <bool kWeighted, typename T>
static __global__ void sum_distances(const PointsView<T> points, const T* centroids,
                                     const std::int32_t* labels, double* partial,
                                     const WeightsView<T> weights) {
  __shared__ double s_sums[8];
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32, d = points.d;
  double sum = 0.0;
  for (std::size_t i = std::size_t{blockIdx.x} * 8 + warp; i < points.n;
       i += std::size_t{gridDim.x} * 8) {
    T squared = 0;
    for (unsigned f = lane; f < d; f += 32) {
      const T difference =
          points.exact[i * d + f] - centroids[static_cast<std::size_t>(labels[i]) * d + f];
      squared += difference * difference;
    }
    for (int offset = 16; offset > 0; offset /= 2) {
      squared += __shfl_xor_sync(0xffffffffu, squared, offset);
    }
    sum += (kWeighted ? weights.of(i) : 1.0) * static_cast<double>(sqrt(squared));
  }
  if (lane == 0) {
    s_sums[warp] = sum;
  }
  __syncthreads(); // the sums of all warps are there
  if (threadIdx.x == 0) {
    for (unsigned w = 1; w < 8; ++w) {
      sum += s_sums[w];
    }
    partial[blockIdx.x] = sum;
  }
}

// ---- sums of a pass
//
// What a device has added up, and that of all devices.

/// In device memory.
struct PassTotals {
  SumsView sums;
  std::size_t words; ///< of 64 bits that the sums are, from `high` to the counts, all integers
  const double* loss;
  const unsigned* moved; ///< points whose label changed
};

/// Lets the runs of all ranks add up in the same unit. Returns the words of 64 bits that their sums
/// are.
template <typename Run>
std::size_t agree_on_sums(const Shape& shape, const std::vector<Run*>& runs) {
  double largest = 0.0;
  for (const Run* run : runs) {
    largest = std::max(largest, run->largest());
  }
  for (Run* run : runs) {
    run->take_range(shape.n, largest);
  }
  return runs.front()->words();
}

/// Totals whose sums lie at `high` in the order of a rank's own.
inline PassTotals totals_at(long long* high, const PassTotals& own, const double* loss,
                            const unsigned* moved) {
  const auto* counts = reinterpret_cast<const long long*>(own.sums.counts);
  return {{own.sums.point, high, high + (own.sums.low - own.sums.high),
           reinterpret_cast<unsigned*>(high + (counts - own.sums.high))},
          own.words,
          loss,
          moved};
}

/// A run on one device: its points are all points.
struct OneDevice {
  static bool has_points() { return true; }
  PassTotals of_all(const PassTotals& own) const { return own; }
};

/// Of HalfCopy: the points of other ranks may pull centroids far beyond a rank's own.
template <typename Ranks>
inline constexpr int kHeadroom = std::is_same_v<Ranks, OneDevice> ? 0 : 6;

} // namespace clusterbench::cuda
