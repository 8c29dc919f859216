// Means over all blocks of a launch: every block leaves its sums in memory, and each adds up a share of
// them for all. Two barriers of the grid a pass, and the same order, so the same bits, in every run.
// GridSums, in integer_sums.cuh, takes one barrier, but about 7 ns a sum for its atomics.
#pragma once

#include "impls/cuda/support/warp_sums.cuh"

#include <cooperative_groups.h>
#include <cuda_runtime.h>

#include <cstddef>

namespace clusterbench::cuda {

/// Doubles in device memory for k clusters of d features and so many blocks.
inline std::size_t grid_mean_words(std::size_t k, std::size_t d, std::size_t blocks) {
  return 2 * blocks + (k * d + k * (d + 1) * blocks + 1) / 2;
}

/// All blocks must be resident (a cooperative launch).
template <unsigned kThreads>
class GridMeans {
public:
  static constexpr unsigned kWarps = kThreads / 32, kScratchBytes = kThreads * sizeof(double2);
  static_assert(kWarps <= 16);

  /// s_scratch: kScratchBytes, free during finish().
  __device__ GridMeans(double* words, unsigned k, unsigned d, void* s_scratch)
      : s_scratch_(static_cast<double2*>(s_scratch)), facts_(words),
        means_(reinterpret_cast<float*>(words + 2 * gridDim.x)), sums_(means_ + k * d), k_(k),
        d_(d) {}

  /// Any thread: of this block's sums [k, d + 1], the count behind the features, number v.
  __device__ void set(unsigned v, float sum) const {
    sums_[std::size_t{blockIdx.x} * k_ * (d_ + 1) + v] = sum;
  }
  /// One thread a block.
  __device__ void set_fact(double fact) const { facts_[pass_ % 2 * gridDim.x + blockIdx.x] = fact; }

  /// All threads: makes mean_of(j, f, sum, size) of the sums over all blocks, and returns when those of
  /// all j and f are there.
  template <typename MeanOf>
  __device__ void finish(MeanOf mean_of) {
    const auto grid = cooperative_groups::this_grid();
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32, values = k_ * d_;
    const unsigned wide = values > 16 * gridDim.x ? 32 : 8; // means that a block makes at a time
    grid.sync();                                            // all blocks have left their sums
    for (unsigned first = blockIdx.x * wide; first < values; first += gridDim.x * wide) {
      const unsigned e = min(first + lane % wide, values - 1), j = e / d_;
      const float* from = sums_ + j * (d_ + 1);
      double sum = 0.0, size = 0.0;
#pragma unroll 3
      for (unsigned block = (warp * 32 + lane) / wide; block < gridDim.x;
           block += kThreads / wide) {
        const float* of_block = from + std::size_t{block} * k_ * (d_ + 1);
        sum += static_cast<double>(__ldcg(of_block + e % d_));
        size += static_cast<double>(__ldcg(of_block + d_));
      }
      for (unsigned offset = 16; offset >= wide; offset /= 2) {
        sum += __shfl_xor_sync(kAllLanes, sum, static_cast<int>(offset));
        size += __shfl_xor_sync(kAllLanes, size, static_cast<int>(offset));
      }
      if (lane < wide) {
        s_scratch_[warp * wide + lane] = make_double2(sum, size);
      }
      __syncthreads();                                               // those of all warps are there
      for (unsigned u = threadIdx.x; u < wide * 16; u += kThreads) { // sixteen lanes a mean
        const unsigned of_warp = u % 16, at = first + u / 16;
        const double2 part =
            of_warp < kWarps ? s_scratch_[of_warp * wide + u / 16] : make_double2(0.0, 0.0);
        sum = over_lanes<16>(part.x);
        size = over_lanes<16>(part.y);
        if (of_warp == 0 && at < values) {
          means_[at] = mean_of(at / d_, at % d_, sum, size);
        }
      }
      __syncthreads(); // and have been read
    }
    grid.sync(); // all means are there
    ++pass_;
  }
  /// A mean of the pass that has ended. L1 could hold an old one.
  __device__ float mean(unsigned j, unsigned f) const {
    return __ldcg(means_ + j * d_ + f);
  }
  /// The sum of all facts. Whole warps; all lanes get it.
  __device__ double fact() const {
    return sum_of_blocks(facts_ + (pass_ + 1) % 2 * gridDim.x, gridDim.x);
  }

private:
  double2* s_scratch_;
  double* facts_; // [2, blocks]
  float* means_;  // [k, d]
  float* sums_;   // [blocks, k, d + 1]
  unsigned k_, d_, pass_ = 0;
};

} // namespace clusterbench::cuda
