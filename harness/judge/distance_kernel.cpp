#include "harness/judge/distance_kernel.hpp"

#include <algorithm>
#include <cstring>

namespace clusterbench {
namespace {

/// Eight doubles, in as many registers as the processor needs for them.
typedef double Lanes __attribute__((vector_size(64)));

constexpr std::size_t kRowsAtOnce = 8; ///< as many sums run side by side

/// The distances of kRowsAtOnce rows to kLanes centroids. rows: [kRowsAtOnce, d]; packed: [d,
/// kLanes].
void measure_tile(const double* rows, const double* packed, std::size_t d, double* squared,
                  std::size_t stride) {
  Lanes sums[kRowsAtOnce] = {};
  for (std::size_t f = 0; f < d; ++f) {
    Lanes c;
    std::memcpy(&c, packed + f * (sizeof c / sizeof(double)), sizeof c);
#pragma GCC unroll 8
    for (std::size_t r = 0; r < kRowsAtOnce; ++r) {
      const Lanes difference = c - rows[r * d + f];
      sums[r] += difference * difference;
    }
  }
#pragma GCC unroll 8
  for (std::size_t r = 0; r < kRowsAtOnce; ++r) {
    std::memcpy(squared + r * stride, &sums[r], sizeof(Lanes));
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
    : k(kernel.k_), stride((k + kLanes - 1) / kLanes * kLanes), rows(kBlockRows * kernel.d_),
      squared(kBlockRows * stride) {}

template <typename T>
void DistanceKernel::measure(std::span<const T* const> rows, Scratch& scratch) const {
  for (std::size_t r = 0; r < rows.size(); ++r) {
    std::copy_n(rows[r], d_, scratch.rows.begin() + static_cast<std::ptrdiff_t>(r * d_));
  }
  for (std::size_t j = 0; j < k_; j += kLanes) {
    for (std::size_t r = 0; r < rows.size(); r += kRowsAtOnce) {
      measure_tile(scratch.rows.data() + r * d_, packed_.data() + j * d_, d_,
                   scratch.squared.data() + r * scratch.stride + j, scratch.stride);
    }
  }
}

template void DistanceKernel::measure(std::span<const float* const>, Scratch&) const;
template void DistanceKernel::measure(std::span<const double* const>, Scratch&) const;

} // namespace clusterbench
