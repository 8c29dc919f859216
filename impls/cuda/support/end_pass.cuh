// The end of a pass in a run of one launch: sums over all blocks become centroids, and the stop
// rule decides. Float only.
#pragma once

#include "impls/cuda/support/one_launch.cuh"
#include "impls/cuda/support/warp_sums.cuh"

#include <cuda_runtime.h>

#include <cstddef>

namespace clusterbench::cuda {

/// Sums [k, width] over all blocks, counts last, and what the stop rule asks for behind them.
struct Totals {
  const double* s_totals;
  unsigned k, width;

  __device__ double fact() const { return s_totals[k * width]; }
  /// Or `old`, if the cluster is empty.
  __device__ float mean(unsigned j, unsigned f, float old) const {
    const double size = s_totals[j * width + width - 1];
    return size > 0.0 ? static_cast<float>(s_totals[j * width + f] / size) : old;
  }
};

/// Adds up what the stop rule asks for over the block, and gives it to `sums`. All threads.
template <unsigned kThreads, typename Sums>
__device__ void share_fact(const RunTask& run, const Sums& sums, double wanted) {
  __shared__ double s_wanted[kThreads / 32];
  if (run.wants_fact()) {
    wanted = over_lanes<32>(wanted);
    if (threadIdx.x % 32 == 0) {
      s_wanted[threadIdx.x / 32] = wanted;
    }
    __syncthreads(); // those of all warps are there
    if (threadIdx.x == 0) {
      for (unsigned w = 1; w < kThreads / 32; ++w) {
        wanted += s_wanted[w];
      }
      sums.set_fact(wanted);
    }
  }
}

/// Ends a pass whose sums over all blocks are there: makes the means the centroids, in shared
/// memory where place_of(j, f) says and in the run's answer, and says whether it was the last. All
/// threads. mean_of(j, f, old): the mean, or the old centroid of a cluster without points; asked
/// for by thread e % kThreads where e = j width + f. The centroids are there when it returns.
/// kWidth: if the compiler is to know it, the features that centroids have in shared memory, of
/// which those behind d are not in the answer: it divides by a constant then, and few values wait
/// for little else.
template <unsigned kThreads, unsigned kWidth = 0, typename Sums, typename MeanOf, typename PlaceOf>
__device__ bool end_pass(const RunTask& run, const Sums& sums, unsigned k, unsigned d,
                         MeanOf mean_of, float* s_centroids, PlaceOf place_of, std::size_t& pass,
                         double& previous) {
  __shared__ double s_shifts[kThreads / 32];
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const unsigned width = kWidth > 0 ? kWidth : d;
  double shift = 0.0;
  // Loads of a batch do not wait for the stores of one another.
  constexpr unsigned kBatch = kWidth > 0 ? 1 : 4;
  for (unsigned first = threadIdx.x; first < k * width; first += kBatch * kThreads) {
    float next[kBatch];
#pragma unroll
    for (unsigned b = 0; b < kBatch; ++b) {
      const unsigned e = first + b * kThreads, j = e / width, f = e % width;
      next[b] = e < k * width ? mean_of(j, f, s_centroids[place_of(j, f)]) : 0.0f;
    }
#pragma unroll
    for (unsigned b = 0; b < kBatch; ++b) {
      const unsigned e = first + b * kThreads, j = e / width, f = e % width;
      if (e < k * width) {
        float& centroid = s_centroids[place_of(j, f)];
        const float old = centroid;
        const double moved = static_cast<double>(next[b]) - static_cast<double>(old);
        shift += moved * moved;
        centroid = next[b];
        if (blockIdx.x == 0 && (kWidth == 0 || f < d)) {
          run.leave_centroid(pass, kWidth > 0 ? j * d + f : e, k * d, old, next[b]);
        }
      }
    }
  }
  const double fact = run.wants_fact() ? sums.fact() : 0.0;
  const bool wants_shift = run.rule == StopRule::Kind::shift;
  if (wants_shift) {
    shift = over_lanes<32>(shift);
    if (lane == 0) {
      s_shifts[warp] = shift;
    }
  }
  __syncthreads(); // the centroids and the shifts are there
  if (wants_shift) {
    shift = 0.0;
    for (unsigned w = 0; w < kThreads / 32; ++w) {
      shift += s_shifts[w];
    }
  }
  // All threads of all blocks have the same bits, so they take the same decision.
  ++pass;
  run.note_time(pass);
  const bool last = run.is_last(pass, fact, previous, shift);
  previous = fact;
  if (last && blockIdx.x == 0 && threadIdx.x == 0) {
    *run.iterations = pass;
  }
  return last;
}

} // namespace clusterbench::cuda
