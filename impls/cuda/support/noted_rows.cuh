// Rows that a warp takes a note of while it sweeps, to look at several of them again, in memory and as they came:
// those that go from one cluster to another, and those that their scores leave open.
#pragma once

#include "impls/cuda/support/exact_rows.cuh"
#include "impls/cuda/support/kept_run.cuh"
#include "impls/cuda/support/moved_sums.cuh"
#include "impls/cuda/support/rounded_bound.hpp"
#include "impls/cuda/support/split_rows.cuh"

#include <cuda_runtime.h>

#include <cstddef>

namespace clusterbench::cuda {

/// A row, the cluster it is in, and which centroids may be nearest to it: one or more.
struct alignas(16) Note {
  NearOnes near;
  unsigned row, from;
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

/// Four features of every 16 of a row as it came, and of a centroid: lane t of four has 4 t, ... 4 t + 3.
template <unsigned D>
class QuarterRow {
public:
  __device__ QuarterRow(const ExactRows& exact, unsigned row) : exact_(exact) {
    const float* values = exact.rows + std::size_t{row} * exact.width;
#pragma unroll
    for (unsigned i = 0; i < kParts; ++i) { // loads do not wait for one another
      x_[i] = here(i) ? __ldg(reinterpret_cast<const float4*>(values + f(i))) : float4{};
    }
  }
  /// Four lanes: its squared distance to a centroid.
  __device__ float squared(unsigned j) const {
    float sum = 0.0f;
#pragma unroll
    for (unsigned i = 0; i < kParts; ++i) {
      if (here(i)) {
        const float4 c =
            *reinterpret_cast<const float4*>(exact_.s_centroids + j * exact_.stride() + f(i));
        sum += (x_[i].x - c.x) * (x_[i].x - c.x) + (x_[i].y - c.y) * (x_[i].y - c.y) +
               (x_[i].z - c.z) * (x_[i].z - c.z) + (x_[i].w - c.w) * (x_[i].w - c.w);
      }
    }
    return over_lanes<4>(sum);
  }
  /// A lane's share of the row goes from one cluster to another.
  __device__ void move(const MovedSums<D>& sums, const float* to_word, float scale, unsigned from,
                       unsigned to) const {
#pragma unroll
    for (unsigned i = 0; i < kParts; ++i) {
      if (here(i)) {
        const float values[4] = {x_[i].x, x_[i].y, x_[i].z, x_[i].w};
#pragma unroll
        for (unsigned v = 0; v < 4; ++v) {
          sums.move(f(i) + v, SplitPair::of(values[v] * scale).sum(), to_word[f(i) + v], from, to);
        }
      }
    }
  }

private:
  static constexpr unsigned kParts = (D + 15) / 16;
  __device__ static unsigned f(unsigned i) {
    return i * 16 + threadIdx.x % 4 * 4;
  }
  __device__ bool here(unsigned i) const {
    return f(i) < exact_.width;
  }

  const ExactRows& exact_;
  float4 x_[kParts];
};

/// Looks at the rows of a warp's notes again, four lanes a row: decides what is open, and moves what moves. All
/// lanes; block: see KeptRun. Returns how many were open.
template <typename Run>
__device__ unsigned look_again(const Run& block, const Note* s_notes, unsigned count) {
  const unsigned lane = threadIdx.x % 32;
  unsigned open = 0;
  __syncwarp(); // the notes are there
#pragma unroll 1
  for (unsigned first = 0; first < count; first += 8) {
    const bool real = first + lane / 4 < count;
    const Note note = s_notes[real ? first + lane / 4 : first];
    const QuarterRow<Run::D> row(block.exact, note.row);
    NearOnes left = note.near;
    unsigned to = left.take();
    const unsigned all = __ballot_sync(kAllLanes, real && lane % 4 == 0 && !left.empty());
    open += __popc(all);
    if (all != 0) {
      float nearest = row.squared(to);
#pragma unroll 1
      while (__any_sync(kAllLanes, !left.empty())) { // those who have looked at theirs wait
        const unsigned other = left.empty() ? to : left.take();
        const float squared = row.squared(other);
        const bool nearer = squared < nearest || (squared == nearest && other < to);
        to = nearer ? other : to;
        nearest = fminf(nearest, squared);
      }
    }
    const bool moves = real && to != note.from;
    block.note_moves(moves && lane % 4 == 0, note.row, note.from, to);
    if (moves) {
      row.move(block.sums, block.task.to_word.factor, block.task.split.scale, note.from, to);
    }
  }
  __syncwarp(); // nobody needs the notes
  return open;
}

} // namespace clusterbench::cuda
