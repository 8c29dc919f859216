// Points as the kernels with a lane a point want them: in blocks of `lanes` points, feature by
// feature. What lies beyond the last point repeats it, up to a multiple of kRoundUp.
//
// As many features as a register has lanes are turned over in registers, so that memory is read and
// written a register at a time: the limit is its bandwidth, as in a copy.
#pragma once

#include "impls/simd/support/kernels.hpp"
#include "impls/simd/support/vector.hpp"

namespace clusterbench::simd {

/// Turns a square of registers over, by squares of half the width: lane i of register j goes to
/// lane j of register i.
template <class V, std::size_t Half = V::lanes / 2>
[[gnu::always_inline]] inline void turn_over(typename V::Reg (&a)[V::lanes]) {
  if constexpr (Half > 0) {
    constexpr auto low = [](std::size_t l) { return (l & Half) != 0 ? V::lanes + (l ^ Half) : l; };
    constexpr auto high = [](std::size_t l) { return (l & Half) != 0 ? V::lanes + l : l ^ Half; };
    constexpr std::make_index_sequence<V::lanes> all;
#pragma GCC unroll 16
    for (std::size_t i = 0; i < V::lanes; ++i) {
      if ((i & Half) == 0) {
        const typename V::Reg upper = a[i], lower = a[i + Half];
        a[i] = chosen<V>(upper, lower, low, all);
        a[i + Half] = chosen<V>(upper, lower, high, all);
      }
    }
    turn_over<V, Half / 2>(a);
  }
}

/// One block, of `lanes` rows.
template <class V>
[[gnu::always_inline]] inline void block_of_rows(const typename V::Scalar* const (&row)[V::lanes],
                                                 std::size_t d, const typename V::Scalar* origin,
                                                 typename V::Scalar* block) {
  std::size_t f = 0;
  for (; f + V::lanes <= d; f += V::lanes) {
    typename V::Reg square[V::lanes];
#pragma GCC unroll 16
    for (std::size_t l = 0; l < V::lanes; ++l) {
      square[l] = V::load(row[l] + f);
      square[l] = origin == nullptr ? square[l] : square[l] - V::load(origin + f);
    }
    turn_over<V>(square);
#pragma GCC unroll 16
    for (std::size_t l = 0; l < V::lanes; ++l) {
      V::store(block + (f + l) * V::lanes, square[l]);
    }
  }
  for (; f < d; ++f) {
    for (std::size_t l = 0; l < V::lanes; ++l) {
      block[f * V::lanes + l] = origin == nullptr ? row[l][f] : row[l][f] - origin[f];
    }
  }
}

/// The squared lengths of the points of a block, added up in double, feature after feature.
template <class V>
[[gnu::always_inline]] inline void squares_of_block(const typename V::Scalar* block, std::size_t d,
                                                    double* squares) {
  using T = typename V::Scalar;
  using W = Vec<double, V::lanes * sizeof(T)>;
  constexpr std::size_t kParts = V::lanes / W::lanes;
  typedef T Part __attribute__((vector_size(W::lanes * sizeof(T)), aligned(alignof(T)), may_alias));
  typename W::Reg sum[kParts] = {};
  for (std::size_t f = 0; f < d; ++f) {
#pragma GCC unroll 2
    for (std::size_t p = 0; p < kParts; ++p, block += W::lanes) {
      const auto x =
          __builtin_convertvector(*reinterpret_cast<const Part*>(block), typename W::Reg);
      sum[p] = W::fma(x, x, sum[p]);
    }
  }
#pragma GCC unroll 2
  for (std::size_t p = 0; p < kParts; ++p) {
    W::store(squares + p * W::lanes, sum[p]);
  }
}

template <class V>
void columns_of_rows(const Chunk<typename V::Scalar>& chunk, const typename V::Scalar* origin,
                     typename V::Scalar* columns, double* squares) {
  const std::size_t d = chunk.d;
  for (std::size_t i = 0; i < rounded_up(chunk.count); i += V::lanes) {
    const typename V::Scalar* row[V::lanes];
#pragma GCC unroll 16
    for (std::size_t l = 0; l < V::lanes; ++l) {
      row[l] = chunk.points + (i + l < chunk.count ? i + l : chunk.count - 1) * d;
    }
    block_of_rows<V>(row, d, origin, columns + i * d);
    if (squares != nullptr) {
      squares_of_block<V>(columns + i * d, d, squares + i);
    }
  }
}

} // namespace clusterbench::simd
