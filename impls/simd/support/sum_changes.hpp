// Sums that stay from pass to pass: a point is moved from the sums of its old cluster to those of
// its new one. After a few passes hardly any point moves.
//
// Points that are taken out again must leave nothing behind. So a sum is two doubles: what an
// addition to the first rounds off is known exactly (Knuth's two-sum) and goes to the second. What
// that one rounds off is 2^-106 of the largest sum there was, which float's 2^-24 of what is left
// hides unless values differ by more than kMostRange.
#pragma once

#include "impls/simd/support/kernels.hpp"
#include "impls/simd/support/vector.hpp"

namespace clusterbench::simd {

/// Moves points of D features.
template <class V, std::size_t D>
struct Mover {
  using T = typename V::Scalar;
  using W = Vec<double, V::lanes * sizeof(T)>;
  static constexpr std::size_t kWidth = padded<double>(D), kParts = kWidth / W::lanes;

  std::size_t k;
  double *sums, *counts;

  template <bool Away>
  [[gnu::always_inline]] void add(const typename W::Reg (&x)[kParts], std::int32_t label) const {
    double* high = sums + static_cast<std::size_t>(label) * kWidth;
    double* low = high + k * kWidth;
#pragma GCC unroll 16
    for (std::size_t p = 0; p < kParts; ++p, high += W::lanes, low += W::lanes) {
      const typename W::Reg value = Away ? -x[p] : x[p];
      const typename W::Reg before = W::load(high);
      const typename W::Reg after = before + value;
      const typename W::Reg added = after - before;
      const typename W::Reg lost = (before - (after - added)) + (value - added);
      W::store(high, after);
      W::store(low, W::load(low) + lost);
    }
    counts[label] += Away ? -1.0 : 1.0;
  }

  /// column: of the point, which labelling has just read. Its features are put together in
  /// registers: a wide load of what narrow stores have just written waits for them.
  [[gnu::always_inline]] void move(const T* column, std::int32_t from, std::int32_t to) const {
    typename W::Reg x[kParts];
#pragma GCC unroll 16
    for (std::size_t p = 0; p < kParts; ++p) {
      typename W::Reg value{};
#pragma GCC unroll 8
      for (std::size_t l = 0; l < W::lanes; ++l) {
        if (p * W::lanes + l < D) {
          value[l] = double{column[(p * W::lanes + l) * V::lanes]};
        }
      }
      x[p] = value;
    }
    add<false>(x, to);
    if (from >= 0) {
      add<true>(x, from);
    }
  }
};

template <class V, std::size_t D>
std::size_t sum_changes(const Chunk<typename V::Scalar>& chunk, const std::int32_t* labels,
                        std::int32_t* previous, bool all, std::size_t k, double* sums,
                        double* counts) {
  const Mover<V, D> mover{k, sums, counts};
  std::size_t changed = 0;
  const auto move = [&](std::size_t i) __attribute__((always_inline)) {
    mover.move(chunk.columns + i / V::lanes * V::lanes * D + i % V::lanes, all ? -1 : previous[i],
               labels[i]);
    changed += labels[i] != previous[i];
    previous[i] = labels[i];
  };
  std::size_t i = 0;
  if (!all) {
    for (; i + V::lanes <= chunk.count; i += V::lanes) {
      unsigned moved =
          V::bits(V::different(V::load_labels(labels + i), V::load_labels(previous + i)));
      for (; moved != 0; moved &= moved - 1) {
        move(i + static_cast<std::size_t>(__builtin_ctz(moved)));
      }
    }
  }
  for (; i < chunk.count; ++i) {
    if (all || labels[i] != previous[i]) {
      move(i);
    }
  }
  return changed;
}

} // namespace clusterbench::simd
