// Points on the host, for what prepare() finds out about them there.
#pragma once

#include "impls/cuda/support/check.hpp"

#include <cuda_runtime.h>

#include <span>
#include <vector>

namespace clusterbench::cuda {

/// A copy of device memory. Blocks. Throws std::runtime_error.
template <typename T>
std::vector<T> points_on_host(std::span<const T> d_points) {
  std::vector<T> points(d_points.size());
  check(cudaMemcpy(points.data(), d_points.data(), d_points.size_bytes(), cudaMemcpyDeviceToHost),
        "cudaMemcpy of the points to the host");
  return points;
}

} // namespace clusterbench::cuda
