// Rows that a warp takes a note of while it sweeps, to look at several of them again, in memory and as they came:
// those that go from one cluster to another, and those that their scores leave open.
#pragma once

#include "impls/cuda/support/exact_rows.cuh"
#include "impls/cuda/support/kept_state.cuh"
#include "impls/cuda/support/quarter_row.cuh"
#include "impls/cuda/support/rounded_bound.hpp"

#include <cuda_runtime.h>

#include <cstddef>

namespace clusterbench::cuda {

/// A row, less than 2^25 (kMostOfBlock for each of the 144 multiprocessors that sm_90a has at most), what
/// KeptTask::clusters has of it, and which centroids may be nearest to it: one or more.
struct Note {
  NearOnes near;
  unsigned row_and_before;

  __device__ static Note of(NearOnes near, unsigned row, unsigned before) {
    return {near, row * (2 * kWithZeros) + before};
  }
  __device__ unsigned row() const { return row_and_before / (2 * kWithZeros); }
  __device__ unsigned from() const { return row_and_before % kMostKept; }
  __device__ bool with_zeros() const { return row_and_before / kWithZeros % 2 != 0; }
};

/// Any thread: sends for a row of up to D features to the L2 cache.
template <unsigned D>
__device__ void expect_row(const ExactRows& exact, unsigned row) {
  const char* first = reinterpret_cast<const char*>(exact.rows + std::size_t{row} * exact.width);
#pragma unroll
  for (unsigned byte = 0; byte < D * sizeof(float); byte += 128) {
    asm volatile("prefetch.global.L2 [%0];" ::"l"(first + byte));
  }
}

/// A warp's notes, in shared memory. Other warps wait for one that looks at its rows, so it does that seldom, and at
/// eight rows at once, by four lanes each.
template <unsigned kMost>
class NotedRows {
public:
  /// s_notes: [kMost]
  __device__ NotedRows(Note* s_notes, unsigned lane) : s_notes_(s_notes), lane_(lane) {}

  /// Whether there may not be room for notes of all lanes.
  __device__ bool is_full() const { return count_ + 32 > kMost; }
  /// All lanes: takes a note of a lane's row, if it is to be looked at `again`.
  __device__ void take(bool again, const Note& note) {
    const unsigned all = __ballot_sync(kAllLanes, again);
    if (again) {
      s_notes_[count_ + __popc(all & ((1u << lane_) - 1))] = note;
    }
    count_ += __popc(all);
  }
  /// All lanes: decides what is open, moves what moves, and begins anew. block: see KeptRun. Returns how many were
  /// open.
  template <typename Run>
  __device__ unsigned look_again(const Run& block) {
    unsigned open = 0;
    __syncwarp(); // the notes are there
#pragma unroll 1
    for (unsigned first = 0; first < count_; first += 8) {
      const bool real = first + lane_ / 4 < count_;
      const Note note = s_notes_[real ? first + lane_ / 4 : first];
      const QuarterRow<Run::D> row(block.exact, note.row(), lane_ % 4);
      NearOnes left = note.near;
      unsigned to = left.take();
      const unsigned all = __ballot_sync(kAllLanes, real && lane_ % 4 == 0 && !left.empty());
      open += __popc(all);
      if (all != 0) {
        float nearest = row.squared(block.exact, to);
#pragma unroll 1
        while (__any_sync(kAllLanes, !left.empty())) { // those who have looked at theirs wait
          const unsigned other = left.empty() ? to : left.take();
          const float squared = row.squared(block.exact, other);
          const bool nearer = squared < nearest || (squared == nearest && other < to);
          to = nearer ? other : to;
          nearest = fminf(nearest, squared);
        }
      }
      const unsigned from = note.from();
      const bool moves = real && to != from;
      block.note_moves(moves && lane_ % 4 == 0, note.row(), from, to, note.with_zeros());
      if (moves) {
        row.in_parts(block.task.split.scale, [&](unsigned f, float value) {
          block.sums.move(f, value, block.shared.to_word[f], from, to);
        });
      }
    }
    count_ = 0;
    __syncwarp(); // nobody needs the notes
    return open;
  }

private:
  Note* s_notes_;
  unsigned lane_, count_ = 0;
};

} // namespace clusterbench::cuda
