// Sums of many clusters: each row is added to the row of sums that its label names.
//
// sum_by_label adds in T, a register at a time, and moves the sums to double at the end of the
// chunk. Neighbours often belong to the same cluster, and an addition must wait for the one before it
// to reach memory; so four copies of the sums take turns. One lane behind the features counts.
// sum_in_double is for sums that do not fit the cache four times: it goes to double at once.
#pragma once

#include "impls/simd/support/kernels.hpp"
#include "impls/simd/support/vector.hpp"

namespace clusterbench::simd {

template <class V>
void sum_by_label(const Chunk<typename V::Scalar>& chunk, const std::int32_t* labels, std::size_t k,
                  typename V::Scalar* scratch, double* sums, double* counts) {
  using T = typename V::Scalar;
  const std::size_t d = chunk.d;
  const std::size_t width = padded<T>(d + 1);
  const std::size_t last = d / V::lanes * V::lanes; // the register that has the counting lane
  typename V::Reg one{};
  one[d - last] = T{1};
  for (std::size_t i = 0; i < chunk.count; ++i) {
    const T* x = chunk.points + i * d;
    T* sum = scratch + (i % kSumCopies * k + static_cast<std::size_t>(labels[i])) * width;
    for (std::size_t f = 0; f < last; f += V::lanes) {
      V::store(sum + f, V::load(sum + f) + V::load(x + f));
    }
    V::store(sum + last, V::load(sum + last) + (V::load_first(x + last, d - last) + one));
  }
  for (std::size_t c = 0; c < kSumCopies * k; ++c) {
    T* sum = scratch + c * width;
    const std::size_t j = c % k;
    for (std::size_t f = 0; f < d; ++f) {
      sums[j * d + f] += double{sum[f]};
      sum[f] = T{0};
    }
    counts[j] += double{sum[d]};
    sum[d] = T{0};
  }
}

template <class V>
void sum_in_double(const Chunk<typename V::Scalar>& chunk, const std::int32_t* labels,
                   std::size_t /*k*/, typename V::Scalar* /*scratch*/, double* sums,
                   double* counts) {
  const std::size_t d = chunk.d;
  for (std::size_t i = 0; i < chunk.count; ++i) {
    const typename V::Scalar* x = chunk.points + i * d;
    const auto j = static_cast<std::size_t>(labels[i]);
    counts[j] += 1.0;
    double* sum = sums + j * d;
    for (std::size_t f = 0; f < d; ++f) { // vectorised by the compiler
      sum[f] += double{x[f]};
    }
  }
}

} // namespace clusterbench::simd
