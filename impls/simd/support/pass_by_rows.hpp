// Labels and sums of points with many features and few centroids: a lane is a feature, rows are
// read as they lie in memory, each value once, and summed while they are in the first-level cache.
// The limit is the memory that the points stream from.
//
// A tile of a few rows by two or four centroids is kept in registers, as many partial distances as
// a register has lanes; they are added up together by transposed_totals(). Two clusters have tiles
// of twice the rows: with four centroids half of them would be the second one again.
#pragma once

#include "impls/simd/support/kernels.hpp"
#include "impls/simd/support/sum_by_label.hpp"
#include "impls/simd/support/vector.hpp"

namespace clusterbench::simd {

/// How many values ahead a row is asked for: whole tiles of rows, at least 1 KiB. The processor by
/// itself follows one row, less well several at once.
template <class V, std::size_t Rows>
[[gnu::always_inline]] inline std::size_t values_ahead(std::size_t d) {
  const std::size_t tile = Rows * d;
  return tile * (1 + 1024 / (tile * sizeof(typename V::Scalar)));
}

/// Squared distances of Rows rows to Centroids centroids, [Centroids, Rows]; Rows * Centroids is
/// the number of lanes.
template <class V, std::size_t Rows, std::size_t Centroids>
[[gnu::always_inline]] inline typename V::Reg
distances_of_tile(const typename V::Scalar* const (&row)[Rows],
                  const typename V::Scalar* const (&c)[Centroids], std::size_t d) {
  typename V::Reg sum[V::lanes] = {};
  const std::size_t ahead = values_ahead<V, Rows>(d);
  std::size_t f = 0;
  const auto add = [&](auto load) __attribute__((always_inline)) {
    typename V::Reg x[Rows];
#pragma GCC unroll 16
    for (std::size_t r = 0; r < Rows; ++r) {
      x[r] = load(row[r]);
      __builtin_prefetch(row[r] + f + ahead);
    }
#pragma GCC unroll 16
    for (std::size_t t = 0; t < Centroids; ++t) {
      const typename V::Reg value = load(c[t]);
#pragma GCC unroll 16
      for (std::size_t r = 0; r < Rows; ++r) {
        const typename V::Reg away = x[r] - value;
        sum[t * Rows + r] = V::fma(away, away, sum[t * Rows + r]);
      }
    }
  };
  for (; f + V::lanes <= d; f += V::lanes) {
    add([f](const typename V::Scalar* p) __attribute__((always_inline)) { return V::load(p + f); });
  }
  if (f < d) {
    add([ f, d ](const typename V::Scalar* p)
            __attribute__((always_inline)) { return V::load_first(p + f, d - f); });
  }
  return transposed_totals<V>(sum);
}

/// Labels of Rows rows, and their squared distances, centroid group by centroid group.
template <class V, std::size_t Rows, std::size_t Centroids>
[[gnu::always_inline]] inline void
nearest_of_rows(const typename V::Scalar* const (&row)[Rows], const typename V::Scalar* centroids,
                std::size_t k, std::size_t d, std::int32_t (&label)[Rows],
                typename V::Scalar (&nearest)[Rows]) {
  using T = typename V::Scalar;
  typedef T Values __attribute__((vector_size(Rows * sizeof(T)))); // a lane is a row
  typedef typename V::Lane Lanes __attribute__((vector_size(Rows * sizeof(T))));
  Values smallest = static_cast<T>(__builtin_huge_val()) - Values{};
  Lanes nearest_centroid{};
  for (std::size_t j = 0; j < k; j += Centroids) {
    const T* c[Centroids];
#pragma GCC unroll 16
    for (std::size_t t = 0; t < Centroids; ++t) { // beyond the last: it cannot win a second time
      c[t] = centroids + (j + t < k ? j + t : k - 1) * d;
    }
    T distances[V::lanes];
    V::store(distances, distances_of_tile<V, Rows, Centroids>(row, c, d));
#pragma GCC unroll 16
    for (std::size_t t = 0; t < Centroids; ++t) {
      Values distance;
      __builtin_memcpy(&distance, distances + t * Rows, sizeof distance);
      const Lanes nearer = distance < smallest;
      smallest = nearer ? distance : smallest;
      nearest_centroid = nearer ? static_cast<typename V::Lane>(j + t) - Lanes{} : nearest_centroid;
    }
  }
#pragma GCC unroll 16
  for (std::size_t r = 0; r < Rows; ++r) {
    label[r] = static_cast<std::int32_t>(nearest_centroid[r]);
    nearest[r] = smallest[r];
  }
}

template <class V, std::size_t Centroids>
void pass_by_tiles(const Chunk<typename V::Scalar>& chunk, const typename V::Scalar* centroids,
                   std::size_t k, std::int32_t* labels, typename V::Scalar* distances,
                   typename V::Scalar* scratch) {
  using T = typename V::Scalar;
  constexpr std::size_t kRows = V::lanes / Centroids;
  const std::size_t d = chunk.d;
  const RowAdder<V> adder(k, d);
  const auto add = [&](std::size_t first) {
    for (std::size_t i = first; i < first + kRows && i < chunk.count; ++i) {
      adder.add(chunk.points + i * d, i, labels[i], scratch);
    }
  };
  for (std::size_t i = 0; i < chunk.count; i += kRows) {
    const T* row[kRows];
#pragma GCC unroll 16
    for (std::size_t r = 0; r < kRows; ++r) { // beyond the last row: that row again
      row[r] = chunk.points + (i + r < chunk.count ? i + r : chunk.count - 1) * d;
    }
    std::int32_t label[kRows];
    T nearest[kRows];
    nearest_of_rows<V, kRows, Centroids>(row, centroids, k, d, label, nearest);
    if (i > 0) { // the rows before these: meanwhile the labels of these become known
      add(i - kRows);
    }
    for (std::size_t r = 0; r < kRows; ++r) {
      labels[i + r] = label[r];
      if (distances != nullptr) {
        distances[i + r] = nearest[r];
      }
    }
  }
  add((chunk.count - 1) / kRows * kRows);
}

template <class V>
void pass_by_rows(const Chunk<typename V::Scalar>& chunk, const typename V::Scalar* centroids,
                  std::size_t k, std::int32_t* labels, typename V::Scalar* distances,
                  typename V::Scalar* scratch, double* /*sums*/, double* /*counts*/) {
  constexpr std::size_t kMost = V::lanes < 4 ? V::lanes : 4;
  if (k <= 2) {
    pass_by_tiles<V, 2>(chunk, centroids, k, labels, distances, scratch);
  } else {
    pass_by_tiles<V, kMost>(chunk, centroids, k, labels, distances, scratch);
  }
}

} // namespace clusterbench::simd
