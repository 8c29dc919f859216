// Sums by cluster: exact, over rows in the order of their labels, and of several devices. Their
// means.
#pragma once

#include "impls/contract.hpp"
#include "impls/cuda/common/exact_words.cuh"
#include "impls/cuda/common/runtime.hpp"
#include "impls/cuda/many_clusters/half_copy.cuh"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cub/device/device_radix_sort.cuh>
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

// ---- points that move

/// One of the copies of the sums [k, d], for the additions of this block.
__device__ inline SumsView copy_of_block(const SumsView& all, std::size_t k, std::size_t d) {
  const std::size_t copy = blockIdx.x % all.copies;
  return {all.point, all.high + copy * k * d, all.low + copy * k * d, all.counts + copy * k};
}

/// Takes a point's weight, or 1, from a cluster, if it had one, to another.
template <bool kWeighted, typename T>
__device__ void move_count(const SumsView& sums, const WeightsView<T>& weights, std::size_t point,
                           int from, int to) {
  if constexpr (kWeighted) {
    const FixedWords weight = FixedWords::of(weights.of(point), weights.sums.point);
    add_exactly(weights.sums, static_cast<std::size_t>(to), weight);
    if (from >= 0) {
      add_exactly(weights.sums, static_cast<std::size_t>(from), {-weight.high, -weight.low});
    }
  } else {
    atomicAdd(&sums.counts[to], 1u);
    if (from >= 0) {
      atomicSub(&sums.counts[from], 1u);
    }
  }
}

inline constexpr unsigned kMovedFeatures = 128; ///< of a row, that a warp moves at a time

/// Moves the points whose label has changed, in some copy of the sums: a warp looks at 32 rows and
/// then moves, all lanes together, one row after another, while the next one is on its way.
/// blockIdx.y counts parts of kMovedFeatures features. before: [n], -1 where a point had no cluster
/// yet. moved: to count them in, or null.
template <bool kWeighted, typename T>
static __global__ void move_points(const PointsView<T> points, const std::int32_t* before,
                                   const std::int32_t* labels, SumsView sums, unsigned* moved,
                                   const WeightsView<T> weights, unsigned k) {
  constexpr unsigned kEach = kMovedFeatures / 32;
  sums = copy_of_block(sums, k, points.d);
  const PointOf<T> point(sums.point);
  const unsigned lane = threadIdx.x % 32, d = points.d;
  const unsigned parts = (d + kMovedFeatures - 1) / kMovedFeatures;
  const std::size_t stride = std::size_t{gridDim.x} * blockDim.x;
  unsigned count = 0;
  let_next_kernel_begin();
  wait_for_kernels_before();
  for (unsigned part = blockIdx.y; part < parts; part += gridDim.y) {
    const unsigned feature = part * kMovedFeatures + lane; // and kEach - 1 more, 32 apart
    for (std::size_t first = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x - lane;
         first < points.n; first += stride) {
      const std::size_t mine = first + lane;
      const int from = mine < points.n ? before[mine] : 0;
      const int to = mine < points.n ? labels[mine] : 0;
      unsigned movers = __ballot_sync(0xffffffffu, from != to);
      if (part == 0) {
        count += static_cast<unsigned>(__popc(movers));
        if (from != to) {
          move_count<kWeighted>(sums, weights, mine, from, to);
        }
      }
      T next[kEach];
      double next_weight = 1.0;
      const auto fetch = [&] { // the first mover that is left
        const std::size_t point =
            first + static_cast<unsigned>(__ffs(static_cast<int>(movers))) - 1;
#pragma unroll
        for (unsigned e = 0; e < kEach; ++e) {
          next[e] = feature + e * 32 < d ? points.exact[point * d + feature + e * 32] : T{0};
        }
        next_weight = kWeighted ? weights.of(point) : 1.0;
      };
      if (movers != 0) {
        fetch();
      }
      while (movers != 0) {
        const int who = __ffs(static_cast<int>(movers)) - 1;
        const int old_label = __shfl_sync(0xffffffffu, from, who);
        const int new_label = __shfl_sync(0xffffffffu, to, who);
        FixedWords row[kEach];
#pragma unroll
        for (unsigned e = 0; e < kEach; ++e) {
          if constexpr (kWeighted) {
            row[e] = FixedWords::of(next_weight * static_cast<double>(next[e]), sums.point);
          } else {
            row[e] = FixedWords::of(next[e], point);
          }
        }
        movers &= movers - 1;
        if (movers != 0) {
          fetch();
        }
#pragma unroll
        for (unsigned e = 0; e < kEach; ++e) {
          const unsigned f = feature + e * 32;
          if (f < d) {
            add_exactly(sums, static_cast<std::size_t>(new_label) * d + f, row[e]);
            if (old_label >= 0) {
              add_exactly(sums, static_cast<std::size_t>(old_label) * d + f,
                          {-row[e].high, -row[e].low});
            }
          }
        }
      }
    }
  }
  if (moved != nullptr && lane == 0 && count > 0) {
    atomicAdd(moved, count);
  }
}

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

// ---- sums of sorted rows
//
// Sums of clusters from all points: rows are sorted by label, and every run of one label is added
// up in registers before it is added to the sums. The sums are integers, so the order of rows does
// not matter, and the result is that of the exact sums above, to the bit.

inline constexpr unsigned kRunRows = 64; ///< sorted rows that a group of lanes adds up at a time

static __global__ void fill_iota(unsigned* rows, std::size_t n) {
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n;
       i += std::size_t{gridDim.x} * blockDim.x) {
    rows[i] = static_cast<unsigned>(i);
  }
}

/// kLanes lanes with 4 features each take runs of sorted rows. rows, labels: [n], and three more.
/// kFour: d is a multiple of 4, so that 16 bytes may be read at once.
template <unsigned kLanes, bool kFour, bool kWeighted, typename T>
static __global__ void __launch_bounds__(256)
    sum_segments(const PointsView<T> points, const unsigned* rows, const unsigned* labels,
                 SumsView sums, const WeightsView<T> weights, unsigned k) {
  sums = copy_of_block(sums, k, points.d);
  const PointOf<T> point(sums.point);
  const unsigned lane = threadIdx.x % kLanes, d = points.d;
  const unsigned parts = (d + kLanes * 4 - 1) / (kLanes * 4); // of a row
  const std::size_t runs = (points.n + kRunRows - 1) / kRunRows;
  const std::size_t stride = std::size_t{gridDim.x} * blockDim.x / kLanes;
  for (std::size_t work = (std::size_t{blockIdx.x} * blockDim.x + threadIdx.x) / kLanes;
       work < runs * parts; work += stride) {
    const unsigned part = static_cast<unsigned>(work % parts);
    const unsigned feature = (part * kLanes + lane) * 4;
    const std::size_t first = work / parts * kRunRows, end = min(first + kRunRows, points.n);
    FixedWords words[4], of_weights;
    unsigned label = labels[first], count = 0;
    const auto flush = [&] {
#pragma unroll
      for (unsigned e = 0; e < 4; ++e) {
        if (feature + e < d) {
          add_exactly(sums, std::size_t{label} * d + feature + e, words[e]);
        }
        words[e] = {};
      }
      if (part == 0 && lane == 0) {
        if constexpr (kWeighted) {
          add_exactly(weights.sums, label, of_weights);
        } else {
          atomicAdd(&sums.counts[label], count);
        }
      }
      count = 0;
      of_weights = {};
    };
    for (std::size_t r = first; r < end; r += 4) { // four rows on their way at a time
      const uint4 four_rows = *reinterpret_cast<const uint4*>(rows + r);
      const uint4 four_labels = *reinterpret_cast<const uint4*>(labels + r);
      const unsigned row[4] = {four_rows.x, four_rows.y, four_rows.z, four_rows.w};
      const unsigned its_label[4] = {four_labels.x, four_labels.y, four_labels.z, four_labels.w};
      T x[4][4];
      double weight[4];
#pragma unroll
      for (unsigned e = 0; e < 4; ++e) {
        const std::size_t from = r + e < end ? std::size_t{row[e]} * d : 0;
        load_four<kFour>(points.exact + from, feature, d, x[e]);
        weight[e] = kWeighted ? weights.of(r + e < end ? row[e] : 0) : 1.0;
      }
#pragma unroll
      for (unsigned e = 0; e < 4; ++e) {
        if (r + e < end) {
          if (its_label[e] != label) {
            flush();
            label = its_label[e];
          }
          ++count;
          if constexpr (kWeighted) {
            const FixedWords own = FixedWords::of(weight[e], weights.sums.point);
            of_weights.high += own.high;
            of_weights.low += own.low;
          }
#pragma unroll
          for (unsigned f = 0; f < 4; ++f) {
            FixedWords value;
            if constexpr (kWeighted) {
              value = FixedWords::of(weight[e] * static_cast<double>(x[e][f]), sums.point);
            } else {
              value = FixedWords::of(x[e][f], point);
            }
            words[f].high += value.high;
            words[f].low += value.low;
          }
        }
      }
    }
    flush();
  }
}

/// moved = labels that differ. before, labels: [n]
static __global__ void count_moved(const std::int32_t* before, const std::int32_t* labels,
                                   std::size_t n, unsigned* moved) {
  unsigned count = 0;
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n;
       i += std::size_t{gridDim.x} * blockDim.x) {
    count += before[i] != labels[i] ? 1 : 0;
  }
  count = __reduce_add_sync(0xffffffffu, count);
  if (threadIdx.x % 32 == 0 && count > 0) {
    atomicAdd(moved, count);
  }
}

/// What a sort needs.
struct SortArrays {
  unsigned *rows, *sorted_rows, *sorted_labels; ///< [n + 3]
  unsigned char* scratch;                       ///< of cub
  std::size_t size;                             ///< of scratch
};

/// The sort, and the launches.
template <typename T = float>
class SortedSums {
public:
  /// Throws std::runtime_error.
  static std::size_t scratch_bytes(std::size_t n, std::size_t k) {
    SortArrays none{};
    sort(none, nullptr, n, bits_of(k));
    return none.size;
  }

  /// Does not block. Throws std::runtime_error.
  void prepare(const PointsView<T>& points, std::size_t k, const SortArrays& arrays,
               bool weighted) {
    at_ = arrays;
    k_ = static_cast<unsigned>(k);
    bits_ = bits_of(k);
    fill_iota<<<blocks_at_most(points.n, 256, 4096), 256>>>(at_.rows, points.n);
    check_launch("fill_iota");
    kernel_ = weighted ? kernel_for<true>(points.d) : kernel_for<false>(points.d);
    blocks_ = static_cast<unsigned>(resident_blocks(kernel_, 256, 0));
  }

  /// sums = those of all points by `labels`; they must be zero before. labels: [n], none negative.
  void add_all(const PointsView<T>& points, const std::int32_t* labels, const SumsView& sums,
               const WeightsView<T>& weights) {
    sort(at_, labels, points.n, bits_);
    kernel_<<<blocks_, 256>>>(points, at_.sorted_rows, at_.sorted_labels, sums, weights, k_);
    check_launch("sum_segments");
  }

private:
  using Kernel = void (*)(PointsView<T>, const unsigned*, const unsigned*, SumsView, WeightsView<T>,
                          unsigned);

  template <bool kWeighted>
  static Kernel kernel_for(unsigned d) {
    const bool four = d % 4 == 0;
    return d <= 32
               ? (four ? sum_segments<8, true, kWeighted, T> : sum_segments<8, false, kWeighted, T>)
           : d <= 64 ? (four ? sum_segments<16, true, kWeighted, T>
                             : sum_segments<16, false, kWeighted, T>)
                     : (four ? sum_segments<32, true, kWeighted, T>
                             : sum_segments<32, false, kWeighted, T>);
  }
  static int bits_of(std::size_t k) { return std::max(1, static_cast<int>(std::bit_width(k - 1))); }

  /// Without scratch it only sets its size.
  static void sort(SortArrays& at, const std::int32_t* labels, std::size_t n, int bits) {
    check(cub::DeviceRadixSort::SortPairs(at.scratch, at.size,
                                          reinterpret_cast<const unsigned*>(labels),
                                          at.sorted_labels, at.rows, at.sorted_rows, n, 0, bits),
          "cub::DeviceRadixSort::SortPairs");
  }

  int bits_ = 1;
  unsigned blocks_ = 0, k_ = 0;
  Kernel kernel_ = nullptr;
  SortArrays at_{};
};

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
