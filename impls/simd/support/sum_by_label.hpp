// Sums of many clusters: each row is added to the row of sums that its label names.
//
// sum_by_label adds in T, a register at a time, into sums that collect_sums moves to double before
// they lose digits. Neighbours often belong to the same cluster, and an addition must wait for the
// one before it to reach memory; so copies of the sums take turns where rows are short. One lane
// behind the features counts. sum_in_double is for sums that do not fit the cache four times: it
// goes to double at once, and so does sum_with_weights.
#pragma once

#include "impls/simd/support/kernels.hpp"
#include "impls/simd/support/vector.hpp"

namespace clusterbench::simd {

/// Adds rows to sums in T.
template <class V>
class RowAdder {
  using T = typename V::Scalar;

public:
  RowAdder(std::size_t k, std::size_t d)
      : k_(k), d_(d), width_(padded<T>(d + 1)), last_(d / V::lanes * V::lanes),
        copies_(sum_copies(d)) {
    one_[d - last_] = T{1};
  }

  /// x [d] is row i of its chunk.
  [[gnu::always_inline]] void add(const T* x, std::size_t i, std::int32_t label, T* scratch) const {
    T* sum = scratch + (i % copies_ * k_ + static_cast<std::size_t>(label)) * width_;
    for (std::size_t f = 0; f < last_; f += V::lanes) {
      V::store(sum + f, V::load(sum + f) + V::load(x + f));
    }
    V::store(sum + last_, V::load(sum + last_) + (V::load_first(x + last_, d_ - last_) + one_));
  }

private:
  std::size_t k_, d_, width_;
  std::size_t last_; ///< the register that has the counting lane
  std::size_t copies_;
  typename V::Reg one_{};
};

template <class V>
void sum_by_label(const Chunk<typename V::Scalar>& chunk, const std::int32_t* labels, std::size_t k,
                  typename V::Scalar* scratch, double* /*sums*/, double* /*counts*/) {
  const RowAdder<V> adder(k, chunk.d);
  for (std::size_t i = 0; i < chunk.count; ++i) {
    adder.add(chunk.points + i * chunk.d, i, labels[i], scratch);
  }
}

template <class V>
void collect_sums(std::size_t k, std::size_t d, typename V::Scalar* scratch, double* sums,
                  double* counts) {
  using T = typename V::Scalar;
  const std::size_t width = padded<T>(d + 1);
  for (std::size_t c = 0; c < sum_copies(d) * k; ++c) {
    T* sum = scratch + c * width;
    const std::size_t j = c % k;
    for (std::size_t f = 0; f < d; ++f) {
      sums[j * d + f] += double{sum[f]};
      sum[f] = T{0};
    }
    counts[j] += double{sum[d]};
    sum[d] = T{0};
  }
}

template <class V>
void sum_in_double(const Chunk<typename V::Scalar>& chunk, const std::int32_t* labels,
                   std::size_t /*k*/, typename V::Scalar* /*scratch*/, double* sums,
                   double* counts) {
  const std::size_t d = chunk.d;
  for (std::size_t i = 0; i < chunk.count; ++i) {
    const typename V::Scalar* x = chunk.points + i * d;
    const auto j = static_cast<std::size_t>(labels[i]);
    counts[j] += 1.0;
    double* sum = sums + j * d;
    for (std::size_t f = 0; f < d; ++f) { // vectorised by the compiler
      sum[f] += double{x[f]};
    }
  }
}

template <class V>
void sum_with_weights(const Chunk<typename V::Scalar>& chunk, const typename V::Scalar* weights,
                      const std::int32_t* labels, double* sums, double* totals) {
  const std::size_t d = chunk.d;
  for (std::size_t i = 0; i < chunk.count; ++i) {
    const typename V::Scalar* x = chunk.points + i * d;
    const auto j = static_cast<std::size_t>(labels[i]);
    const auto weight = double{weights[i]};
    totals[j] += weight;
    double* sum = sums + j * d;
    for (std::size_t f = 0; f < d; ++f) { // vectorised by the compiler
      sum[f] += weight * double{x[f]};
    }
  }
}

} // namespace clusterbench::simd
