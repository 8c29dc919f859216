// Sums by cluster, exact and of several devices, and their means.
#pragma once

#include "impls/contract.hpp"
#include "impls/cuda/common/exact_words.cuh"
#include "impls/cuda/common/runtime.hpp"
#include "impls/cuda/many_clusters/half_copy.cuh"

#include <algorithm>
#include <cmath>
#include <cstddef>
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
    // The words of a sum are split the same whatever was added up first.
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
