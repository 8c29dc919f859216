// Rows as they came, but for zeros that make them whole groups of four features.
#pragma once

#include "impls/cuda/support/buffer.hpp"
#include "impls/cuda/support/grid.hpp"

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace clusterbench::cuda {

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

} // namespace clusterbench::cuda
