// The first sweep of whole scores in which groups of 16 centroids compete; and a second one, of the
// rows that it leaves undecided.
#pragma once

#include "impls/cuda/common/copies.cuh"
#include "impls/cuda/common/runtime.hpp"
#include "impls/cuda/many_clusters/folded_bounds.hpp"
#include "impls/cuda/many_clusters/half_copy.cuh"
#include "impls/cuda/many_clusters/tensor_tiles.cuh"
#include "impls/cuda/many_clusters/wgmma_sweep.cuh"

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cuda_fp16.h>

namespace clusterbench::cuda {

/// Of a tile's 128 centroids, eight groups of 16 neighbours: a lane has the scores of two of them,
/// of either row. Which column of the tile is centroid r of it.
inline constexpr unsigned kGroup = 16, kQuarters = 4; ///< lanes that share a row
__device__ inline unsigned column_of(unsigned r) {
  const unsigned half = r / 64, quarter = r % 64 / kGroup, in_group = r % kGroup;
  return half * 64 + in_group / 2 * 8 + quarter * 2 + in_group % 2;
}

// ---- the sweep
//
// Four warpgroups have 64 points each, one thread copies centroids for all of them, some tiles at a
// time. A warpgroup asks for the next products as soon as it has the least score of each group.

inline constexpr unsigned kSweepTeams = 4;               ///< warpgroups that compare
inline constexpr unsigned kSweepRows = kSweepTeams * 64; ///< points of a block
inline constexpr unsigned kRingStages = 8;
inline constexpr unsigned kRingStage = 64 * kHalfTileRows; ///< halves of one
inline constexpr unsigned kNoGroup = ~0u;

/// What was added to all scores of a row of this norm.
__device__ inline float constant_in_scores(float norm) {
  return __half2float(row_constant(norm)) * 0x1p15f;
}

/// The e-th of the 16 scores that a lane has of group `half` and of row p. sums: a tile's scores.
__device__ inline int score_of(const float (&sums)[64], unsigned half, unsigned p, unsigned e) {
  return __float_as_int(sums[(half * 8 + e / 2) * 4 + p * 2 + e % 2]);
}

/// Groups of 16 scores compete, as integers: numbers that are not negative have the order of their
/// bits, and between negative ones no gap is claimed. Half an operation a score. The low bits of a
/// group's least score give way to its number.
class LeastGroups {
public:
  __device__ explicit LeastGroups(unsigned index_bits) {
    // From a register of the lane, one instruction makes a score with a number.
    asm volatile("mov.b32 %0, %1;" : "=r"(keep_) : "r"(~0u << index_bits));
    best_[0] = best_[1] = second_[0] = second_[1] = kNone & static_cast<int>(keep_);
  }

  /// The least score of both groups of both rows. sums: a tile's scores.
  __device__ void collapse(const float (&sums)[64]) {
#pragma unroll
    for (unsigned half = 0; half < 2; ++half) {
#pragma unroll
      for (unsigned p = 0; p < 2; ++p) {
        int all[5];
#pragma unroll
        for (unsigned e = 0; e < 5; ++e) {
          all[e] = __vimin3_s32(score_of(sums, half, p, e * 3), score_of(sums, half, p, e * 3 + 1),
                                score_of(sums, half, p, e * 3 + 2));
        }
        const int some = __vimin3_s32(all[0], all[1], score_of(sums, half, p, 15));
        least_[half][p] = min(__vimin3_s32(all[2], all[3], all[4]), some);
        asm volatile("" : "+r"(least_[half][p])::"memory"); // before the next products
      }
    }
  }
  /// They compete with the groups of other tiles.
  __device__ void compete(unsigned tile) {
#pragma unroll
    for (unsigned half = 0; half < 2; ++half) {
#pragma unroll
      for (unsigned p = 0; p < 2; ++p) {
        const unsigned kept = static_cast<unsigned>(least_[half][p]) & keep_;
        const int value = static_cast<int>(kept | (tile * 2 + half));
        second_[p] = min(second_[p], max(best_[p], value));
        best_[p] = min(best_[p], value);
      }
    }
  }

  /// A bit for each of a group's scores in the last tile: whether it is no more than `limit`.
  __device__ unsigned within(const float (&sums)[64], unsigned half, unsigned p, int limit) const {
    unsigned mask = 0;
    if (least_[half][p] <= limit) { // rare
#pragma unroll
      for (unsigned e = 0; e < kGroup; ++e) {
        mask |= score_of(sums, half, p, e) <= limit ? 1u << e : 0u;
      }
    }
    return mask;
  }

  /// Of row p, over its four lanes.
  __device__ float least(unsigned p) const {
    int least = best_[p];
    for (int offset = 1; offset < 4; offset *= 2) {
      least = min(least, __shfl_xor_sync(kAllLanes, least, offset));
    }
    return __int_as_float(least);
  }
  /// Whether this lane's best group may hold the nearest centroid of row p; and whether one that it
  /// has forgotten may. gap: what proves that it does not. True for NaN, too.
  __device__ bool may_hold(unsigned p, float least, float gap) const {
    return !(__int_as_float(best_[p]) - least > gap);
  }
  __device__ bool has_forgotten(unsigned p, float least, float gap) const {
    return !(__int_as_float(second_[p]) - least > gap);
  }
  /// The best group of row p of another lane of the four, among all groups. All lanes must call it.
  __device__ unsigned group_of(unsigned p, unsigned quarter) const {
    const int its = __shfl_sync(kAllLanes, best_[p], static_cast<int>(quarter), kQuarters);
    return (static_cast<unsigned>(its) & ~keep_) * kQuarters + quarter;
  }

private:
  static constexpr int kNone = std::bit_cast<int>(kFarAway); ///< beside the number of a group

  unsigned keep_;
  int least_[2][2];
  int best_[2], second_[2];
};

struct GroupsTask {
  SweepTask<> sweep;   ///< with folded points and centroids; labels become groups, or kNoGroup
  uint4* several;      ///< [n] of rows with kNoGroup: up to four groups
  unsigned index_bits; ///< low bits of a score that hold the number of a lane's group
};

/// Decides on the rows `row` of all lanes, of which two of the four lanes that share two have one
/// each: its group, or several, each the best one of a lane. A row is undecided if others might
/// hold the nearest centroid, too. All lanes of the warp must call it.
template <typename Undecided>
__device__ void decide(const GroupsTask& task, const LeastGroups& groups, std::size_t row,
                       float residual, float norm, const ScoreError& largest,
                       Undecided& undecided) {
  const unsigned lane = threadIdx.x % 32, quarter = lane % kQuarters;
  const bool has_row = quarter < 2 && row < task.sweep.points.n;
  const float constant = constant_in_scores(norm);
  const float error = folded_error(largest, residual, norm, constant,
                                   task.sweep.points.shape.steps * 16, task.index_bits);
  const float gap = 2.0f * error * kUpwards;
  const float least[2] = {groups.least(0), groups.least(1)};
  unsigned may_hold[2], has_forgotten[2]; // a bit a lane
#pragma unroll
  for (unsigned p = 0; p < 2; ++p) {
    const float its_gap = __shfl_sync(kAllLanes, gap, static_cast<int>(p), kQuarters);
    may_hold[p] = __ballot_sync(kAllLanes, groups.may_hold(p, least[p], its_gap));
    has_forgotten[p] = __ballot_sync(kAllLanes, groups.has_forgotten(p, least[p], its_gap));
  }
  const auto of_own = [&](auto first, auto second) { return quarter % 2 == 0 ? first : second; };
  const unsigned shift = lane - quarter;
  const unsigned holders = of_own(may_hold[0], may_hold[1]) >> shift & 0xfu;
  const bool several = (holders & (holders - 1)) != 0;
  const unsigned first = static_cast<unsigned>(__ffs(static_cast<int>(holders))) - 1;
  const unsigned group = of_own(groups.group_of(0, first), groups.group_of(1, first));
  if (has_row) {
    task.sweep.labels[row] = static_cast<std::int32_t>(several ? kNoGroup : group);
  }
  if (__any_sync(kAllLanes, has_row && several)) {
    unsigned all[kQuarters];
#pragma unroll
    for (unsigned q = 0; q < kQuarters; ++q) {
      const unsigned its = of_own(groups.group_of(0, q), groups.group_of(1, q));
      all[q] = (holders >> q & 1) != 0 ? its : kNoGroup;
    }
    if (has_row && several) {
      task.several[row] = {all[0], all[1], all[2], all[3]};
    }
  }
  const bool doubts = (of_own(has_forgotten[0], has_forgotten[1]) >> shift & 0xfu) != 0;
  const float score = __fadd_ru(of_own(least[0], least[1]), -constant);
  undecided.add(has_row && doubts, static_cast<unsigned>(row),
                __fadd_ru(score, __fmul_ru(error, kUpwards)));
}

/// Tiles of centroids on their way to shared memory, a stage at a time; the same order of calls in
/// the thread that copies and in the warps that compare.
template <unsigned kWidth>
class CentroidRing {
public:
  static constexpr unsigned kTile = kHalfTileRows * kWidth; ///< halves
  static constexpr unsigned kTiles = kRingStage / kTile;    ///< of a stage

  __device__ CentroidRing(const Barrier* s_barriers, __half* s_stages)
      : s_stages_(s_stages), columns_(describe<kWidth>(s_stages)) {
    asm volatile("mov.b32 %0, %1;" : "=r"(full_) : "r"(shared_address(s_barriers))); // found once
  }
  /// One thread; a barrier of the block must follow.
  __device__ void start() const {
    for (unsigned e = 0; e < kRingStages; ++e) {
      start_barrier(full_ + 8 * e, 1);
      start_barrier(free() + 8 * e, kSweepTeams * 4);
    }
  }
  /// The thread that copies, for a turn of the warps from tile `first` to `end`.
  __device__ void copy(const __half* tiles, unsigned first, unsigned end) {
#pragma unroll 1
    for (; first < end; first += kTiles, stage_.next(kRingStages)) {
      const unsigned bytes = min(kTiles, end - first) * kTile * 2, full = full_ + 8 * stage_.place;
      wait(free() + 8 * stage_.place, stage_.parity ^ 1); // passes at once the first time
      expect(full, bytes);
      copy_bulk(s_stages_ + stage_.place * kRingStage, tiles + std::size_t{first} * kTile, bytes,
                full);
    }
  }
  __device__ void wait_for_stage() {
    wait(full_ + 8 * stage_.place, stage_.parity);
    tile_ = 0;
  }
  /// The tile is multiplied. Goes on to the next one, and waits for it if it is in a stage of its
  /// own.
  __device__ void next_tile() {
    if (++tile_ == kTiles) {
      leave_stage();
      wait_for_stage();
    }
  }
  /// Behind the last tile of a turn.
  __device__ void leave_stage() {
    if (threadIdx.x % 32 == 0) {
      arrive(free() + 8 * stage_.place);
    }
    stage_.next(kRingStages);
  }
  __device__ std::uint64_t columns() const { ///< of the tile
    return columns_ + (stage_.place * kTiles + tile_) * (kTile * 2 / 16);
  }

private:
  __device__ unsigned free() const {
    return full_ + 8 * kRingStages;
  }

  __half* s_stages_;
  std::uint64_t columns_;
  unsigned full_; ///< addresses of barriers: [kRingStages], then those of free stages
  unsigned tile_ = 0;
  StageCounter stage_;
};

/// Asks for the scores of a warpgroup's rows and a tile; and waits for them.
template <unsigned kSteps>
__device__ void multiply(float (&sums)[64], std::uint64_t rows, std::uint64_t columns) {
  wgmma_fence();
#pragma unroll
  for (unsigned step = 0; step < kSteps; ++step) {
    multiply_add(sums, rows + step * 2, columns + step * 2, step > 0);
  }
  wgmma_commit_group();
}
__device__ inline void finish(float (&sums)[64]) {
  wgmma_wait_group<0>();
#pragma unroll
  for (float& sum : sums) {
    asm volatile("" : "+f"(sum)::"memory"); // not read before
  }
}

/// Dynamic shared memory, with what the swizzle asks for: points [2][kSweepRows][kWidth], then
/// stages.
template <unsigned kWidth>
inline constexpr std::size_t
    kSweepBytes = (2 * kSweepRows * kWidth + kRingStages * kRingStage) * sizeof(__half) + 1024;

__device__ inline __half* aligned(unsigned char* s_dynamic) {
  return reinterpret_cast<__half*>(s_dynamic + (1024 - shared_address(s_dynamic) % 1024) % 1024);
}

/// Rows and centroids are of kWidth features, kSteps groups of 16 of which are not all padding.
template <unsigned kWidth, unsigned kSteps>
static __global__ void __launch_bounds__((kSweepTeams + 1) * 128, 1)
    sweep_groups(const GroupsTask task) {
  extern __shared__ unsigned char s_dynamic[];
  __shared__ Barrier s_barriers[2 * kRingStages], s_of_rows[4];
  __shared__ uint2 s_undecided[kSweepTeams * 4][kUndecidedRoom];
  constexpr unsigned kCopy = kSweepRows * kWidth;
  __half* s_rows = aligned(s_dynamic);
  CentroidRing<kWidth> ring(s_barriers, s_rows + 2 * kCopy);
  const unsigned rows_full = shared_address(s_of_rows), rows_free = rows_full + 16;
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const SweepTask<>& sweep = task.sweep;
  const unsigned tiles = sweep.centroids.tiles;
  const unsigned pieces = static_cast<unsigned>((sweep.points.n + kSweepRows - 1) / kSweepRows);

  if (threadIdx.x == 0) {
    for (unsigned e = 0; e < 2; ++e) {
      start_barrier(rows_full + 8 * e, 1);
      start_barrier(rows_free + 8 * e, kSweepTeams * 4);
    }
    ring.start();
    publish_barriers();
  }
  __syncthreads(); // no one waits at a barrier that was not started

  StageCounter copy;
  if (warp >= kSweepTeams * 4) { // the copying warpgroup
    give_registers<32>();
    if (threadIdx.x != kSweepTeams * 128) {
      return;
    }
#pragma unroll 1
    for (unsigned piece = blockIdx.x; piece < pieces; piece += gridDim.x, copy.next(2)) {
      wait(rows_free + 8 * copy.place, copy.parity ^ 1); // passes at once the first time
      expect(rows_full + 8 * copy.place, kCopy * 2);
      copy_bulk(s_rows + copy.place * kCopy, sweep.points.rounded + std::size_t{piece} * kCopy,
                kCopy * 2, rows_full + 8 * copy.place);
      ring.copy(sweep.centroids.rounded, 0, tiles);
    }
    return;
  }
  take_registers<112>();

  UndecidedRows undecided(s_undecided[warp], FlaggedRows<float>{sweep});
  const ScoreError largest = sweep.counters->largest();
  const std::uint64_t first_rows = describe<kWidth>(s_rows + warp / 4 * 64 * kWidth);
  float sums[64];
#pragma unroll 1
  for (unsigned piece = blockIdx.x; piece < pieces; piece += gridDim.x, copy.next(2)) {
    const std::size_t row =
        std::size_t{piece} * kSweepRows + warp * 16 + lane / kQuarters + lane % 2 * 8;
    const bool exists = row < sweep.points.n;
    const float residual = exists ? sweep.points.residual[row] : 0.0f;
    const float norm = exists ? sweep.points.norm[row] : 0.0f;
    const std::uint64_t rows = first_rows + copy.place * (kCopy * 2 / 16);
    LeastGroups groups(task.index_bits);
    wait(rows_full + 8 * copy.place, copy.parity);
    ring.wait_for_stage();
    multiply<kSteps>(sums, rows, ring.columns());
#pragma unroll 1
    for (unsigned tile = 1; tile < tiles; ++tile) {
      finish(sums);
      ring.next_tile();
      groups.collapse(sums);
      multiply<kSteps>(sums, rows, ring.columns());
      groups.compete(tile - 1);
    }
    finish(sums);
    ring.leave_stage();
    if (lane == 0) {
      arrive(rows_free + 8 * copy.place);
    }
    groups.collapse(sums);
    groups.compete(tiles - 1);
    decide(task, groups, row, residual, norm, largest, undecided);
  }
  undecided.list();
}

// ---- the undecided rows
//
// They are multiplied again, to list all centroids that may be the nearest.

/// What a warp has found, in shared memory until it is worth an atomic addition in memory.
class FoundPairs {
public:
  static constexpr unsigned kRoom = 64;
  struct Queue {
    unsigned count;
    uint2 pairs[kRoom]; ///< slots of undecided rows, and centroids
  };

  __device__ explicit FoundPairs(Queue& s_queue) : s_queue_(s_queue) {
    if (threadIdx.x % 32 == 0) {
      s_queue_.count = 0;
    }
    __syncwarp(); // it is empty
  }
  /// The centroids of a mask's bits: of the groups that begin with `base` and 64 further on.
  __device__ void add_all(const SweepTask<>& task, unsigned slot, unsigned base, unsigned mask) {
    for (; mask != 0; mask &= mask - 1) {
      const unsigned bit = static_cast<unsigned>(__ffs(static_cast<int>(mask))) - 1;
      const unsigned j = base + bit / kGroup * 64 + bit % kGroup;
      if (j < task.centroids.k) {
        const unsigned place = atomicAdd(&s_queue_.count, 1u);
        if (place < kRoom) {
          s_queue_.pairs[place] = {slot, j};
        } else { // straight to memory
          append(task, atomicAdd(&task.counters->pairs, 1ull), {slot, j});
        }
      }
    }
  }
  /// All lanes of the warp must call it.
  __device__ void list(const SweepTask<>& task) {
    __syncwarp(); // all pairs are there
    const unsigned lane = threadIdx.x % 32, count = min(s_queue_.count, kRoom);
    unsigned long long first = 0;
    if (lane == 0 && count > 0) {
      first = atomicAdd(&task.counters->pairs, static_cast<unsigned long long>(count));
    }
    first = __shfl_sync(kAllLanes, first, 0);
    for (unsigned e = lane; e < count; e += 32) {
      append(task, first + e, s_queue_.pairs[e]);
    }
    __syncwarp(); // all pairs are read
    if (lane == 0) {
      s_queue_.count = 0;
    }
    __syncwarp(); // it is empty
  }

private:
  __device__ static void append(const SweepTask<>& task, unsigned long long place, uint2 pair) {
    if (place < task.flagged.capacity) {
      task.flagged.pairs[place] = pair;
    } else {
      task.flagged.overflowed[pair.x] = true;
      task.counters->overflowed = 1;
    }
  }

  Queue& s_queue_;
};

/// Copies the folded rows of 64 slots to a warpgroup's place in shared memory; behind the last one
/// they are that one again.
template <unsigned kWidth>
__device__ void fetch_rows(const SweepTask<>& task, unsigned first_slot, unsigned flagged,
                           __half* s_rows) {
  constexpr unsigned kEights = kWidth / 8; // 16 bytes each
  for (unsigned e = threadIdx.x % 128; e < 64 * kEights; e += 128) {
    const unsigned r = e / kEights, eight = e % kEights;
    const unsigned row = task.flagged.rows[min(first_slot + r, flagged - 1)];
    const __half* from = task.points.rounded + std::size_t{row} * kWidth;
    *reinterpret_cast<uint4*>(s_rows + r * kWidth + HalfTiles::swizzled(kWidth, r, eight) * 8) =
        *reinterpret_cast<const uint4*>(from + HalfTiles::swizzled(kWidth, row, eight) * 8);
  }
  fence_proxy_async();
}

/// What no score of a candidate of an undecided row exceeds, as integers. What is not a number is
/// more than any; where scores are negative their order is reversed.
__device__ inline int limit_of(const SweepTask<>& task, const ScoreError& largest, unsigned slot,
                               unsigned products) {
  const unsigned row = task.flagged.rows[slot];
  const float norm = task.points.norm[row];
  const float constant = constant_in_scores(norm);
  const float error = folded_error(largest, task.points.residual[row], norm, constant, products, 0);
  const float most = __fadd_ru(task.flagged.thresholds[slot], constant);
  return max(__float_as_int(__fadd_ru(most, __fmul_ru(error, kUpwards))), 0);
}

/// As find_candidates(): blocks take kSweepRows of the rows and a part of the centroids.
template <unsigned kWidth, unsigned kSteps>
static __global__ void __launch_bounds__((kSweepTeams + 1) * 128, 1)
    list_candidates(const GroupsTask task) {
  extern __shared__ unsigned char s_dynamic[];
  __shared__ Barrier s_barriers[2 * kRingStages];
  __shared__ FoundPairs::Queue s_found[kSweepTeams * 4];
  __half* s_rows = aligned(s_dynamic);
  CentroidRing<kWidth> ring(s_barriers, s_rows + 2 * kSweepRows * kWidth);
  const SweepTask<>& sweep = task.sweep;
  const unsigned flagged = sweep.counters->flagged, tiles = sweep.centroids.tiles;
  const unsigned pieces = (flagged + kSweepRows - 1) / kSweepRows;
  if (pieces == 0) {
    return;
  }
  const unsigned parts = min(tiles, max(1u, 2 * gridDim.x / pieces));
  const auto first_of = [&](unsigned part) { return tiles * part / parts; };
  if (threadIdx.x == 0) {
    ring.start();
    publish_barriers();
  }
  __syncthreads(); // no one waits at a barrier that was not started

  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32, team = warp / 4;
  if (warp >= kSweepTeams * 4) { // the copying warpgroup
    give_registers<32>();
    if (threadIdx.x == kSweepTeams * 128) {
#pragma unroll 1
      for (unsigned work = blockIdx.x; work < pieces * parts; work += gridDim.x) {
        ring.copy(sweep.centroids.rounded, first_of(work % parts), first_of(work % parts + 1));
      }
    }
    return;
  }
  take_registers<112>();

  FoundPairs found(s_found[warp]);
  const ScoreError largest = sweep.counters->largest();
  __half* s_own = s_rows + team * 64 * kWidth; // rows of this team
  const std::uint64_t rows = describe<kWidth>(s_own);
  float sums[64];
#pragma unroll 1
  for (unsigned work = blockIdx.x; work < pieces * parts; work += gridDim.x) {
    const unsigned first_slot = work / parts * kSweepRows + team * 64, part = work % parts;
    const unsigned first = first_of(part), end = first_of(part + 1);
    const unsigned slot = first_slot + warp % 4 * 16 + lane / kQuarters; // and 8 further on
    team_barrier(team);                                                  // no one multiplies
    fetch_rows<kWidth>(sweep, first_slot, flagged, s_own);
    int limit[2];
#pragma unroll
    for (unsigned p = 0; p < 2; ++p) {
      limit[p] = limit_of(sweep, largest, min(slot + p * 8, flagged - 1), kSteps * 16);
    }
    team_barrier(team); // all rows are there
    ring.wait_for_stage();
#pragma unroll 1
    for (unsigned tile = first; tile < end; ++tile) {
      if (tile > first) {
        ring.next_tile();
      }
      multiply<kSteps>(sums, rows, ring.columns());
      finish(sums);
      LeastGroups groups(0);
      groups.collapse(sums);
      unsigned within[2]; // 32 scores of either row
#pragma unroll
      for (unsigned p = 0; p < 2; ++p) {
        within[p] = groups.within(sums, 0, p, limit[p]) | groups.within(sums, 1, p, limit[p])
                                                              << kGroup;
      }
      if (__any_sync(kAllLanes, (within[0] | within[1]) != 0)) {
        const unsigned base = tile * kHalfTileRows + lane % kQuarters * kGroup;
        found.add_all(sweep, slot, base, slot < flagged ? within[0] : 0);
        found.add_all(sweep, slot + 8, base, slot + 8 < flagged ? within[1] : 0);
        __syncwarp(); // products are asked for together
      }
    }
    ring.leave_stage();
    found.list(sweep);
  }
}

} // namespace clusterbench::cuda
