// BG k-means with all the shared memory that the device has.
//
// Changed since kmeans_cuda_bg: a batch holds as many centroids as fit the shared memory of a
//   block, 227 KiB on sm_90 instead of 16, so that points are read once for more centroids. But a
//   block that takes all of it has a multiprocessor to itself, and fewer warps hide the waiting.
// Source: article 002, sections 2.3 and 3; its kMax of today's devices.
// Cost per iteration: as kmeans_cuda_bg, with fewer batches of centroids.
// Limits: k d values within 64 KiB of constant memory; the host takes part in every pass.
#include "impls/cuda/published/bg_passes.cuh"

namespace clusterbench {
namespace {

// All code is in bg_passes.cuh, because kmeans_cuda_bg has it, too.
template <typename T>
using KmeansCudaBgDevice = cuda::BgPasses<T, 0>;

const Registration registration({.name = "kmeans_cuda_bg_device",
                                 .idea = "a column of sums a thread; all shared memory there is",
                                 .source = "article 002, sections 2.3 and 3",
                                 .device = Device::gpu,
                                 .previous = "kmeans_cuda_bg"},
                                both_precisions<KmeansCudaBgDevice>());

} // namespace
} // namespace clusterbench
