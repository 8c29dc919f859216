// The sieve with products of pairs of bfloat16, by AVX-512: twice as many multiply-adds an
// instruction as float has. Compiled with -mavx512bf16.
#include "impls/simd/support/sieve_columns.hpp"
#include "impls/simd/support/vector_avx512.hpp"

namespace clusterbench::simd {

namespace {

/// A type of its own, so that no other instruction set shares its kernels.
struct V : Vec<float, 64> {};

[[gnu::always_inline]] inline __m512bh pairs_of(__m512i words) {
  return reinterpret_cast<__m512bh>(words);
}

[[gnu::always_inline]] inline Scores<V> scores_of_pairs(const std::uint32_t* x,
                                                        const PairSieve& sieve, float* minima) {
  Scores<V> found = no_scores<V>();
  for (std::size_t g = 0; g < sieve.groups; ++g) {
    V::Reg score[kPairGroup][2];
#pragma GCC unroll 16
    for (std::size_t t = 0; t < kPairGroup; ++t) {
      score[t][0] = score[t][1] = V::broadcast(sieve.halves[g * kPairGroup + t]);
    }
    const std::uint32_t* c = sieve.panels + g * kPairGroup * sieve.words;
    const std::uint32_t* p = x;
    for (std::size_t w = 0; w < sieve.words; ++w, c += kPairGroup, p += V::lanes) {
      const __m512bh x0 = pairs_of(_mm512_loadu_si512(p));
      const __m512bh x1 = pairs_of(_mm512_loadu_si512(p + sieve.words * V::lanes));
#pragma GCC unroll 16
      for (std::size_t t = 0; t < kPairGroup; ++t) {
        const __m512bh value = pairs_of(_mm512_set1_epi32(static_cast<int>(c[t])));
        score[t][0] = _mm512_dpbf16_ps(score[t][0], x0, value);
        score[t][1] = _mm512_dpbf16_ps(score[t][1], x1, value);
      }
    }
    take_group<V>(score, g, minima, found);
  }
  return found;
}

} // namespace

void sieve_pairs_avx512(const Chunk<float>& chunk, const PairColumns& columns,
                        const PairSieve& sieve, const float* centroids, std::size_t k,
                        float* minima, std::int32_t* labels, float* distances) {
  label_by_scores<V>(
      chunk, centroids, k, minima, labels, distances,
      [&](std::size_t i) __attribute__((always_inline)) {
        return scores_of_pairs(columns.words + i * sieve.words, sieve, minima);
      },
      [&](std::size_t i) __attribute__((always_inline)) {
        return V::fma(V::load(columns.norms + i), V::broadcast(sieve.per_norm),
                      V::fma(V::load(columns.residuals + i), V::broadcast(sieve.per_residual),
                             V::broadcast(sieve.always)));
      });
}

} // namespace clusterbench::simd
