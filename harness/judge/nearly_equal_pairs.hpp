// A start that shows whether products were made of numbers with fewer digits than the data have.
#pragma once

#include "harness/problem/problem.hpp"

#include <cstdint>
#include <vector>

namespace clusterbench {

/// Centroids in pairs (0, 1), (2, 3), ... that are nearly equal: tf32, bf16 and float16 (of double
/// data: float32, too) round both of a pair to the same numbers, so that products of these cannot
/// tell them apart and give wrong labels, while the difference of the two distances exceeds what
/// rounding in T may hide, in either form of the distance.
template <typename T>
struct NearlyEqualPairs {
  std::vector<T> centroids; ///< [k, d]; the last one of an odd number is alone

  /// The share of a sample of the points to which such products give a wrong label, beyond the
  /// rounding of the expanded form. 0: this start tells nothing of variants that declare that form,
  /// as with one cluster, or where d is so large (300 float features about the origin) that
  /// rounding in T may do what fewer digits do. Far from the origin it tells as much as elsewhere.
  double telling_share = 0.0;
};

/// For one untimed pass of all variants at full size, judged by verify_one_step() with
/// `judges_precision` off: the centroids lie where no user's do. Of several places for them, takes
/// the one that tells most. The points stay; the problem's start does not matter.
/// Costs some 100 k d operations for each of 256 points.
template <typename T>
NearlyEqualPairs<T> nearly_equal_pairs(const Problem<T>& problem, std::uint64_t seed);

} // namespace clusterbench
