// Cooperative launches: blocks that are all resident, in clusters or each for itself.
#pragma once

#include "impls/cuda/support/check.hpp"
#include "impls/cuda/support/grid.hpp"

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <string>

namespace clusterbench::cuda {

/// Whether there is a device and it has no clusters of blocks. Does not create a context.
inline bool lacks_clusters() {
  int device = 0;
  int clusters = 0;
  if (cudaGetDevice(&device) != cudaSuccess ||
      cudaDeviceGetAttribute(&clusters, cudaDevAttrClusterLaunch, device) != cudaSuccess) {
    static_cast<void>(cudaGetLastError()); // no device is an answer here, not a fault
    return false;
  }
  return clusters == 0;
}

/// Size and shared memory of a launch.
struct ClusterLaunch {
  unsigned blocks, threads, cluster;
  std::size_t shared_bytes;
};

/// The attributes of a cooperative launch in clusters; they point into `attributes`. For counting,
/// CLUSTERBENCH_COUNTED leaves "cooperative" out: Nsight Compute 2025.3 ends such a launch with
/// LaunchFailed if blocks write to each other's shared memory. As many blocks as are resident find
/// their places without, too, if nothing else runs on the device.
inline cudaLaunchConfig_t configure(const ClusterLaunch& launch,
                                    cudaLaunchAttribute (&attributes)[2]) {
  attributes[0].id = cudaLaunchAttributeClusterDimension;
  attributes[0].val.clusterDim = {launch.cluster, 1, 1};
  attributes[1].id = cudaLaunchAttributeCooperative;
  attributes[1].val.cooperative = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = launch.blocks;
  config.blockDim = launch.threads;
  config.dynamicSmemBytes = launch.shared_bytes;
  config.attrs = attributes;
  config.numAttrs = std::getenv("CLUSTERBENCH_COUNTED") != nullptr ? 1 : 2;
  return config;
}

/// Blocks that are resident at once, whole clusters of them, at least one cluster. Lets the kernel
/// have clusters of this size and the shared memory first. Throws std::runtime_error.
template <typename Task>
unsigned resident_in_clusters(void (*kernel)(const Task), ClusterLaunch launch) {
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(launch.shared_bytes)),
        "cudaFuncSetAttribute for " + std::to_string(launch.shared_bytes) +
            " bytes of shared memory");
  launch.blocks = launch.cluster;
  cudaLaunchAttribute attributes[2];
  const cudaLaunchConfig_t config = configure(launch, attributes);
  int clusters = 0;
  check(cudaOccupancyMaxActiveClusters(&clusters, kernel, &config),
        "cudaOccupancyMaxActiveClusters");
  return static_cast<unsigned>(std::max(1, clusters)) * launch.cluster;
}

/// Blocks that take all shared memory, so that each is alone on its multiprocessor, `most` at most.
/// n points need one for each `step` of them, of which threads take several at a time; but where
/// these leave more than a third of the multiprocessors idle, a thread takes one. Throws
/// std::runtime_error.
template <typename Task>
ClusterLaunch lonely_blocks(void (*kernel)(const Task), std::size_t n, std::size_t step,
                            unsigned threads, unsigned most) {
  cudaFuncAttributes attributes{};
  check(cudaFuncGetAttributes(&attributes, kernel), "cudaFuncGetAttributes");
  ClusterLaunch launch{.blocks = 0,
                       .threads = threads,
                       .cluster = 1,
                       .shared_bytes = shared_memory_limit() - attributes.sharedSizeBytes};
  const std::size_t there = std::min(resident_in_clusters(kernel, launch), most);
  const std::size_t steps = ceil_div(n, step);
  launch.blocks =
      static_cast<unsigned>(std::min(there, 3 * steps >= 2 * there ? steps : ceil_div(n, threads)));
  return launch;
}

/// Starts the kernel; does not wait for it. Throws std::runtime_error.
template <typename Task>
void launch_clusters(void (*kernel)(const Task), const Task& task, const ClusterLaunch& launch) {
  cudaLaunchAttribute attributes[2];
  const cudaLaunchConfig_t config = configure(launch, attributes);
  check(cudaLaunchKernelEx(&config, kernel, task), "cudaLaunchKernelEx of a cooperative launch");
}

} // namespace clusterbench::cuda
