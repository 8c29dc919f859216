// The nearest of few centroids to points of few features: scores in float, groups of four centroids
// compete, and the winner is exact.
//
// A score |c|^2 / 2 - x c + M is one instruction a feature where a squared difference takes two, and is
// positive, so that it is compared as an integer: the least of four in two instructions, the group's
// number in its last bits. If no other group comes as close to the best as rounding allows, the nearest
// centroid is one of its four, and squared differences say which; else all are compared that way.
#pragma once

#include <cuda_runtime.h>

#include <bit>
#include <cmath>
#include <cstddef>

namespace clusterbench::cuda {

inline constexpr int kFarAwayBits = 0x7f000000; ///< 1.7e38, as a float

/// What the search needs to know. Scores further apart than certain + of_bits * the larger are in the
/// true order; `keep` are the bits of a score that are not its group's number.
struct GroupSearch {
  unsigned groups, keep;
  float shift; ///< M
  float certain, of_bits;

  /// For k centroids no longer than c and points no longer than x, of `features` with the padding.
  static GroupSearch of(std::size_t k, std::size_t features, double x, double c) {
    const unsigned groups = static_cast<unsigned>((k + 3) / 4), numbers = std::bit_ceil(groups);
    const double shift = 1.001 * x * c; // so that rounding makes no score negative
    // Each of two scores is rounded at the start and once a feature, relative to no more than this;
    // the least has lost the bits of the number besides.
    const double bound = 0.5 * c * c + 2.0 * shift;
    const double certain = 2.02 * static_cast<double>(features + 1) * 0x1p-24 * bound + 1e-36;
    const bool fits = bound < 1e37; // else no order is certain
    return {groups, ~(numbers - 1), fits ? static_cast<float>(shift) : 0.0f,
            fits ? static_cast<float>(certain) : INFINITY,
            1.01f * 0x1p-23f * static_cast<float>(numbers)};
  }
};

/// 16-byte rows of a group of centroids: a feature of all four, ..., |c|^2 / 2 + M of all four. Odd, so
/// that lanes that read different groups do not meet in one bank.
template <unsigned D>
constexpr unsigned kGroupRows = (D + 1) | 1;

/// The nearest of four centroids joins the competition: squared differences, ties to the lowest.
template <unsigned D>
__device__ void compare_exactly(const float (&x)[D], const float4* group, unsigned first,
                                float& nearest, unsigned& label) {
  float squared[4] = {};
#pragma unroll
  for (unsigned f = 0; f < D; ++f) {
    const float4 row = group[f];
    const float c[4] = {row.x, row.y, row.z, row.w};
#pragma unroll
    for (unsigned e = 0; e < 4; ++e) {
      squared[e] += (x[f] - c[e]) * (x[f] - c[e]);
    }
  }
#pragma unroll
  for (unsigned e = 0; e < 4; ++e) { // behind k the last centroid is repeated: it never wins
    label = squared[e] < nearest ? first + e : label;
    nearest = fminf(nearest, squared[e]);
  }
}

/// Labels of C points and their squared distances.
template <unsigned D, unsigned C>
__device__ void find_nearest(const GroupSearch& search, const float (&x)[C][D],
                             const float4* s_groups, float (&nearest)[C], unsigned (&label)[C]) {
  int best[C], second[C]; // the least scores of two groups
#pragma unroll
  for (unsigned p = 0; p < C; ++p) {
    best[p] = second[p] = kFarAwayBits;
  }
#pragma unroll 2
  for (unsigned g = 0; g < search.groups; ++g) {
    const float4* group = s_groups + g * kGroupRows<D>;
    const float4 start = group[D];
    float score[C][4];
#pragma unroll
    for (unsigned p = 0; p < C; ++p) {
      score[p][0] = start.x, score[p][1] = start.y, score[p][2] = start.z, score[p][3] = start.w;
    }
#pragma unroll
    for (unsigned f = 0; f < D; ++f) {
      const float4 c = group[f];
#pragma unroll
      for (unsigned p = 0; p < C; ++p) {
        score[p][0] = fmaf(-x[p][f], c.x, score[p][0]);
        score[p][1] = fmaf(-x[p][f], c.y, score[p][1]);
        score[p][2] = fmaf(-x[p][f], c.z, score[p][2]);
        score[p][3] = fmaf(-x[p][f], c.w, score[p][3]);
      }
    }
#pragma unroll
    for (unsigned p = 0; p < C; ++p) {
      const int least = __vimin3_s32(__float_as_int(score[p][0]), __float_as_int(score[p][1]),
                                     min(__float_as_int(score[p][2]), __float_as_int(score[p][3])));
      const int marked = static_cast<int>((static_cast<unsigned>(least) & search.keep) | g);
      second[p] = min(second[p], max(best[p], marked));
      best[p] = min(best[p], marked);
    }
  }
#pragma unroll
  for (unsigned p = 0; p < C; ++p) {
    // Both without their groups' numbers; written so that what is no number is not certain.
    const unsigned of_best = static_cast<unsigned>(best[p]) & ~search.keep;
    const float first = __uint_as_float(static_cast<unsigned>(best[p]) & search.keep);
    const float other = __uint_as_float(static_cast<unsigned>(second[p]) & search.keep);
    const bool certain = other - first > fmaf(other, search.of_bits, search.certain);
    nearest[p] = INFINITY;
    label[p] = 0;
    compare_exactly<D>(x[p], s_groups + of_best * kGroupRows<D>, 4 * of_best, nearest[p], label[p]);
    if (!certain) { // few points of most data
      nearest[p] = INFINITY;
#pragma unroll 1
      for (unsigned g = 0; g < search.groups; ++g) {
        compare_exactly<D>(x[p], s_groups + g * kGroupRows<D>, 4 * g, nearest[p], label[p]);
      }
    }
  }
}

} // namespace clusterbench::cuda
