// How far an honest implementation in precision T may be from exact arithmetic: every bound of the
// verifier, and why it is what it is. u is the unit roundoff, 2^-24 for float, 2^-53 for double.
#pragma once

#include "harness/judge/declaration.hpp"
#include "harness/problem/problem.hpp"
#include "impls/contract.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <optional>
#include <span>

namespace clusterbench {

template <typename T>
constexpr double unit_roundoff = 0.5 * static_cast<double>(std::numeric_limits<T>::epsilon());

/// Beneath it a number of type T loses digits, or is flushed to 0.
template <typename T>
constexpr double smallest_normal = static_cast<double>(std::numeric_limits<T>::min());

/// Unit roundoff of the numbers that enter the products of a distance; 0: those of the data.
inline double input_roundoff(Arithmetic arithmetic) {
  switch (arithmetic) {
  case Arithmetic::as_data:
    return 0.0;
  case Arithmetic::tf32: // 10 stored bits, as f16 has
  case Arithmetic::f16:
    return 0x1p-11;
  case Arithmetic::bf16:
    return 0x1p-8;
  }
  return 0.0;
}

/// Operations beyond the d of a sum that a distance or a formula may take, generously.
constexpr double kExtraOperations = 32.0;

/// Relative error of a sum of `count` terms, measured against the sum of their magnitudes.
/// No order of summation exceeds count * u. Errors of independent sign grow like sqrt(count) * u /
/// 2 even in one long loop, so 16 * sqrt(count) is thirty standard deviations; it takes over from
/// count = 256, below which the worst case is allowed.
inline double sum_rounding(double count, double u) {
  return std::min(count, 16.0 * std::sqrt(count)) * u;
}

/// Relative error of a mean of `count` values: its sum, the division (perhaps by a rounded
/// reciprocal) and the conversion to T.
inline double mean_rounding(double count, double u) {
  return sum_rounding(count, u) + 4.0 * u;
}

/// The same of values with this mean and standard deviation. Where one ulp of their sum exceeds
/// what they differ by, every addition rounds the same way, and the errors of a long loop add up to
/// the worst case: a column that is 0.1 throughout is one.
inline double mean_rounding(double count, double mean, double deviation, double u) {
  const bool alike = 2.0 * u * count * std::abs(mean) > deviation;
  return alike ? (count + 4.0) * u : mean_rounding(count, u);
}

/// The same of a weighted mean: of the products with the weights, each rounded, and of the sum of
/// the weights. deviations: standard ones, of the values and of the weights.
inline double weighted_mean_rounding(double count, double mean, double deviation, double weight,
                                     double deviation_of_weights, double u) {
  const double of_products = std::hypot(deviation, mean * deviation_of_weights / weight);
  return mean_rounding(count, mean, of_products, u) +
         mean_rounding(count, weight, deviation_of_weights, u) + u;
}

/// What rounding usually does to a sum, of what sum_rounding() allows: four deviations of thirty.
constexpr double kUsualOfWorst = 1.0 / 8.0;

/// The share of the points that may be in doubt where "the pass follows from the one before" says
/// anything: the more of them rounding may decide, the less has been checked.
constexpr double kMostDoubt = 0.01;

/// Relative error of u^m, taken as exp2(m * log2(u)) with a few ulp in each function. The absolute
/// error of the exponent, m * |log2 u| * u, becomes relative; memberships beneath 2^-32 do not
/// matter to a sum.
inline double power_rounding(double fuzzifier, double u) {
  return (kExtraOperations + 64.0 * fuzzifier) * u;
}

/// Relative error of a membership besides that of its distances: k ratios, each to the power p and
/// taken as exp2(p * log2(D)), their sum, a division. magnitude: the largest |log2 D|.
inline double membership_rounding(std::size_t k, double p, double magnitude, double u) {
  return (static_cast<double>(k) + kExtraOperations + 2.0 * p * magnitude) * u;
}

/// How far a row of memberships may sum to something else than 1: as membership_rounding(), for
/// distances within 2^-32 .. 2^32.
inline double row_sum_rounding(std::size_t k, double p, double u) {
  return membership_rounding(k, p, 32.0, u) + static_cast<double>(k) * u;
}

/// The largest magnitude if all values are integers, as happens with pixels and with made-up data.
template <typename T>
std::optional<double> largest_if_integers(std::span<const T> values) {
  double largest = 0.0;
  for (const T value : values) {
    const double x = static_cast<double>(value);
    if (x != std::floor(x)) {
      return std::nullopt;
    }
    largest = std::max(largest, std::abs(x));
  }
  return largest;
}

/// Absolute error of a squared distance, by the form and the arithmetic that a variant declares.
///
/// difference: x - c is off by u relative, its square by 3u, the sum by d * u: (d + c) * u * D.
/// expanded: |x|^2 - 2 x.c + |c|^2 rounds terms as large as (|x| + |c|)^2, whatever D is: (d + c) *
/// u * (|x| + |c|)^2. Narrow inputs: x and c are rounded to the narrow format first, which moves
/// each product by 2 u_narrow: 4 * u_narrow * (|x| + |c|)^2 on top, in either form. Small integers:
/// every term is exact in every form, and so is the order of the distances. Whatever is smaller
/// than the smallest normal number may be lost: d of them in either form. Points that are centred
/// first: x - m and c - m are rounded, and c once more when m is added to it, so that x - c is off
/// by e = u * (|x - m| + |c - m| + |c|) and its square by 2 e sqrt(D) + e^2 besides, while |x| and
/// |c| in the expanded form are those from m. Integers do not stay such.
class DistanceRounding {
public:
  /// smallest: normal number of the variant. largest: of all coordinates if they are integers.
  DistanceRounding(const Declaration& declared, double u, double smallest, std::size_t d,
                   std::optional<double> largest)
      : expands_(declared.distance == DistanceForm::expanded ||
                 declared.arithmetic != Arithmetic::as_data),
        centres_(declared.centres_points), u_(u) {
    const double operations = static_cast<double>(d) + kExtraOperations;
    const double narrow = input_roundoff(declared.arithmetic);
    own_ = operations * unit_roundoff<double>;
    relative_ = operations * u;
    of_norms_ = 4.0 * narrow + operations * u;
    lost_ = static_cast<double>(d) * smallest;
    // Terms up to 4 d M^2 fit with four bits to spare, so that square roots stay apart, too.
    exact_ = !centres_ && largest.has_value() &&
             4.0 * static_cast<double>(d) * *largest * *largest <= 1.0 / (16.0 * u) &&
             *largest * narrow <= 1.0;
  }

  bool uses_norms() const { return expands_ || centres_; }

  /// Includes the error of the float64 distance D itself. x_norm, c_norm: from the variant's
  /// origin; c_length: of the centroid from zero.
  double of(double squared_distance, double x_norm, double c_norm, double c_length) const {
    if (exact_) {
      return 0.0;
    }
    const double reference =
        expands_ ? of_norms_ * (x_norm + c_norm) * (x_norm + c_norm) : relative_ * squared_distance;
    const double moved = centres_ ? u_ * (x_norm + c_norm + c_length) : 0.0;
    const double of_centring = centres_ ? moved * (2.0 * std::sqrt(squared_distance) + moved) : 0.0;
    return reference + own_ * squared_distance + of_centring + lost_;
  }

private:
  bool expands_;
  bool centres_;
  double u_;
  bool exact_ = false;
  double own_ = 0.0;
  double relative_ = 0.0;
  double of_norms_ = 0.0;
  double lost_ = 0.0;
};

/// What a sum of squared distances may be where exact arithmetic has every point on its centroid,
/// as with fewer distinct points than clusters: a mean of n equal numbers is n u of them off at
/// most, and so is the sum of n weights. 0 elsewhere. total_weight: of all points. longest: the
/// largest squared length of a centroid.
template <typename T>
double lost_objective(const Problem<T>& problem, double total_weight, double exact,
                      double longest) {
  constexpr double u = unit_roundoff<T>;
  const double sums = problem.weights.empty() ? 1.0 : 2.0;
  const double off = sums * static_cast<double>(problem.n) * u;
  const double resolved = total_weight * longest * 4.0 * u * u;
  return exact <= resolved ? total_weight * longest * off * off : 0.0;
}

/// The largest of k squared lengths. centroids: [k, d].
template <typename T>
double longest_squared(std::span<const T> centroids, std::size_t d) {
  double longest = 0.0;
  for (std::size_t e = 0; e < centroids.size(); e += d) {
    double length = 0.0;
    for (const T value : centroids.subspan(e, d)) {
      length += static_cast<double>(value) * static_cast<double>(value);
    }
    longest = std::max(longest, length);
  }
  return longest;
}

/// How far the objective of a run may be from the oracle's at the same pass, relative, where no
/// label is in doubt. A run in T drifts from the oracle's, but the objective follows to second
/// order only; 3e-4 is what float runs of many passes need, and a third of the smallest error that
/// must be seen. Narrow inputs decide many more labels differently.
template <typename T>
double objective_drift(Arithmetic arithmetic) {
  const double data = sizeof(T) == sizeof(float) ? 3e-4 : 1e-9;
  return data + input_roundoff(arithmetic);
}

} // namespace clusterbench
