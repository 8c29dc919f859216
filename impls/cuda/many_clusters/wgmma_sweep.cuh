// The first sweep by wgmma: scores of all centroids for a tile of rows, and who competes.
#pragma once

#include "impls/contract.hpp"
#include "impls/cuda/common/copies.cuh"
#include "impls/cuda/common/runtime.hpp"
#include "impls/cuda/many_clusters/half_copy.cuh"
#include "impls/cuda/many_clusters/tensor_tiles.cuh"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cuda_fp16.h>
#include <string>

namespace clusterbench::cuda {

// ---- the sweep
//
// The first sweep by wgmma: kTeams warpgroups have 64 points each, one thread copies tiles of
// centroids for all of them, and what one warpgroup compares, another multiplies.
//
// A block keeps its points in shared memory while all centroids go by: 256, or fewer where some
// multiprocessors would have none. Where they do not fit, it streams them: each chunk of a tile of
// centroids comes with the same features of the points, which are read again for every tile, mostly
// from memory. Of many points, that takes less time than 128 that stay, and more than 64 that stay
// where there are many tiles or few points (docs/ladder/many_clusters.md).
//
// How scores compete, and what is known of their errors, is the variant's: Scores. A variant may
// also put tiles of its own into the task, with features beside those of the data.

inline constexpr unsigned kMostStages = 8;

/// Where 64 points a block would fit, and 128 not, it streams 256 all the same, if there are at
/// most so many tiles of centroids and at least so many points.
inline constexpr unsigned kFewTiles = 2, kManyPoints = 1u << 17;

/// What a block has of shared memory besides the dynamic, at most: barriers, and lists of rows.
inline constexpr std::size_t kStaticBytes = 5 << 10;
inline constexpr unsigned kTailSize = kHalfTileRows * kTailWidth; ///< of a tile of centroids

/// Dynamic shared memory: points [copies][row_chunks][rows][width], then [stages] tiles of
/// centroids, then tails of centroids, [tails], and of points. Streamed points have a copy, of one
/// chunk, for each stage.
struct SweepLayout {
  unsigned copies, stages;
  unsigned row_chunks; ///< of a copy of the points

  /// As many as tiles can be on their way: each is read together with the last chunk of its tile.
  __host__ __device__ unsigned tails(const HalfTiles& shape) const {
    return (stages + shape.chunks - 1) / shape.chunks;
  }
  __host__ __device__ std::size_t rows_size(const HalfTiles& shape, unsigned rows) const {
    return std::size_t{rows} * row_chunks * shape.width;
  }
  std::size_t bytes(const HalfTiles& shape, unsigned rows) const {
    return (copies * rows_size(shape, rows) + stages * shape.chunk_size() +
            tails(shape) * kTailSize + rows * kTailWidth) *
               sizeof(__half) +
           1024; // the swizzle asks for them
  }
};

/// Counts through places in shared memory; the parity changes with each turn.
struct StageCounter {
  unsigned place = 0, parity = 0;
  __device__ void next(unsigned places) {
    if (++place == places) {
      place = 0;
      parity ^= 1;
    }
  }
};

inline constexpr unsigned kUndecidedRoom = 32; ///< rows
inline constexpr unsigned kDecidedAtOnce = 16; ///< rows that a warp decides on together

/// The rows that a warp could not decide, in shared memory until they are worth an atomic addition,
/// which takes longer than most of what a warp does for its rows. List is where they go then.
template <typename List>
class UndecidedRows {
public:
  __device__ UndecidedRows(uint2* s_rows, const List& list) : s_rows_(s_rows), list_(list) {}

  /// All lanes of the warp must call it.
  __device__ void add(bool asks, unsigned row, float threshold) {
    const unsigned askers = __ballot_sync(0xffffffffu, asks);
    if (asks) {
      const unsigned before = __popc(askers & ((1u << threadIdx.x % 32) - 1));
      s_rows_[count_ + before] = {row, __float_as_uint(threshold)};
    }
    count_ += static_cast<unsigned>(__popc(askers));
    if (count_ > kUndecidedRoom - kDecidedAtOnce) {
      list();
    }
  }
  /// What there is. All lanes of the warp must call it.
  __device__ void list() {
    const unsigned lane = threadIdx.x % 32;
    __syncwarp(); // all rows are written
    const unsigned slot = take_places(count_, list_.count()) + lane;
    if (lane < count_) {
      const uint2 own = s_rows_[lane];
      list_.put(slot, own.x, __uint_as_float(own.y));
    }
    __syncwarp(); // all rows are read
    count_ = 0;
  }

private:
  uint2* s_rows_; ///< [kUndecidedRoom] and the bits of their thresholds
  List list_;
  unsigned count_ = 0;
};

/// Rows for the second level.
template <typename T>
struct FlaggedRows {
  const SweepTask<T>& task;

  __device__ unsigned* count() const { return &task.counters->flagged; }
  __device__ void put(unsigned slot, unsigned row, float threshold) const {
    flag(task, slot, row, threshold);
  }
};

/// The rows that a sweep looks at: all of them. A variant that leaves rows alone has another such
/// class.
struct AllRows {
  template <typename T>
  __device__ PointsView<T> points(const PointsView<T>& all) const {
    return all;
  }
  /// What a lane asks for of a row of points() while those before it are multiplied.
  struct Ahead {
    template <typename T>
    __device__ void fetch(const AllRows&, const PointsView<T>&, std::size_t) {}
    /// Where it is among all points.
    __device__ static std::size_t original(std::size_t row) { return row; }
  };
  /// Where the rows go that Scores cannot decide.
  template <typename T>
  __device__ static FlaggedRows<T> undecided(const SweepTask<T>& task) {
    return {task};
  }
};

/// WholeScores, below, shows what Scores has, AllRows what Rows has. Of each chunk, kSteps groups
/// of 16 features are multiplied. kStreams: points come with the centroids' tiles.
template <typename Scores, unsigned kWidth, unsigned kSteps, unsigned kTeams, bool kStreams,
          typename Rows, typename T>
__global__ void __launch_bounds__((kTeams + 1) * 128, 1)
    sweep_wgmma(const SweepTask<T> task, const SweepLayout layout, const Rows rows) {
  constexpr unsigned kRows = kTeams * 64, kStageSize = kHalfTileRows * kWidth;
  extern __shared__ unsigned char s_dynamic[];
  __shared__ Barrier s_barriers[4 + 2 * kMostStages];
  __shared__ uint2 s_undecided[kTeams * 4][kUndecidedRoom];
  const HalfTiles shape = task.points.shape;
  const unsigned chunks = kSteps * 16 < 64 ? 1 : shape.chunks;
  const unsigned rows_size = static_cast<unsigned>(layout.rows_size(shape, kRows));
  __half* s_rows =
      reinterpret_cast<__half*>(s_dynamic + (1024 - shared_address(s_dynamic) % 1024) % 1024);
  __half* s_stages = s_rows + layout.copies * rows_size;
  __half* s_tails = s_stages + layout.stages * kStageSize;
  const unsigned rows_full = shared_address(s_barriers), rows_free = rows_full + 16;
  const unsigned full = rows_full + 32, free = full + 8 * kMostStages; // 8 bytes each
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const unsigned tiles = task.centroids.tiles, tails = layout.tails(shape);

  if (threadIdx.x == 0) {
    for (unsigned e = 0; e < 2; ++e) {
      start_barrier(rows_full + 8 * e, 1);
      start_barrier(rows_free + 8 * e, kTeams * 4);
    }
    for (unsigned e = 0; e < layout.stages; ++e) {
      start_barrier(full + 8 * e, 1);
      start_barrier(free + 8 * e, kTeams * 4);
    }
    publish_barriers();
  }
  let_next_kernel_begin();
  wait_for_kernels_before();
  __syncthreads(); // no one waits at a barrier that was not started
  const PointsView<T> points = rows.points(task.points);
  const unsigned pieces = static_cast<unsigned>((points.n + kRows - 1) / kRows);

  StageCounter stage, tail;
  unsigned round = 0;
  if (warp >= kTeams * 4) { // the copying warpgroup
    if constexpr (kTeams == 4) {
      give_registers<32>();
    }
    if (threadIdx.x != kTeams * 128) {
      return;
    }
    // Nothing is unrolled: before, where three tiles remained, an address came without its upper
    // half. Whether the unrolling or the fewer registers of that form were the cause is not known.
#pragma unroll 1
    for (unsigned piece = blockIdx.x; piece < pieces; piece += gridDim.x, ++round) {
      constexpr unsigned kPart = kRows % kHalfTileRows == 0 ? kHalfTileRows : 64;
      const std::size_t last = (points.n - 1) / kPart * kPart; // instead of those behind it
      const auto copy_rows = [&](unsigned r, unsigned chunk, __half* to, unsigned barrier) {
        const std::size_t row = min(std::size_t{piece} * kRows + r, last);
        copy_bulk(to + r * kWidth,
                  points.rounded + row / kHalfTileRows * shape.tile_size() +
                      chunk * shape.chunk_size() + row % kHalfTileRows * kWidth,
                  kPart * kWidth * 2, barrier);
      };
      if constexpr (!kStreams) {
        const unsigned copy = round % layout.copies, use = round / layout.copies;
        wait(rows_free + 8 * copy, (use & 1) ^ 1); // passes at once the first time
        expect(rows_full + 8 * copy, rows_size * 2);
        __half* s_piece = s_rows + copy * rows_size;
#pragma unroll 1
        for (unsigned r = 0; r < kRows; r += kPart) {
#pragma unroll 1
          for (unsigned chunk = 0; chunk < chunks; ++chunk) {
            copy_rows(r, chunk, s_piece + chunk * kRows * kWidth, rows_full + 8 * copy);
          }
        }
      }
      const __half* from = task.centroids.rounded;
      const __half* from_tails = task.centroids.tails;
#pragma unroll 1
      for (unsigned j = 0; j < tiles; ++j) {
#pragma unroll 1
        for (unsigned chunk = 0; chunk < chunks; ++chunk, from += kStageSize) {
          const bool has_tail = chunk + 1 == chunks;
          const unsigned barrier = full + 8 * stage.place;
          wait(free + 8 * stage.place, stage.parity ^ 1);
          expect(barrier, kStageSize * 2 + (kStreams ? kRows * kWidth * 2 : 0) +
                              (has_tail ? kTailSize * 2 : 0));
          copy_bulk(s_stages + stage.place * kStageSize, from, kStageSize * 2, barrier);
          if constexpr (kStreams) {
#pragma unroll 1
            for (unsigned r = 0; r < kRows; r += kPart) {
              copy_rows(r, chunk, s_rows + stage.place * rows_size, barrier);
            }
          }
          if (has_tail) { // as this stage is free, so is the tail of the tile that it was of
            copy_bulk(s_tails + tail.place * kTailSize, from_tails, kTailSize * 2, barrier);
            from_tails += kTailSize;
            tail.next(tails);
          }
          stage.next(layout.stages);
        }
      }
    }
    return;
  }
  if constexpr (kTeams == 4) {
    take_registers<112>();
  }
  static_assert(sizeof(s_barriers) + sizeof(s_undecided) <= kStaticBytes);

  UndecidedRows undecided(s_undecided[warp], rows.undecided(task));
  const unsigned lane_row = warp * 16 + lane / 4;   // of a piece, and the one 8 further on
  const unsigned own_row = lane_row + lane % 2 * 8; // what a lane decides on, if it is one of two
  typename Scores::Facts facts;
  facts.fetch(points, std::size_t{blockIdx.x} * kRows + lane_row);
  typename Rows::Ahead ahead;
  ahead.fetch(rows, points, std::size_t{blockIdx.x} * kRows + own_row);
  const std::uint64_t first_stage = describe<kWidth>(s_stages);
  __half* s_row_tails = s_tails + tails * kTailSize + warp / 4 * 64 * kTailWidth;
  const std::uint64_t first_tail = describe<kTailWidth>(s_tails);
  const std::uint64_t row_tails = describe<kTailWidth>(s_row_tails);
  for (unsigned piece = blockIdx.x; piece < pieces; piece += gridDim.x, ++round) {
    const unsigned copy = kStreams ? 0 : round % layout.copies, use = round / layout.copies;
    const __half* s_piece = s_rows + copy * rows_size;
    const std::uint64_t first_rows = describe<kWidth>(s_piece + warp / 4 * 64 * kWidth);
    Scores scores(facts, task.counters->largest());
    team_barrier(warp / 4); // no product reads the tail of the last piece any more
    scores.write_tail(s_row_tails);
    fence_proxy_async();
    team_barrier(warp / 4); // all 64 rows have theirs
    facts.fetch(points, (std::size_t{piece} + gridDim.x) * kRows + lane_row);
    const typename Rows::Ahead own = ahead;
    ahead.fetch(rows, points, (std::size_t{piece} + gridDim.x) * kRows + own_row);
    if constexpr (!kStreams) {
      wait(rows_full + 8 * copy, use & 1);
    }
    float sums[64];
#pragma unroll 1
    for (unsigned j = 0; j < tiles; ++j) {
      unsigned previous = 0;
      unsigned chunk = 0;
#pragma unroll 1
      do {
        wait(full + 8 * stage.place, stage.parity);
        wgmma_fence();
        const std::uint64_t of_rows =
            first_rows + (kStreams ? stage.place : chunk) * (kRows * kWidth * 2 / 16);
        const std::uint64_t of_columns = first_stage + stage.place * (kStageSize * 2 / 16);
#pragma unroll
        for (unsigned step = 0; step < kSteps; ++step) { // products of padding are zero
          multiply_add<-1>(sums, of_rows + step * 2, of_columns + step * 2, chunk + step > 0);
        }
        wgmma_commit_group();
        if (chunk > 0) { // the products of the chunk before are complete: its stage is free
          wgmma_wait_group<1>();
          if (lane == 0) {
            arrive(free + 8 * previous);
          }
        }
        previous = stage.place;
        stage.next(layout.stages);
      } while (++chunk < chunks);
      wgmma_fence(); // the tail has come with the last chunk
      multiply_add(sums, row_tails, first_tail + tail.place * (kTailSize * 2 / 16), true);
      wgmma_commit_group();
      tail.next(tails);
      wgmma_wait_group<0>();
      if (lane == 0) {
        arrive(free + 8 * previous);
        if (!kStreams && j + 1 == tiles) {
          arrive(rows_free + 8 * copy);
        }
      }
      scores.compete(sums, j);
    }
    scores.decide(task, rows, own, points.n, std::size_t{piece} * kRows + own_row, undecided);
  }
  undecided.list();
}

/// The kernel, its shape and its launch.
template <typename Scores, typename T = float, typename Rows = AllRows>
class WgmmaLaunch {
public:
  static std::string refuse() {
    const int capability = compute_capability(); // 0: no device, which others report
    return capability == 0 || capability == 90 ? ""
                                               : "compute capability 9.0 is needed, and no other";
  }

  /// spare: multiprocessors that it leaves to others.
  void prepare(const SweepTask<T>& task, unsigned spare = 0) {
    const HalfTiles shape = task.points.shape;
    const std::size_t most = shared_memory_limit() - kStaticBytes;
    // Points of a block that fit twice, so that the next ones arrive early; or once; then as many
    // stages as are left room for.
    const auto fits = [&](unsigned teams, unsigned copies) {
      return SweepLayout{copies, 2, shape.chunks}.bytes(shape, teams * 64) <= most;
    };
    const bool worth_streaming = task.centroids.tiles <= kFewTiles && task.points.n >= kManyPoints;
    const bool keeps_64 = !fits(2, 1) && fits(1, 1) && !worth_streaming;
    teams_ = keeps_64 ? 1 : shape.width == 32 ? 4 : teams_for(task.points.n, spare);
    streams_ = !fits(teams_, 1);
    layout_ = {streams_ || fits(teams_, 2) ? 2u : 1u, 2, streams_ ? 1 : shape.chunks};
    for (SweepLayout more = layout_; more.stages <= kMostStages; ++more.stages) {
      more.copies = streams_ ? more.stages : more.copies;
      if (more.bytes(shape, teams_ * 64) > most) {
        break;
      }
      layout_ = more;
    }
    bytes_ = layout_.bytes(shape, teams_ * 64);
    kernel_ = shape.width == 32 ? sweep_wgmma<Scores, 32, 2, 4, false, Rows, T>
              : streams_        ? of_teams<true>(teams_)
                                : of_teams<false>(teams_);
    allow_shared_memory(kernel_, bytes_);
    blocks_ = static_cast<unsigned>(std::min(resident_blocks(kernel_, threads(), bytes_) - spare,
                                             ceil_div(task.points.n, teams_ * 64)));
  }

  void launch(const SweepTask<T>& task, const Rows& rows = {}) const {
    launch_of_pass("sweep_wgmma", kernel_, {blocks_, threads(), bytes_}, task.overlaps, task,
                   layout_, rows);
  }

  /// Points that all blocks work on at a time.
  std::size_t wave() const { return std::size_t{blocks_} * teams_ * 64; }

  std::string path() const {
    return std::to_string(teams_ * 64) + (streams_ ? " streamed" : "") + " points a block, " +
           std::to_string(layout_.stages) + " stages";
  }

private:
  using Kernel = void (*)(SweepTask<T>, SweepLayout, Rows);

  /// Four, or fewer where multiprocessors would have nothing to do.
  static unsigned teams_for(std::size_t n, unsigned spare) {
    const std::size_t each = ceil_div(n, multiprocessors() - spare);
    return static_cast<unsigned>(std::clamp<std::size_t>(ceil_div(each, 64), 1, 4));
  }
  template <bool kStreams>
  static Kernel of_teams(unsigned teams) {
    return teams == 4   ? sweep_wgmma<Scores, 64, 4, 4, kStreams, Rows, T>
           : teams == 3 ? sweep_wgmma<Scores, 64, 4, 3, kStreams, Rows, T>
           : teams == 2 ? sweep_wgmma<Scores, 64, 4, 2, kStreams, Rows, T>
                        : sweep_wgmma<Scores, 64, 4, 1, kStreams, Rows, T>;
  }
  unsigned threads() const { return (teams_ + 1) * 128; }

  Kernel kernel_ = nullptr;
  SweepLayout layout_{};
  bool streams_ = false;
  unsigned teams_ = 0, blocks_ = 0;
  std::size_t bytes_ = 0;
};

// ---- every score competes
//
// The first sweep in which every centroid competes for itself.

/// Scores that the tensor cores make whole: 16 further features of the product, the tail, add
/// |c'|^2 / 2 and a constant of the row, so that no score is negative but by rounding. Numbers that
/// are not negative have the order of their bits, so that a minimum of three is one instruction.
///
/// The tail of a point: 2^15, 2^4, 1 for the three parts of |c'|^2 / 2, the row's constant in units
/// of 2^15, and 2^15. Of a centroid: those parts, 2^15 and nothing; of one that does not exist, the
/// largest number for the first and the last.
class TailedScores {
public:
  /// What is known of this lane's two rows, `row` and 8 further on.
  struct Facts {
    float residual[2], norm[2];

    template <typename T>
    __device__ void fetch(const PointsView<T>& points, std::size_t row) {
#pragma unroll
      for (unsigned p = 0; p < 2; ++p) {
        const bool there = row + p * 8 < points.n;
        residual[p] = there ? points.residual[row + p * 8] : 0.0f;
        norm[p] = there ? points.norm[row + p * 8] : 0.0f;
      }
    }
  };

  __device__ TailedScores(const Facts& facts, const ScoreError& largest) {
#pragma unroll
    for (unsigned p = 0; p < 2; ++p) {
      constant_[p] = __half2float(row_constant(facts.norm[p])) * 0x1p15f;
      const float error = tail_error(largest, facts.residual[p], facts.norm[p], constant_[p]);
      margin_[p] = 2.0f * kUpwards * error;
    }
  }

  /// s_tails: of the 64 rows of a warpgroup. A lane writes features 2 quarter and 2 quarter + 8 of
  /// both of its rows, and those behind them.
  __device__ void write_tail(__half* s_tails) const {
    constexpr unsigned kOne = 0x3c00, kTwoTo4 = 0x4c00, kTwoTo15 = 0x7800; // halves
    const unsigned quarter = threadIdx.x % 4;
#pragma unroll
    for (unsigned p = 0; p < 2; ++p) {
      const unsigned row = threadIdx.x % 128 / 32 * 16 + p * 8 + threadIdx.x % 32 / 4;
      const unsigned constant = __half_as_ushort(__float2half_rn(constant_[p] * 0x1p-15f));
      const unsigned own = quarter == 0   ? kTwoTo15 | kTwoTo4 << 16
                           : quarter == 1 ? kOne | constant << 16
                           : quarter == 2 ? kTwoTo15
                                          : 0;
      const HalfTiles tile = HalfTiles::of_tails();
      *reinterpret_cast<unsigned*>(s_tails + tile.offset(row, quarter * 2)) = own;
      *reinterpret_cast<unsigned*>(s_tails + tile.offset(row, quarter * 2 + 8)) = 0;
    }
  }

protected:
  static constexpr float kLeastLimit = 0x1p-100f; ///< above it 1 / ulp is a float

  /// The bits of the e-th score of row p.
  __device__ static int score(const float (&sums)[64], unsigned p, unsigned e) {
    return __float_as_int(sums[e / 2 * 4 + p * 2 + e % 2]);
  }
  /// The least score of row p, or 0 where that is negative, as it is by rounding only. In three
  /// chains.
  __device__ static int least(const float (&sums)[64], unsigned p) {
    int chain[3];
#pragma unroll
    for (unsigned c = 0; c < 3; ++c) {
      chain[c] =
          __vimin3_s32(score(sums, p, c * 3), score(sums, p, c * 3 + 1), score(sums, p, c * 3 + 2));
    }
#pragma unroll
    for (unsigned e = 9; e < 31; e += 2) {
      chain[e / 2 % 3] = __vimin3_s32(chain[e / 2 % 3], score(sums, p, e), score(sums, p, e + 1));
    }
    return max(min(__vimin3_s32(chain[0], chain[1], chain[2]), score(sums, p, 31)), 0);
  }
  /// The least of the four lanes of a row.
  __device__ static int least_of_row(int own) {
    for (int offset = 1; offset < 4; offset *= 2) {
      own = min(own, __shfl_xor_sync(0xffffffffu, own, offset));
    }
    return own;
  }
  /// No less, rounded upwards, than the score of the nearest centroid if `best` is one's score. As
  /// integers, NaN is more than any number.
  __device__ int limit(unsigned p, int best) const {
    return max(__float_as_int(__fadd_ru(__int_as_float(best), margin_[p])),
               __float_as_int(kLeastLimit));
  }

  /// The column of this lane's score number e.
  __device__ static unsigned column_of(unsigned tile, unsigned e) {
    return tile * kHalfTileRows + e / 2 * 8 + threadIdx.x % 4 * 2 + e % 2;
  }

  struct Verdict {
    bool certain;
    unsigned nearest;
    float threshold; ///< see flag()
  };
  /// Of row p, whose least score is `best`. candidates: of this lane, 0, 1, or 2 if there are
  /// several; nearest: that one. All lanes of the warp must call it.
  __device__ Verdict of_row(unsigned p, int best, unsigned candidates, unsigned nearest,
                            unsigned k) const {
    nearest = candidates != 0 ? nearest : 0;
    for (int offset = 1; offset < 4; offset *= 2) { // the four lanes of a row
      candidates += __shfl_xor_sync(0xffffffffu, candidates, offset);
      nearest = max(nearest, __shfl_xor_sync(0xffffffffu, nearest, offset));
    }
    return {candidates == 1 && nearest < k && margin_[p] < INFINITY, nearest,
            __fadd_ru(__fadd_ru(__int_as_float(best), -constant_[p]), 0.5f * margin_[p])};
  }
  /// Writes the label of this lane's row, if it has one, and lists those without a certain one. Two
  /// of a row's four lanes have a row each. All lanes of the warp must call it.
  template <typename T, typename Undecided>
  __device__ static void settle(const SweepTask<T>& task, std::size_t row, bool has_row,
                                const Verdict (&verdicts)[2], Undecided& undecided) {
    const unsigned quarter = threadIdx.x % 4;
    has_row = has_row && quarter < 2;
    if (has_row) {
      task.labels[row] =
          static_cast<std::int32_t>(quarter == 0 ? verdicts[0].nearest : verdicts[1].nearest);
    }
    undecided.add(has_row && !(quarter == 0 ? verdicts[0].certain : verdicts[1].certain),
                  static_cast<unsigned>(row),
                  quarter == 0 ? verdicts[0].threshold : verdicts[1].threshold);
  }

  float constant_[2];
  float margin_[2]; ///< twice what a score may be off by
  int best_[2] = {std::bit_cast<int>(kFarAway), std::bit_cast<int>(kFarAway)};
};

/// (most - score) / ulp(most) + 1, rounded once and limited to [0, 1], is 1 for scores of no more
/// than `most` and 0 for others, and for what is not a number. An infinite `most` passes all that
/// are finite.
class ScoreTest {
public:
  __device__ explicit ScoreTest(int most) {
    scale_ = __uint_as_float(0x8a800000u - (static_cast<unsigned>(most) & 0x7f800000u)); // 1 / ulp
    top_ = fmaf(__int_as_float(most), scale_, 1.0f); // exact: an integer up to 2^24
  }
  __device__ float operator()(int score) const {
    return __saturatef(fmaf(__int_as_float(score), -scale_, top_));
  }

private:
  float scale_, top_;
};

/// Once the least score of a tile is known, multiply-adds test which others are within the errors
/// of it: half a comparison and two multiply-adds a score. Where there is one such score, its
/// centroid is the nearest.
class WholeScores : public TailedScores {
public:
  using TailedScores::TailedScores;

  /// sums: a tile's scores. 32 belong to either row: number e to column 8 (e / 2) + 2 quarter + e %
  /// 2.
  __device__ void compete(const float (&sums)[64], unsigned tile) {
#pragma unroll
    for (unsigned p = 0; p < 2; ++p) {
      const int before = best_[p];
      best_[p] = min(before, least(sums, p));
      const int most = limit(p, best_[p]);
      const unsigned mask = within(sums, p, most);
      if (mask != 0) {
        const bool keeps = before <= most; // what was within the errors of the least one still is
        several_[p] = (keeps ? several_[p] | found_[p] : 0) | (mask & (mask - 1));
        found_[p] = mask;
        tile_[p] = tile;
      }
    }
  }

  /// own: of this lane's row, among n. All lanes of the warp must call it.
  template <typename T, typename Rows, typename Undecided>
  __device__ void decide(const SweepTask<T>& task, const Rows&, const typename Rows::Ahead& own,
                         std::size_t n, std::size_t row, Undecided& undecided) const {
    Verdict verdicts[2];
#pragma unroll
    for (unsigned p = 0; p < 2; ++p) {
      const int best = least_of_row(best_[p]);
      const bool within = found_[p] != 0 && best_[p] <= limit(p, best);
      const unsigned e = static_cast<unsigned>(__ffs(static_cast<int>(found_[p]))) - 1;
      verdicts[p] = of_row(p, best, within ? (several_[p] != 0 ? 2 : 1) : 0, column_of(tile_[p], e),
                           task.centroids.k);
    }
    settle(task, own.original(row), row < n, verdicts, undecided);
  }

private:
  /// Bit e: whether the e-th score of row p is no more than `most`.
  __device__ static unsigned within(const float (&sums)[64], unsigned p, int most) {
    const ScoreTest test(most);
    float bits[2] = {0x1p23f, 0x1p23f}; // whose low bits are integers
#pragma unroll
    for (unsigned e = 0; e < 16; ++e) {
#pragma unroll
      for (unsigned half = 0; half < 2; ++half) {
        bits[half] =
            fmaf(test(score(sums, p, half * 16 + e)), static_cast<float>(1u << e), bits[half]);
      }
    }
    return __byte_perm(__float_as_uint(bits[0]), __float_as_uint(bits[1]), 0x5410);
  }

  unsigned found_[2] = {};   ///< candidates of the last tile that had some, a bit each
  unsigned several_[2] = {}; ///< not 0: there are others
  unsigned tile_[2] = {};
};

/// A first sweep in which every centroid competes for itself.
template <typename T = float>
class WgmmaSweep {
public:
  using Real = T;
  static constexpr unsigned kPaddedRows = 256;

  static std::string refuse(const Shape&) { return WgmmaLaunch<WholeScores, T>::refuse(); }
  static std::size_t bytes(const Shape&) { return 0; }
  void prepare(const SweepTask<T>& task, unsigned spare = 0) { launch_.prepare(task, spare); }
  void follow(const SweepTask<T>&) {}
  void launch(const SweepTask<T>& task) const { launch_.launch(task); }
  std::size_t wave() const { return launch_.wave(); }
  std::string path() const { return launch_.path(); }

private:
  WgmmaLaunch<WholeScores, T> launch_;
};

} // namespace clusterbench::cuda
