// The boxes of a block in shared memory: where they are, what is known of their labels, and the list of those
// whose points have to be looked at.
#pragma once

#include "impls/cuda/support/box_candidates.cuh"
#include "impls/cuda/support/warp_sums.cuh"

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

namespace clusterbench::cuda {

/// In the rival of a box: it is the label of all points, and was the only candidate.
inline constexpr unsigned kSettled = 0x80;

/// The boxes of a block, in shared memory, and those of their points that are there, too.
template <unsigned D>
struct BoxesOfBlock {
  static constexpr unsigned kPoints = kBoxPoints * D; ///< floats of a box
  static constexpr unsigned kExtents = 2 * D + 1;     ///< odd, so that lanes read different banks

  float* s_points;          // [resident, D, 32]
  float* s_extents;         // [most, kExtents]: middle, and half of the width
  Candidates* s_candidates; // [most], of the open boxes in their order
  std::uint16_t* s_open;    // [most]: boxes whose points have to be looked at
  std::uint8_t* s_labels;   // [most, 32]
  std::uint8_t* s_rivals;   // [most]: the centroid that others are compared with

  static constexpr std::size_t bytes_of_points() { return kPoints * sizeof(float); }
  static constexpr std::size_t bytes_of_box() {
    return kExtents * sizeof(float) + sizeof(Candidates) + sizeof(std::uint16_t) + kBoxPoints + 1;
  }
  __device__ BoxesOfBlock(float* s_room, unsigned resident, unsigned most)
      : s_points(s_room), s_extents(s_points + std::size_t{resident} * kPoints),
        s_candidates(reinterpret_cast<Candidates*>(s_extents + most * kExtents)),
        s_open(reinterpret_cast<std::uint16_t*>(s_candidates + most)),
        s_labels(reinterpret_cast<std::uint8_t*>(s_open + most)),
        s_rivals(s_labels + most * kBoxPoints) {}

  /// All lanes of a warp: lists the boxes of lanes that want it, in any order, or in their own if that
  /// matters and all boxes are wanted.
  __device__ void open(bool wanted, unsigned box, Candidates candidates, bool in_order,
                       unsigned* s_count) const {
    const unsigned lane = threadIdx.x % 32, lanes = __ballot_sync(kAllLanes, wanted);
    if (lanes != 0) {
      unsigned place = lane == 0 ? atomicAdd(s_count, static_cast<unsigned>(__popc(lanes))) : 0;
      place = in_order ? box
                       : __shfl_sync(kAllLanes, place, 0) +
                             static_cast<unsigned>(__popc(lanes & ((1u << lane) - 1)));
      if (wanted) {
        s_open[place] = static_cast<std::uint16_t>(box);
        s_candidates[place] = candidates;
      }
    }
  }
};

} // namespace clusterbench::cuda
