// Rows as they came, but for zeros that make them whole groups of four features.
#pragma once

#include "impls/cuda/support/buffer.hpp"
#include "impls/cuda/support/check.hpp"

#include <cuda_runtime.h>

#include <cstddef>
#include <span>

namespace clusterbench::cuda {

/// Floats from row to row.
constexpr std::size_t padded_width(std::size_t d) {
  return (d + 3) / 4 * 4;
}

/// Copies [n, d] rows on the device as [padded_n, padded_width(d)], zero behind n and d, in the order of
/// `stream`; does not block. Throws std::runtime_error.
inline DeviceBuffer<float> upload_padded(std::span<const float> d_rows, std::size_t n,
                                         std::size_t d, std::size_t padded_n, cudaStream_t stream) {
  const std::size_t width = padded_width(d);
  DeviceBuffer<float> padded(padded_n * width);
  padded.zero(stream);
  check(cudaMemcpy2DAsync(padded.data(), width * sizeof(float), d_rows.data(), d * sizeof(float),
                          d * sizeof(float), n, cudaMemcpyDeviceToDevice, stream),
        "cudaMemcpy2DAsync of the rows");
  return padded;
}

} // namespace clusterbench::cuda
