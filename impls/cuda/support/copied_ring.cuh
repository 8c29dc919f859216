// Tiles that a warpgroup works through again and again, as in bulk_ring.cuh, copied by all of its threads.
// A bulk copy takes one thread 300 cycles and more to start, for which the others would wait: they
// multiply together. Needs sm_90a.
#pragma once

#include "impls/cuda/support/copies.cuh"
#include "impls/cuda/support/product_order.cuh"

#include <cuda_runtime.h>

#include <cstddef>

namespace clusterbench::cuda {

/// A team takes each `teams`-th tile, in every sweep, and every second sweep backwards: what the last one
/// left in the L2 cache is then read first. Sweeps follow one another without a gap. Of kStages places one
/// has the tile at hand, kBehind those before it, and the others tiles that are on their way. Of each tile's
/// kTileBytes the first kBytes are copied.
template <unsigned kStages, unsigned kBytes, unsigned kBehind, unsigned kTileBytes = kBytes>
class CopiedRing {
  static constexpr unsigned kAhead = kStages - 1 - kBehind; // tiles on their way
  static_assert(kStages > 1 + kBehind);
  static constexpr unsigned kThreads = 128, kPieceBytes = kThreads * 16;
  static constexpr unsigned kPieces = (kBytes + kPieceBytes - 1) / kPieceBytes;

public:
  CopiedRing() = default; ///< of nothing
  /// tiles: [count, kTileBytes]; s_tiles: [kStages, kBytes]. Sends for the first tiles and waits for this
  /// thread's share of one. A barrier must follow.
  __device__ CopiedRing(const float* tiles, unsigned count, float* s_tiles, unsigned team,
                        unsigned teams)
      : s_first_(shared_address(s_tiles)), team_(team), teams_(teams),
        count_(count > team ? (count - team - 1) / teams + 1 : 0),
        from_(reinterpret_cast<const char*>(tiles) + std::size_t{team} * kTileBytes +
              threadIdx.x % kThreads * 16),
        stride_(static_cast<std::ptrdiff_t>(std::size_t{teams} * kTileBytes)), left_(count_) {
    for (unsigned tile = 0; tile < kAhead; ++tile) {
      fetch();
    }
    wait_for_copies<kAhead - 1>();
    publish_operands();
  }
  /// Tiles of this team.
  __device__ unsigned count() const { return count_; }
  /// Which of all tiles is the i-th of a sweep.
  __device__ unsigned tile(std::size_t sweep, unsigned i) const {
    return team_ + teams_ * (sweep % 2 == 1 ? count_ - 1 - i : i);
  }
  /// The tile at hand: its address in shared memory, in units of 16 bytes.
  __device__ unsigned place() const { return (s_first_ + stage_ * kBytes) / 16; }
  /// Waits for this thread's share of the next tile. After a barrier of the team it is there, and
  /// advance() makes it the one at hand.
  __device__ void await_next() const {
    wait_for_copies<kAhead - 1>();
    publish_operands();
  }
  __device__ void advance() { stage_ = stage_ + 1 == kStages ? 0 : stage_ + 1; }
  /// Sends for one more tile, into the place of the one that nobody needs any more: for once a tile.
  __device__ void fetch() {
    if (count_ > 0) {
      const unsigned to = s_first_ + fetched_stage_ * kBytes + threadIdx.x % kThreads * 16;
#pragma unroll
      for (unsigned piece = 0; piece < kPieces; ++piece) {
        if (kBytes % kPieceBytes == 0 || piece + 1 < kPieces ||
            threadIdx.x % kThreads < kBytes % kPieceBytes / 16) {
          copy_async(to + piece * kPieceBytes, from_ + piece * kPieceBytes);
        }
      }
      if (--left_ > 0) {
        from_ += stride_;
      } else { // the next sweep begins where this one ends
        left_ = count_;
        stride_ = -stride_;
      }
    }
    close_copies();
    fetched_stage_ = fetched_stage_ + 1 == kStages ? 0 : fetched_stage_ + 1;
  }

private:
  unsigned s_first_ = 0, team_ = 0, teams_ = 0, count_ = 0;
  unsigned stage_ = 0, fetched_stage_ = 0;
  const char* from_ = nullptr; // this thread's share of the tile that is fetched next
  std::ptrdiff_t stride_ = 0;  // to the one after it
  unsigned left_ = 0;          // tiles of its sweep
};

} // namespace clusterbench::cuda
