// What lies between the distances and the sums of fuzzy c-means: memberships of a chunk of samples
// and their powers, a lane a sample. Written for vectors, because the compiler leaves the minimum
// as a loop over single values.
#pragma once

#include "impls/simd/support/kernels.hpp"
#include "impls/simd/support/power.hpp"
#include "impls/simd/support/vector.hpp"

namespace clusterbench::simd {

/// Memberships u [k, kRoundUp] from squared distances: ratios to the smallest of a sample, which do
/// not overflow. exponent: 1 / (m - 1).
template <class V>
void memberships_of(const typename V::Scalar* distances, std::size_t k, typename V::Scalar exponent,
                    typename V::Scalar* u) {
  const typename V::Reg one = V::broadcast(1);
  for (std::size_t r = 0; r < kRoundUp; r += V::lanes) {
    typename V::Reg smallest = V::load(distances + r);
    for (std::size_t j = 1; j < k; ++j) {
      smallest = V::min(V::load(distances + j * kRoundUp + r), smallest);
    }
    typename V::Reg sum{};
    for (std::size_t j = 0; j < k; ++j) {
      // Not a number where both are 0 or infinite; then min() gives its second operand.
      const typename V::Reg ratio = V::min(smallest / V::load(distances + j * kRoundUp + r), one);
      const typename V::Reg share = power<V>(ratio, exponent);
      sum += share;
      V::store(u + j * kRoundUp + r, share);
    }
    const typename V::Reg scale = one / sum;
    for (std::size_t j = 0; j < k; ++j) {
      V::store(u + j * kRoundUp + r, V::load(u + j * kRoundUp + r) * scale);
    }
  }
}

/// Turns the memberships of `count` samples into weights u^m and adds them to the totals [k].
/// Returns the sum of weights times distances, if there are any.
template <class V>
double raise_to_weights(typename V::Scalar* u, std::size_t k, std::size_t count,
                        typename V::Scalar m, const typename V::Scalar* distances, double* totals) {
  double objective = 0.0;
  for (std::size_t j = 0; j < k; ++j) {
    typename V::Reg sum{}, of_distances{};
    for (std::size_t r = 0; r < count; r += V::lanes) {
      const typename V::Mask here = V::first(count - r);
      const typename V::Reg weight = power<V>(V::load(u + j * kRoundUp + r), m);
      V::store(u + j * kRoundUp + r, weight);
      sum = V::add_where(false, here, sum, weight);
      if (distances != nullptr) {
        of_distances =
            V::add_where(false, here, of_distances, weight * V::load(distances + j * kRoundUp + r));
      }
    }
    totals[j] += total<V>(sum);
    objective += total<V>(of_distances);
  }
  return objective;
}

} // namespace clusterbench::simd
