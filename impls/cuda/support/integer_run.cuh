// What variants with sums of integers share around their sweeps: the data's magnitudes, and the end of
// a pass. Float only.
#pragma once

#include "impls/cuda/support/integer_sums.cuh"
#include "impls/cuda/support/one_launch.cuh"

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

namespace clusterbench::cuda {

/// Of rows, [., d]: the length of the longest, and the largest magnitude of every feature.
struct Magnitudes {
  double longest = 0.0;
  std::vector<double> largest;

  static Magnitudes of(std::span<const float> rows, std::size_t d) {
    Magnitudes found{0.0, std::vector<double>(d)};
    for (std::size_t i = 0; i < rows.size(); i += d) {
      double squared = 0.0;
      for (std::size_t f = 0; f < d; ++f) {
        const double value = std::abs(static_cast<double>(rows[i + f]));
        squared += value * value;
        found.largest[f] = std::max(found.largest[f], value);
      }
      found.longest = std::max(found.longest, squared);
    }
    found.longest = std::sqrt(found.longest);
    return found;
  }

  /// The power of two that makes a feature's values less than 2^bits. Tiny features get no more than
  /// 2^(100 + bits), which is finite; what they lose lies beneath, and is kept.
  float to_word(std::size_t f, int bits) const {
    const bool zero = f >= largest.size() || largest[f] == 0.0;
    return std::ldexp(1.0f, bits - std::max(zero ? 0 : std::ilogb(largest[f]) + 1, -100));
  }
};

/// Ends a pass: makes the means the centroids (a cluster without points keeps its own), in
/// shared memory where place_of(j, f) says and in the run's result, and says whether it was the last.
/// All threads must call it after a block's sums, [k, width], the count behind the features, have been
/// added; `wanted` is the thread's part of what the stop rule asks for. A barrier must follow before the
/// centroids are read.
template <unsigned kThreads, typename PlaceOf>
__device__ bool end_pass(const RunTask& run, GridSums& sums, unsigned k, unsigned d, unsigned width,
                         const float* to_word, int bits, double wanted, float* s_centroids,
                         PlaceOf place_of, std::size_t& pass, double& previous) {
  __shared__ double s_wanted[kThreads / 32], s_shifts[kThreads / 32];
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  if (run.wants_fact()) {
    wanted = over_lanes<32>(wanted);
    if (lane == 0) {
      s_wanted[warp] = wanted;
    }
    __syncthreads(); // those of all warps are there
    if (threadIdx.x == 0) {
      for (unsigned w = 1; w < kThreads / 32; ++w) {
        wanted += s_wanted[w];
      }
      sums.set_fact(wanted);
    }
  }
  sums.finish();
  double shift = 0.0;
#pragma unroll 4
  for (unsigned e = threadIdx.x; e < k * d; e += kThreads) {
    const unsigned j = e / d, f = e % d;
    float& centroid = s_centroids[place_of(j, f)];
    const double size = sums.sum(j * width + width - 1), sum = sums.sum(j * width + f);
    const double unit = static_cast<double>(to_word[f]) * (1 << bits);
    const double old = static_cast<double>(centroid);
    if (size > 0.0) {
      centroid = static_cast<float>(sum / (unit * size));
    }
    const double moved = static_cast<double>(centroid) - old;
    shift += moved * moved;
    if (blockIdx.x == 0) {
      run.centroids[e] = centroid;
      if (run.history != nullptr) {
        run.history[pass * k * d + e] = centroid;
      }
    }
  }
  shift = over_lanes<32>(shift);
  if (lane == 0) {
    s_shifts[warp] = shift;
  }
  const double fact = run.wants_fact() ? sums.fact() : 0.0;
  __syncthreads(); // the shifts are there
  shift = 0.0;
  for (unsigned w = 0; w < kThreads / 32; ++w) {
    shift += s_shifts[w];
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
