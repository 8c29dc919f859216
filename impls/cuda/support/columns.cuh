// Structure of arrays: uploads rows and turns them into columns, so that threads with neighbouring
// points read neighbouring addresses.
#pragma once

#include "impls/cuda/support/buffer.hpp"
#include "impls/cuda/support/grid.hpp"

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <span>

namespace clusterbench::cuda {

/// columns[j, first + i] = rows[i, j] for i < count. [rows: count x d, columns: d x n]
template <typename T>
__global__ void scatter_rows(const T* rows, std::size_t count, std::size_t d, std::size_t first,
                             std::size_t n, T* columns) {
  const std::size_t stride = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t e = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       e < count * d; e += stride) {
    const std::size_t i = e % count; // neighbouring threads write neighbouring addresses
    const std::size_t j = e / count;
    columns[j * n + first + i] = rows[i * d + j];
  }
}

/// Uploads [n, d] rows as [max(d, padded), n] columns, those behind d zero, through a staging buffer of
/// bounded size. Blocks. Throws std::runtime_error.
template <typename T>
DeviceBuffer<T> upload_columns(std::span<const T> rows, std::size_t n, std::size_t d,
                               cudaStream_t stream, std::size_t padded = 0) {
  constexpr std::size_t kStagingBytes = std::size_t{64} << 20;
  const std::size_t chunk = std::clamp<std::size_t>(kStagingBytes / (d * sizeof(T)), 1, n);
  DeviceBuffer<T> columns(n * std::max(d, padded));
  if (padded > d) {
    columns.zero(stream);
  }
  DeviceBuffer<T> staging(chunk * d);
  for (std::size_t first = 0; first < n; first += chunk) {
    const std::size_t count = std::min(chunk, n - first);
    staging.upload(rows.subspan(first * d, count * d), stream);
    scatter_rows<<<blocks_at_most(count * d, 256, 65536), 256, 0, stream>>>(
        staging.data(), count, d, first, n, columns.data());
    check_launch("scatter_rows");
  }
  check(cudaStreamSynchronize(stream), "cudaStreamSynchronize after the change of layout");
  return columns;
}

} // namespace clusterbench::cuda
