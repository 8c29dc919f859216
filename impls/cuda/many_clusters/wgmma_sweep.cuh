// The first sweep by wgmma: scores of all centroids for a tile of rows, and who competes.
#pragma once

#include "impls/contract.hpp"
#include "impls/cuda/common/copies.cuh"
#include "impls/cuda/common/runtime.hpp"
#include "impls/cuda/many_clusters/half_copy.cuh"
#include "impls/cuda/many_clusters/tensor_tiles.cuh"

#include <algorithm>
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
// A block keeps its points in shared memory while all centroids go by. Where 256 do not fit, it
// streams them: each chunk of a tile of centroids comes with the same features of the points, which
// are read again for every tile, mostly from memory. That takes less time than 128 points that stay,
// and with 1024 features more than 64 that stay (docs/ladder/many_clusters.md).
//
// How scores compete, and what is known of their errors, is the variant's: Scores. A variant may
// also put tiles of its own into the task, with features beside those of the data.

inline constexpr unsigned kMostStages = 8;

inline constexpr unsigned kSquaresBytes = kHalfTileRows * sizeof(float); ///< |c'|^2 / 2 of a tile

/// Dynamic shared memory: points [copies][row_chunks][rows][width], then [stages] tiles of centroids,
/// then their |c'|^2 / 2, [stages + 2]. Streamed points have a copy, of one chunk, for each stage.
struct SweepLayout {
  unsigned copies, stages;
  unsigned row_chunks; ///< of a copy of the points

  __host__ __device__ unsigned places() const { return stages + 2; }
  __host__ __device__ std::size_t rows_size(const HalfTiles& shape, unsigned rows) const {
    return std::size_t{rows} * row_chunks * shape.width;
  }
  std::size_t bytes(const HalfTiles& shape, unsigned rows) const {
    return (copies * rows_size(shape, rows) + stages * shape.chunk_size()) * sizeof(__half) +
           places() * kSquaresBytes + 1024; // the swizzle asks for 1024 bytes
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

/// EachScore, below, shows what Scores has. Of each chunk, kSteps groups of 16 features are multiplied.
/// kStreams: points come with the centroids' tiles.
template <typename Scores, unsigned kWidth, unsigned kSteps, unsigned kTeams, bool kStreams,
          typename T>
__global__ void __launch_bounds__((kTeams + 1) * 128, 1)
    sweep_wgmma(const SweepTask<T> task, const SweepLayout layout) {
  using Value = typename Scores::Value;
  constexpr unsigned kRows = kTeams * 64, kStageSize = kHalfTileRows * kWidth;
  extern __shared__ unsigned char s_dynamic[];
  __shared__ Barrier s_barriers[4 + 2 * kMostStages];
  const HalfTiles shape = task.points.shape;
  const unsigned chunks = kSteps * 16 < 64 ? 1 : shape.chunks;
  const unsigned rows_size = static_cast<unsigned>(layout.rows_size(shape, kRows));
  __half* s_rows =
      reinterpret_cast<__half*>(s_dynamic + (1024 - shared_address(s_dynamic) % 1024) % 1024);
  __half* s_stages = s_rows + layout.copies * rows_size;
  float* s_squares = reinterpret_cast<float*>(s_stages + layout.stages * kStageSize);
  const unsigned rows_full = shared_address(s_barriers), rows_free = rows_full + 16;
  const unsigned full = rows_full + 32, free = full + 8 * kMostStages; // 8 bytes each
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const unsigned tiles = task.centroids.tiles;
  const unsigned pieces = static_cast<unsigned>((task.points.n + kRows - 1) / kRows);

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
  __syncthreads(); // no one waits at a barrier that was not started

  StageCounter stage, place;
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
      constexpr unsigned kPart = kRows < kHalfTileRows ? kRows : kHalfTileRows;
      const auto copy_rows = [&](unsigned r, unsigned chunk, __half* to, unsigned barrier) {
        const std::size_t row = std::size_t{piece} * kRows + r;
        copy_bulk(to + r * kWidth,
                  task.points.rounded + row / kHalfTileRows * shape.tile_size() +
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
      const float* from_squares = task.centroids.half_squares;
#pragma unroll 1
      for (unsigned j = 0; j < tiles; ++j) {
#pragma unroll 1
        for (unsigned chunk = 0; chunk < chunks; ++chunk, from += kStageSize) {
          const bool last = chunk + 1 == chunks;
          const unsigned barrier = full + 8 * stage.place;
          wait(free + 8 * stage.place, stage.parity ^ 1);
          expect(barrier, kStageSize * 2 + (kStreams ? kRows * kWidth * 2 : 0) +
                              (last ? kSquaresBytes : 0));
          copy_bulk(s_stages + stage.place * kStageSize, from, kStageSize * 2, barrier);
          if constexpr (kStreams) {
#pragma unroll 1
            for (unsigned r = 0; r < kRows; r += kPart) {
              copy_rows(r, chunk, s_rows + stage.place * rows_size, barrier);
            }
          }
          if (last) {
            // Whoever freed this stage has long read what was here: there are more places than
            // tiles in flight.
            copy_bulk(s_squares + place.place * kHalfTileRows, from_squares, kSquaresBytes,
                      barrier);
            from_squares += kHalfTileRows;
            place.next(layout.places());
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

  unsigned keep; // a constant would take a second instruction, as only one operand is immediate
  asm volatile("mov.b32 %0, 0xffffffe0;" : "=r"(keep));
  const std::uint64_t first_stage = describe<kWidth>(s_stages);
  for (unsigned piece = blockIdx.x; piece < pieces; piece += gridDim.x, ++round) {
    const unsigned copy = kStreams ? 0 : round % layout.copies, use = round / layout.copies;
    const __half* s_piece = s_rows + copy * rows_size;
    const std::uint64_t first_rows = describe<kWidth>(s_piece + warp / 4 * 64 * kWidth);
    if constexpr (!kStreams) {
      wait(rows_full + 8 * copy, use & 1);
    }
    const Value far_away = Scores::far_away();
    Value best[2] = {far_away, far_away}, second[2] = {far_away, far_away};
    unsigned nearest[2] = {0, 0}; // the tile, until the end
    float sums[64];
#pragma unroll 1
    for (unsigned j = 0; j < tiles; ++j) {
      unsigned previous = 0;
      const float* squares = s_squares + place.place * kHalfTileRows;
      place.next(layout.places());
#pragma unroll 1
      for (unsigned chunk = 0; chunk < chunks; ++chunk) {
        wait(full + 8 * stage.place, stage.parity);
        wgmma_fence();
        const std::uint64_t of_rows =
            first_rows + (kStreams ? stage.place : chunk) * (kRows * kWidth * 2 / 16);
        const std::uint64_t of_columns = first_stage + stage.place * (kStageSize * 2 / 16);
#pragma unroll
        for (unsigned step = 0; step < kSteps; ++step) { // products of padding are zero
          multiply_add(sums, of_rows + step * 2, of_columns + step * 2, chunk + step > 0);
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
      }
      wgmma_wait_group<0>();
      if (lane == 0) {
        arrive(free + 8 * previous);
        if (!kStreams && j + 1 == tiles) {
          arrive(rows_free + 8 * copy);
        }
      }
      const Value before[2] = {best[0], best[1]};
      Scores::compete(sums, squares, keep, best, second);
#pragma unroll
      for (unsigned p = 0; p < 2; ++p) {
        nearest[p] = best[p] < before[p] ? j : nearest[p];
      }
    }
#pragma unroll
    for (unsigned p = 0; p < 2; ++p) {
      const unsigned low_bits = Scores::bits(best[p]) & 31;
      nearest[p] = nearest[p] * kHalfTileRows + low_bits / 2 * 8 + lane % 4 * 2 + low_bits % 2;
      for (int offset = 1; offset < 4; offset *= 2) { // the four lanes of a row
        const Value other = __shfl_xor_sync(0xffffffffu, best[p], offset);
        const Value other_second = __shfl_xor_sync(0xffffffffu, second[p], offset);
        const unsigned other_nearest = __shfl_xor_sync(0xffffffffu, nearest[p], offset);
        second[p] =
            Scores::least(Scores::least(second[p], other_second), Scores::most(best[p], other));
        nearest[p] = other < best[p] ? other_nearest : nearest[p];
        best[p] = Scores::least(best[p], other);
      }
    }
    const unsigned p = lane % 4; // two of the four lanes decide on a row each
    const std::size_t row = std::size_t{piece} * kRows + warp * 16 + p * 8 + lane / 4;
    const bool has_row = p < 2 && row < task.points.n;
    Scores::decide(task, has_row, row, p == 0 ? best[0] : best[1],
                   p == 0 ? nearest[0] : nearest[1], p == 0 ? second[0] : second[1]);
  }
}

/// The kernel, its shape and its launch.
template <typename Scores, typename T = float>
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
    const std::size_t most = shared_memory_limit() - 1024; // the barriers
    // 256 points a block that fit twice, so that the next ones arrive early; or once; then as many
    // stages as are left room for.
    const auto fits = [&](unsigned teams, unsigned copies) {
      return SweepLayout{copies, 2, shape.chunks}.bytes(shape, teams * 64) <= most;
    };
    const bool keeps_64 = !fits(2, 1) && fits(1, 1);
    streams_ = !fits(4, 1) && !keeps_64;
    teams_ = keeps_64 ? 1 : 4;
    layout_ = {streams_ || fits(teams_, 2) ? 2u : 1u, 2, streams_ ? 1 : shape.chunks};
    for (SweepLayout more = layout_; more.stages <= kMostStages; ++more.stages) {
      more.copies = streams_ ? more.stages : more.copies;
      if (more.bytes(shape, teams_ * 64) > most) {
        break;
      }
      layout_ = more;
    }
    bytes_ = layout_.bytes(shape, teams_ * 64);
    if constexpr (Scores::kOneChunk) {
      kernel_ = shape.width == 16   ? sweep_wgmma<Scores, 16, 1, 4, false, T>
                : shape.width == 32 ? sweep_wgmma<Scores, 32, 2, 4, false, T>
                                    : sweep_wgmma<Scores, 64, 3, 4, false, T>;
    } else {
      kernel_ = streams_            ? sweep_wgmma<Scores, 64, 4, 4, true, T>
                : shape.width == 32 ? sweep_wgmma<Scores, 32, 2, 4, false, T>
                : teams_ == 4       ? sweep_wgmma<Scores, 64, 4, 4, false, T>
                                    : sweep_wgmma<Scores, 64, 4, 1, false, T>;
    }
    allow_shared_memory(kernel_, bytes_);
    blocks_ = static_cast<unsigned>(std::min(resident_blocks(kernel_, threads(), bytes_) - spare,
                                             ceil_div(task.points.n, teams_ * 64)));
  }

  void launch(const SweepTask<T>& task) const {
    kernel_<<<blocks_, threads(), bytes_>>>(task, layout_);
    check_launch("sweep_wgmma");
  }

  /// Points that all blocks work on at a time.
  std::size_t wave() const { return std::size_t{blocks_} * teams_ * 64; }

  std::string path() const {
    return std::to_string(teams_ * 64) + (streams_ ? " streamed" : "") + " points a block, " +
           std::to_string(layout_.stages) + " stages";
  }

private:
  unsigned threads() const { return (teams_ + 1) * 128; }

  void (*kernel_)(SweepTask<T>, SweepLayout) = nullptr;
  SweepLayout layout_{};
  bool streams_ = false;
  unsigned teams_ = 0, blocks_ = 0;
  std::size_t bytes_ = 0;
};

// ---- every score competes
//
// The first sweep in which every centroid competes for itself.

/// Every score competes: four operations a score.
struct EachScore {
  using Value = float;
  static constexpr bool kOneChunk = false; ///< of features, for any task; three groups of 16 at most

  __device__ static float far_away() { return kFarAway; }
  __device__ static float least(float a, float b) { return fminf(a, b); }
  __device__ static float most(float a, float b) { return fmaxf(a, b); }
  __device__ static unsigned bits(float value) { return __float_as_uint(value); }

  /// Of the 64 scores of a tile that a thread has made, 32 belong to either of its rows. Their
  /// places, 2 ni + e for column 8 ni + e, replace the lowest five bits: one instruction, no
  /// selection.
  __device__ static void compete(const float (&sums)[64], const float* squares, unsigned keep,
                                 float (&best)[2], float (&second)[2]) {
    const float2* own_squares = reinterpret_cast<const float2*>(squares) + threadIdx.x % 4;
#pragma unroll
    for (unsigned ni = 0; ni < 16; ++ni) {
      const float2 two = own_squares[ni * 4];
#pragma unroll
      for (unsigned e = 0; e < 4; ++e) {
        const float exact = (e % 2 == 0 ? two.x : two.y) - sums[ni * 4 + e];
        const float score = __uint_as_float((__float_as_uint(exact) & keep) | (ni * 2 + e % 2));
        second[e / 2] = fminf(second[e / 2], fmaxf(best[e / 2], score));
        best[e / 2] = fminf(best[e / 2], score);
      }
    }
  }

  template <typename T>
  __device__ static void decide(const SweepTask<T>& task, bool has_row, std::size_t row, float best,
                                unsigned nearest, float second) {
    decide_half(task, has_row, row, best, nearest, second);
  }
};

/// A first sweep in which every centroid competes for itself.
template <typename T = float>
class WgmmaSweep {
public:
  using Real = T;
  static constexpr unsigned kPaddedRows = 256;

  static std::string refuse(const Shape&) { return WgmmaLaunch<EachScore, T>::refuse(); }
  static std::size_t bytes(const Shape&) { return 0; }
  void prepare(const SweepTask<T>& task, unsigned spare = 0) { launch_.prepare(task, spare); }
  void follow(const SweepTask<T>&) {}
  void launch(const SweepTask<T>& task) const { launch_.launch(task); }
  std::size_t wave() const { return launch_.wave(); }
  std::string path() const { return launch_.path(); }

private:
  WgmmaLaunch<EachScore, T> launch_;
};

} // namespace clusterbench::cuda
