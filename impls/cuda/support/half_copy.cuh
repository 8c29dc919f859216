// The float16 copy of the points: moved to the mean of the data, scaled by a power of two to the top
// of float16's range, rounded; with the norms that the bound needs. Made once, and again for starts
// that lie beyond the points.
#pragma once

#include "impls/cuda/support/buffer.hpp"
#include "impls/cuda/support/grid.hpp"
#include "impls/cuda/support/large_k_views.cuh"

#include <algorithm>
#include <bit>
#include <cmath>
#include <span>

namespace clusterbench::cuda {

inline constexpr unsigned kColumnRows = 256; ///< partial sums of a column

/// partial[b][f]: the sum of column f over the rows b, b + kColumnRows, ... points: [n, d]
static __global__ void sum_columns(const float* points, std::size_t n, unsigned d,
                                   double* partial) {
  for (unsigned f = threadIdx.x; f < d; f += blockDim.x) {
    double sum = 0.0;
    for (std::size_t i = blockIdx.x; i < n; i += gridDim.x) {
      sum += static_cast<double>(points[i * d + f]);
    }
    partial[blockIdx.x * d + f] = sum;
  }
}

/// mean[f] from the partial sums. Any nearby vector would do: the mean is only a new origin.
static __global__ void finish_means(const double* partial, std::size_t n, unsigned d, float* mean) {
  const unsigned f = blockIdx.x * blockDim.x + threadIdx.x;
  if (f < d) {
    double sum = 0.0;
    for (unsigned b = 0; b < kColumnRows; ++b) {
      sum += partial[b * d + f];
    }
    mean[f] = static_cast<float>(sum / static_cast<double>(n));
  }
}

/// largest[0]: bits of the largest |value|; [1]: of the largest |value - mean|. values: [rows, d]
static __global__ void find_largest(const float* values, std::size_t size, unsigned d,
                                    const float* mean, unsigned* largest) {
  float plain = 0.0f, moved = 0.0f;
  for (std::size_t e = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; e < size;
       e += std::size_t{gridDim.x} * blockDim.x) {
    plain = fmaxf(plain, fabsf(values[e]));
    moved = fmaxf(moved, fabsf(values[e] - mean[e % d]));
  }
  // Floats that are not negative have the order of their bits.
  const unsigned most_plain = __reduce_max_sync(0xffffffffu, __float_as_uint(plain));
  const unsigned most_moved = __reduce_max_sync(0xffffffffu, __float_as_uint(moved));
  if (threadIdx.x % 32 == 0) {
    atomicMax(&largest[0], most_plain);
    atomicMax(&largest[1], most_moved);
  }
}

/// Rounds one row, by a warp, and returns its norms in every lane.
__device__ inline RoundedNorms round_row(const float* row, unsigned d, const Frame& frame,
                                         const HalfTiles& shape, std::size_t index, __half* tiles) {
  double exact = 0.0, rounded = 0.0, residual = 0.0;
  for (unsigned f = threadIdx.x % 32; f < d; f += 32) {
    const double value =
        (static_cast<double>(row[f]) - static_cast<double>(frame.mean[f])) * frame.scale;
    // The scale keeps the data in range; a value beyond it is cut, and the residual says so.
    const __half half = __double2half(fmin(fmax(value, -65504.0), 65504.0));
    const double back = static_cast<double>(__half2float(half));
    tiles[shape.offset(index, f)] = half;
    exact += value * value;
    rounded += back * back;
    residual += (value - back) * (value - back);
  }
  for (int offset = 16; offset > 0; offset /= 2) {
    exact += __shfl_xor_sync(0xffffffffu, exact, offset);
    rounded += __shfl_xor_sync(0xffffffffu, rounded, offset);
    residual += __shfl_xor_sync(0xffffffffu, residual, offset);
  }
  return norms_of(exact, rounded, residual);
}

/// A warp a row.
static __global__ void round_points(const float* points, std::size_t n, unsigned d, Frame frame,
                                    HalfTiles shape, __half* tiles, float* residuals,
                                    float* norms) {
  const std::size_t warps = std::size_t{gridDim.x} * blockDim.x / 32;
  for (std::size_t i = (std::size_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32; i < n;
       i += warps) {
    const RoundedNorms of_row = round_row(points + i * d, d, frame, shape, i, tiles);
    if (threadIdx.x % 32 == 0) {
      residuals[i] = __double2float_ru(of_row.residual);
      norms[i] = __double2float_ru(of_row.rounded);
    }
  }
}

/// The points on the device, exact (the harness's own) and rounded. [n, d]
class HalfCopy {
public:
  /// Rounds, with a scale that fits the points. Blocks. Throws std::runtime_error.
  void prepare(std::span<const float> d_points, std::size_t d, unsigned padded_rows,
               cudaStream_t stream) {
    exact_ = d_points.data();
    n_ = d_points.size() / d;
    d_ = static_cast<unsigned>(d);
    shape_ = HalfTiles::of(d);
    rounded_ = DeviceBuffer<__half>(shape_.size(ceil_div(n_, padded_rows) * padded_rows));
    rounded_.zero(stream);
    residual_ = DeviceBuffer<float>(n_);
    norm_ = DeviceBuffer<float>(n_);
    mean_ = DeviceBuffer<float>(d);
    DeviceBuffer<double> partial(kColumnRows * d);
    sum_columns<<<kColumnRows, static_cast<unsigned>(std::min<std::size_t>(d, 256)), 0, stream>>>(
        exact_, n_, d_, partial.data());
    check_launch("sum_columns");
    finish_means<<<blocks_for(d, 128), 128, 0, stream>>>(partial.data(), n_, d_, mean_.data());
    check_launch("finish_means");

    d_largest_ = DeviceBuffer<unsigned>(2);
    h_largest_ = PinnedBuffer<unsigned>(2);
    of_points_ = largest_of(d_points, stream);
    round(scale_for(of_points_.moved), stream);
  }

  /// Fits the scale to the centroids [k, d] of a start, too; whether that has rounded the points
  /// again, as it does only if either this start or the one before reaches beyond them. Blocks.
  bool fit(std::span<const float> d_centroids, cudaStream_t stream) {
    const double scale =
        scale_for(std::max(of_points_.moved, largest_of(d_centroids, stream).moved));
    if (scale == scale_) {
      return false;
    }
    round(scale, stream);
    return true;
  }

  PointsView view() const {
    return {n_, d_, shape_, exact_, rounded_.data(), residual_.data(), norm_.data()};
  }
  Frame frame() const { return {mean_.data(), scale_}; }
  /// The largest |coordinate| of the points.
  double largest() const { return static_cast<double>(of_points_.plain); }

private:
  struct Largest {
    float plain = 0.0f, moved = 0.0f;
  };

  Largest largest_of(std::span<const float> d_values, cudaStream_t stream) {
    d_largest_.zero(stream);
    find_largest<<<blocks_at_most(d_values.size(), 256, 2048), 256, 0, stream>>>(
        d_values.data(), d_values.size(), d_, mean_.data(), d_largest_.data());
    check_launch("find_largest");
    d_largest_.download(h_largest_.span(), stream);
    return {std::bit_cast<float>(h_largest_[0]), std::bit_cast<float>(h_largest_[1])};
  }

  /// To [2^12, 2^13): half a squared length of 32 features stays below 2^30.
  static double scale_for(float moved) {
    return moved > 0.0f && std::isfinite(moved) ? std::ldexp(1.0, 12 - std::ilogb(moved)) : 1.0;
  }

  /// What is behind n and d stays zero.
  void round(double scale, cudaStream_t stream) {
    scale_ = scale;
    round_points<<<blocks_at_most(n_ * 32, 256, 8192), 256, 0, stream>>>(
        exact_, n_, d_, frame(), shape_, rounded_.data(), residual_.data(), norm_.data());
    check_launch("round_points");
    check(cudaStreamSynchronize(stream), "cudaStreamSynchronize after rounding");
  }

  const float* exact_ = nullptr;
  std::size_t n_ = 0;
  unsigned d_ = 0;
  HalfTiles shape_;
  double scale_ = 1.0;
  Largest of_points_;
  DeviceBuffer<float> residual_, norm_, mean_;
  DeviceBuffer<__half> rounded_;
  DeviceBuffer<unsigned> d_largest_; ///< bits of the two
  PinnedBuffer<unsigned> h_largest_;
};

} // namespace clusterbench::cuda
