// K-means for 65 to some thousand clusters of few features: pairs of float16 scores in registers.
//
// Idea: tensor cores make whole scores, scaled so that float16 holds them, two in a register. The
//   least of three chains of a lane's scores, and of every three of them, are tested: which may be
//   the row's least? One chain and one three pass for nearly all rows: they name the label.
// Changed since kmeans_cuda_certified: one kernel does all of a pass but the means, and, in first
//   passes, moving rows. Centroids stay in shared memory. Rows come to registers, in the order of
//   operands. Those with several candidates are multiplied again at the end of a block.
// Source: kmeans_cuda_certified; docs/certified_variants.md has the proof for packed scores.
// Cost per iteration: 12 bytes of a point and 32, 64 or 128 for up to 16, 32 or 64 features,
//   2 n k (d + 16) flops, 0.9 instructions a score where tensor cores round (d <= 28; 32 with many
//   clusters), else 1.4.
// Limits: d <= 64; what shared memory holds of the centroids (k = 6000 at d = 8, 1280 at 64); n
//   below 2^31; compute capability 9.0. Deterministic.
// Needs: sm_90a
#include "impls/cuda/many_clusters/folded_bounds.hpp"
#include "impls/cuda/many_clusters/half_copy.cuh"
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
constexpr unsigned kNarrow = 104;  ///< columns of a tile, or twice as many; or of kHalfTileRows
constexpr unsigned kPairs = 512;   ///< candidates of a team's 64 rows, or of fewer
constexpr unsigned kLeastRows = 4; ///< that are listed at a time, whatever they need
constexpr unsigned kMovers = 256;  ///< of a team's ring: up to 127 wait, and a piece adds up to 64

/// What a team shares.
template <typename T>
struct Team {
  unsigned long long movers[kMovers]; ///< rows that change their cluster, see mover(): a ring
  unsigned moving;                    ///< so far
  unsigned listed;                    ///< more than kPairs: all centroids are candidates
  // About up to 64 rows with several candidates:
  unsigned long long nearest[kRankedInOne<T> ? kTeamRows : 2 * kTeamRows]; ///< see FlaggedView
  unsigned rows[kTeamRows];
  unsigned pairs[kPairs]; ///< which of the rows << 16 | centroid
};

template <typename T>
struct PackedTask {
  SweepTask<T> sweep;
  OperandRows rows;
  SumsView sums;
  uint2* doubtful; ///< [blocks, of_block] a row, and the limit of its candidates
  unsigned of_block;
  unsigned tiles; ///< of centroids
  bool moves;     ///< else the sums are left alone
};

__device__ unsigned two_halves(__half low, __half high) {
  return static_cast<unsigned>(__half_as_ushort(low)) |
         static_cast<unsigned>(__half_as_ushort(high)) << 16;
}

/// The kernel for a shape: kData steps of 16 features are the data's; kBeside: one more has the
/// parts of |c|^2 / 2, which else are in the last four of the data's. Centroids come in tiles of
/// kColumns.
template <unsigned kDataSteps, bool kBeside, unsigned kTileColumns>
struct PackedShape {
  static constexpr unsigned kData = kDataSteps, kSteps = kData + kBeside, kColumns = kTileColumns;
  static constexpr unsigned kScores = kColumns / 8; ///< pairs of a row and lane
  static constexpr unsigned kAll = kTeams<kSteps, kColumns>;
  static constexpr bool kRounded = kRounds<kSteps, kColumns>; ///< by the tensor cores
};

/// What a lane has of two rows that it shares with three others. And what it knows of one of them,
/// its own: an even lane of the first.
template <unsigned kData>
struct RowPair {
  uint4 words[kData];
  float2 bound;
  std::int32_t label;

  /// Of kWarpRows from row block * kWarpRows on. Behind n nothing is to be used. labels: [n]
  __device__ void fetch(const OperandRows& rows, const std::int32_t* labels, unsigned n,
                        unsigned block, unsigned lane) {
#pragma unroll
    for (unsigned step = 0; step < kData; ++step) {
      words[step] = rows.words[(std::size_t{block} * kData + step) * 32 + lane];
    }
    const unsigned own = min(block * kWarpRows + lane / 4 + lane % 2 * 8, n - 1);
    bound = rows.bounds[own];
    label = labels[own];
  }
  /// Any two rows.
  __device__ void gather(const OperandRows& rows, const std::int32_t* labels,
                         const unsigned (&pair)[2], unsigned lane) {
#pragma unroll
    for (unsigned step = 0; step < kData; ++step) {
      unsigned word[4];
#pragma unroll
      for (unsigned e = 0; e < 4; ++e) {
        const unsigned row = pair[e % 2], of_lane = row % 8 * 4 + lane % 4;
        const std::size_t four = (std::size_t{row / kWarpRows} * kData + step) * 32 + of_lane;
        word[e] = reinterpret_cast<const unsigned*>(rows.words + four)[row / 8 % 2 + e / 2 * 2];
      }
      words[step] = {word[0], word[1], word[2], word[3]};
    }
    bound = rows.bounds[pair[lane % 2]];
    label = labels[pair[lane % 2]];
  }
};

/// Two rows as operands of the products, and what the lane's own adds to the limit of candidates.
/// The last four features of the last step of kSteps are row_tail(): where that step is one of the
/// data's, the copy of the rows has them.
template <unsigned kSteps>
struct PairOperands {
  unsigned words[kSteps][4];
  float margin; ///< of the least score and of another one together

  template <unsigned kData>
  __device__ PairOperands(const RowPair<kData>& rows, const PackedError& margins, unsigned lane) {
    margin = margins.of(rows.bound.x, rows.bound.y);
#pragma unroll
    for (unsigned step = 0; step < kData; ++step) {
      words[step][0] = rows.words[step].x;
      words[step][1] = rows.words[step].y;
      words[step][2] = rows.words[step].z;
      words[step][3] = rows.words[step].w;
    }
    if constexpr (kSteps > kData) {
      const uint2 own = row_tail(rows.bound.y);
      const unsigned other = __shfl_xor_sync(0xffffffffu, own.y, 1);
      const bool its = lane % 4 == 3; // an odd lane's own row is the second
      words[kData][0] = words[kData][1] = its ? own.x : 0;
      words[kData][2] = its ? other : 0;
      words[kData][3] = its ? own.y : 0;
    }
#pragma unroll
    for (auto& of_step : words) {
#pragma unroll
      for (unsigned& word : of_step) {
        asm volatile("mov.b32 %0, %0;" : "+r"(word)); // not made again
      }
    }
  }
};

/// What the scores tell of a lane's own row.
struct Finding {
  unsigned limit;     ///< of its candidates, as float16
  bool alone;         ///< whether there is one
  unsigned candidate; ///< that one
};

/// Looks at all centroids. fetch_next() is called where loads of the next rows are best sent.
template <typename S, typename Fetch>
__device__ Finding find_candidates(const PairOperands<S::kSteps>& rows, std::uint64_t columns,
                                   unsigned tiles, unsigned lane, const Fetch& fetch_next) {
  using OfRow = Minima<S::kScores>;
  // To the nearest: 2^-11 of a score. Of the tensor cores only an ulp is assumed.
  constexpr float kRounding = S::kRounded ? 0x1p-10f : 0x1p-11f;
  const unsigned side = lane % 2, own_half = side == 0 ? 0x4410 : 0x4432;
  const unsigned own_lane = OfRow::lane_bit(lane % 4);
  unsigned best = 0x7fff7fffu, limit = 0; // the least scores of both rows; the own row's limit
  unsigned passed[2] = {0, 0}, tile_of[2] = {0, 0}; // of both rows: a word of OfRow, see below
  if constexpr (S::kRounded) {
    __syncwarp(); // before it the last rows leave their registers; else what comes would be copied
    fetch_next();
  }
#pragma unroll 1
  for (unsigned tile = 0; tile < tiles; ++tile) {
    unsigned scores[2][S::kScores];
    multiply_tile<S::kSteps, S::kColumns>(
        scores, rows.words, columns + tile * S::kSteps * (S::kColumns * kStep * 2 / 16));
    if (!S::kRounded && tile + 1 == tiles) { // before, registers would not suffice
      fetch_next();
    }
    const OfRow of_row[2] = {OfRow(scores[0]), OfRow(scores[1])};
    const unsigned least[2] = {of_row[0].least(), of_row[1].least()};
    unsigned both =
        __vmins2(__byte_perm(least[0], least[1], 0x5410), __byte_perm(least[0], least[1], 0x7632));
    both = __vmaxs2(both, 0); // a zero has no sign
    both = __vmins2(both, __shfl_xor_sync(0xffffffffu, both, 1));
    both = __vmins2(both, __shfl_xor_sync(0xffffffffu, both, 2));
    const unsigned best_before = __byte_perm(best, 0, own_half);
    best = __vmins2(best, both);
    // No more than this, rounded upwards: the score of the nearest centroid, rounded.
    const unsigned own_best = __byte_perm(best, 0, own_half);
    const float most = fmaf(__half2float(__ushort_as_half(static_cast<unsigned short>(own_best))),
                            1.0f + kRounding + 0x1p-20f, rows.margin);
    limit = max(static_cast<unsigned>(__half_as_ushort(__float2half_ru(most))), kLeastLimit);
    const unsigned own = limit | (best_before > limit ? 0x8000u : 0u); // no candidate before it
    const unsigned other = __shfl_xor_sync(0xffffffffu, own, 1);
    const unsigned limits = __byte_perm(own, other, side == 0 ? 0x5410 : 0x1054);
    const LimitTest test(limits & 0x7fff7fffu);
    const unsigned passing[2] = {of_row[0].template mask<0>(test),
                                 of_row[1].template mask<1>(test)};
#pragma unroll
    for (unsigned p = 0; p < 2; ++p) {
      const unsigned before = (limits & 0x8000u << p * 16) != 0 ? 0 : passed[p];
      const unsigned now = before != 0 ? ~0u : passing[p] | own_lane; // of two tiles: several
      passed[p] = passing[p] != 0 ? now : before;
      tile_of[p] = passing[p] != 0 ? tile : tile_of[p];
    }
  }
  // Of all lanes of a row, an even lane of the first. In a single one a chain and a three have
  // passed if there is one candidate; together with the lane's bit these are three bits.
  const auto of_all = [&](const unsigned(&words)[2]) {
    unsigned all = side == 0 ? words[0] : words[1];
    all |= __shfl_xor_sync(0xffffffffu, side == 0 ? words[1] : words[0], 1);
    return all | __shfl_xor_sync(0xffffffffu, all, 2);
  };
  const unsigned all = of_all(passed);
  unsigned candidate = OfRow::column(all);
  if (tiles > 1) {
    const unsigned its[2] = {passed[0] != 0 ? tile_of[0] : 0, passed[1] != 0 ? tile_of[1] : 0};
    candidate += of_all(its) * S::kColumns;
  }
  return {limit, __popc(static_cast<int>(all)) == 3, candidate};
}

/// Lists the candidates of a team's rows by the limits that the first look has given them.
/// own_limit: of the lane's own row, 0 if there is none; first_row: of its two, among the team's.
template <typename S, typename T>
__device__ void list_candidates(const PairOperands<S::kSteps>& rows, std::uint64_t columns,
                                unsigned tiles, unsigned lane, unsigned own_limit,
                                unsigned first_row, Team<T>& of_team) {
  constexpr unsigned kFirst = S::kScores < 16 ? S::kScores : 16; // pairs that make a mask
  const unsigned other = __shfl_xor_sync(0xffffffffu, own_limit, 1);
  const unsigned limits[2] = {lane % 2 == 0 ? own_limit : other, lane % 2 == 0 ? other : own_limit};
  const LimitTest test(limits[0] | limits[1] << 16);
#pragma unroll 1
  for (unsigned tile = 0; tile < tiles; ++tile) {
    unsigned scores[2][S::kScores], masks[2][2] = {};
    multiply_tile<S::kSteps, S::kColumns>(
        scores, rows.words, columns + tile * S::kSteps * (S::kColumns * kStep * 2 / 16));
    masks[0][0] = test.mask<0, kFirst>(scores[0]);
    masks[1][0] = test.mask<1, kFirst>(scores[1]);
    if constexpr (S::kScores > kFirst) { // of the columns behind the first 128
      masks[0][1] = test.mask<0, S::kScores - kFirst>(scores[0] + kFirst);
      masks[1][1] = test.mask<1, S::kScores - kFirst>(scores[1] + kFirst);
    }
#pragma unroll
    for (unsigned p = 0; p < 2; ++p) {
      unsigned column = tile * S::kColumns; // the first of a mask
#pragma unroll 1
      for (unsigned half = 0; half < 2; ++half, column += 128) {
        const unsigned its = half == 0 ? masks[p][0] : masks[p][1];
        for (unsigned mask = limits[p] != 0 ? its : 0; mask != 0; mask &= mask - 1) {
          const unsigned bit = static_cast<unsigned>(__ffs(static_cast<int>(mask))) - 1;
          const unsigned place = atomicAdd(&of_team.listed, 1u);
          if (place < kPairs) {
            of_team.pairs[place] = (first_row + p * 8) << 16 | (column + column_of(bit, lane % 4));
          }
        }
      }
    }
  }
}

/// Writes the centroids as operands: [tiles][kSteps][kColumns][kStep], 32-byte swizzle, negative
/// and scaled by 2^-15, with features in the order of first_feature(). The last four of the last
/// step make |c'|^2 / 2 in two parts, the row's constant, and what is too far of centroids that do
/// not exist.
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

/// A pass but for the means: labels, and the sums that follow from them. Dynamic shared memory: the
/// columns, then Team of each team.
template <typename S, typename T>
__global__ void __launch_bounds__(S::kAll * 128, 1) sweep_packed(const PackedTask<T> task) {
  constexpr unsigned kSteps = S::kSteps, kColumns = S::kColumns, kAll = S::kAll;
  extern __shared__ unsigned char s_dynamic[];
  __shared__ unsigned s_doubtful;
  const PointsView<T>& points = task.sweep.points;
  const unsigned k = task.sweep.centroids.k, tiles = task.tiles;
  __half* s_columns =
      reinterpret_cast<__half*>(s_dynamic + (1024 - shared_address(s_dynamic) % 1024) % 1024);
  Team<T>* s_teams = reinterpret_cast<Team<T>*>(s_columns + tiles * kSteps * kColumns * kStep);
  const unsigned lane = threadIdx.x % 32, quarter = lane % 4, side = lane % 2;
  const unsigned warp = __shfl_sync(0xffffffffu, threadIdx.x / 32, 0), team = warp / 4;
  let_next_kernel_begin();
  if (threadIdx.x % 128 == 0) {
    s_teams[team].moving = 0;
  }
  if (threadIdx.x == 0) {
    s_doubtful = 0;
  }
  wait_for_kernels_before();
  if (threadIdx.x == 0 && blockIdx.x == 0) {
    *task.sweep.next = {};
  }
  const unsigned n = static_cast<unsigned>(points.n), pieces = (n + kTeamRows - 1) / kTeamRows;
  const unsigned first_row = warp % 4 * kWarpRows + lane / 4; // of a piece; and 8 further on
  const unsigned own_row = first_row + side * 8;
  unsigned piece = team * gridDim.x + blockIdx.x;
  RowPair<S::kData> next;
  const auto fetch_next = [&] { // the last one again where there is none
    next.fetch(task.rows, task.sweep.labels, n, min(piece, pieces - 1) * 4 + warp % 4, lane);
  };
  fetch_next();
  write_columns<S::kData, kSteps, kColumns>(task.sweep.centroids, tiles, s_columns);
  fence_proxy_async();
  __syncthreads(); // the columns are complete

  Team<T>& of_team = s_teams[team];
  uint2* doubtful = task.doubtful + std::size_t{blockIdx.x} * task.of_block;
  const std::uint64_t columns = describe<kStep>(s_columns);
  const PackedError margins =
      PackedError(task.sweep.counters->largest(), kSteps * kStep, S::kRounded ? kSteps - 1 : 0)
          .times(2.0f * 0x1p-15f * kUpwards, 0x1p-23f);
  const SumsView own_sums = copy_of(task.sums, blockIdx.x * kAll + team, k, points.d);
  unsigned settled = 0;                             // of the team's movers
  unsigned first = 0, end = 0, at_once = kTeamRows; // of the team's doubtful rows
  bool again = false, done = false;                 // with doubtful rows, then without any
#pragma unroll 1
  while (!done) {
    unsigned row = 0, label = 0; // the lane's own
    bool known = false;          // this lane has a row and its label
    std::int32_t label_before = 0;
    if (piece < pieces) {
      row = piece * kTeamRows + own_row;
      label_before = next.label;
      const PairOperands<kSteps> operands(next, margins, lane);
      piece += gridDim.x * kAll;
      const Finding found = find_candidates<S>(operands, columns, tiles, lane, fetch_next);
      const bool its = quarter < 2 && row < n, certain = found.alone && found.limit < kHalfInfinity;
      if (const unsigned doubting = __ballot_sync(0xffffffffu, its && !certain); doubting != 0) {
        const unsigned place = take_place_among(doubting, &s_doubtful);
        if (its && !certain) {
          doubtful[place] = {row, found.limit};
        }
      }
      known = its && certain;
      label = found.candidate;
    } else {
      if (!again) {
        __syncthreads(); // all doubtful rows are there
        again = true;
        const unsigned share = (s_doubtful + kAll - 1) / kAll;
        first = team * share;
        end = min(first + share, s_doubtful);
      }
      done = first >= end;
      if (!done) { // rows with several candidates
        if (threadIdx.x % 128 == 0) {
          of_team.listed = 0;
        }
        team_barrier(team); // the last rows are done with, the list is empty
        const unsigned rows = min(end - first, at_once);
        const uint2 entry = doubtful[min(first + own_row, end - 1)];
        const unsigned own_limit = own_row < rows ? entry.y : 0;
        row = entry.x;
        known = quarter < 2 && own_row < rows;
        if (quarter < 2) {
          of_team.rows[own_row] = row;
          of_team.nearest[own_row] = ~0ull;
          if constexpr (!kRankedInOne<T>) {
            of_team.nearest[kTeamRows + own_row] = ~0ull;
          }
        }
        const unsigned other = __shfl_xor_sync(0xffffffffu, row, 1);
        RowPair<S::kData> pair;
        pair.gather(task.rows, task.sweep.labels,
                    {side == 0 ? row : other, side == 0 ? other : row}, lane);
        label_before = pair.label;
        if (own_limit >= kHalfInfinity) {
          of_team.listed = kPairs + 1;
        }
        const PairOperands<kSteps> operands(pair, margins, lane);
        list_candidates<S>(operands, columns, tiles, lane, own_limit, first_row, of_team);
        team_barrier(team); // the candidates of all warps are listed
        const unsigned listed = of_team.listed;
        if (listed > kPairs && at_once > kLeastRows) { // the same with fewer rows
          at_once /= 4;
          team_barrier(team); // all have read it
          continue;
        }
        const unsigned pairs = listed > kPairs ? rows * k : listed;
        compare_pairs<S::kData * kStep, false>(task.sweep, of_team, pairs, listed > kPairs);
        if constexpr (!kRankedInOne<T>) {
          team_barrier(team); // the least distances are there
          compare_pairs<S::kData * kStep, true>(task.sweep, of_team, pairs, listed > kPairs);
        }
        if (threadIdx.x % 128 == 0) {
          atomicAdd(&task.sweep.counters->pairs, static_cast<unsigned long long>(pairs));
        }
        team_barrier(team); // all of them are compared
        const unsigned at = (kRankedInOne<T> ? 0 : kTeamRows) + own_row;
        label = known ? static_cast<unsigned>(of_team.nearest[at]) : 0;
        first += rows;
      }
    }
    const bool moves = known && static_cast<std::int32_t>(label) != label_before;
    if (const unsigned moving = __ballot_sync(0xffffffffu, moves); moving != 0) {
      const unsigned place = take_place_among(moving, &of_team.moving);
      if (moves) {
        task.sweep.labels[row] = static_cast<std::int32_t>(label);
        of_team.movers[place % kMovers] = mover(row, label_before, label);
      }
    }
    // The movers of all warps are there. None adds more before it has multiplied again, and the
    // four warps of a team leave a product together, which was measured (docs/notes/packed.md).
    team_barrier(team);
    // A warp takes 32 of them, once all four have some; or when only doubtful rows may add more,
    // which with many features costs more than it saves; or the rest in the end.
    const unsigned waiting = of_team.moving - settled;
    const bool ends = S::kData < 4 && piece >= pieces;
    if (waiting >= (done ? 1 : ends ? 32 : 128)) {
      const unsigned count = min(waiting, 128);
      const unsigned its = warp % 4 * 32 + lane;
      if (warp % 4 * 32 < count && task.moves) {
        move_rows(points, own_sums, its < count ? of_team.movers[(settled + its) % kMovers] : 0);
      }
      settled += count;
    }
  }
  const unsigned moved = settled, doubtful_rows = s_doubtful;
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
    return (shape.n + multiprocessors() * kMostTeams * kTeamRows) * sizeof(uint2) +
           words_of(shape.n, shape.d) * sizeof(uint4) + shape.n * sizeof(float2);
  }
  /// Of the sums, like copies_of_sums(), but for rows that are moved while others are compared. How
  /// many are best was measured (docs/notes/copies_of_sums.md).
  static unsigned copies(const Shape& shape) {
    constexpr std::size_t kValues = std::size_t{1} << 16, kMany = std::size_t{1} << 22;
    const std::size_t most = shape.n >= kMany ? 64 : 32;
    return static_cast<unsigned>(
        std::bit_floor(std::clamp<std::size_t>(kValues / (shape.k * shape.d), 1, most)));
  }

  /// Atomic additions for all rows, and for a third of them, take longer than a kernel that orders
  /// them, but that one reads the labels of all rows, and the rows once more. As it was measured.
  static std::size_t passes_apart(const Shape& shape) {
    return shape.d <= 12 ? 0 : shape.d <= 16 ? 2 : shape.d <= 32 || shape.k > 256 ? 4 : 8;
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
    d_words_ = DeviceBuffer<uint4>(words_of(task.points.n, d));
    d_bounds_ = DeviceBuffer<float2>(task.points.n);
  }
  void follow(const SweepTask<T>& task) {
    const unsigned data = data_steps(task.points.d);
    const auto kernel = data == 1   ? arrange_rows<1, T>
                        : data == 2 ? arrange_rows<2, T>
                                    : arrange_rows<4, T>;
    kernel<<<blocks_at_most(d_words_.size(), 256, 8192), 256>>>(
        task.points, d_words_.size() / (data * 32), steps(task.points.d) == data, d_words_.data(),
        d_bounds_.data());
    check_launch("arrange_rows");
  }
  void launch(const SweepTask<T>& task, const SumsView& sums, bool moves) {
    launch_of_pass("sweep_packed", kernel_, {blocks_, teams_ * 128, bytes_}, task.overlaps,
                   PackedTask<T>{task, rows(), sums, d_doubtful_.data(), of_block_, tiles_, moves});
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
      kernel_ = sweep_packed<PackedShape<kData, kBeside, kColumns>, T>;
      cost_ = cost, tiles_ = tiles, bytes_ = bytes, teams_ = kAll;
    }
  }

  static unsigned data_steps(std::size_t d) { return d <= 16 ? 1 : d <= 32 ? 2 : 4; }
  /// Of OperandRows, for whole pieces.
  static std::size_t words_of(std::size_t n, std::size_t d) {
    return ceil_div(n, kTeamRows) * (kTeamRows / kWarpRows) * data_steps(d) * 32;
  }
  OperandRows rows() const { return {d_words_.data(), d_bounds_.data()}; }
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
  DeviceBuffer<uint4> d_words_;
  DeviceBuffer<float2> d_bounds_;
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
