// How far a float16 tensor-core score may be from the exact one: the bound of docs/certified.md, as
// code that the device uses and that a test on the host attacks. Plain C++ without CUDA.
#pragma once

#include <cmath>
#include <cstddef>

#ifndef CLUSTERBENCH_HOST_DEVICE
#ifdef __CUDACC__
#define CLUSTERBENCH_HOST_DEVICE __host__ __device__
#else
#define CLUSTERBENCH_HOST_DEVICE
#endif
#endif

namespace clusterbench::cuda {

/// What a tensor core may lose per product, relative to |x| |c|: it adds groups of at least four
/// products to the accumulator, cuts each of the five or more terms below 2^-23 of the largest, and
/// cuts the sum once more: six cuts for four products. One percent more for partial sums that
/// exceed |x| |c| by what was cut before.
inline constexpr double kCutPerProduct = 1.01 * 1.5 * 0x1p-23;

/// Features for which all that is cut is less than that one percent.
inline constexpr std::size_t kMostFeatures = 1u << 15;
static_assert(kCutPerProduct * kMostFeatures < 0.01);

/// Relative to a score: five low bits that hold an index (2^-18), and a few roundings to float.
inline constexpr double kScoreRounding = 0x1p-18 + 0x1p-21;

/// Where the score is zero or nearly so, those bits are a number of their own, far below this one.
inline constexpr double kLowBitsOfZero = 0x1p-120;

/// Room for the roundings of the bound itself, which is computed in float.
inline constexpr double kBoundRoom = 1.0 + 0x1p-18;

/// Of a point or centroid v, moved, scaled and rounded to w: norms, no smaller than the true ones.
struct RoundedNorms {
  double exact = 0.0;    ///< |v|
  double rounded = 0.0;  ///< |w|
  double residual = 0.0; ///< |v - w|
};

/// Norms from sums of squares that were accumulated in double; `d` of them at most 2^20.
CLUSTERBENCH_HOST_DEVICE inline RoundedNorms norms_of(double exact_squares, double rounded_squares,
                                                      double residual_squares) {
  constexpr double kUp = 1.0 + 0x1p-30; // sums of 2^20 terms in double, a square root
  const double exact = sqrt(exact_squares) * kUp;
  // v itself is known to 2^-53 relative, after the subtraction of the mean.
  return {exact, sqrt(rounded_squares) * kUp, sqrt(residual_squares) * kUp + 0x1p-51 * exact};
}

/// |x' - w| of a point x' that was moved and scaled in float, to v, and rounded to w, or a little
/// more. lost: no less than |v - w|; norm: no less than |w|. The difference x - mean is rounded, to
/// 2^-24; so is v - w where a value was cut; the last term is for values too small to be normal.
CLUSTERBENCH_HOST_DEVICE inline float residual_of(float lost, float norm) {
  return (1.0f + 0x1p-20f) * (lost + 0x1p-23f * norm) + 0x1p-140f;
}

/// The error of a centroid's score for a point with residual r and rounded norm w is at most
/// r * of_residual + w * of_norm + fixed.
struct ScoreError {
  float of_residual = 0.0f;
  float of_norm = 0.0f;
  float fixed = 0.0f;

  CLUSTERBENCH_HOST_DEVICE float of(float residual, float norm) const {
    return residual * of_residual + norm * of_norm + fixed;
  }
};

/// For scores |c|^2 / 2 - x.c with `products` products on tensor cores.
CLUSTERBENCH_HOST_DEVICE inline ScoreError score_error(const RoundedNorms& centroid,
                                                       unsigned products) {
  const double cut = kCutPerProduct * products;
  const double half_square = 0.5 * centroid.exact * centroid.exact;
  const double score = kScoreRounding * (1.0 + cut);
  return {static_cast<float>(kBoundRoom * centroid.exact),
          static_cast<float>(kBoundRoom * (centroid.residual + (cut + score) * centroid.rounded)),
          static_cast<float>(kBoundRoom * kScoreRounding * half_square + kLowBitsOfZero)};
}

/// For scores that the tensor cores make whole, by 16 further features behind the data's
/// (docs/certified_variants.md), and any centroid: `largest` has the largest terms of all centroids
/// (the first of them no less than |c|, the second no less than |w - c|); `constant` is what was
/// added to the row.
CLUSTERBENCH_HOST_DEVICE inline float tail_error(const ScoreError& largest, float residual,
                                                 float norm, float constant) {
  constexpr auto kOfTerms = static_cast<float>(kBoundRoom * (kCutPerProduct * 16 + 0x1p-21));
  const float length = largest.of_residual, rounded = length + largest.of_norm;
  return largest.of(residual, norm) +
         kOfTerms * (constant + norm * rounded + 0.5f * length * length) + 0x1p-24f;
}

/// Of scores made in another way: relative to |x| |c| and |c|^2 / 2, and what each vector may be
/// off by at any length.
struct PlainError {
  float relative = 0.0f;
  float absolute = 0.0f;

  CLUSTERBENCH_HOST_DEVICE float of(float x_norm, float c_norm) const {
    return relative * (x_norm * c_norm + 0.5f * c_norm * c_norm) +
           absolute * (x_norm + c_norm + absolute) + static_cast<float>(kLowBitsOfZero);
  }
};

/// Fused multiply-adds in float, one after another: the values themselves (2 u each), d additions,
/// |c|^2 / 2, the subtraction.
inline PlainError float_error(std::size_t d) {
  return {static_cast<float>(1.01 * (static_cast<double>(d) + 8.0) * 0x1p-24), 0.0f};
}

/// Numbers in two float16 parts of 11 bits, on tensor cores: what both parts lose (2^-22 of either
/// factor, and no less than half of float16's smallest step, 2^-25), the product of the low parts
/// (2^-22), and what is cut. The products with low parts, which are 2^-10 of |x| |c|, are added up
/// before those of the high parts, and |c|^2 / 2 is added to them in float: only the latter
/// products are cut at length.
inline PlainError split_error_small_first(std::size_t d) {
  const double products = static_cast<double>((d + 15) / 16 * 16);
  const double cut = kCutPerProduct * products * (1.0 + 0x1p-9 + 2.0 * 0x1p-10);
  return {static_cast<float>(1.01 * (0x1p-20 + cut + 0x1p-22)),
          static_cast<float>(1.01 * 0x1p-25 * std::sqrt(static_cast<double>(d)))};
}

} // namespace clusterbench::cuda
