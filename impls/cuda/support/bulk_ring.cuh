// Tiles that a group of warps works through again and again, copied to shared memory as wholes by
// the copy engine, several ahead.
#pragma once

#include "impls/cuda/support/mbarrier.cuh"

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

namespace clusterbench::cuda {

/// A group takes each `groups`-th tile, in every sweep, and every second sweep backwards: what the
/// last one left in the L2 cache is then read first. Sweeps follow one another without a gap, so
/// the first tiles of the next are on their way while the last one is being wound up.
class BulkRing {
public:
  /// points: [tiles, size], 16-byte aligned, as is size in bytes; s_tiles: [stages, size];
  /// s_barriers: [stages]. `leader` is one thread of the group. A barrier must follow, then
  /// start().
  __device__ BulkRing(const float* points, unsigned tiles, unsigned size, unsigned stages,
                      float* s_tiles, std::uint64_t* s_barriers, unsigned group, unsigned groups,
                      bool leader)
      : points_(points), s_tiles_(s_tiles), s_barriers_(s_barriers), size_(size), stages_(stages),
        group_(group), groups_(groups),
        count_(tiles > group ? (tiles - group - 1) / groups + 1 : 0), leader_(leader) {
    for (unsigned stage = 0; stage < stages && leader; ++stage) {
      init_barrier(&s_barriers[stage]);
    }
  }
  /// Sends for the first tiles.
  __device__ void start() {
    for (unsigned stage = 0; stage + 1 < stages_; ++stage) {
      fetch();
    }
  }
  /// Tiles of this group.
  __device__ unsigned count() const { return count_; }
  /// Which of all tiles is the i-th of a sweep.
  __device__ unsigned tile(std::size_t sweep, unsigned i) const {
    return group_ + groups_ * (sweep % 2 == 1 ? count_ - 1 - i : i);
  }
  /// Waits for the next tile, in the order of the sweeps.
  __device__ const float* next() {
    wait_for(&s_barriers_[stage_], phase_);
    const float* tile = s_tiles_ + stage_ * size_;
    if (++stage_ == stages_) {
      stage_ = 0;
      ++phase_;
    }
    return tile;
  }
  /// Sends for one more tile, into the place of the one before the tile that next() gave last: all
  /// threads of the group must have left that one.
  __device__ void fetch() {
    if (leader_ && count_ > 0) {
      const float* from = points_ + std::size_t{tile(fetched_sweep_, fetched_)} * size_;
      const unsigned bytes = size_ * static_cast<unsigned>(sizeof(float));
      std::uint64_t* barrier = &s_barriers_[fetched_stage_];
      expect_bytes(barrier, bytes);
      NV_IF_ELSE_TARGET(
          NV_PROVIDES_SM_90,
          (asm volatile(
               "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, "
               "[%3];" ::"r"(shared_address(s_tiles_ + fetched_stage_ * size_)),
               "l"(from), "r"(bytes), "r"(shared_address(barrier))
               : "memory");),
          (__trap();))
    }
    if (++fetched_stage_ == stages_) {
      fetched_stage_ = 0;
    }
    if (++fetched_ == count_) {
      fetched_ = 0;
      ++fetched_sweep_;
    }
  }
  /// Waits for copies that nobody will need any more.
  __device__ void drain() {
    for (unsigned stage = 0; stage + 1 < stages_ && count_ > 0; ++stage) {
      next();
    }
  }

private:
  const float* points_;
  float* s_tiles_;
  std::uint64_t* s_barriers_;
  unsigned size_, stages_, group_, groups_, count_;
  bool leader_;
  unsigned stage_ = 0, phase_ = 0, fetched_stage_ = 0, fetched_ = 0;
  std::size_t fetched_sweep_ = 0;
};

} // namespace clusterbench::cuda
