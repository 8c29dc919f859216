#include "harness/judge/distance_kernel.hpp"

#include <algorithm>

namespace clusterbench {
namespace {

// Vectors of the processor's own width, typed where they lie: wider ones, or copies by memcpy(),
// keep the sums in memory instead of registers, which takes seven times as long.
#ifdef __AVX512F__
constexpr std::size_t kWidth = 8;
#elif defined(__AVX__)
constexpr std::size_t kWidth = 4;
#else
constexpr std::size_t kWidth = 2;
#endif
typedef double Vector __attribute__((vector_size(kWidth * sizeof(double))));
typedef double InMemory
    __attribute__((vector_size(kWidth * sizeof(double)), aligned(sizeof(double)), may_alias));

constexpr std::size_t kVectors = DistanceKernel::kLanes / kWidth;
constexpr std::size_t kRowsAtOnce = kWidth; ///< as many sums run side by side as there is room for

/// The distances of kRowsAtOnce rows to kLanes centroids. rows: [kRowsAtOnce, row_stride]; packed:
/// [d, kLanes].
void measure_tile(const double* rows, std::size_t row_stride, const double* packed, std::size_t d,
                  double* squared, std::size_t stride) {
  Vector sums[kRowsAtOnce][kVectors] = {};
  for (std::size_t f = 0; f < d; ++f) {
    const InMemory* const c =
        reinterpret_cast<const InMemory*>(packed + f * DistanceKernel::kLanes);
#pragma GCC unroll 8
    for (std::size_t r = 0; r < kRowsAtOnce; ++r) {
#pragma GCC unroll 4
      for (std::size_t v = 0; v < kVectors; ++v) {
        const Vector difference = c[v] - rows[r * row_stride + f];
        sums[r][v] += difference * difference;
      }
    }
  }
#pragma GCC unroll 8
  for (std::size_t r = 0; r < kRowsAtOnce; ++r) {
    InMemory* const to = reinterpret_cast<InMemory*>(squared + r * stride);
#pragma GCC unroll 4
    for (std::size_t v = 0; v < kVectors; ++v) {
      to[v] = sums[r][v];
    }
  }
}

} // namespace

DistanceKernel::DistanceKernel(std::span<const double> centroids, std::size_t k, std::size_t d)
    : k_(k), d_(d), packed_((k + kLanes - 1) / kLanes * kLanes * d) {
  for (std::size_t j = 0; j < k; ++j) {
    double* const group = packed_.data() + j / kLanes * kLanes * d;
    for (std::size_t f = 0; f < d; ++f) {
      group[f * kLanes + j % kLanes] = centroids[j * d + f];
    }
  }
}

DistanceKernel::Scratch::Scratch(const DistanceKernel& kernel)
    : k(kernel.k_), stride((k + kLanes - 1) / kLanes * kLanes), row_stride(kernel.d_ + kLanes),
      rows(kBlockRows * row_stride), squared(kBlockRows * stride) {}

template <typename T>
void DistanceKernel::measure(std::span<const T* const> rows, Scratch& scratch) const {
  for (std::size_t r = 0; r < rows.size(); ++r) {
    std::copy_n(rows[r], d_, scratch.rows.data() + r * scratch.row_stride);
  }
  for (std::size_t j = 0; j < k_; j += kLanes) {
    for (std::size_t r = 0; r < rows.size(); r += kRowsAtOnce) {
      measure_tile(scratch.rows.data() + r * scratch.row_stride, scratch.row_stride,
                   packed_.data() + j * d_, d_, scratch.squared.data() + r * scratch.stride + j,
                   scratch.stride);
    }
  }
}

template void DistanceKernel::measure(std::span<const float* const>, Scratch&) const;
template void DistanceKernel::measure(std::span<const double* const>, Scratch&) const;

} // namespace clusterbench
