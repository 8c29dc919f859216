// K-means for many clusters, with points that stay in host memory.
//
// Idea: a half-precision copy on the device proves most labels. Only rows that it leaves undecided,
//   or that move, come over the link as they are. Where the copy does not fit, all rows come.
// Changed since kmeans_cuda_wgmma: rows go through in tiles. While one is swept, a few
//   multiprocessors fetch the undecided rows of the tile before from locked host memory, compare
//   them, fetch those that have moved, and add them up. Where all are needed, the device copies
//   them.
// Source: kmeans_cuda_wgmma; docs/out_of_core_gpu.md.
// Cost per iteration: 2 n k d flops, 2 n d bytes from device memory; over the link 4 d bytes for
//   each row that is left open or moves, and 4 n d in the first pass and without the copy.
// Limits: float, without weights; those of kmeans_cuda_wgmma. Deterministic.
// Needs: sm_90a
#include "impls/cuda/many_clusters/out_of_core.cuh"

namespace clusterbench {
namespace {

using namespace cuda;

const Registration
    registration({.name = "kmeans_cuda_out_of_core",
                  .idea = "points in host memory, a half-precision copy on the device",
                  .source = "kmeans_cuda_wgmma, for points larger than the memory",
                  .device = Device::gpu,
                  .multiplier = Multiplier::tensor_f16,
                  .points_on_host = true,
                  .max_d = kMostFeatures,
                  .previous = "kmeans_cuda_wgmma"},
                 f32_only<OutOfCore<>>());

} // namespace
} // namespace clusterbench
