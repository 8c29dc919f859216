// What a warpgroup ("team") does with tiles of rows in two float16 parts (split_rows.cuh): brings
// them to shared memory, and makes their scores, their labels, and their sums by label, both
// products by wgmma. Needs sm_90a.
#pragma once

#include "impls/cuda/common/certified_bound.hpp"
#include "impls/cuda/common/copies.cuh"
#include "impls/cuda/common/runtime.hpp"
#include "impls/cuda/few_clusters/split_rows.cuh"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

namespace clusterbench::cuda {

// ---- tiles on their way
//
// Tiles that a team works through again and again, copied by all of its threads while others are
// used. A bulk copy takes one thread 300 cycles and more to start, for which the others would wait:
// they multiply together.

/// The same value. Of a thread's number: to read that again, to save a register, takes long.
__device__ inline unsigned keep_in_register(unsigned value) {
  asm volatile("" : "+r"(value));
  return value;
}

/// A team takes each `teams`-th tile, in every sweep, and every second sweep backwards: what the
/// last one left in the L2 cache is then read first. Sweeps follow one another without a gap. Of
/// kStages places one has the tile at hand, kBehind those before it, and the others tiles that are
/// on their way. Of each tile's kTileBytes the first kBytes are copied. A team may take kAtOnce of
/// its tiles at a time, which share a place.
template <unsigned kStages, unsigned kBytes, unsigned kBehind, unsigned kTileBytes = kBytes,
          unsigned kAtOnce = 1>
class CopiedRing {
  static constexpr unsigned kAhead = kStages - 1 - kBehind; // tiles on their way
  static_assert(kStages > 1 + kBehind);
  static constexpr unsigned kPlaceBytes = kAtOnce * kBytes;
  static constexpr unsigned kThreads = 128, kPieceBytes = kThreads * 16;
  static constexpr unsigned kPieces = (kBytes + kPieceBytes - 1) / kPieceBytes;

public:
  CopiedRing() = default; ///< of nothing
  /// tiles: [count, kTileBytes]; s_tiles: [kStages, kAtOnce, kBytes]. Sends for the first tiles and
  /// waits for this thread's share of one. A barrier must follow.
  __device__ CopiedRing(const float* tiles, unsigned count, float* s_tiles, unsigned team,
                        unsigned teams)
      : s_first_(shared_address(s_tiles)), team_(team), teams_(teams), tiles_(count),
        count_(count > team ? (count - team - 1) / (teams * kAtOnce) + 1 : 0),
        own_(keep_in_register(threadIdx.x % kThreads * 16)),
        from_(reinterpret_cast<const char*>(tiles) + std::size_t{team} * kTileBytes + own_),
        next_(team), left_(count_), stride_(teams * kAtOnce) {
    for (unsigned tile = 0; tile < kAhead; ++tile) {
      fetch();
    }
    cp_async_wait<kAhead - 1>();
    fence_proxy_async();
  }
  /// How many times the team takes tiles.
  __device__ unsigned count() const { return count_; }
  /// Which of all tiles is the first of those that are taken at the i-th time of a sweep. The
  /// others: tile_step() apart; behind all tiles if the team has no more.
  __device__ unsigned tile(std::size_t sweep, unsigned i) const {
    return team_ + teams_ * kAtOnce * (sweep % 2 == 1 ? count_ - 1 - i : i);
  }
  __device__ unsigned tile_step() const { return teams_; }
  /// From the first tile of one time to that of the next; backwards modulo 2^32.
  __device__ unsigned stride(std::size_t sweep) const {
    return sweep % 2 == 1 ? 0u - teams_ * kAtOnce : teams_ * kAtOnce;
  }
  /// The tiles at hand: their address in shared memory, in units of 16 bytes.
  __device__ unsigned place() const { return (s_first_ + stage_ * kPlaceBytes) / 16; }
  /// Waits for this thread's share of the next tiles. After a barrier of the team it is there, and
  /// advance() makes it the one at hand.
  __device__ void await_next() const {
    cp_async_wait<kAhead - 1>();
    fence_proxy_async();
  }
  __device__ void advance() { stage_ = stage_ + 1 == kStages ? 0 : stage_ + 1; }
  /// Sends for more tiles, into the place of those that nobody needs any more: once for each time.
  __device__ void fetch() {
    if (count_ > 0) {
      const unsigned to = s_first_ + own_ + fetched_stage_ * kPlaceBytes;
#pragma unroll
      for (unsigned e = 0; e < kAtOnce * kPieces; ++e) {
        const unsigned tile = e / kPieces, piece = e % kPieces;
        const bool whole = kBytes % kPieceBytes == 0 || piece + 1 < kPieces;
        // Of the last ones of a sweep some may not be there.
        if ((tile == 0 || next_ + tile * teams_ < tiles_) &&
            (whole || own_ < kBytes % kPieceBytes)) {
          cp_async(to + tile * kBytes + piece * kPieceBytes,
                   from_ + std::size_t{tile * teams_} * kTileBytes + piece * kPieceBytes);
        }
      }
      if (--left_ > 0) {
        next_ += stride_;
        from_ += std::ptrdiff_t{static_cast<int>(stride_)} * static_cast<int>(kTileBytes);
      } else { // the next sweep begins where this one ends
        left_ = count_;
        stride_ = 0 - stride_;
      }
    }
    cp_async_commit();
    fetched_stage_ = fetched_stage_ + 1 == kStages ? 0 : fetched_stage_ + 1;
  }

private:
  unsigned s_first_ = 0, team_ = 0, teams_ = 0, tiles_ = 0, count_ = 0;
  unsigned stage_ = 0, fetched_stage_ = 0;
  unsigned own_ = 0;           // where this thread's share of a tile begins
  const char* from_ = nullptr; // it, of the first tile that is fetched next
  unsigned next_ = 0;          // that tile
  unsigned left_ = 0;          // times of its sweep
  unsigned stride_ = 0;        // to the next after it, modulo 2^32
};

// ---- a row a warp
//
// Labels from scores. Those that scores do not decide are decided by squared differences, of the
// row as it came.

inline constexpr float kNever = 1e38f; ///< the score of a cluster behind k

/// What a comparison finds: the nearest centroid, its squared distance, and the next one's.
struct NearestTwo {
  unsigned label = 0;
  float nearest = INFINITY, second = INFINITY;
};

/// Compares a row with centroids by sums of squared differences, by all lanes of a warp together,
/// each of which has features 2 lane and 2 lane + 1; ties to the lowest. Of the centroids, lane 4 g
/// + t knows some: bit e of `close` is centroid 8 (e / 2) + 2 t + e % 2.
__device__ inline NearestTwo compare(const ExactRows& exact, float2 x, unsigned g, unsigned close) {
  const unsigned f = threadIdx.x % 32 * 2;
  NearestTwo found;
  for (unsigned t = 0; t < 4; ++t) {
    unsigned left = __shfl_sync(kAllLanes, close, static_cast<int>(4 * g + t));
#pragma unroll 1
    for (; left != 0; left &= left - 1) {
      const unsigned e = __ffs(static_cast<int>(left)) - 1, j = e / 2 * 8 + 2 * t + e % 2;
      if (j >= exact.k) {
        continue; // behind k: close only where the bound is infinite
      }
      float squared = 0.0f;
      if (f < exact.width) { // which is even
        const float2 m =
            *reinterpret_cast<const float2*>(exact.s_centroids + j * exact.stride() + f);
        squared = (x.x - m.x) * (x.x - m.x) + (x.y - m.y) * (x.y - m.y);
      }
      squared = over_lanes<32>(squared);
      const bool better = squared < found.nearest || (squared == found.nearest && j < found.label);
      found.label = better ? j : found.label;
      found.second = fminf(found.second, fmaxf(found.nearest, squared));
      found.nearest = fminf(found.nearest, squared);
    }
  }
  return found;
}

/// This lane's two features of a row as it came.
__device__ inline float2 two_of_row(const ExactRows& exact, unsigned row) {
  const unsigned f = threadIdx.x % 32 * 2;
  const float* values = exact.rows + std::size_t{min(row, exact.n - 1)} * exact.width;
  return f < exact.width ? __ldg(reinterpret_cast<const float2*>(values + f)) : float2{};
}

/// Labels of 16 rows from a warp's products -x.c as an m16n8k16 product has them: score[e] of rows
/// g, g, g + 8, g + 8 and clusters 8 e + 2 t, ... + 1, ... , ... + 1 for lane 4 g + t. The labels
/// of rows g and g + 8 are known to their four lanes. `certain`: twice the error of a score. Where
/// scores do not decide, settle(row, among) does, called by all lanes, where among(x) compares the
/// centroids in question with a row of which the lane has two features.
template <unsigned T, typename Settle>
__device__ void label_rows(const ExactRows& exact, const float* s_half_squares, float certain,
                           float (&score)[T][4], unsigned (&label)[2], Settle settle) {
  const unsigned lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  float least[4]; // of rows and columns apart, so that comparisons do not wait for one another
#pragma unroll
  for (unsigned e = 0; e < T; ++e) {
    const float2 half = *reinterpret_cast<const float2*>(s_half_squares + 8 * e + 2 * t);
#pragma unroll
    for (unsigned v = 0; v < 4; ++v) {
      score[e][v] += v % 2 == 0 ? half.x : half.y;
      least[v] = e == 0 ? score[e][v] : fminf(least[v], score[e][v]);
    }
  }
  float limit[2];
  unsigned counts[2]; // of scores as close as rounding allows, times 256, and their numbers
#pragma unroll
  for (unsigned h = 0; h < 2; ++h) {
    limit[h] = fminf(least[2 * h], least[2 * h + 1]);
    limit[h] = fminf(limit[h], __shfl_xor_sync(kAllLanes, limit[h], 1));
    limit[h] = fminf(limit[h], __shfl_xor_sync(kAllLanes, limit[h], 2)) + certain;
    unsigned count[2] = {};
#pragma unroll
    for (unsigned e = 0; e < 2 * T; ++e) {
      if (score[e / 2][2 * h + e % 2] <= limit[h]) {
        count[e % 2] += 256 + e / 2 * 8 + e % 2;
      }
    }
    counts[h] = count[0] + count[1];
  }
#pragma unroll
  for (unsigned h = 0; h < 2; ++h) {
    counts[h] += counts[h] / 256 * 2 * t;
    counts[h] += __shfl_xor_sync(kAllLanes, counts[h], 1);
    counts[h] += __shfl_xor_sync(kAllLanes, counts[h], 2);
    label[h] = counts[h] % 256;
  }
  const unsigned mine = t == 0 ? counts[0] : counts[1]; // one lane a row
  unsigned open = __ballot_sync(kAllLanes, static_cast<int>(t < 2) & (mine / 256 != 1));
  if (open != 0) {
    unsigned close[2] = {};
#pragma unroll
    for (unsigned e = 0; e < 4 * T; ++e) {
      const unsigned h = e / (2 * T), bit = e % (2 * T);
      // Not the comparison above: the compiler would keep all of its results, for all rows.
      close[h] |= score[bit / 2][2 * h + bit % 2] - limit[h] <= 0.0f ? 1u << bit : 0u;
    }
#pragma unroll 1
    for (; open != 0; open &= open - 1) { // the other rows wait
      const unsigned bit = __ffs(static_cast<int>(open)) - 1, of = bit / 4, h = bit % 4;
      const unsigned found = settle(of + 8 * h, [&](float2 x) {
        return compare(exact, x, of, h == 0 ? close[0] : close[1]);
      });
      label[0] = g == of && h == 0 ? found : label[0];
      label[1] = g == of && h == 1 ? found : label[1];
    }
  }
}

/// The distance of a row to its centroid, by the row's four lanes.
__device__ inline float row_distance(const ExactRows& exact, unsigned row, unsigned label) {
  const float* values = exact.rows + std::size_t{min(row, exact.n - 1)} * exact.width;
  float squared = 0.0f;
  for (unsigned f = threadIdx.x % 4 * 4; f < exact.width; f += 16) {
    const float4 x = __ldg(reinterpret_cast<const float4*>(values + f));
    const float4 c =
        *reinterpret_cast<const float4*>(exact.s_centroids + label * exact.stride() + f);
    squared += (x.x - c.x) * (x.x - c.x) + (x.y - c.y) * (x.y - c.y) + (x.z - c.z) * (x.z - c.z) +
               (x.w - c.w) * (x.w - c.w);
  }
  return sqrtf(over_lanes<4>(squared));
}

// ---- a row a quarter of a warp
//
// A row as it came, read by four lanes: so a warp looks at eight rows at once.

/// Four features of every 16 of a row as it came, and of a centroid: lane t of four has 4 t, ... 4
/// t + 3.
template <unsigned D>
class QuarterRow {
public:
  __device__ QuarterRow(const ExactRows& exact, unsigned row, unsigned t)
      : width_(exact.width), t_(t) {
    const float* values = exact.rows + std::size_t{row} * exact.width;
#pragma unroll
    for (unsigned i = 0; i < kParts; ++i) { // loads do not wait for one another
      x_[i] = here(i) ? __ldg(reinterpret_cast<const float4*>(values + f(i))) : float4{};
    }
  }
  /// Four lanes: its squared distance to a centroid.
  __device__ float squared(const ExactRows& exact, unsigned j) const {
    float sum = 0.0f;
#pragma unroll
    for (unsigned i = 0; i < kParts; ++i) {
      if (here(i)) {
        const float4 c =
            *reinterpret_cast<const float4*>(exact.s_centroids + j * exact.stride() + f(i));
        sum += (x_[i].x - c.x) * (x_[i].x - c.x) + (x_[i].y - c.y) * (x_[i].y - c.y) +
               (x_[i].z - c.z) * (x_[i].z - c.z) + (x_[i].w - c.w) * (x_[i].w - c.w);
      }
    }
    return over_lanes<4>(sum);
  }
  /// What both float16 parts keep of each value, times `scale`: use(feature, value).
  template <typename Use>
  __device__ void in_parts(float scale, Use use) const {
#pragma unroll
    for (unsigned i = 0; i < kParts; ++i) {
      if (here(i)) {
        const float values[4] = {x_[i].x, x_[i].y, x_[i].z, x_[i].w};
#pragma unroll
        for (unsigned v = 0; v < 4; ++v) {
          use(f(i) + v, SplitPair::of(values[v] * scale).sum());
        }
      }
    }
  }

private:
  static constexpr unsigned kParts = (D + 15) / 16;
  __device__ unsigned f(unsigned i) const {
    return i * 16 + t_ * 4;
  }
  __device__ bool here(unsigned i) const {
    return f(i) < width_;
  }

  unsigned width_, t_;
  float4 x_[kParts];
};

// ---- tiles of a team
//
// Their scores and sums.

/// Of D features, with the padding, and up to K clusters: warpgroups ("teams") with a ring of
/// kStages tiles each.
template <unsigned D_, unsigned K_, unsigned kTeams_, unsigned kStages_>
struct SplitShape {
  static constexpr unsigned D = D_, K = K_, kTeams = kTeams_, kStages = kStages_;
  static constexpr unsigned kThreads = kTeams * 128;
  static constexpr unsigned kSteps = (D + 15) / 16; // of 16 features
  using Tile = SplitTile<D / 8>;
  static constexpr unsigned kRings = kTeams * kStages * Tile::kBytes / 4; ///< floats
  /// Halves of a part of the centroids: [2 kSteps columns, K, 8].
  static constexpr unsigned kPart = kSteps * 16 * K;
  /// Bytes of both parts, and of what takes their place at the end of a pass: sums [K, D], and then
  /// means, or two doubles of each thread.
  static constexpr unsigned kPartBytes = std::max<unsigned>(kPart * 4, kThreads * sizeof(double2));
  static_assert(K * D * sizeof(float) <= kPartBytes);
};

/// The distances of rows `row` and row + 8 to their centroids, if they are real, by their four
/// lanes; one of them gets the sum.
__device__ inline double two_distances(const ExactRows& exact, unsigned row,
                                       const unsigned (&label)[2]) {
  double sum = 0.0;
  for (unsigned h = 0; h < 2; ++h) {
    const float distance = row_distance(exact, row + 8 * h, label[h]);
    sum += row + 8 * h < exact.n ? static_cast<double>(distance) : 0.0;
  }
  return threadIdx.x % 4 == 0 ? sum : 0.0;
}

/// A value that all lanes of a warp have: so the compiler knows it, too, and needs no register of
/// each.
__device__ inline unsigned warp_uniform(unsigned value) {
  return __shfl_sync(kAllLanes, value, 0);
}

/// A barrier of a team.
__device__ inline void sync_team(unsigned team) {
  asm volatile("bar.sync %0, 128;" ::"r"(team + 1) : "memory");
}

/// The centroids' parts, with the sign changed and times `factor`, and half squares; all threads.
/// s_parts: [2, kPart]. also(j, half square): what else a half square is needed for, by one thread
/// each.
template <typename S, typename Also>
__device__ void split_centroids(const SplitRun& run, const float* s_centroids, __half* s_parts,
                                float* s_half_squares, float factor, Also also) {
  const unsigned stride = run.exact.stride();
  constexpr unsigned kColumns = 2 * S::kSteps, kLanes = 8; // of a centroid, of eight features each
  static_assert(kColumns <= kLanes && S::K * kLanes % 32 == 0);
  for (unsigned lane = threadIdx.x; lane < S::K * kLanes; lane += S::kThreads) {
    const unsigned j = lane / kLanes, column = lane % kLanes;
    double squares = 0.0;
    if (column < kColumns) {
      unsigned high[4], low[4];
#pragma unroll
      for (unsigned e = 0; e < 4; ++e) {
        const unsigned f = column * 8 + 2 * e; // the width is even
        const float2 c = f < run.exact.width
                             ? *reinterpret_cast<const float2*>(s_centroids + j * stride + f)
                             : float2{};
        const float x = c.x * run.scale, y = c.y * run.scale;
        const auto first = SplitPair::of(-x * factor), second = SplitPair::of(-y * factor);
        high[e] = packed(first.high, second.high);
        low[e] = packed(first.low, second.low);
        squares += static_cast<double>(x) * static_cast<double>(x) +
                   static_cast<double>(y) * static_cast<double>(y);
      }
      uint4* to = reinterpret_cast<uint4*>(s_parts) + column * S::K + j;
      to[0] = make_uint4(high[0], high[1], high[2], high[3]);
      to[S::kPart / 8] = make_uint4(low[0], low[1], low[2], low[3]);
    }
    squares = over_lanes<kLanes>(squares);
    if (column == 0) {
      s_half_squares[j] = j < run.exact.k ? static_cast<float>(0.5 * squares) : kNever;
      also(j, s_half_squares[j]);
    }
  }
  fence_proxy_async();
}
template <typename S>
__device__ void split_centroids(const SplitRun& run, const float* s_centroids, __half* s_parts,
                                float* s_half_squares) {
  split_centroids<S>(run, s_centroids, s_parts, s_half_squares, 1.0f, [](unsigned, float) {});
}

/// The length of the longest centroid, times the scale, or a little more.
template <typename S>
__device__ float longest_of(const SplitRun& run, const float* s_half_squares) {
  float largest = 0.0f;
  for (unsigned j = threadIdx.x % 32; j < run.exact.k; j += 32) {
    largest = fmaxf(largest, s_half_squares[j]);
  }
  largest = __uint_as_float(__reduce_max_sync(kAllLanes, __float_as_uint(largest))); // not negative
  return 1.001f * sqrtf(2.0f * largest);
}

/// Starts the scores but for the half squares, -x.c, of 64 rows with all centroids. What is small
/// is added up first, so that the tensor cores cut less of it. tile, parts: places in units of 16
/// bytes.
template <typename S>
__device__ void multiply_tile(unsigned tile, unsigned parts, float (&score)[S::K / 8][4]) {
  const unsigned low = tile + S::Tile::kLow, low_parts = parts + S::kPart / 8;
  const auto of = [](unsigned part, unsigned step) {
    return operand(part + step * 2 * S::K, S::K, 8);
  };
  wgmma_fence();
#pragma unroll
  for (unsigned step = 0; step < S::kSteps; ++step) {
    multiply_rows<S::K>(score, S::Tile::rows(low, step), of(parts, step), step > 0);
    multiply_rows<S::K>(score, S::Tile::rows(tile, step), of(low_parts, step), true);
  }
#pragma unroll
  for (unsigned step = 0; step < S::kSteps; ++step) {
    multiply_rows<S::K>(score, S::Tile::rows(tile, step), of(parts, step), true);
  }
  wgmma_commit_group();
}

/// Starts a tile's sums by label, of kSteps times 16 of its rows. s_labels: of 64 rows.
template <typename S, unsigned kFirst = 0, unsigned kSteps = 4>
__device__ void start_sums(unsigned tile, const __half* s_labels, float (&sums)[S::D / 8][4]) {
  const unsigned lane = threadIdx.x % 32, t = lane % 4;
  const unsigned cluster = threadIdx.x % 128 / 32 * 16 + lane / 4;
  const __half2 own[2] = {__float2half2_rn(static_cast<float>(cluster)),
                          __float2half2_rn(static_cast<float>(cluster + 8))};
  unsigned weights[kSteps][4]; // 1 or 0, of 16 rows each
#pragma unroll
  for (unsigned e = 0; e < 4 * kSteps; ++e) {
    const unsigned row = (kFirst + e / 4) * 16 + e % 4 / 2 * 8 + 2 * t;
    const __half2 equal = __heq2(*reinterpret_cast<const __half2*>(s_labels + row), own[e % 2]);
    weights[e / 4][e % 4] = *reinterpret_cast<const unsigned*>(&equal);
    asm volatile("" : "+r"(weights[e / 4][e % 4])); // made before products are opened
  }
  wgmma_fence();
#pragma unroll
  for (unsigned e = 0; e < kSteps; ++e) {
    const unsigned step = kFirst + e;
    const std::uint64_t low = S::Tile::sixteen_rows(tile + S::Tile::kLow, step);
    add_rows<S::D>(sums, weights[e], low, step > 0);
    add_rows<S::D>(sums, weights[e], S::Tile::sixteen_rows(tile, step), true);
  }
  wgmma_commit_group();
}

/// Waits for all products, and adds a tile's sums to those of the pass: to nearest, as tensor cores
/// do not, in float.
template <typename S>
__device__ void finish_sums(float (&sums)[S::D / 8][4], float (&all_sums)[S::D / 8][4]) {
  wgmma_wait_group<0>();
  take_products(sums);
#pragma unroll
  for (unsigned e = 0; e < S::D / 2; ++e) {
    all_sums[e / 4][e % 4] += sums[e / 4][e % 4];
  }
}

/// Puts a team's sums into s_sums [K, D], or adds them to what is there.
template <typename S>
__device__ void add_sums(float (&sums)[S::D / 8][4], bool add, float* s_sums) {
  const unsigned lane = threadIdx.x % 32, j = threadIdx.x % 128 / 32 * 16 + lane / 4;
  const auto at = [&](unsigned e) { // two neighbours: of row j, of row j + 8
    return reinterpret_cast<float2*>(s_sums + (j + e % 2 * 8) * S::D + e / 2 * 8 + lane % 4 * 2);
  };
#pragma unroll
  for (unsigned e = 0; add && e < S::D / 4; ++e) { // all loads before the stores
    if (j + e % 2 * 8 < S::K) {
      const float2 there = *at(e);
      sums[e / 2][e % 2 * 2] += there.x;
      sums[e / 2][e % 2 * 2 + 1] += there.y;
    }
  }
#pragma unroll
  for (unsigned e = 0; e < S::D / 4; ++e) {
    if (j + e % 2 * 8 < S::K) {
      *at(e) = make_float2(sums[e / 2][e % 2 * 2], sums[e / 2][e % 2 * 2 + 1]);
    }
  }
}

/// Features 2 lane and 2 lane + 1 of a row of a tile, times the scale; zero behind D.
template <typename S>
__device__ float2 two_of_parts(unsigned tile, unsigned row) {
  const unsigned f = threadIdx.x % 32 * 2;
  const unsigned place = tile + f / 8 * S::Tile::kRows + row;
  const auto part = [&](unsigned from) {
    const auto* halves = static_cast<const __half2*>(__cvta_shared_to_generic(from * 16));
    return __half22float2(halves[f % 8 / 2]);
  };
  if (f >= S::D) {
    return {};
  }
  const float2 high = part(place), low = part(place + S::Tile::kLow);
  return {high.x + low.x, high.y + low.y};
}

/// The label of a row that scores leave open: by its parts, unless what they lose could matter.
template <typename S, typename Among>
__device__ unsigned settle(const SplitRun& run, unsigned tile, unsigned row_of_tile, unsigned row,
                           const Among& among) {
  const float inverse = 1.0f / run.scale;
  const float2 x = two_of_parts<S>(tile, row_of_tile);
  const NearestTwo found = among(float2{x.x * inverse, x.y * inverse});
  // By Cauchy and Schwarz, for two centroids no further away than the second; for one that is
  // further away the difference grows by more than what may be lost.
  return found.second - found.nearest > 4.1f * sqrtf(found.second) * run.lost * inverse
             ? found.label
             : among(two_of_row(run.exact, row)).label;
}

} // namespace clusterbench::cuda
