// Fills the table of kernels for one vector type. Included by one file for each instruction set.
#pragma once

#include "impls/simd/support/assign_columns.hpp"
#include "impls/simd/support/assign_small_d.hpp"
#include "impls/simd/support/columns_of_rows.hpp"
#include "impls/simd/support/fcm_memberships.hpp"
#include "impls/simd/support/fcm_rows.hpp"
#include "impls/simd/support/move_rows.hpp"
#include "impls/simd/support/pass_by_rows.hpp"
#include "impls/simd/support/pass_in_registers.hpp"
#include "impls/simd/support/sieve_columns.hpp"
#include "impls/simd/support/sum_by_label.hpp"
#include "impls/simd/support/sum_by_mask.hpp"

#include <utility>

namespace clusterbench::simd {

template <class V>
double sum_of_roots(const typename V::Scalar* values, std::size_t count) {
  double sum = 0.0;
  for (std::size_t i = 0; i < count; ++i) {
    sum += __builtin_sqrt(double{values[i]});
  }
  return sum;
}

template <class V>
double sum_of_weighted_roots(const typename V::Scalar* values, const typename V::Scalar* weights,
                             std::size_t count) {
  double sum = 0.0;
  for (std::size_t i = 0; i < count; ++i) {
    sum += double{weights[i]} * __builtin_sqrt(double{values[i]});
  }
  return sum;
}

template <class V>
constexpr MoveKernel move_rows_kernel() {
  if constexpr (sizeof(typename V::Scalar) == sizeof(float)) {
    return move_rows<V>;
  } else {
    return nullptr;
  }
}

template <class V, std::size_t D, std::size_t... K>
constexpr void add_passes(PassKernel<typename V::Scalar> (&row)[kPassK],
                          std::index_sequence<K...>) {
  ((row[K] = pass_in_registers<V, D, K + 1>), ...);
}

template <class V, std::size_t... D>
constexpr Kernels<typename V::Scalar> kernel_table(std::index_sequence<D...>) {
  return {.isa = V::lanes * sizeof(typename V::Scalar) == 64   ? "AVX-512"
                 : V::lanes * sizeof(typename V::Scalar) == 32 ? "AVX2"
                                                               : "128-bit vectors",
          .lanes = V::lanes,
          .columns_of_rows = columns_of_rows<V>,
          .columns_and_squares = columns_and_squares<V>,
          .assign_small_d = {nullptr, assign_small_d_kernel<V, D + 1>()...},
          .assign_columns = assign_columns<V>,
          .sieve_columns = sieve_columns<V>,
          .sieve_group = kSieveGroup<V>,
          .pass_by_rows = pass_by_rows<V>,
          .sum_by_mask = sum_by_mask<V>,
          .sum_by_label = sum_by_label<V>,
          .sum_in_double = sum_in_double<V>,
          .move_rows = move_rows_kernel<V>(),
          .collect_sums = collect_sums<V>,
          .pass_in_registers = {},
          .distances_of_rows = distances_of_rows<V>,
          .memberships_of = memberships_of<V>,
          .raise_to_weights = raise_to_weights<V>,
          .weighted_sums_of_rows = weighted_sums_of_rows<V>,
          .sum_of_roots = sum_of_roots<V>,
          .sum_with_weights = sum_with_weights<V>,
          .sum_of_weighted_roots = sum_of_weighted_roots<V>};
}

template <class V, std::size_t... D>
constexpr Kernels<typename V::Scalar> with_passes(Kernels<typename V::Scalar> kernels,
                                                  std::index_sequence<D...>) {
  (add_passes<V, D + 1>(kernels.pass_in_registers[D], std::make_index_sequence<kPassK>{}), ...);
  return kernels;
}

template <class V>
inline constexpr Kernels<typename V::Scalar>
    kKernels = with_passes<V>(kernel_table<V>(std::make_index_sequence<kSmallD>{}),
                              std::make_index_sequence<kPassD>{});

} // namespace clusterbench::simd
