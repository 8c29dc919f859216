// The sieve with products of pairs of 16-bit integers, by AVX-512: twice as many multiply-adds an
// instruction as float has, and none of them rounds. Compiled with -mavx512vnni.
#include "impls/simd/support/sieve_columns.hpp"
#include "impls/simd/support/vector_avx512.hpp"

namespace clusterbench::simd {

namespace {

/// Types of their own, so that no other instruction set shares their kernels.
struct V : Vec<float, 64> {};
struct W : Vec<double, 64> {};
using Ints = V::Ints;

/// As Scores, which are floats.
struct IntScores {
  Ints least[2], second[2], group[2];
};

[[gnu::always_inline]] inline Ints smaller(Ints a, Ints b) {
  return a < b ? a : b;
}
[[gnu::always_inline]] inline Ints larger_of(Ints a, Ints b) {
  return a > b ? a : b;
}
[[gnu::always_inline]] inline Ints load_ints(const void* p) {
  return reinterpret_cast<Ints>(_mm512_loadu_si512(p));
}
[[gnu::always_inline]] inline Ints add_products(Ints sum, Ints x, Ints c) {
  return reinterpret_cast<Ints>(_mm512_dpwssd_epi32(
      reinterpret_cast<__m512i>(sum), reinterpret_cast<__m512i>(x), reinterpret_cast<__m512i>(c)));
}

/// As the other take_group(): the last three bits of a score say where it is from.
[[gnu::always_inline]] inline void take_group(Ints (&score)[kPairGroup][2], std::size_t g,
                                              std::int32_t* minima, IntScores& found) {
  const Ints this_one = V::broadcast_label(g);
#pragma GCC unroll 2
  for (std::size_t b = 0; b < 2; ++b) {
#pragma GCC unroll 8
    for (std::size_t t = 0; t < kPairGroup; ++t) {
      score[t][b] = (score[t][b] & -static_cast<int>(kPairGroup)) | static_cast<int>(t);
    }
#pragma GCC unroll 4
    for (std::size_t half = kPairGroup / 2; half > 0; half /= 2) {
#pragma GCC unroll 8
      for (std::size_t t = 0; t < half; ++t) {
        found.second[b] = smaller(larger_of(score[t][b], score[t + half][b]), found.second[b]);
        score[t][b] = smaller(score[t][b], score[t + half][b]);
      }
    }
    _mm512_storeu_si512(minima + (2 * g + b) * V::lanes, reinterpret_cast<__m512i>(score[0][b]));
    found.second[b] = smaller(larger_of(score[0][b], found.least[b]), found.second[b]);
    found.group[b] = score[0][b] < found.least[b] ? this_one : found.group[b];
    found.least[b] = smaller(score[0][b], found.least[b]);
  }
}

/// The scores of a group of centroids for two blocks of points; Asks memory for later points.
template <bool Asks>
[[gnu::always_inline]] inline void
scores_of_group(const std::uint32_t* x, std::size_t words, const std::uint32_t* c,
                const std::int32_t* halves, Ints (&score)[kPairGroup][2]) {
#pragma GCC unroll 16
  for (std::size_t t = 0; t < kPairGroup; ++t) {
    score[t][0] = score[t][1] = Ints{} + halves[t];
  }
  const std::size_t block = words * V::lanes;
  const std::size_t ahead = 2 * block * (1 + 2048 / (8 * block)); // whole tiles, at least 2 KiB
  for (std::size_t w = 0; w < words; ++w, c += kPairGroup, x += V::lanes) {
    const Ints x0 = load_ints(x), x1 = load_ints(x + block);
    if constexpr (Asks) {
      __builtin_prefetch(x + ahead);
      __builtin_prefetch(x + ahead + block);
    }
#pragma GCC unroll 16
    for (std::size_t t = 0; t < kPairGroup; ++t) {
      const Ints value = Ints{} + static_cast<int>(c[t]);
      score[t][0] = add_products(score[t][0], x0, value);
      score[t][1] = add_products(score[t][1], x1, value);
    }
  }
}

[[gnu::always_inline]] inline IntScores
scores_of_shorts(const std::uint32_t* x, const ShortSieve& sieve, std::int32_t* minima) {
  const Ints most = Ints{} + 0x7fffffff;
  IntScores found{{most, most}, {most, most}, {}};
  Ints score[kPairGroup][2];
  scores_of_group<true>(x, sieve.words, sieve.panels, sieve.halves, score);
  take_group(score, 0, minima, found);
  for (std::size_t g = 1; g < sieve.groups; ++g) {
    scores_of_group<false>(x, sieve.words, sieve.panels + g * kPairGroup * sieve.words,
                           sieve.halves + g * kPairGroup, score);
    take_group(score, g, minima, found);
  }
  return found;
}

/// Rows: V or W, by the type of the points.
template <class Rows, typename T = typename Rows::Scalar>
[[gnu::always_inline]] inline void sieve_shorts(const Chunk<T>& chunk, const std::uint32_t* columns,
                                                const ShortSieve& sieve, const T* centroids,
                                                std::size_t k, std::int32_t* minima,
                                                std::int32_t* labels, T* distances) {
  const Ints margin = Ints{} + sieve.margin;
  const Ints most = 0x7fffffff - margin; // with the margin it is no overflow
  label_by_scores<V, Rows>(
      chunk, centroids, k, minima, labels, distances,
      [&](std::size_t i) __attribute__((always_inline)) {
        return scores_of_shorts(columns + i * sieve.words, sieve, minima);
      },
      [&](std::size_t /*i*/, Ints least)
          __attribute__((always_inline)) { return smaller(least, most) + margin; },
      [](Ints a, Ints b) __attribute__((always_inline))->unsigned {
        return _mm512_cmpgt_epi32_mask(reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b));
      });
}

} // namespace

void sieve_shorts_avx512(const Chunk<float>& chunk, const std::uint32_t* columns,
                         const ShortSieve& sieve, const float* centroids, std::size_t k,
                         std::int32_t* minima, std::int32_t* labels, float* distances) {
  sieve_shorts<V>(chunk, columns, sieve, centroids, k, minima, labels, distances);
}

void sieve_shorts_avx512(const Chunk<double>& chunk, const std::uint32_t* columns,
                         const ShortSieve& sieve, const double* centroids, std::size_t k,
                         std::int32_t* minima, std::int32_t* labels, double* distances) {
  sieve_shorts<W>(chunk, columns, sieve, centroids, k, minima, labels, distances);
}

} // namespace clusterbench::simd
