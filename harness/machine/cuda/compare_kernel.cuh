// How fast a GPU finds nearest centroids: the least of scores that are in registers, and where it
// is.
//
// Whatever of this a compiler may do once for all groups, it does, and then the rate is no limit of
// anything. So every instruction depends on the group before: minima begin with the least so far,
// and roundings take one score that is made anew.
#pragma once

#include <cuda_fp16.h>

namespace clusterbench {

// Scores of a group of centroids are compared by minima alone: a second look at one group finds the
// place. As many as leave registers for warps that hide the latency.

/// Scores of float32. Those of floats that are not negative are ordered as integers, of which one
/// instruction compares three on devices of compute capability 9.0.
struct WholeScores {
  static constexpr int kGroup = 64;
  using Made = int;
  using Least = int;

  static __device__ Made made(float score) { return __float_as_int(score); }
  static __device__ Least none() { return 0x7f800000; } // infinity
  static __device__ Least least_of(Least least, const Made (&scores)[kGroup], float /*fresh*/) {
#pragma unroll
    for (int j = 0; j < kGroup; j += 2) {
      least = __vimin3_s32(least, scores[j], scores[j + 1]);
    }
    return least;
  }
};

struct DoubleScores {
  static constexpr int kGroup = 32;
  using Made = double;
  using Least = double;

  static __device__ Made made(float score) { return score; }
  static __device__ Least none() { return 1e300; }
  static __device__ Least least_of(Least least, const Made (&scores)[kGroup], float /*fresh*/) {
    Least of_odd = least; // two chains hide more of the latency
#pragma unroll
    for (int j = 0; j < kGroup; j += 2) {
      least = scores[j] < least ? scores[j] : least;
      of_odd = scores[j + 1] < of_odd ? scores[j + 1] : of_odd;
    }
    return of_odd < least ? of_odd : least;
  }
};

/// What tensor cores make, floats, rounded to float16: two share a register, and four are compared
/// with the least so far at once. Rounding keeps their order.
struct PackedScores {
  static constexpr int kGroup = 64;
  using Made = float;
  using Least = unsigned; ///< of the even and of the odd ones

  static __device__ Made made(float score) { return score; }
  static __device__ Least none() { return 0x7c007c00; } // infinity
  static __device__ Least least_of(Least least, const Made (&scores)[kGroup], float fresh) {
#pragma unroll
    for (int j = 0; j < kGroup; j += 4) {
      least = __vimin3_s16x2(least, two(scores[j], fresh), two(scores[j + 2], fresh));
    }
    return least;
  }

private:
  static __device__ unsigned two(float low, float high) {
    const __half2 halves = __floats2half2_rn(low, high);
    return *reinterpret_cast<const unsigned*>(&halves);
  }
};

/// A thread is a point, with so many groups of scores, all `usual` or more. The last group has one
/// that is `least`; d_found [threads] gets that group's number. one: 1, which the compiler must not
/// know.
template <typename Scores>
__global__ void compare_kernel(int groups, float usual, float least, float one, int* d_found) {
  constexpr int kGroup = Scores::kGroup;
  typename Scores::Made scores[kGroup];
#pragma unroll
  for (int j = 0; j < kGroup; ++j) {
    scores[j] = Scores::made(usual + static_cast<float>(j));
  }
  float fresh = usual;
  typename Scores::Least best = Scores::none();
  int found = 0;
  const auto look_at = [&](int group) {
    fresh *= one;
    const auto its = Scores::least_of(best, scores, fresh);
    found = its != best ? group : found;
    best = its;
  };
  for (int group = 0; group + 1 < groups; ++group) {
    look_at(group);
  }
  scores[kGroup / 2] = Scores::made(least);
  look_at(groups - 1);
  d_found[blockIdx.x * blockDim.x + threadIdx.x] = found;
}

} // namespace clusterbench
