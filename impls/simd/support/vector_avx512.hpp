// The 64-byte vector of AVX-512 (F, DQ, BW, VL): comparisons give a bit a lane, and additions may
// be limited to the lanes of such a mask at no cost.
#pragma once

#include "impls/simd/support/vector.hpp"

#include <immintrin.h>

namespace clusterbench::simd {

template <>
struct Vec<float, 64> {
  using Scalar = float;
  using Lane = std::int32_t;
  static constexpr std::size_t lanes = 16;
  static constexpr std::size_t registers = 32;

  using Reg = __m512;
  typedef std::int32_t Ints __attribute__((vector_size(64)));
  using Mask = __mmask16;

  static Reg load(const float* p) { return _mm512_loadu_ps(p); }
  static void store(float* p, Reg a) { _mm512_storeu_ps(p, a); }
  static Reg load_first(const float* p, std::size_t count) {
    return _mm512_maskz_loadu_ps(static_cast<Mask>((1u << count) - 1u), p);
  }
  static Reg broadcast(float value) { return _mm512_set1_ps(value); }
  static Ints broadcast_label(std::size_t value) {
    return reinterpret_cast<Ints>(_mm512_set1_epi32(static_cast<int>(value)));
  }
  static Ints load_labels(const std::int32_t* p) {
    return reinterpret_cast<Ints>(_mm512_loadu_si512(p));
  }
  static void store_labels(std::int32_t* p, Ints a) {
    _mm512_storeu_si512(p, reinterpret_cast<__m512i>(a));
  }

  static Reg fma(Reg a, Reg b, Reg c) { return _mm512_fmadd_ps(a, b, c); }
  static Reg min(Reg a, Reg b) { return _mm512_min_ps(a, b); }
  static Reg max(Reg a, Reg b) { return _mm512_max_ps(a, b); }
  template <std::size_t Bits>
  static Reg with_last_bits(Reg a, std::size_t value) { // a where Bits is 0, else value
    return _mm512_castsi512_ps(
        _mm512_ternarylogic_epi32(_mm512_set1_epi32(static_cast<int>(Bits)), _mm512_castps_si512(a),
                                  _mm512_set1_epi32(static_cast<int>(value)), 0xAC));
  }
  static Mask less(Reg a, Reg b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
  static Mask equal(Ints a, Ints b) {
    return _mm512_cmpeq_epi32_mask(reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b));
  }
  static Mask different(Ints a, Ints b) {
    return _mm512_cmpneq_epi32_mask(reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b));
  }
  static unsigned bits(Mask m) { return m; }
  static Mask less_or_equal_where(Mask m, Reg a, Reg b) { // a masked comparison would wait for m
    return static_cast<Mask>(m & _mm512_cmp_ps_mask(a, b, _CMP_LE_OQ));
  }
  static Mask without(Mask a, Mask b) { return static_cast<Mask>(a & ~b); }
  static Mask first(std::size_t count) {
    return static_cast<Mask>(count < lanes ? (1u << count) - 1u : ~0u);
  }
  static Ints select(Mask m, Ints a, Ints b) {
    return reinterpret_cast<Ints>(
        _mm512_mask_blend_epi32(m, reinterpret_cast<__m512i>(b), reinterpret_cast<__m512i>(a)));
  }
  static Reg add_where(bool by_multiplying, Mask m, Reg sum, Reg x) {
    return !by_multiplying ? _mm512_mask_add_ps(sum, m, sum, x)
                           : _mm512_mask3_fmadd_ps(x, broadcast(1), sum, m);
  }

  using Counter = std::uint64_t;
  static void count(Counter& counter, Mask m) {
    counter += static_cast<unsigned>(__builtin_popcount(m));
  }
  static double total(Counter counter) { return static_cast<double>(counter); }
};

template <>
struct Vec<double, 64> {
  using Scalar = double;
  using Lane = std::int64_t;
  static constexpr std::size_t lanes = 8;
  static constexpr std::size_t registers = 32;

  using Reg = __m512d;
  typedef std::int64_t Ints __attribute__((vector_size(64)));
  using Mask = __mmask8;

  static Reg load(const double* p) { return _mm512_loadu_pd(p); }
  static void store(double* p, Reg a) { _mm512_storeu_pd(p, a); }
  static Reg load_first(const double* p, std::size_t count) {
    return _mm512_maskz_loadu_pd(static_cast<Mask>((1u << count) - 1u), p);
  }
  static Reg broadcast(double value) { return _mm512_set1_pd(value); }
  static Ints broadcast_label(std::size_t value) {
    return reinterpret_cast<Ints>(_mm512_set1_epi64(static_cast<Lane>(value)));
  }
  static Ints load_labels(const std::int32_t* p) {
    return reinterpret_cast<Ints>(
        _mm512_cvtepi32_epi64(_mm256_loadu_si256(reinterpret_cast<const __m256i_u*>(p))));
  }
  static void store_labels(std::int32_t* p, Ints a) {
    _mm256_storeu_si256(reinterpret_cast<__m256i_u*>(p),
                        _mm512_cvtepi64_epi32(reinterpret_cast<__m512i>(a)));
  }

  static Reg fma(Reg a, Reg b, Reg c) { return _mm512_fmadd_pd(a, b, c); }
  static Reg min(Reg a, Reg b) { return _mm512_min_pd(a, b); }
  static Reg max(Reg a, Reg b) { return _mm512_max_pd(a, b); }
  template <std::size_t Bits>
  static Reg with_last_bits(Reg a, std::size_t value) { // a where Bits is 0, else value
    return _mm512_castsi512_pd(_mm512_ternarylogic_epi64(
        _mm512_set1_epi64(static_cast<Lane>(Bits)), _mm512_castpd_si512(a),
        _mm512_set1_epi64(static_cast<Lane>(value)), 0xAC));
  }
  static Mask less(Reg a, Reg b) { return _mm512_cmp_pd_mask(a, b, _CMP_LT_OQ); }
  static Mask equal(Ints a, Ints b) {
    return _mm512_cmpeq_epi64_mask(reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b));
  }
  static Mask different(Ints a, Ints b) {
    return _mm512_cmpneq_epi64_mask(reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b));
  }
  static unsigned bits(Mask m) { return m; }
  static Mask less_or_equal_where(Mask m, Reg a, Reg b) { // a masked comparison would wait for m
    return static_cast<Mask>(m & _mm512_cmp_pd_mask(a, b, _CMP_LE_OQ));
  }
  static Mask without(Mask a, Mask b) { return static_cast<Mask>(a & ~b); }
  static Mask first(std::size_t count) {
    return static_cast<Mask>(count < lanes ? (1u << count) - 1u : ~0u);
  }
  static Ints select(Mask m, Ints a, Ints b) {
    return reinterpret_cast<Ints>(
        _mm512_mask_blend_epi64(m, reinterpret_cast<__m512i>(b), reinterpret_cast<__m512i>(a)));
  }
  static Reg add_where(bool by_multiplying, Mask m, Reg sum, Reg x) {
    return !by_multiplying ? _mm512_mask_add_pd(sum, m, sum, x)
                           : _mm512_mask3_fmadd_pd(x, broadcast(1), sum, m);
  }

  using Counter = std::uint64_t;
  static void count(Counter& counter, Mask m) {
    counter += static_cast<unsigned>(__builtin_popcount(m));
  }
  static double total(Counter counter) { return static_cast<double>(counter); }
};

} // namespace clusterbench::simd
