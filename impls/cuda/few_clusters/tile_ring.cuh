// Tiles on their way from global to shared memory while others are used.
#pragma once

#include "impls/cuda/common/copies.cuh"

#include <cstddef>
#include <cstdint>
#include <cuda_runtime.h>

namespace clusterbench::cuda {

// Tiles that a warpgroup works through again and again, copied by all of its threads.
// A bulk copy takes one thread 300 cycles and more to start, for which the others would wait: they
// multiply together. Needs sm_90a.

// Values that the compiler does not make again.

/// The same value. Of a thread's number: to read that again, to save a register, takes long.
__device__ inline unsigned keep_in_register(unsigned value) {
  asm volatile("" : "+r"(value));
  return value;
}

/// A team takes each `teams`-th tile, in every sweep, and every second sweep backwards: what the last one
/// left in the L2 cache is then read first. Sweeps follow one another without a gap. Of kStages places one
/// has the tile at hand, kBehind those before it, and the others tiles that are on their way. Of each tile's
/// kTileBytes the first kBytes are copied. A team may take kAtOnce of its tiles at a time, which share a place.
template <unsigned kStages, unsigned kBytes, unsigned kBehind, unsigned kTileBytes = kBytes,
          unsigned kAtOnce = 1>
class CopiedRing {
  static constexpr unsigned kAhead = kStages - 1 - kBehind; // tiles on their way
  static_assert(kStages > 1 + kBehind);
  static constexpr unsigned kPlaceBytes = kAtOnce * kBytes;
  static constexpr unsigned kThreads = 128, kPieceBytes = kThreads * 16;
  static constexpr unsigned kPieces = (kBytes + kPieceBytes - 1) / kPieceBytes;

public:
  CopiedRing() = default; ///< of nothing
  /// tiles: [count, kTileBytes]; s_tiles: [kStages, kAtOnce, kBytes]. Sends for the first tiles and waits for this
  /// thread's share of one. A barrier must follow.
  __device__ CopiedRing(const float* tiles, unsigned count, float* s_tiles, unsigned team,
                        unsigned teams)
      : s_first_(shared_address(s_tiles)), team_(team), teams_(teams), tiles_(count),
        count_(count > team ? (count - team - 1) / (teams * kAtOnce) + 1 : 0),
        own_(keep_in_register(threadIdx.x % kThreads * 16)),
        from_(reinterpret_cast<const char*>(tiles) + std::size_t{team} * kTileBytes + own_),
        next_(team), left_(count_), stride_(teams * kAtOnce) {
    for (unsigned tile = 0; tile < kAhead; ++tile) {
      fetch();
    }
    cp_async_wait<kAhead - 1>();
    fence_proxy_async();
  }
  /// How many times the team takes tiles.
  __device__ unsigned count() const { return count_; }
  /// Which of all tiles is the first of those that are taken at the i-th time of a sweep. The others: tile_step()
  /// apart; behind all tiles if the team has no more.
  __device__ unsigned tile(std::size_t sweep, unsigned i) const {
    return team_ + teams_ * kAtOnce * (sweep % 2 == 1 ? count_ - 1 - i : i);
  }
  __device__ unsigned tile_step() const { return teams_; }
  /// From the first tile of one time to that of the next; backwards modulo 2^32.
  __device__ unsigned stride(std::size_t sweep) const {
    return sweep % 2 == 1 ? 0u - teams_ * kAtOnce : teams_ * kAtOnce;
  }
  /// The tiles at hand: their address in shared memory, in units of 16 bytes.
  __device__ unsigned place() const { return (s_first_ + stage_ * kPlaceBytes) / 16; }
  /// Waits for this thread's share of the next tiles. After a barrier of the team it is there, and
  /// advance() makes it the one at hand.
  __device__ void await_next() const {
    cp_async_wait<kAhead - 1>();
    fence_proxy_async();
  }
  __device__ void advance() { stage_ = stage_ + 1 == kStages ? 0 : stage_ + 1; }
  /// Sends for more tiles, into the place of those that nobody needs any more: once for each time.
  __device__ void fetch() {
    if (count_ > 0) {
      const unsigned to = s_first_ + own_ + fetched_stage_ * kPlaceBytes;
#pragma unroll
      for (unsigned e = 0; e < kAtOnce * kPieces; ++e) {
        const unsigned tile = e / kPieces, piece = e % kPieces;
        const bool whole = kBytes % kPieceBytes == 0 || piece + 1 < kPieces;
        // Of the last ones of a sweep some may not be there.
        if ((tile == 0 || next_ + tile * teams_ < tiles_) &&
            (whole || own_ < kBytes % kPieceBytes)) {
          cp_async(to + tile * kBytes + piece * kPieceBytes,
                   from_ + std::size_t{tile * teams_} * kTileBytes + piece * kPieceBytes);
        }
      }
      if (--left_ > 0) {
        next_ += stride_;
        from_ += std::ptrdiff_t{static_cast<int>(stride_)} * static_cast<int>(kTileBytes);
      } else { // the next sweep begins where this one ends
        left_ = count_;
        stride_ = 0 - stride_;
      }
    }
    cp_async_commit();
    fetched_stage_ = fetched_stage_ + 1 == kStages ? 0 : fetched_stage_ + 1;
  }

private:
  unsigned s_first_ = 0, team_ = 0, teams_ = 0, tiles_ = 0, count_ = 0;
  unsigned stage_ = 0, fetched_stage_ = 0;
  unsigned own_ = 0;           // where this thread's share of a tile begins
  const char* from_ = nullptr; // it, of the first tile that is fetched next
  unsigned next_ = 0;          // that tile
  unsigned left_ = 0;          // times of its sweep
  unsigned stride_ = 0;        // to the next after it, modulo 2^32
};

} // namespace clusterbench::cuda
