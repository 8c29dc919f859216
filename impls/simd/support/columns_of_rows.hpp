// Points as the kernels with a lane a point want them: in blocks of `lanes` points, feature by
// feature. What lies beyond the last point repeats it, up to a multiple of kRoundUp.
//
// As many features as a register has lanes are turned over in registers, so that memory is read and
// written a register at a time: the limit is its bandwidth, as in a copy. So are shorter rows, of
// which several lie in one register.
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

/// Nobody asks for squared lengths.
struct NoSquares {};

/// Where the columns of a block go, a register of `lanes` points after the other. Square: the type in
/// which squared lengths are added up.
template <class V, typename Square, bool PastCaches>
class BlockWriter {
  static constexpr bool kHasSquares = !__is_same(Square, NoSquares);
  using T = typename V::Scalar;
  using Reg = typename V::Reg;
  using Wide = Vec<double, V::lanes * sizeof(T)>; // some of the lanes, in double
  static constexpr std::size_t kParts = __is_same(Square, T) ? 1 : V::lanes / Wide::lanes;

public:
  BlockWriter(T* block, const T* origin) : block_(block), origin_(origin) {}

  /// Feature f of the points.
  [[gnu::always_inline]] void put(std::size_t f, Reg values) {
    put_centred(f, origin_ == nullptr ? values : values - V::broadcast(origin_[f]));
  }
  /// The same less the origin.
  [[gnu::always_inline]] void put_centred(std::size_t f, Reg values) {
    T* to = block_ + f * V::lanes;
    PastCaches ? V::store_past_caches(to, values) : V::store(to, values);
    if constexpr (__is_same(Square, T)) {
      squares_[0] = V::fma(values, values, squares_[0]);
    } else if constexpr (kHasSquares) {
      add_squares(values, std::make_index_sequence<Wide::lanes>());
    }
  }
  /// The squared lengths of the points, added up feature after feature.
  [[gnu::always_inline]] void store_squares(Square* squares) const {
#pragma GCC unroll 2
    for (std::size_t p = 0; p < kParts; ++p) {
      Sums::store(squares + p * Sums::lanes, squares_[p]);
    }
  }

private:
  template <std::size_t... L>
  [[gnu::always_inline]] void add_squares(Reg values, std::index_sequence<L...>) {
    const auto add = [&](std::size_t p, auto part) {
      const auto x = __builtin_convertvector(part, typename Wide::Reg);
      squares_[p] = Wide::fma(x, x, squares_[p]);
    };
    add(0, __builtin_shufflevector(values, values, static_cast<int>(L)...));
    if constexpr (kParts == 2) {
      add(1, __builtin_shufflevector(values, values, static_cast<int>(Wide::lanes + L)...));
    }
  }

  template <bool InOwnType, typename Own, typename InDouble>
  struct Choice {
    using type = Own;
  };
  template <typename Own, typename InDouble>
  struct Choice<false, Own, InDouble> {
    using type = InDouble;
  };
  using Sums = typename Choice<__is_same(Square, T), V, Wide>::type;

  T* block_;
  const T* origin_;
  typename Sums::Reg squares_[kParts] = {};
};

/// Feature F of `lanes` rows of D features each, which lie one behind the other in D registers: what
/// each register has of it is put into its lanes, one after the other.
template <class V, std::size_t D, std::size_t F, std::size_t From = 1>
[[gnu::always_inline]] inline typename V::Reg feature_of(const typename V::Reg (&rows)[D],
                                                         typename V::Reg found) {
  if constexpr (From < D) {
    constexpr auto of = [](std::size_t l) {
      const std::size_t source = l * D + F;
      return source / V::lanes == From             ? V::lanes + source % V::lanes
             : From == 1 && source / V::lanes == 0 ? source
                                                   : l;
    };
    return feature_of<V, D, F, From + 1>(
        rows, chosen<V>(found, rows[From], of, std::make_index_sequence<V::lanes>()));
  } else {
    return found;
  }
}

/// `lanes` rows of D features that lie one behind the other.
template <class V, std::size_t D, class Writer, std::size_t... F>
[[gnu::always_inline]] inline void turn_short_rows(const typename V::Scalar* rows, Writer& block,
                                                   std::index_sequence<F...>) {
  typename V::Reg from[D];
#pragma GCC unroll 8
  for (std::size_t j = 0; j < D; ++j) {
    from[j] = V::load(rows + j * V::lanes);
  }
  (block.put(F, feature_of<V, D, F>(from, from[0])), ...);
}

/// The same for rows of d features; false: these are too many.
template <class V, std::size_t D = 8, class Writer>
[[gnu::always_inline]] inline bool turned_short_rows(const typename V::Scalar* rows, std::size_t d,
                                                     Writer& block) {
  if constexpr (D > 0) {
    if (d == D) {
      turn_short_rows<V, D>(rows, block, std::make_index_sequence<D>());
      return true;
    }
    return turned_short_rows<V, D - 1>(rows, d, block);
  } else {
    return false;
  }
}

/// `count` rows of d features, at most `lanes`, and the last of them again for those that lack.
template <class V, class Writer>
[[gnu::always_inline]] inline void turn_rows(const typename V::Scalar* rows, std::size_t count,
                                             std::size_t d, const typename V::Scalar* origin,
                                             Writer& block) {
  const typename V::Scalar* row[V::lanes];
#pragma GCC unroll 16
  for (std::size_t l = 0; l < V::lanes; ++l) {
    row[l] = rows + (l < count ? l : count - 1) * d;
  }
  typename V::Reg square[V::lanes];
  std::size_t f = 0;
  for (; f + V::lanes <= d; f += V::lanes) {
#pragma GCC unroll 16
    for (std::size_t l = 0; l < V::lanes; ++l) {
      square[l] = V::load(row[l] + f);
      square[l] = origin == nullptr ? square[l] : square[l] - V::load(origin + f);
    }
    turn_over<V>(square);
#pragma GCC unroll 16
    for (std::size_t l = 0; l < V::lanes; ++l) {
      block.put_centred(f + l, square[l]);
    }
  }
  if (const std::size_t rest = d - f; rest > 3) {
#pragma GCC unroll 16
    for (std::size_t l = 0; l < V::lanes; ++l) {
      square[l] = V::load_first(row[l] + f, rest);
    }
    turn_over<V>(square);
#pragma GCC unroll 16
    for (std::size_t l = 0; l < V::lanes; ++l) {
      if (l < rest) {
        block.put(f + l, square[l]);
      }
    }
    return;
  }
  for (; f < d; ++f) {
    typename V::Scalar values[V::lanes];
    for (std::size_t l = 0; l < V::lanes; ++l) {
      values[l] = row[l][f];
    }
    block.put(f, V::load(values));
  }
}

template <class V, typename Square, bool PastCaches>
void turn_chunk(const Chunk<typename V::Scalar>& chunk, const typename V::Scalar* origin,
                typename V::Scalar* columns, Square* squares) {
  const std::size_t d = chunk.d;
  for (std::size_t i = 0; i < rounded_up(chunk.count); i += V::lanes) {
    BlockWriter<V, Square, PastCaches> block(columns + i * d, origin);
    if (i + V::lanes > chunk.count) {
      const std::size_t first = i < chunk.count ? i : chunk.count - 1;
      turn_rows<V>(chunk.points + first * d, chunk.count - first, d, origin, block);
    } else if (!turned_short_rows<V>(chunk.points + i * d, d, block)) {
      turn_rows<V>(chunk.points + i * d, V::lanes, d, origin, block);
    }
    if constexpr (!__is_same(Square, NoSquares)) {
      block.store_squares(squares + i);
    }
  }
}

template <class V, typename Square>
void columns_and_squares(const Chunk<typename V::Scalar>& chunk, const typename V::Scalar* origin,
                         typename V::Scalar* columns, Square* squares, bool past_caches) {
  (past_caches ? turn_chunk<V, Square, true> : turn_chunk<V, Square, false>)(chunk, origin, columns,
                                                                             squares);
}

template <class V>
void columns_of_rows(const Chunk<typename V::Scalar>& chunk, const typename V::Scalar* origin,
                     typename V::Scalar* columns, bool past_caches) {
  columns_and_squares<V, NoSquares>(chunk, origin, columns, nullptr, past_caches);
}

} // namespace clusterbench::simd
