// The 32-byte vectors of AVX2: the general form, and its masked load.
#pragma once

#include "impls/simd/support/vector.hpp"

#include <immintrin.h>

namespace clusterbench::simd {

template <>
inline Vec<float, 32>::Reg Vec<float, 32>::load_first(const float* p, std::size_t count) {
  const Ints lane = {0, 1, 2, 3, 4, 5, 6, 7};
  const Ints wanted = lane < broadcast_label(count);
  return _mm256_maskload_ps(p, reinterpret_cast<__m256i>(wanted));
}

template <>
inline Vec<double, 32>::Reg Vec<double, 32>::load_first(const double* p, std::size_t count) {
  const Ints lane = {0, 1, 2, 3};
  const Ints wanted = lane < broadcast_label(count);
  return _mm256_maskload_pd(p, reinterpret_cast<__m256i>(wanted));
}

} // namespace clusterbench::simd
