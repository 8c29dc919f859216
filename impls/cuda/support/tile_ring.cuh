// Tiles of rows that a block works through again and again, copied to shared memory asynchronously
// while it works on the one before.
#pragma once

#include <cuda_runtime.h>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow" // the toolkit's header warns about itself
#include <cuda_pipeline.h>
#pragma GCC diagnostic pop

#include <cstddef>

namespace clusterbench::cuda {

/// Every block takes each gridDim.x-th tile, in every sweep, and every second sweep backwards: what
/// the last one left in the L2 cache is then read first. Sweeps follow one another without a gap, so
/// the first tiles of the next are on their way while the last one is being wound up.
template <unsigned kStages, unsigned kThreads>
class TileRing {
public:
  /// points: [tiles, size], 16-byte aligned; s_tiles: [kStages, size]; size: floats of a tile, a
  /// multiple of 4. There must be at least gridDim.x tiles.
  __device__ TileRing(const float* points, unsigned tiles, unsigned size, float* s_tiles)
      : points_(points), s_tiles_(s_tiles), size_(size),
        count_((tiles - blockIdx.x + gridDim.x - 1) / gridDim.x) {
    for (unsigned stage = 0; stage + 1 < kStages; ++stage) {
      fetch();
    }
  }
  /// Tiles of this block.
  __device__ unsigned count() const { return count_; }
  /// Which of all tiles is the i-th of a sweep.
  __device__ unsigned tile(std::size_t sweep, unsigned i) const {
    return blockIdx.x + gridDim.x * (sweep % 2 == 1 ? count_ - 1 - i : i);
  }
  /// Waits for the next tile, in the order of the sweeps. A barrier: all threads must have left the
  /// tile before, whose place the next copy takes.
  __device__ const float* next() {
    __pipeline_wait_prior(kStages - 2);
    __syncthreads(); // every thread's part of the tile is there, and the tile before is free
    fetch();
    const float* tile = s_tiles_ + stage_ * size_;
    stage_ = (stage_ + 1) % kStages;
    return tile;
  }
  /// Waits for copies that nobody will need any more.
  __device__ void drain() const { __pipeline_wait_prior(0); }

private:
  __device__ void fetch() {
    const std::size_t first = std::size_t{tile(fetched_sweep_, fetched_)} * size_;
    const float4* from = reinterpret_cast<const float4*>(points_ + first);
    float4* to = reinterpret_cast<float4*>(s_tiles_ + fetched_stage_ * size_);
    for (unsigned e = threadIdx.x; e < size_ / 4; e += kThreads) {
      __pipeline_memcpy_async(to + e, from + e, sizeof(float4));
    }
    __pipeline_commit();
    fetched_stage_ = (fetched_stage_ + 1) % kStages;
    if (++fetched_ == count_) {
      fetched_ = 0;
      ++fetched_sweep_;
    }
  }

  const float* points_;
  float* s_tiles_;
  unsigned size_, count_;
  unsigned stage_ = 0, fetched_stage_ = 0, fetched_ = 0;
  std::size_t fetched_sweep_ = 0;
};

} // namespace clusterbench::cuda
