// How large rows in device memory are: what Magnitudes::of() finds on the host, in the same arithmetic. Float only.
#pragma once

#include "impls/cuda/support/buffer.hpp"
#include "impls/cuda/support/grid.hpp"
#include "impls/cuda/support/magnitudes.hpp"

#include <cuda_runtime.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

namespace clusterbench::cuda {

/// Raises largest[f] to the largest magnitude of feature f. Must be zero before: the integers of floats that are not
/// negative have the order of the floats. At least d threads.
static __global__ void find_largest(const float* rows, std::size_t values, std::size_t d,
                                    unsigned* largest) {
  const std::size_t threads = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  const std::size_t stride = threads / d * d; // a thread stays with its feature
  const std::size_t own = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  float found = 0.0f;
  for (std::size_t e = own; own < stride && e < values; e += stride) {
    found = fmaxf(found, fabsf(rows[e])); // leaves out what is no number
  }
  unsigned* to = largest + own % d;
  if (__float_as_uint(found) > *static_cast<volatile unsigned*>(to)) { // few are
    atomicMax(to, __float_as_uint(found));
  }
}

/// Raises *longest to the square of the longest row's length; the integers of doubles, zero before.
static __global__ void find_longest(const float* rows, std::size_t n, std::size_t d,
                                    unsigned long long* longest) {
  const std::size_t stride = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  double found = 0.0;
  for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n;
       i += stride) {
    found = fmax(found, squared_length(rows + i * d, d));
  }
  const auto bits = static_cast<unsigned long long>(__double_as_longlong(found));
  if (bits > *static_cast<volatile unsigned long long*>(longest)) {
    atomicMax(longest, bits);
  }
}

/// Of rows in device memory, [., d]. Blocks. Throws std::runtime_error.
inline Magnitudes device_magnitudes(std::span<const float> d_rows, std::size_t d,
                                    cudaStream_t stream) {
  constexpr std::size_t kThreads = 256, kBlocks = 2048;
  const std::size_t n = d_rows.size() / d;
  Magnitudes found{0.0, std::vector<double>(d)};
  if (n == 0) {
    return found;
  }
  DeviceBuffer<unsigned> d_largest(d);
  DeviceBuffer<unsigned long long> d_longest(1);
  d_largest.zero(stream);
  d_longest.zero(stream);
  const unsigned blocks =
      blocks_at_most(d_rows.size(), kThreads, std::max(kBlocks, ceil_div(d, kThreads)));
  find_largest<<<blocks, kThreads, 0, stream>>>(d_rows.data(), d_rows.size(), d, d_largest.data());
  check_launch("find_largest");
  find_longest<<<blocks_at_most(n, kThreads, kBlocks), kThreads, 0, stream>>>(d_rows.data(), n, d,
                                                                              d_longest.data());
  check_launch("find_longest");
  std::vector<unsigned> largest(d);
  d_largest.download(largest, stream);
  unsigned long long longest = 0;
  d_longest.download(std::span(&longest, 1), stream);
  std::ranges::transform(largest, found.largest.begin(), [](unsigned bits) {
    return static_cast<double>(std::bit_cast<float>(bits));
  });
  found.longest = std::sqrt(std::bit_cast<double>(longest));
  return found;
}

/// Of a start: so few values that a copy to page-locked memory is quicker than kernels and a copy.
class StartMagnitudes {
public:
  StartMagnitudes() = default;
  /// Throws std::runtime_error.
  StartMagnitudes(std::size_t k, std::size_t d) : d_(d), rows_(k * d) {}

  /// d_centroids: [k, d]. Blocks. Throws std::runtime_error.
  Magnitudes of(std::span<const float> d_centroids, cudaStream_t stream) {
    check(cudaMemcpyAsync(rows_.data(), d_centroids.data(), rows_.size() * sizeof(float),
                          cudaMemcpyDeviceToHost, stream),
          "cudaMemcpyAsync of the start to the host");
    check(cudaStreamSynchronize(stream), "cudaStreamSynchronize after a copy of the start");
    return Magnitudes::of(rows_.span(), d_);
  }

private:
  std::size_t d_ = 0;
  PinnedBuffer<float> rows_; // [k, d]
};

/// SumUnits of a run. Only under the rule `loss` do they depend on the start: other runs do not wait for a copy of it.
template <unsigned kMost>
class RunUnits {
public:
  RunUnits() = default;
  /// Throws std::runtime_error.
  RunUnits(Magnitudes rows, std::size_t rows_of_block, std::size_t k, std::size_t d,
           bool of_distances)
      : rows_(std::move(rows)), rows_of_block_(rows_of_block), of_distances_(of_distances),
        start_(of_distances ? k : 0, d) {}

  /// Throws std::runtime_error.
  SumUnits<kMost> of(std::span<const float> d_centroids, cudaStream_t stream) {
    return SumUnits<kMost>::of(rows_, of_distances_ ? start_.of(d_centroids, stream) : Magnitudes{},
                               rows_of_block_, of_distances_);
  }

private:
  Magnitudes rows_;
  std::size_t rows_of_block_ = 0;
  bool of_distances_ = false;
  StartMagnitudes start_;
};

} // namespace clusterbench::cuda
