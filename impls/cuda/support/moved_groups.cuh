// Sums that stay from pass to pass, as in moved_points.cuh, of warps whose lanes have neighbouring points: where
// many of them go the same way, they are added up before they are moved.
#pragma once

#include "impls/cuda/support/moved_points.cuh"
#include "impls/cuda/support/warp_sums.cuh"

#include <cuda_runtime.h>

namespace clusterbench::cuda {

/// See MovedPoints.
template <unsigned D, unsigned copies>
class MovedGroups : public MovedPoints<D, copies> {
public:
  using MovedPoints<D, copies>::MovedPoints;
  using MovedPoints<D, copies>::kNowhere;

  /// All lanes of a warp: the points of the lanes in `moving` go from one cluster to another.
  __device__ void move_lanes(unsigned moving, const float (&x)[D], unsigned from,
                             unsigned to) const {
    const unsigned lane = threadIdx.x % 32;
    if (__popc(moving) > kFew) {
      move_ways(moving, x, from, to);
    } else if ((moving >> lane & 1) != 0) {
#pragma unroll
      for (unsigned f = 0; f <= D; ++f) {
        this->move(lane, f, f < D ? x[f < D ? f : 0] : 1.0f, from, to);
      }
    }
  }

private:
  static constexpr int kFew = 10; ///< points whose atomics seldom meet

  __device__ void move_ways(unsigned moving, const float (&x)[D], unsigned from,
                            unsigned to) const {
    const unsigned lane = threadIdx.x % 32, way = from << 8 | to;
    Words words[D];
#pragma unroll
    for (unsigned f = 0; f < D; ++f) {
      words[f] = Words::of(x[f], this->s_to_word_[f], this->next_);
      this->move_rest(f, (moving >> lane & 1) != 0 ? words[f].beneath : 0.0f, from, to);
    }
    while (moving != 0) { // a way at a time
      const unsigned its_way = __shfl_sync(kAllLanes, way, __ffs(static_cast<int>(moving)) - 1);
      const unsigned group = __ballot_sync(kAllLanes, way == its_way) & moving;
      const bool mine = (group >> lane & 1) != 0;
      int first = __popc(group), second = 0; // of lane f: of feature f; of lane D: the count
#pragma unroll
      for (unsigned f = 0; f < D; ++f) {
        const int firsts = __reduce_add_sync(kAllLanes, mine ? words[f].first : 0);
        const int seconds = __reduce_add_sync(kAllLanes, mine ? words[f].second : 0);
        first = lane == f ? firsts : first;
        second = lane == f ? seconds : second;
      }
      if (lane <= D) {
        add_words(its_way & 0xFF, lane, first, second);
        if (its_way >> 8 != kNowhere) {
          add_words(its_way >> 8, lane, -first, -second);
        }
      }
      moving &= ~group;
    }
  }
  __device__ void add_words(unsigned j, unsigned f, int first, int second) const {
    int* words = this->words_of(j, threadIdx.x / 32) + f;
    atomicAdd(words, first);
    atomicAdd(words + D + 1, second);
  }
};

} // namespace clusterbench::cuda
