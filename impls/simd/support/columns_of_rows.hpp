// Points as the kernels with a lane a point want them: in blocks of `lanes` points, feature by
// feature. What lies beyond the last point repeats it, up to a multiple of kRoundUp.
//
// Memory is read and written a register at a time, so that its bandwidth is the limit, as in a
// copy: rows of up to three features, several of which lie in one register, are taken apart there;
// longer ones are put together of pieces and turned over.
#pragma once

#include "impls/simd/support/kernels.hpp"
#include "impls/simd/support/vector.hpp"

namespace clusterbench::simd {

inline constexpr std::size_t kPieceBytes = 16; ///< that one load puts into any place of a register
template <typename T>
inline constexpr std::size_t kPiece = kPieceBytes / sizeof(T);

/// Turns squares of kPiece registers by as many lanes over, by squares of half the width: lane i of
/// register j goes to lane j of register i, wherever in the registers the square is.
template <class V, std::size_t Half = kPiece<typename V::Scalar> / 2>
[[gnu::always_inline]] inline void turn_over(typename V::Reg (&a)[kPiece<typename V::Scalar>]) {
  if constexpr (Half > 0) {
    constexpr auto low = [](std::size_t l) { return (l & Half) != 0 ? V::lanes + (l ^ Half) : l; };
    constexpr auto high = [](std::size_t l) { return (l & Half) != 0 ? V::lanes + l : l ^ Half; };
    constexpr std::make_index_sequence<V::lanes> all;
#pragma GCC unroll 4
    for (std::size_t i = 0; i < kPiece<typename V::Scalar>; ++i) {
      if ((i & Half) == 0) {
        const typename V::Reg upper = a[i], lower = a[i + Half];
        a[i] = chosen<V>(upper, lower, low, all);
        a[i + Half] = chosen<V>(upper, lower, high, all);
      }
    }
    turn_over<V, Half / 2>(a);
  }
}

template <typename Joined, typename Part, std::size_t... L>
[[gnu::always_inline]] inline Joined joined(Part low, Part high, std::index_sequence<L...>) {
  return __builtin_shufflevector(low, high, static_cast<int>(L)...);
}

/// `Bytes` of pieces behind one another: of the first row and each kPiece-th after it, from feature
/// f on.
template <class V, std::size_t Bytes>
[[gnu::always_inline]] inline auto pieces_of(const typename V::Scalar* const* rows, std::size_t f) {
  using T = typename V::Scalar;
  typedef T Pieces __attribute__((vector_size(Bytes)));
  if constexpr (Bytes == kPieceBytes) {
    typedef T Loose __attribute__((vector_size(Bytes), aligned(alignof(T)), may_alias));
    return static_cast<Pieces>(*reinterpret_cast<const Loose*>(rows[0] + f));
  } else {
    return joined<Pieces>(pieces_of<V, Bytes / 2>(rows, f),
                          pieces_of<V, Bytes / 2>(rows + Bytes / 2 / sizeof(T), f),
                          std::make_index_sequence<Bytes / sizeof(T)>());
  }
}

/// Where the columns of a block go, a register of `lanes` points after the other.
template <class V, bool HasSquares>
class BlockWriter {
  using T = typename V::Scalar;
  using Reg = typename V::Reg;

public:
  BlockWriter(T* block, const T* origin) : block_(block), origin_(origin) {}

  /// Feature f of the points.
  [[gnu::always_inline]] void put(std::size_t f, Reg values) {
    values = origin_ == nullptr ? values : values - V::broadcast(origin_[f]);
    V::store(block_ + f * V::lanes, values);
    if constexpr (HasSquares) {
      squares_ = V::fma(values, values, squares_);
    }
  }
  /// The squared lengths of the points, added up feature after feature.
  [[gnu::always_inline]] void store_squares(T* squares) const { V::store(squares, squares_); }

private:
  T* block_;
  const T* origin_;
  Reg squares_{};
};

/// Feature F of `lanes` rows of D features each, which lie one behind the other in D registers:
/// what each register has of it is put into its lanes, one after the other.
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
#pragma GCC unroll 3
  for (std::size_t j = 0; j < D; ++j) {
    from[j] = V::load(rows + j * V::lanes);
  }
  (block.put(F, feature_of<V, D, F>(from, from[0])), ...);
}

/// The same for rows of d features; false: these are more than D.
template <class V, std::size_t D = 3, class Writer>
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
/// While they are worked on, memory is asked for what lies `ahead` values behind them.
template <class V, class Writer>
[[gnu::always_inline]] inline void turn_rows(const typename V::Scalar* rows, std::size_t count,
                                             std::size_t d, std::size_t ahead, Writer& block) {
  using T = typename V::Scalar;
  const T* row[V::lanes];
#pragma GCC unroll 16
  for (std::size_t l = 0; l < V::lanes; ++l) {
    row[l] = rows + (l < count ? l : count - 1) * d;
  }
  if (d < kPiece<T>) {
    for (std::size_t f = 0; f < d; ++f) {
      T values[V::lanes];
      for (std::size_t l = 0; l < V::lanes; ++l) {
        values[l] = row[l][f];
      }
      block.put(f, V::load(values));
    }
    return;
  }
  for (std::size_t done = 0; done < d; done += kPiece<T>) {
#pragma GCC unroll 4
    for (std::size_t line = 0; line < kPieceBytes * V::lanes; line += 64) {
      __builtin_prefetch(rows + ahead + done * V::lanes + line / sizeof(T), 0, 2);
    }
    const std::size_t f = done + kPiece<T> <= d ? done : d - kPiece<T>; // the last ones may overlap
    typename V::Reg turned[kPiece<T>];
#pragma GCC unroll 4
    for (std::size_t j = 0; j < kPiece<T>; ++j) {
      turned[j] = pieces_of<V, V::lanes * sizeof(T)>(row + j, f);
    }
    turn_over<V>(turned);
#pragma GCC unroll 4
    for (std::size_t j = 0; j < kPiece<T>; ++j) {
      if (f + j >= done) {
        block.put(f + j, turned[j]);
      }
    }
  }
}

template <class V, bool HasSquares>
void turn_chunk(const Chunk<typename V::Scalar>& chunk, const typename V::Scalar* origin,
                typename V::Scalar* columns, typename V::Scalar* squares) {
  const std::size_t d = chunk.d, ahead = chunk.count * d;
  for (std::size_t i = 0; i < rounded_up(chunk.count); i += V::lanes) {
    BlockWriter<V, HasSquares> block(columns + i * d, origin);
    if (i + V::lanes > chunk.count) {
      const std::size_t first = i < chunk.count ? i : chunk.count - 1;
      turn_rows<V>(chunk.points + first * d, chunk.count - first, d, ahead, block);
    } else if (!turned_short_rows<V>(chunk.points + i * d, d, block)) {
      turn_rows<V>(chunk.points + i * d, V::lanes, d, ahead, block);
    }
    if constexpr (HasSquares) {
      block.store_squares(squares + i);
    }
  }
}

template <class V>
void columns_and_squares(const Chunk<typename V::Scalar>& chunk, const typename V::Scalar* origin,
                         typename V::Scalar* columns, typename V::Scalar* squares) {
  turn_chunk<V, true>(chunk, origin, columns, squares);
}

template <class V>
void columns_of_rows(const Chunk<typename V::Scalar>& chunk, const typename V::Scalar* origin,
                     typename V::Scalar* columns) {
  turn_chunk<V, false>(chunk, origin, columns, nullptr);
}

} // namespace clusterbench::simd
