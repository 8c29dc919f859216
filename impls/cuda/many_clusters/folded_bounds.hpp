// How far a score may be from the exact one where |c|^2 / 2 and a constant of the row are features
// among those of the data (docs/certified_variants.md). Plain C++ without CUDA.
#pragma once

#include "impls/cuda/common/certified_bound.hpp"

namespace clusterbench::cuda {

/// For scores that the tensor cores make whole, of up to 32 features (docs/certified_variants.md),
/// and any centroid: `largest` has the largest terms of all centroids (the first of them no less
/// than |c|, the second no less than |w - c|); `constant` is what was added to the row. products:
/// of a score, with those of padding. index_bits: low bits of a score that hold a number.
CLUSTERBENCH_HOST_DEVICE inline float folded_error(const ScoreError& largest, float residual,
                                                   float norm, float constant, unsigned products,
                                                   unsigned index_bits) {
  const auto cut = static_cast<float>(kCutPerProduct) * static_cast<float>(products);
  const float rounding = static_cast<float>(1u << index_bits) * 0x1p-23f + 0x1p-21f;
  const float of_terms = static_cast<float>(kBoundRoom) * (cut + rounding * (1.0f + cut));
  const float length = largest.of_residual, rounded = length + largest.of_norm;
  return largest.of(residual, norm) +
         of_terms * (constant + norm * rounded + 0.5f * length * length) + 0x1p-24f;
}

/// As folded_error(), where centroids are scaled by 2^-15 so that scores fit float16, what loses up
/// to 2^-10 of a coordinate in float16's smallest step, and two numbers hold |c|^2 / 2 to 2^-22 of
/// it and 2^-20. Made once of what is the same for all rows.
struct PackedError {
  float of_residual, of_norm, of_square, fixed;

  /// products: of a score, with those of padding; up to 64 features. roundings: of sums that are no
  /// score yet to float16; each loses less than an ulp, and none exceeds |x| |c|.
  CLUSTERBENCH_HOST_DEVICE PackedError(const ScoreError& largest, unsigned products,
                                       unsigned roundings) {
    const float cut =
        static_cast<float>(kBoundRoom * (kCutPerProduct + 0x1p-30)) * static_cast<float>(products) +
        0x1p-21f;
    const float length = largest.of_residual, rounded = length + largest.of_norm + 0x1p-7f;
    const auto sums = static_cast<float>(roundings);
    of_residual = largest.of_residual;
    of_norm = largest.of_norm + 0x1p-7f + (cut + sums * (1.01f * 0x1p-10f)) * rounded;
    of_square = 0.501f * cut; // what was added to the row: half a square, rounded to float16
    fixed = largest.fixed + cut * (0.5f * length * length + 0x1p-8f) + sums * 0x1p-8f + 0x1p-18f;
  }
  /// Of any centroid's score.
  CLUSTERBENCH_HOST_DEVICE float of(float residual, float norm) const {
    return residual * of_residual + norm * (of_norm + norm * of_square) + fixed;
  }
  /// `factor` times as much, and `more`.
  CLUSTERBENCH_HOST_DEVICE PackedError times(float factor, float more) const {
    PackedError scaled = *this;
    scaled.of_residual *= factor;
    scaled.of_norm *= factor;
    scaled.of_square *= factor;
    scaled.fixed = fixed * factor + more;
    return scaled;
  }
};

} // namespace clusterbench::cuda
