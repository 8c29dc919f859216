// Rows as they came on the device, but for zeros that make them whole groups of four features.
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

/// Uploads [n, d] rows as [padded_n, padded_width(d)], zero behind n and d. Blocks. Throws
/// std::runtime_error.
inline DeviceBuffer<float> upload_padded(std::span<const float> rows, std::size_t n, std::size_t d,
                                         std::size_t padded_n, cudaStream_t stream) {
  const std::size_t width = padded_width(d);
  DeviceBuffer<float> padded(padded_n * width);
  padded.zero(stream);
  DeviceBuffer<float> staging(rows.size()); // padding is quicker on the device
  staging.upload(rows, stream);
  check(cudaMemcpy2DAsync(padded.data(), width * sizeof(float), staging.data(), d * sizeof(float),
                          d * sizeof(float), n, cudaMemcpyDeviceToDevice, stream),
        "cudaMemcpy2DAsync of the rows");
  check(cudaStreamSynchronize(stream), "cudaStreamSynchronize after the upload");
  return padded;
}

} // namespace clusterbench::cuda
