// How fast a GPU finds nearest centroids: the least of scores that are in registers, and where it is.
#pragma once

#include <cuda_fp16.h>

namespace clusterbench {

constexpr int kGroup = 32; ///< centroids. Minima do within it: a second look at one group finds the place

/// Scores of float32. Those of floats that are not negative are ordered as integers, of which one
/// instruction compares three on devices of compute capability 9.0.
struct WholeScores {
  using Made = int;

  static __device__ Made made(float score) { return __float_as_int(score); }
  static __device__ void hide(Made& score) { asm volatile("" : "+r"(score)); }
  static __device__ Made least_of(const Made (&scores)[kGroup]) {
    Made least = scores[0];
#pragma unroll
    for (int j = 1; j < kGroup; j += 2) {
      least = __vimin3_s32(least, scores[j], scores[j + 1 < kGroup ? j + 1 : j]);
    }
    return least;
  }
  static __device__ bool improve(Made& best, Made least) {
    const bool is_less = least < best;
    best = min(best, least);
    return is_less;
  }
};

struct DoubleScores {
  using Made = double;

  static __device__ Made made(float score) { return score; }
  static __device__ void hide(Made& score) { asm volatile("" : "+d"(score)); }
  static __device__ Made least_of(const Made (&scores)[kGroup]) {
    Made least = scores[0];
#pragma unroll
    for (int j = 1; j < kGroup; ++j) {
      least = scores[j] < least ? scores[j] : least;
    }
    return least;
  }
  static __device__ bool improve(Made& best, Made least) {
    const bool is_less = least < best;
    best = is_less ? least : best;
    return is_less;
  }
};

/// What tensor cores make, floats, rounded to float16: two share a register, and six are compared at
/// once. Rounding keeps their order.
struct PackedScores {
  using Made = float;

  static __device__ Made made(float score) { return score; }
  static __device__ void hide(Made& score) { asm volatile("" : "+f"(score)); }
  static __device__ unsigned least_of(const Made (&scores)[kGroup]) {
    const auto two = [&](int j) {
      const __half2 halves = __floats2half2_rn(scores[j], scores[j + 1]);
      return *reinterpret_cast<const unsigned*>(&halves);
    };
    unsigned least = two(0);
#pragma unroll
    for (int j = 2; j < kGroup; j += 4) {
      least = __vimin3_s16x2(least, two(j), two(j + 2 < kGroup ? j + 2 : j));
    }
    return least;
  }
  static __device__ bool improve(unsigned& best, unsigned least) {
    const unsigned before = best;
    best = __vmins2(best, least);
    return best != before;
  }
};

/// A thread is a point, with so many groups of scores. The last one has the least; d_found [threads]
/// gets that group's number.
template <typename Scores>
__global__ void compare_kernel(int groups, float usual, float least, int* d_found) {
  typename Scores::Made scores[kGroup];
#pragma unroll
  for (auto& score : scores) {
    score = Scores::made(usual);
  }
  auto best = Scores::least_of(scores);
  int found = 0;
  const auto look_at = [&](int group) {
#pragma unroll
    for (auto& score : scores) {
      Scores::hide(score); // the compiler must take them for others than the last group's
    }
    found = Scores::improve(best, Scores::least_of(scores)) ? group : found;
  };
  for (int group = 1; group + 1 < groups; ++group) {
    look_at(group);
  }
  scores[kGroup / 3] = Scores::made(least);
  look_at(groups - 1);
  d_found[blockIdx.x * blockDim.x + threadIdx.x] = found;
}

} // namespace clusterbench
