// Rows that a warp takes a note of while it sweeps, to look at them again after it, in memory and as they came:
// those that go from one cluster to another, and those that their scores leave open.
#pragma once

#include "impls/cuda/support/exact_rows.cuh"
#include "impls/cuda/support/kept_run.cuh"
#include "impls/cuda/support/moved_sums.cuh"
#include "impls/cuda/support/split_rows.cuh"

#include <cuda_runtime.h>

#include <cmath>
#include <cstddef>
#include <cstdint>

namespace clusterbench::cuda {

struct alignas(8) Note {
  static constexpr unsigned kNobody = 0xFE, kAnybody = 0xFD; ///< no cluster's numbers

  unsigned row;
  std::uint8_t from, to;
  std::uint8_t or_to; ///< kNobody; a number above `to`, between which and `to` it is open; kAnybody
};

/// Any thread: sends for a row to the L2 cache.
__device__ inline void expect_row(const ExactRows& exact, unsigned row) {
  const char* first = reinterpret_cast<const char*>(exact.rows + std::size_t{row} * exact.width);
  for (unsigned byte = 0; byte < exact.width * sizeof(float); byte += 128) {
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
  __device__ void move(const MovedSums<D>& sums, const ToWords<kMostKept>& to_word, float scale,
                       unsigned from, unsigned to) const {
#pragma unroll
    for (unsigned i = 0; i < kParts; ++i) {
      if (here(i)) {
        const float values[4] = {x_[i].x, x_[i].y, x_[i].z, x_[i].w};
#pragma unroll
        for (unsigned v = 0; v < 4; ++v) {
          sums.move(f(i) + v, SplitPair::of(values[v] * scale).sum(), to_word.factor[f(i) + v],
                    from, to);
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

/// The centroid nearest to a row as it came, by a whole warp; ties to the lowest.
__device__ inline unsigned nearest_of_all(const ExactRows& exact, unsigned row) {
  const float* x = exact.rows + std::size_t{row} * exact.width;
  float least = INFINITY;
  unsigned label = kMostKept;
#pragma unroll 1
  for (unsigned j = threadIdx.x % 32; j < exact.k; j += 32) {
    float sum = 0.0f;
#pragma unroll 1
    for (unsigned f = 0; f < exact.width; f += 4) {
      const float4 v = __ldg(reinterpret_cast<const float4*>(x + f));
      const float4 c = *reinterpret_cast<const float4*>(exact.s_centroids + j * exact.stride() + f);
      sum += (v.x - c.x) * (v.x - c.x) + (v.y - c.y) * (v.y - c.y) + (v.z - c.z) * (v.z - c.z) +
             (v.w - c.w) * (v.w - c.w);
    }
    label = sum < least ? j : label;
    least = fminf(least, sum);
  }
  const unsigned bits = __float_as_uint(least); // not negative
  const unsigned of_all = __reduce_min_sync(kAllLanes, bits);
  return __reduce_min_sync(kAllLanes, bits == of_all ? label : kMostKept);
}

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
    unsigned to = note.to;
    open += __popc(__ballot_sync(kAllLanes, real && note.or_to != Note::kNobody && lane % 4 == 0));
    if (__any_sync(kAllLanes, note.or_to < kMostKept)) { // to < or_to; ties to the lower number
      const unsigned other = note.or_to < kMostKept ? note.or_to : to;
      const bool nearer = row.squared(other) < row.squared(to);
      to = nearer ? other : to;
    }
    unsigned anybody =
        __ballot_sync(kAllLanes, real && note.or_to == Note::kAnybody && lane % 4 == 0);
#pragma unroll 1
    for (; anybody != 0; anybody &= anybody - 1) { // the others wait
      const int of = __ffs(static_cast<int>(anybody)) - 1;
      const unsigned nearest = nearest_of_all(block.exact, __shfl_sync(kAllLanes, note.row, of));
      to = lane / 4 == static_cast<unsigned>(of) / 4 ? nearest : to;
    }
    const bool moves = real && to != note.from;
    block.note_moves(moves && lane % 4 == 0, note.row, note.from, to);
    if (moves) {
      row.move(block.sums, block.task.to_word, block.task.split.scale, note.from, to);
    }
  }
  __syncwarp(); // nobody needs the notes
  return open;
}

} // namespace clusterbench::cuda
