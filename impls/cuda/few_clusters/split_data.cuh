// Rows on the device in two float16 parts and as they came, for kernels of one launch that multiply
// by wgmma: what they take, how they are made, and what a kernel needs to know of them. Float only.
#pragma once

#include "impls/contract.hpp"
#include "impls/cuda/common/certified_bound.hpp"
#include "impls/cuda/common/magnitudes.hpp"
#include "impls/cuda/common/one_launch.cuh"
#include "impls/cuda/common/runtime.hpp"
#include "impls/cuda/few_clusters/rounding_bounds.hpp"
#include "impls/cuda/few_clusters/split_rows.cuh"

#include <cuda_runtime.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace clusterbench::cuda {

// Rows as they came, but for zeros that make them whole groups of four features.

/// Floats from row to row.
constexpr std::size_t padded_width(std::size_t d) {
  return (d + 3) / 4 * 4;
}

/// padded [size, width] = rows [n, d], zero behind n and d.
static __global__ void pad_rows(const float* rows, std::size_t n, unsigned d, std::size_t size,
                                unsigned width, float* padded) {
  for (std::size_t e = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; e < size * width;
       e += std::size_t{gridDim.x} * blockDim.x) {
    const std::size_t i = e / width;
    const unsigned f = static_cast<unsigned>(e % width);
    padded[e] = i < n && f < d ? rows[i * d + f] : 0.0f;
  }
}

/// A copy, or the rows themselves where nothing is to be added to them.
class PaddedRows {
public:
  PaddedRows() = default;
  /// Of [n, d] rows on the device, which must outlive this, as `size` rows. Does not block. Throws
  /// std::runtime_error.
  PaddedRows(std::span<const float> d_rows, std::size_t n, std::size_t d, std::size_t size)
      : data_(d_rows.data()) {
    const std::size_t width = padded_width(d);
    const bool aligned = reinterpret_cast<std::uintptr_t>(data_) % sizeof(float4) == 0;
    if (width != d || size != n || !aligned) {
      copy_ = DeviceBuffer<float>(size * width);
      pad_rows<<<blocks_at_most(size * width, 256, 65536), 256>>>(
          data_, n, static_cast<unsigned>(d), size, static_cast<unsigned>(width), copy_.data());
      check_launch("pad_rows");
      data_ = copy_.data();
    }
  }
  /// [size, padded_width(d)]
  const float* data() const { return data_; }

private:
  const float* data_ = nullptr;
  DeviceBuffer<float> copy_;
};

class SplitData {
public:
  /// Why no points of this shape are taken; empty if they may be.
  static std::string refuse(const Shape& shape, unsigned max_d, unsigned max_k) {
    if (const int capability = compute_capability(); capability != 0 && capability != 90) {
      return "compute capability 9.0 is needed, and no other"; // 0: no device, which others report
    }
    return refuse_size(shape, max_d, max_k);
  }

  SplitData() = default;
  /// Makes the tiles, with a scale that suits the points. Throws Refusal or std::runtime_error.
  SplitData(const Shape& shape, std::span<const float> d_points)
      : magnitudes_(device_magnitudes(d_points, shape.d)),
        range_(magnitudes_.finite, magnitudes_.shortest, magnitudes_.longest, magnitudes_.largest),
        d_points_(d_points) {
    const std::size_t n = shape.n, d = shape.d;
    throw_if(range_.refuse());
    throw_if_far(d_points, d, shape.k, magnitudes_.longest);
    d_tiles_ = DeviceBuffer<float>(split_columns_size(n, d));
    rows_ = PaddedRows(d_points, n, d, n);
    start_ = PinnedBuffer<float>(shape.k * d);
    run_ = {.exact = {.rows = rows_.data(),
                      .n = static_cast<unsigned>(n),
                      .width = static_cast<unsigned>(padded_width(d)),
                      .k = static_cast<unsigned>(shape.k),
                      .s_centroids = nullptr},
            .tiles = d_tiles_.data(),
            .d = static_cast<unsigned>(d),
            .tiles_count = static_cast<unsigned>(ceil_div(n, SplitTile<1>::kRows)),
            .scale = 1.0f,
            .longest = 0.0f,
            .lost = 0.0f,
            .of_scores = split_error_small_first(d)};
    split(range_.scale());
  }
  /// Fits the scale to the centroids of a start, too, [k, d]; whether that has split the rows
  /// again, as it does only if this start or the one before reaches beyond them. So the parts are
  /// always those that another object would make for this start. Blocks until the start is on the
  /// host. Throws Refusal or std::runtime_error.
  bool fit(std::span<const float> d_start) {
    SplitRange range = range_;
    range.include(start_on_host(d_start, start_));
    throw_if(range.refuse());
    if (range.scale() == run_.scale) {
      return false;
    }
    split(range.scale());
    return true;
  }
  /// Valid as long as this object, and until fit() says that it has split the rows again.
  const SplitRun& run() const { return run_; }
  /// Of the rows.
  const Magnitudes& magnitudes() const { return magnitudes_; }
  /// The centroids that fit() was given, on the host.
  std::span<const float> start() const { return start_.span(); }

private:
  static void throw_if(const std::string& reason) {
    if (!reason.empty()) {
      throw Refusal(reason);
    }
  }
  void split(float scale) {
    const std::size_t d = run_.d;
    const double longest = static_cast<double>(scale) * static_cast<double>(range_.longest());
    pack_split_columns(d_points_, d, scale, d_tiles_);
    run_.scale = scale;
    run_.longest = static_cast<float>(longest);
    // 2^-23 of a value, or half of float16's smallest step.
    run_.lost = static_cast<float>(0x1p-23 * longest + 0x1p-25 * std::sqrt(d));
  }

  Magnitudes magnitudes_; // of the rows
  SplitRange range_;
  std::span<const float> d_points_; // [n, d], of the harness
  DeviceBuffer<float> d_tiles_;     // [tiles, tile]
  PaddedRows rows_;                 // [n, width]
  PinnedBuffer<float> start_;       // [k, d]
  SplitRun run_{};
};

} // namespace clusterbench::cuda
