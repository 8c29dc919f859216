// A row as it came, read by four lanes: so a warp looks at eight rows at once.
#pragma once

#include "impls/cuda/support/exact_rows.cuh"
#include "impls/cuda/support/split_rows.cuh"
#include "impls/cuda/support/warp_sums.cuh"

#include <cuda_runtime.h>

#include <cstddef>

namespace clusterbench::cuda {

/// Four features of every 16 of a row as it came, and of a centroid: lane t of four has 4 t, ... 4 t + 3.
template <unsigned D>
class QuarterRow {
public:
  __device__ QuarterRow(const ExactRows& exact, unsigned row, unsigned t)
      : width_(exact.width), t_(t) {
    const float* values = exact.rows + std::size_t{row} * exact.width;
#pragma unroll
    for (unsigned i = 0; i < kParts; ++i) { // loads do not wait for one another
      x_[i] = here(i) ? __ldg(reinterpret_cast<const float4*>(values + f(i))) : float4{};
    }
  }
  /// Four lanes: its squared distance to a centroid.
  __device__ float squared(const ExactRows& exact, unsigned j) const {
    float sum = 0.0f;
#pragma unroll
    for (unsigned i = 0; i < kParts; ++i) {
      if (here(i)) {
        const float4 c =
            *reinterpret_cast<const float4*>(exact.s_centroids + j * exact.stride() + f(i));
        sum += (x_[i].x - c.x) * (x_[i].x - c.x) + (x_[i].y - c.y) * (x_[i].y - c.y) +
               (x_[i].z - c.z) * (x_[i].z - c.z) + (x_[i].w - c.w) * (x_[i].w - c.w);
      }
    }
    return over_lanes<4>(sum);
  }
  /// What both float16 parts keep of each value, times `scale`: use(feature, value).
  template <typename Use>
  __device__ void in_parts(float scale, Use use) const {
#pragma unroll
    for (unsigned i = 0; i < kParts; ++i) {
      if (here(i)) {
        const float values[4] = {x_[i].x, x_[i].y, x_[i].z, x_[i].w};
#pragma unroll
        for (unsigned v = 0; v < 4; ++v) {
          use(f(i) + v, SplitPair::of(values[v] * scale).sum());
        }
      }
    }
  }

private:
  static constexpr unsigned kParts = (D + 15) / 16;
  __device__ unsigned f(unsigned i) const {
    return i * 16 + t_ * 4;
  }
  __device__ bool here(unsigned i) const {
    return f(i) < width_;
  }

  unsigned width_, t_;
  float4 x_[kParts];
};

} // namespace clusterbench::cuda
