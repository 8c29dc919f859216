// The two halves of fuzzy c-means on rows as they lie in memory, a lane a feature: all distances of
// a chunk of samples, and the chunk's weighted sums. What lies between, the memberships, is a few
// values per sample and left to the variant.
//
// Both are multiply-adds of registers, so a value must serve several of them once it is loaded: a
// tile is two rows by eight centres for distances, eight centres by three registers of features for
// sums. A row of odd length crosses cache lines, which costs two loads; centres and sums are
// padded.
//
// A chunk's sums come from the second-level cache, where its distances have put it. Meanwhile
// memory is asked for the next chunk, line after line and at an even pace: half of it by distances,
// half by sums.
#pragma once

#include "impls/simd/support/kernels.hpp"
#include "impls/simd/support/vector.hpp"

namespace clusterbench::simd {

/// Asks for the next few cache lines; returns what follows them.
template <std::size_t Lines, typename T>
[[gnu::always_inline]] inline const T* ask(const T* next) {
  constexpr std::size_t kLine = 64 / sizeof(T);
#pragma GCC unroll 4
  for (std::size_t l = 0; l < Lines; ++l) {
    __builtin_prefetch(next + l * kLine, 0, 2);
  }
  return next + Lines * kLine;
}

/// Squared distances [Centres, Rows] of rows to padded centres. At every step it asks for half as
/// many lines as it reads, or all if it works alone; returns how far it got from `next`.
template <class V, std::size_t Rows, std::size_t Centres>
[[gnu::always_inline]] inline const typename V::Scalar*
distances_of_rows_tile(const typename V::Scalar* const (&row)[Rows],
                       const typename V::Scalar* const (&c)[Centres], std::size_t d, bool alone,
                       const typename V::Scalar* next, typename V::Scalar* distances) {
  constexpr std::size_t kGroups = Rows * Centres / V::lanes;
  static_assert(kGroups * V::lanes == Rows * Centres);
  typename V::Reg sum[kGroups][V::lanes] = {};
  const auto add = [&](std::size_t f, auto load) __attribute__((always_inline)) {
    typename V::Reg x[Rows];
#pragma GCC unroll 16
    for (std::size_t r = 0; r < Rows; ++r) {
      x[r] = load(row[r] + f);
    }
#pragma GCC unroll 16
    for (std::size_t t = 0; t < Centres; ++t) {
      typename V::Reg value = V::load(c[t] + f);
      keep_in_register<V>(value);
#pragma GCC unroll 16
      for (std::size_t r = 0; r < Rows; ++r) {
        const typename V::Reg away = x[r] - value;
        typename V::Reg& own = sum[(t * Rows + r) / V::lanes][(t * Rows + r) % V::lanes];
        own = V::fma(away, away, own);
      }
    }
    next = ask<Rows / 2>(next);
    if (alone) {
      next = ask<Rows / 2>(next);
    }
  };
  std::size_t f = 0;
  for (; f + V::lanes <= d; f += V::lanes) {
    add(
        f, [](const typename V::Scalar* p) __attribute__((always_inline)) { return V::load(p); });
  }
  if (f < d) {
    add(
        f, [ f, d ](const typename V::Scalar* p)
               __attribute__((always_inline)) { return V::load_first(p, d - f); });
  }
#pragma GCC unroll 4
  for (std::size_t g = 0; g < kGroups; ++g) {
    V::store(distances + g * V::lanes, transposed_totals<V>(sum[g]));
  }
  return next;
}

/// Squared distances of a chunk to the centres from j on, at most Centres of them.
template <class V, std::size_t Centres>
void distances_of_rows(const Chunk<typename V::Scalar>& chunk, const typename V::Scalar* centres,
                       std::size_t j, std::size_t k, typename V::Scalar* distances, bool alone) {
  using T = typename V::Scalar;
  constexpr std::size_t kRows = V::lanes / Centres > 2 ? V::lanes / Centres : 2;
  const std::size_t d = chunk.d;
  const T* next = chunk.points + chunk.count * d;
  const T* c[Centres];
#pragma GCC unroll 16
  for (std::size_t t = 0; t < Centres; ++t) { // beyond the last centre: that one again
    c[t] = centres + (j + t < k ? j + t : k - 1) * padded<T>(d);
  }
  for (std::size_t i = 0; i < chunk.count; i += kRows) {
    const T* row[kRows];
#pragma GCC unroll 16
    for (std::size_t r = 0; r < kRows; ++r) { // beyond the last row: that row again
      row[r] = chunk.points + (i + r < chunk.count ? i + r : chunk.count - 1) * d;
    }
    T tile[Centres * kRows];
    next = distances_of_rows_tile<V, kRows, Centres>(row, c, d, alone, next, tile);
    for (std::size_t t = 0; t < Centres && j + t < k; ++t) {
      __builtin_memcpy(distances + (j + t) * kRoundUp + i, tile + t * kRows, kRows * sizeof(T));
    }
  }
}

template <class V>
void distances_of_rows(const Chunk<typename V::Scalar>& chunk, const typename V::Scalar* centres,
                       std::size_t k, typename V::Scalar* distances, bool alone) {
  constexpr std::size_t kFew = V::lanes < 4 ? V::lanes : 4;
  std::size_t j = 0;
  if constexpr (V::registers == 32) {
    for (; j + 2 * kFew <= k; j += 2 * kFew) {
      distances_of_rows<V, 2 * kFew>(chunk, centres, j, k, distances, alone);
    }
  }
  for (; j < k; j += kFew) {
    distances_of_rows<V, kFew>(chunk, centres, j, k, distances, alone);
  }
}

/// Adds the samples of a chunk to the sums of `Centres` centres, features f up to Registers
/// registers on. The sums are registers over the whole chunk. Asks for lines from `next` on;
/// returns how far.
template <class V, std::size_t Centres, std::size_t Registers>
const typename V::Scalar* weighted_sums(const Chunk<typename V::Scalar>& chunk,
                                        const typename V::Scalar* weights, std::size_t f,
                                        typename V::Scalar* sums, const typename V::Scalar* next) {
  using T = typename V::Scalar;
  const std::size_t d = chunk.d;
  const T* const end = chunk.points + 2 * chunk.count * d; // of the next chunk
  // Few centres are several sweeps of little work: what is asked for faster than it comes gets
  // lost.
  constexpr std::size_t kLines = Centres >= 8 ? Registers : Centres >= 4 ? 2 : 1;
  typename V::Reg sum[Centres][Registers];
  const auto each = [&](auto what) __attribute__((always_inline)) {
#pragma GCC unroll 8
    for (std::size_t j = 0; j < Centres; ++j) {
#pragma GCC unroll 4
      for (std::size_t r = 0; r < Registers; ++r) {
        what(sum[j][r], sums + j * padded<T>(d) + f + r * V::lanes);
      }
    }
  };
  const auto add = [&](auto load_last) __attribute__((always_inline)) {
    const T* x = chunk.points + f;
    for (std::size_t i = 0; i < chunk.count; ++i, x += d) {
      typename V::Reg value[Registers];
#pragma GCC unroll 4
      for (std::size_t r = 0; r + 1 < Registers; ++r) {
        value[r] = V::load(x + r * V::lanes);
      }
      value[Registers - 1] = load_last(x + (Registers - 1) * V::lanes);
#pragma GCC unroll 8
      for (std::size_t j = 0; j < Centres; ++j) {
        const typename V::Reg weight = V::broadcast(weights[j * kRoundUp + i]);
#pragma GCC unroll 4
        for (std::size_t r = 0; r < Registers; ++r) {
          sum[j][r] = V::fma(weight, value[r], sum[j][r]);
        }
      }
      if (next < end) {
        next = ask<kLines>(next);
      }
    }
  };
  each([](typename V::Reg & a, const T* p) __attribute__((always_inline)) { a = V::load(p); });
  if (f + Registers * V::lanes <= d) {
    add([](const T* p) __attribute__((always_inline)) { return V::load(p); });
  } else {
    const std::size_t last = d - f - (Registers - 1) * V::lanes;
    add([last](const T* p) __attribute__((always_inline)) { return V::load_first(p, last); });
  }
  each([](typename V::Reg & a, T * p) __attribute__((always_inline)) { V::store(p, a); });
  return next;
}

/// All features, for `Centres` centres.
template <class V, std::size_t Centres>
const typename V::Scalar* weighted_sums(const Chunk<typename V::Scalar>& chunk,
                                        const typename V::Scalar* weights, typename V::Scalar* sums,
                                        const typename V::Scalar* next) {
  constexpr std::size_t kMost = V::registers == 32 ? 3 : 2; // registers of features
  for (std::size_t f = 0; f < chunk.d; f += kMost * V::lanes) {
    const std::size_t left = chunk.d - f;
    if (kMost == 3 && left > 2 * V::lanes) {
      next = weighted_sums<V, Centres, kMost>(chunk, weights, f, sums, next);
    } else if (left > V::lanes) {
      next = weighted_sums<V, Centres, 2>(chunk, weights, f, sums, next);
    } else {
      next = weighted_sums<V, Centres, 1>(chunk, weights, f, sums, next);
    }
  }
  return next;
}

/// Adds the samples of a chunk, times their weights [k, kRoundUp], to sums [k, padded(d)].
template <class V>
void weighted_sums_of_rows(const Chunk<typename V::Scalar>& chunk,
                           const typename V::Scalar* weights, std::size_t k,
                           typename V::Scalar* sums, bool alone) {
  using T = typename V::Scalar;
  constexpr std::size_t kMost = V::registers == 32 ? 8 : 4; // centres
  const std::size_t values = chunk.count * chunk.d;
  const T* next = chunk.points + values + (alone ? 0 : values / 2);
  for (std::size_t j = 0; j < k;) {
    const T* w = weights + j * kRoundUp;
    T* s = sums + j * padded<T>(chunk.d);
    if (kMost == 8 && k - j >= 8) {
      next = weighted_sums<V, kMost>(chunk, w, s, next);
      j += kMost;
    } else if (k - j >= 4) {
      next = weighted_sums<V, 4>(chunk, w, s, next);
      j += 4;
    } else {
      next = weighted_sums<V, 1>(chunk, w, s, next);
      j += 1;
    }
  }
}

} // namespace clusterbench::simd
