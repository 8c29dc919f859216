// K-means for 65 to some thousand clusters of few features: pairs of float16 scores in registers.
//
// Idea: tensor cores make whole scores, scaled so that float16 holds them. Two share a register,
//   and one instruction compares four. Once the least score of a row is known, two instructions of
//   the multiply-add pipe test two scores against it. One is left for nearly all rows: its label.
// Changed since kmeans_cuda_certified: one kernel does all of a pass but the means. Centroids stay
//   in shared memory, and rows come to registers as operands. Rows with several candidates are
//   multiplied again at the end of a block, which lists and compares them. Rows that move are
//   gathered and change copies of the sums.
// Source: kmeans_cuda_certified; docs/certified_variants.md has the proof for packed scores.
// Cost per iteration: 2 n d bytes of points, 2 n k (d + 16) flops, 1.25 instructions a score where
//   the tensor cores round (d <= 28; 32 with many clusters), else 1.75.
// Limits: d <= 64; what shared memory holds of the centroids (k = 6000 at d = 8, 1280 at 64); n
//   below 2^31; compute capability 9.0. Deterministic.
// Needs: sm_90a
#include "impls/cuda/many_clusters/folded_bounds.hpp"
#include "impls/cuda/many_clusters/large_k.cuh"
#include "impls/cuda/many_clusters/tensor_tiles.cuh"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>

namespace clusterbench {
namespace {

using namespace cuda;

/// Warpgroups of a block, which take 64 rows at a time: as many as there are registers for.
template <unsigned kSteps, unsigned kColumns>
constexpr unsigned kTeams = kRounds<kSteps, kColumns>&& kColumns <= kHalfTileRows ? 6 : 4;
constexpr unsigned kMostTeams = 6, kTeamRows = 64;
constexpr unsigned kNarrow = 104; ///< columns of a tile, or twice as many; or of kHalfTileRows
constexpr unsigned kPairs = 512;  ///< candidates of a team's 64 rows, or of fewer
constexpr unsigned kLeastRows = 4;
constexpr unsigned kMovers = 192; ///< of a team: it adds up to 64, and moves them from 128 on
constexpr unsigned kInfinity = 0x7c00, kLeastLimit = 0x2800; ///< as float16; the latter is 2^-5

/// What a team shares.
template <typename T>
struct Team {
  unsigned long long movers[kMovers]; ///< rows that change their cluster, see mover()
  unsigned moving;
  unsigned listed; ///< more than kPairs: all centroids are candidates
  // About up to 64 rows with several candidates:
  unsigned long long nearest[kRankedInOne<T> ? kTeamRows : 2 * kTeamRows]; ///< see FlaggedView
  unsigned rows[kTeamRows];
  unsigned pairs[kPairs]; ///< which of the rows << 16 | centroid
};

template <typename T>
struct PackedTask {
  SweepTask<T> sweep;
  SumsView sums;
  PassCounters* next; ///< to be cleared
  uint2* doubtful;    ///< [blocks, of_block] a row, and the limit of its candidates
  unsigned of_block;
  unsigned tiles; ///< of centroids
  bool moves;     ///< else the sums are left alone
};

__device__ unsigned two_halves(__half low, __half high) {
  return static_cast<unsigned>(__half_as_ushort(low)) |
         static_cast<unsigned>(__half_as_ushort(high)) << 16;
}
__device__ unsigned twice(unsigned half) {
  return half * 0x10001u;
}
/// a * b + c of both halves, and the same limited to [0, 1].
__device__ unsigned fma_two(unsigned a, unsigned b, unsigned c) {
  unsigned two;
  asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(two) : "r"(a), "r"(b), "r"(c));
  return two;
}
__device__ unsigned fma_two_limited(unsigned a, unsigned b, unsigned c) {
  unsigned two;
  asm("fma.rn.sat.f16x2 %0, %1, %2, %3;" : "=r"(two) : "r"(a), "r"(b), "r"(c));
  return two;
}
/// Tests scores against the limits of two rows, not less than 2^-5: which are no more than u.
/// (u - score) / ulp(u) + 1 is at least 1 for those, and at most 0 for all others.
struct LimitTest {
  unsigned slopes, starts; ///< of either row: -1 / ulp(u), u / ulp(u) + 1

  __device__ explicit LimitTest(unsigned limits)
      : slopes(0x80008000u | ((0x00280028u - (limits >> 10 & 0x001f001fu)) << 10)),
        starts((0x64006400u | (limits & 0x03ff03ffu)) + 0x00010001u) {}

  /// Of the scores of one row. Bit i of either half of the answer belongs to score [i]: as a
  /// float16 1024 + 2^i + ... has these as its lowest bits.
  template <unsigned kRow, unsigned kScores>
  __device__ unsigned of(const unsigned* scores) const {
    const unsigned slope = __byte_perm(slopes, 0, kRow == 0 ? 0x1010 : 0x3232);
    const unsigned start = __byte_perm(starts, 0, kRow == 0 ? 0x1010 : 0x3232);
    unsigned mask = 0x64006400u;
#pragma unroll
    for (unsigned i = 0; i < kScores; ++i) {
      const unsigned weight = twice((15u + i) << 10); // 2^i
      mask = fma_two(fma_two_limited(scores[i], slope, start), weight, mask);
    }
    return mask;
  }
  /// The same for up to 16 pairs: a bit each, see column_of().
  template <unsigned kRow, unsigned kScores>
  __device__ unsigned mask(const unsigned* scores) const {
    return __byte_perm(of<kRow, 8>(scores), of<kRow, kScores - 8>(scores + 8), 0x6420);
  }
};

/// Which column of 128 bit b of a mask is, for one of the four lanes of a row.
__device__ unsigned column_of(unsigned bit, unsigned quarter) {
  return (bit & 16u) * 4 + (bit & 7u) * 8 + (bit >> 3 & 1u) + quarter * 2;
}

/// What a lane has of two rows that it shares with three others: features as operands of a product,
/// whose order is free, as long as centroids have the same one. And what it knows of one of them,
/// its own: an even lane of the first.
template <unsigned kData, typename T>
struct Operands {
  unsigned words[2][kData * 2];
  float residual, norm;
  std::int32_t label;

  __device__ void fetch(const PointsView<T>& points, const std::int32_t* labels, unsigned row0,
                        unsigned row1, unsigned quarter) {
#pragma unroll
    for (unsigned p = 0; p < 2; ++p) {
      constexpr unsigned kWidth = kData == 4 ? 64 : 32;
      const unsigned which = p == 0 ? row0 : row1;
      const __half* row = points.rounded + std::size_t{which} * kWidth;
      if constexpr (kData == 1) {
        const uint2 two = *reinterpret_cast<const uint2*>(
            row + HalfTiles::swizzled(kWidth, which, quarter / 2) * 8 + quarter % 2 * 4);
        words[p][0] = two.x, words[p][1] = two.y;
      } else {
#pragma unroll
        for (unsigned g = 0; g < kData / 2; ++g) {
          const uint4 four = *reinterpret_cast<const uint4*>(
              row + HalfTiles::swizzled(kWidth, which, quarter + g * 4) * 8);
          words[p][g * 4] = four.x, words[p][g * 4 + 1] = four.y;
          words[p][g * 4 + 2] = four.z, words[p][g * 4 + 3] = four.w;
        }
      }
    }
    const unsigned own = quarter % 2 == 0 ? row0 : row1;
    const bool exists = own < points.n; // the last piece has rows behind the points
    residual = exists ? points.residual[own] : 0.0f;
    norm = exists ? points.norm[own] : 0.0f;
    label = exists ? labels[own] : 0;
  }
};

/// Writes the centroids as operands: [tiles][kSteps][kColumns][kStep], 32-byte swizzle, negative
/// and scaled by 2^-15. The last four features of the last step make |c'|^2 / 2 in two parts, the
/// row's constant, and what is too far of centroids that do not exist.
template <unsigned kData, unsigned kSteps, unsigned kColumns, typename T>
__device__ void write_columns(const CentroidsView<T>& centroids, unsigned tiles,
                              __half* s_columns) {
  constexpr unsigned kWidth = kData == 4 ? 64 : 32, kGroups = kData == 1 ? 2 : kData * 2;
  const __half2 scale = __float2half2_rn(-0x1p-15f);
  const auto place = [&](unsigned j, unsigned step, unsigned half, unsigned quarter) {
    return reinterpret_cast<unsigned*>(
        s_columns + ((j / kColumns * kSteps + step) * kColumns + j % kColumns) * kStep +
        HalfTiles::swizzled(kStep, j, half) * 8 + quarter * 2);
  };
  const auto write = [&](unsigned j, unsigned step, unsigned half, unsigned quarter, unsigned two) {
    const __half2 scaled = __hmul2(*reinterpret_cast<const __half2*>(&two), scale);
    *place(j, step, half, quarter) = *reinterpret_cast<const unsigned*>(&scaled);
  };
  const unsigned columns = tiles * kColumns, last = centroids.tiles * kHalfTileRows - 1;
#pragma unroll 4
  for (unsigned e = threadIdx.x; e < columns * kGroups; e += blockDim.x) {
    const unsigned j = e / kGroups, group = e % kGroups, from = min(j, last);
    const uint4 four =
        *reinterpret_cast<const uint4*>(centroids.rounded + std::size_t{from} * kWidth +
                                        HalfTiles::swizzled(kWidth, from, group) * 8);
    if constexpr (kData == 1) {
      write(j, 0, 0, group * 2, four.x);
      write(j, 0, 1, group * 2, four.y);
      write(j, 0, 0, group * 2 + 1, four.z);
      write(j, 0, 1, group * 2 + 1, four.w);
    } else {
      write(j, group / 4 * 2, 0, group % 4, four.x);
      write(j, group / 4 * 2, 1, group % 4, four.y);
      write(j, group / 4 * 2 + 1, 0, group % 4, four.z);
      write(j, group / 4 * 2 + 1, 1, group % 4, four.w);
    }
  }
  __syncthreads(); // the places of the last four may have been written
  for (unsigned j = threadIdx.x; j < columns; j += blockDim.x) {
    for (unsigned quarter = 0; quarter < 3 && kSteps > kData; ++quarter) {
      *place(j, kSteps - 1, 0, quarter) = *place(j, kSteps - 1, 1, quarter) = 0;
    }
    const __half none = __float2half(0.0f), one = __float2half(1.0f), most = __float2half(65504.0f);
    const bool real = j < centroids.k;
    const float whole = real ? centroids.half_squares[j] : 0.0f;
    const __half first = __float2half_rn(fminf(whole * 0x1p-15f, 65504.0f));
    const __half second = __float2half_rn((whole - __half2float(first) * 0x1p15f) * 0x1p-5f);
    *place(j, kSteps - 1, 0, 3) = real ? two_halves(first, second) : two_halves(most, none);
    *place(j, kSteps - 1, 1, 3) = real ? two_halves(one, none) : two_halves(none, most);
  }
}

/// Compares the listed pairs of a team's rows: the squared distance over eight lanes a pair, in the
/// order of squared_distance(), kAtOnce of them at a time. pairs: of them; all: of every row with
/// each centroid. kIndices: see compare_candidates().
template <unsigned kMost, bool kIndices, typename T>
__device__ void compare_pairs(const SweepTask<T>& task, Team<T>& of_team, unsigned pairs,
                              bool all) {
  constexpr unsigned kAtOnce = 64 / kMost > 2 ? 4 : 2;
  const unsigned d = task.points.d, k = task.centroids.k, eighth = threadIdx.x % 8;
#pragma unroll 1
  for (unsigned base = threadIdx.x % 128 / 32 * 4; base < pairs; base += 16 * kAtOnce) {
    T squared[kAtOnce] = {};
    unsigned slot[kAtOnce], j[kAtOnce];
#pragma unroll
    for (unsigned u = 0; u < kAtOnce; ++u) {
      const unsigned which = min(base + u * 16 + threadIdx.x % 32 / 8, pairs - 1);
      slot[u] = all ? which / k : of_team.pairs[which] >> 16;
      j[u] = all ? which % k : of_team.pairs[which] & 0xffffu;
      const T* x = task.points.exact + std::size_t{of_team.rows[slot[u]]} * d;
      const T* c = task.centroids.exact + std::size_t{j[u]} * d;
#pragma unroll
      for (unsigned i = 0; i < kMost / 8; ++i) {
        const unsigned f = min(eighth + i * 8, d - 1);
        const T difference = eighth + i * 8 < d ? x[f] - c[f] : T{0};
        squared[u] += difference * difference;
      }
    }
#pragma unroll
    for (unsigned offset = 4; offset > 0; offset /= 2) {
#pragma unroll
      for (unsigned u = 0; u < kAtOnce; ++u) {
        squared[u] += __shfl_xor_sync(0xffffffffu, squared[u], static_cast<int>(offset));
      }
    }
#pragma unroll
    for (unsigned u = 0; u < kAtOnce; ++u) {
      if constexpr (kIndices) {
        if (eighth == 0 && ranked(squared[u], 0) == of_team.nearest[slot[u]]) {
          atomicMin(&of_team.nearest[kTeamRows + slot[u]], static_cast<unsigned long long>(j[u]));
        }
      } else if (eighth == 0) {
        atomicMin(&of_team.nearest[slot[u]], ranked(squared[u], j[u]));
      }
    }
  }
}

/// A pass but for the means: labels, and the sums that follow from them. kData steps of 16 features
/// are the data's; kBeside: one more has the parts of |c|^2 / 2, which else are in the last four of
/// the data's. Centroids come in tiles of kColumns. Dynamic shared memory: the columns, then Team
/// of each team.
template <unsigned kData, bool kBeside, unsigned kColumns, typename T>
__global__ void __launch_bounds__(kTeams<kData + kBeside, kColumns> * 128, 1)
    sweep_packed(const PackedTask<T> task) {
  constexpr unsigned kSteps = kData + kBeside, kAll = kTeams<kSteps, kColumns>;
  constexpr unsigned kScores = kColumns / 8;               // pairs of a row and lane
  constexpr unsigned kFirst = kScores < 16 ? kScores : 16; // of those, that make the first mask
  extern __shared__ unsigned char s_dynamic[];
  __shared__ unsigned s_doubtful;
  const PointsView<T>& points = task.sweep.points;
  const unsigned k = task.sweep.centroids.k, tiles = task.tiles;
  __half* s_columns =
      reinterpret_cast<__half*>(s_dynamic + (1024 - shared_address(s_dynamic) % 1024) % 1024);
  Team<T>* s_teams = reinterpret_cast<Team<T>*>(s_columns + tiles * kSteps * kColumns * kStep);
  const unsigned lane = threadIdx.x % 32, quarter = lane % 4, side = lane % 2;
  const unsigned warp = __shfl_sync(0xffffffffu, threadIdx.x / 32, 0), team = warp / 4;
  if (threadIdx.x == 0) {
    s_doubtful = 0;
    if (blockIdx.x == 0) {
      *task.next = {};
    }
  }
  if (threadIdx.x % 128 == 0) {
    s_teams[team].moving = 0;
  }
  const unsigned n = static_cast<unsigned>(points.n), pieces = (n + kTeamRows - 1) / kTeamRows;
  const unsigned first_row = warp % 4 * 16 + lane / 4; // of a piece; and 8 further on
  const unsigned own_row = first_row + side * 8;
  unsigned piece = team * gridDim.x + blockIdx.x;
  Operands<kData, T> next;
  if (piece < pieces) {
    next.fetch(points, task.sweep.labels, piece * kTeamRows + first_row,
               piece * kTeamRows + first_row + 8, quarter);
  }
  write_columns<kData, kSteps, kColumns>(task.sweep.centroids, tiles, s_columns);
  fence_proxy_async();
  __syncthreads(); // the columns are complete

  Team<T>& of_team = s_teams[team];
  uint2* doubtful = task.doubtful + std::size_t{blockIdx.x} * task.of_block;
  const std::uint64_t columns = describe<kStep>(s_columns);
  const ScoreError largest = task.sweep.counters->largest();
  const std::size_t copy = (blockIdx.x * kAll + team) % task.sums.copies;
  const SumsView own_sums{task.sums.point, task.sums.high + copy * k * points.d,
                          task.sums.low + copy * k * points.d, task.sums.counts + copy * k};
  unsigned moved = 0; // by this team
  bool again = false; // with doubtful rows, which have several candidates
  unsigned doubtful_rows = 0, first = 0, end = 0, at_once = kTeamRows; // of those, this team's
#pragma unroll 1
  for (;;) {
    unsigned row = piece * kTeamRows + own_row, own_limit = 0;
    if (!again && piece >= pieces) {
      __syncthreads(); // all doubtful rows are there
      again = true;
      doubtful_rows = s_doubtful;
      const unsigned share = (doubtful_rows + kAll - 1) / kAll;
      first = team * share;
      end = min(first + share, doubtful_rows);
    }
    const bool done = again && first >= end;
    if (!done) {
      bool has_row = row < n;
      if (again) {
        if (threadIdx.x % 128 == 0) {
          of_team.listed = 0;
        }
        team_barrier(team); // the last piece is done with, the list is empty
        has_row = own_row < min(at_once, end - first);
        const uint2 entry = doubtful[min(first + own_row, end - 1)];
        row = entry.x;
        own_limit = has_row ? entry.y : 0; // what passes that of none is not listed
        if (quarter < 2) {
          of_team.rows[own_row] = row;
          of_team.nearest[own_row] = ~0ull;
          if constexpr (!kRankedInOne<T>) {
            of_team.nearest[kTeamRows + own_row] = ~0ull;
          }
        }
        const unsigned other = __shfl_xor_sync(0xffffffffu, row, 1);
        next.fetch(points, task.sweep.labels, side == 0 ? row : other, side == 0 ? other : row,
                   quarter);
        if (own_limit >= kInfinity) {
          of_team.listed = kPairs + 1;
        }
      }
      // To the nearest: 2^-11 of a score. Of the tensor cores only an ulp is assumed.
      constexpr float kRounding = kRounds<kSteps, kColumns> ? 0x1p-10f : 0x1p-11f;
      const std::int32_t label_before = next.label;
      const __half constant = __float2half_ru(0.5f * next.norm * next.norm * 0x1p-15f);
      const float margin =
          packed_error(largest, next.residual, next.norm, __half2float(constant) * 0x1p15f,
                       kSteps * kStep, kRounds<kSteps, kColumns> ? kSteps - 1 : 0) *
              (2.0f * 0x1p-15f * kUpwards) +
          0x1p-23f;
      const unsigned own_constant = two_halves(constant, __float2half(1.0f));
      const unsigned other_constant = __shfl_xor_sync(0xffffffffu, own_constant, 1);
      unsigned operands[kSteps][4];
#pragma unroll
      for (unsigned step = 0; step < kSteps; ++step) {
#pragma unroll
        for (unsigned e = 0; e < 4; ++e) {
          unsigned word = step < kData ? next.words[e % 2][step * 2 + e / 2] : 0u;
          if (step + 1 == kSteps && quarter == 3) { // 1 and 2^-10, the constant and 1
            word = e < 2 ? 0x14003c00u : e == 2 ? other_constant : own_constant;
          }
          asm volatile("mov.b32 %0, %1;" : "=r"(operands[step][e]) : "r"(word)); // not made again
        }
      }
      const auto fetch_next = [&] { // on their way during the rest
        const unsigned after = piece + gridDim.x * kAll;
        if (!again && after < pieces) {
          next.fetch(points, task.sweep.labels, after * kTeamRows + first_row,
                     after * kTeamRows + first_row + 8, quarter);
        }
      };
      if constexpr (kRounds<kSteps, kColumns>) {
        fetch_next();
      }
      unsigned best = 0x7fff7fffu, count[2] = {0, 0}; // the least scores of both rows; candidates
      unsigned found[2] = {0, 0};                     // one of them
#pragma unroll 1
      for (unsigned tile = 0; tile < tiles; ++tile) {
        unsigned scores[2][kScores];
        multiply_tile<kSteps, kColumns>(scores, operands,
                                        columns + tile * kSteps * (kColumns * kStep * 2 / 16));
        if (!kRounds<kSteps, kColumns> &&
            tile + 1 == tiles) { // before, registers would not suffice
          fetch_next();
        }
        unsigned least[2];
#pragma unroll
        for (unsigned p = 0; p < 2; ++p) { // three chains
          unsigned chain[3] = {scores[p][0], scores[p][1], scores[p][2]};
#pragma unroll
          for (unsigned e = 3; e < kScores; e += 2) {
            chain[e / 2 % 3] =
                __vimin3_s16x2(chain[e / 2 % 3], scores[p][e], scores[p][min(e + 1, kScores - 1)]);
          }
          least[p] = __vimin3_s16x2(chain[0], chain[1], chain[2]);
        }
        unsigned both = __vmins2(__byte_perm(least[0], least[1], 0x5410),
                                 __byte_perm(least[0], least[1], 0x7632));
        both = __vmaxs2(both, 0); // a zero has no sign
        both = __vmins2(both, __shfl_xor_sync(0xffffffffu, both, 1));
        both = __vmins2(both, __shfl_xor_sync(0xffffffffu, both, 2));
        const unsigned best_before = best >> side * 16 & 0xffffu;
        best = __vmins2(best, both);
        // No more than this, rounded upwards: the score of the nearest centroid, rounded.
        const float most = fmaf(__half2float(__ushort_as_half(best >> side * 16 & 0xffffu)),
                                1.0f + kRounding + 0x1p-20f, margin);
        const unsigned rounded = __half_as_ushort(__float2half_ru(most));
        own_limit = again ? own_limit : max(rounded, kLeastLimit);
        const unsigned own = own_limit | (best_before > own_limit ? 0x8000u : 0u); // none before it
        const unsigned other = __shfl_xor_sync(0xffffffffu, own, 1);
        const unsigned limits = side == 0 ? own | other << 16 : other | own << 16;
        const LimitTest test(limits & 0x7fff7fffu);
        unsigned masks[2][2]; // of the first 128 columns, and of those behind them
        masks[0][0] = test.mask<0, kFirst>(scores[0]);
        masks[1][0] = test.mask<1, kFirst>(scores[1]);
        masks[0][1] = masks[1][1] = 0;
        if constexpr (kScores > kFirst) {
          masks[0][1] = test.mask<0, kScores - kFirst>(scores[0] + kFirst);
          masks[1][1] = test.mask<1, kScores - kFirst>(scores[1] + kFirst);
        }
        if (!again) {
#pragma unroll
          for (unsigned p = 0; p < 2; ++p) {
            count[p] = ((limits & 0x8000u << p * 16) != 0 ? 0 : count[p]) +
                       static_cast<unsigned>(__popc(static_cast<int>(masks[p][0])) +
                                             __popc(static_cast<int>(masks[p][1])));
            const bool behind = masks[p][1] != 0;
            const int mask = static_cast<int>(behind ? masks[p][1] : masks[p][0]);
            const unsigned bit = 31u - static_cast<unsigned>(__clz(mask));
            found[p] = mask != 0 ? tile * kColumns + (behind ? 128 : 0) + column_of(bit, quarter)
                                 : found[p];
          }
          continue;
        }
        const bool other_there = __shfl_xor_sync(0xffffffffu, has_row ? 1 : 0, 1) != 0;
#pragma unroll
        for (unsigned p = 0; p < 2; ++p) {
          const bool there = p == side ? has_row : other_there;
          unsigned column = tile * kColumns; // the first of a mask
#pragma unroll 1
          for (unsigned half = 0; half < 2; ++half, column += 128) {
            const unsigned its = half == 0 ? masks[p][0] : masks[p][1];
            for (unsigned mask = there ? its : 0; mask != 0; mask &= mask - 1) {
              const unsigned bit = static_cast<unsigned>(__ffs(static_cast<int>(mask))) - 1;
              const unsigned place = atomicAdd(&of_team.listed, 1u);
              if (place < kPairs) {
                of_team.pairs[place] =
                    (first_row + p * 8) << 16 | (column + column_of(bit, quarter));
              }
            }
          }
        }
      }

      bool known = quarter < 2 && has_row; // this lane has a row and its label
      unsigned label = 0;
      if (!again) {
        // Candidates of a row << 16 | the only one: an even lane adds up the first row's.
        const unsigned all[2] = {count[0] == 1 ? 1u << 16 | found[0] : count[0] << 16,
                                 count[1] == 1 ? 1u << 16 | found[1] : count[1] << 16};
        unsigned own = all[0], given = all[1];
        if (side == 1) {
          own = all[1], given = all[0];
        }
        own += __shfl_xor_sync(0xffffffffu, given, 1);
        own += __shfl_xor_sync(0xffffffffu, own, 2);
        const bool certain = own >> 16 == 1 && own_limit < kInfinity;
        const bool doubts = known && !certain;
        if (__any_sync(0xffffffffu, doubts)) {
          const unsigned place = take_place(doubts, &s_doubtful);
          if (doubts) {
            doubtful[place] = {row, own_limit};
          }
        }
        known = known && certain;
        label = own & 0xffffu;
        piece += gridDim.x * kAll;
      } else {
        team_barrier(team); // the candidates of all warps are listed
        const unsigned listed = of_team.listed;
        if (listed > kPairs && at_once > kLeastRows) { // the same with fewer rows
          at_once /= 4;
          team_barrier(team); // all have read it
          continue;
        }
        const unsigned rows = min(end - first, at_once);
        const unsigned pairs = listed > kPairs ? rows * k : listed;
        compare_pairs<kData * kStep, false>(task.sweep, of_team, pairs, listed > kPairs);
        if constexpr (!kRankedInOne<T>) {
          team_barrier(team); // the least distances are there
          compare_pairs<kData * kStep, true>(task.sweep, of_team, pairs, listed > kPairs);
        }
        if (threadIdx.x % 128 == 0) {
          atomicAdd(&task.sweep.counters->pairs, static_cast<unsigned long long>(pairs));
        }
        team_barrier(team); // all of them are compared
        const unsigned at = (kRankedInOne<T> ? 0 : kTeamRows) + own_row;
        label = known ? static_cast<unsigned>(of_team.nearest[at]) : 0;
        first += rows;
      }
      const bool moves = known && static_cast<std::int32_t>(label) != label_before;
      if (moves) {
        task.sweep.labels[row] = static_cast<std::int32_t>(label);
      }
      if (__any_sync(0xffffffffu, moves)) {
        const unsigned place = take_place(moves, &of_team.moving);
        if (moves) {
          of_team.movers[place] = mover(row, label_before, label);
        }
      }
    }
    team_barrier(team); // the movers of all warps are there
    if (const unsigned moving = of_team.moving;
        moving > kMovers - kTeamRows || (done && moving > 0)) {
#pragma unroll 1
      for (unsigned base = warp % 4 * 32; base < moving && task.moves; base += 128) {
        move_rows(points, own_sums, base + lane < moving ? of_team.movers[base + lane] : 0);
      }
      moved += moving;
      team_barrier(team); // they have been read
      if (threadIdx.x % 128 == 0) {
        of_team.moving = 0;
      }
      team_barrier(team); // the list is empty
    }
    if (done) {
      break;
    }
  }
  if (threadIdx.x % 128 == 0 && moved > 0) {
    atomicAdd(&task.sweep.counters->moved, moved);
  }
  if (threadIdx.x == 0 && doubtful_rows > 0) {
    atomicAdd(&task.sweep.counters->flagged, doubtful_rows);
  }
}

/// The kernel for a shape.
template <typename T>
class PackedSweep {
public:
  using Real = T;
  static constexpr unsigned kPaddedRows = 128;

  static std::string refuse(const Shape& shape) {
    const int capability = compute_capability(); // 0: no device, which others report
    if (capability != 0 && capability != 90) {
      return "compute capability 9.0 is needed, and no other";
    }
    if (shape.d > 64) {
      return "d = " + std::to_string(shape.d) +
             ": rows are operands in registers up to 64 features";
    }
    const std::size_t needed =
        shared_bytes(shape.d, ceil_div(shape.k, kHalfTileRows), kHalfTileRows,
                     steps(shape.d) <= 2 ? kTeams<2, kHalfTileRows> : kTeams<3, kHalfTileRows>);
    if (needed > shared_memory_limit() - kStatic) {
      return "the centroids need " + std::to_string(needed) +
             " bytes of shared memory, there are " +
             std::to_string(shared_memory_limit() - kStatic);
    }
    return "";
  }
  static std::size_t bytes(const Shape& shape) {
    return (shape.n + multiprocessors() * kMostTeams * kTeamRows) * sizeof(uint2);
  }
  /// Of the sums: additions to fewer than some thousand rows of sums wait for one another.
  static unsigned copies(const Shape& shape) {
    constexpr std::size_t kMost = std::is_same_v<T, float> ? 8 : 32; // doubles take twice as many
    return static_cast<unsigned>(std::bit_floor(std::clamp<std::size_t>(1024 / shape.k, 1, kMost)));
  }

  /// Atomic additions of all rows, and of a third of them, take longer than sorting them.
  static bool sorts_first(const Shape& shape) {
    return shape.d > 32 && shape.n * shape.d >= std::size_t{1} << 22;
  }

  void prepare(const SweepTask<T>& task) {
    const std::size_t d = task.points.d, data = data_steps(d);
    const bool beside = steps(d) > data;
    kernel_ = nullptr;
    const auto pick = [&]<unsigned kData, bool kBeside>() {
      choose<kData, kBeside, kHalfTileRows>(task);
      choose<kData, kBeside, kNarrow>(task);
      if constexpr (kRounds<kData + kBeside, 2 * kNarrow>) { // sums take half the registers
        choose<kData, kBeside, 2 * kNarrow>(task);
        choose<kData, kBeside, 2 * kHalfTileRows>(task);
      }
    };
    const auto pick_beside = [&]<unsigned kData>() {
      beside ? pick.template operator()<kData, true>() : pick.template operator()<kData, false>();
    };
    data == 1   ? pick_beside.template operator()<1>()
    : data == 2 ? pick_beside.template operator()<2>()
                : pick_beside.template operator()<4>();
    allow_shared_memory(kernel_, bytes_);
    const std::size_t pieces = ceil_div(task.points.n, kTeamRows);
    blocks_ = static_cast<unsigned>(std::min(multiprocessors(), pieces));
    of_block_ =
        static_cast<unsigned>(ceil_div(pieces, std::size_t{blocks_} * teams_) * teams_ * kTeamRows);
    d_doubtful_ = DeviceBuffer<uint2>(std::size_t{blocks_} * of_block_);
  }
  void follow(const SweepTask<T>&) {}
  void launch(const SweepTask<T>& task, const SumsView& sums, PassCounters* next, bool moves) {
    kernel_<<<blocks_, teams_ * 128, bytes_>>>(
        {task, sums, next, d_doubtful_.data(), of_block_, tiles_, moves});
    check_launch("sweep_packed");
  }
  std::string path() const { return std::to_string(bytes_) + " bytes of shared memory"; }

private:
  static constexpr std::size_t kStatic = 1024; // of shared memory, at most

  /// Takes tiles of so many columns if they cost less than what was chosen before: a tile costs as
  /// much as its columns and some more.
  template <unsigned kData, bool kBeside, unsigned kColumns>
  void choose(const SweepTask<T>& task) {
    constexpr unsigned kMore = 60;
    const auto tiles = static_cast<unsigned>(ceil_div(task.centroids.k, kColumns));
    constexpr unsigned kAll = kTeams<kData + kBeside, kColumns>;
    const std::size_t bytes = shared_bytes(task.points.d, tiles, kColumns, kAll);
    const unsigned cost = tiles * (kColumns + kMore);
    if (kData + kBeside == 3 && kColumns > kHalfTileRows && task.centroids.k <= 300) {
      return; // what rounding leaves open would cost more
    }
    if (kernel_ == nullptr || (cost < cost_ && bytes <= shared_memory_limit() - kStatic)) {
      kernel_ = sweep_packed<kData, kBeside, kColumns, T>;
      cost_ = cost, tiles_ = tiles, bytes_ = bytes, teams_ = kAll;
    }
  }

  static std::size_t data_steps(std::size_t d) { return d <= 16 ? 1 : d <= 32 ? 2 : 4; }
  static std::size_t steps(std::size_t d) {
    return data_steps(d) + (d + 4 > data_steps(d) * kStep ? 1 : 0);
  }
  static std::size_t shared_bytes(std::size_t d, std::size_t tiles, std::size_t columns,
                                  std::size_t teams) {
    return 1024 + tiles * steps(d) * columns * kStep * sizeof(__half) + teams * sizeof(Team<T>);
  }

  void (*kernel_)(const PackedTask<T>) = nullptr;
  std::size_t bytes_ = 0;
  unsigned teams_ = 0, tiles_ = 0, cost_ = 0, blocks_ = 0, of_block_ = 0;
  DeviceBuffer<uint2> d_doubtful_;
};

template <typename T>
using PackedRun = LargeK<PackedSweep<T>>;

const Registration
    registration({.name = "kmeans_cuda_packed",
                  .idea = "scores in pairs of float16 stay in registers",
                  .source = "kmeans_cuda_certified, with all of a pass in one kernel",
                  .device = Device::gpu,
                  .multiplier = Multiplier::tensor_f16,
                  .max_d = 64,
                  .previous = "kmeans_cuda_certified"},
                 both_precisions<PackedRun>());

} // namespace
} // namespace clusterbench
