// K-means for many clusters: the asynchronous products of a whole warpgroup.
//
// Idea: wgmma takes both operands from shared memory and runs beside the arithmetic units, which
//   look at the scores of one tile while the tensor cores make the next.
// Changed since kmeans_cuda_mma: 64 x 128 x 16 products an instruction; a warp only starts bulk
//   copies, which barriers in shared memory count. Warpgroups with 64 points each share the
//   centroids' tiles: what one compares, another multiplies. 16 further features make scores whole
//   and not negative, so that the least one is found as an integer, three at a time, and
//   multiply-adds test which others are within the errors of it.
// Source: kmeans_cuda_mma; docs/certified_variants.md has the proof of the bound.
// Cost per iteration: 2 n k (d + 16) flops; 2 n d bytes of points, n k d / 128 of centroids from
//   L2, up to n k d / 32 where points are few; without room for 256 points also n k d / 64 of
//   points, or n k d / 32 of centroids.
// Limits: d <= 32768; n below 2^31, k below 2^30; compute capability 9.0. Deterministic.
// Needs: sm_90a
#include "impls/cuda/many_clusters/large_k.cuh"
#include "impls/cuda/many_clusters/wgmma_sweep.cuh"

namespace clusterbench {
namespace {

using namespace cuda;

// The kernel is in wgmma_sweep.cuh, because kmeans_cuda_certified has it, too. The rest of a pass
// is that of all variants for many clusters (large_k.cuh).
template <typename T>
using WgmmaRun = LargeK<WgmmaSweep<T>>;

const Registration registration({.name = "kmeans_cuda_wgmma",
                                 .idea = "warpgroup products beside the comparison of scores",
                                 .source = "kmeans_cuda_mma, for compute capability 9.0",
                                 .device = Device::gpu,
                                 .multiplier = Multiplier::tensor_f16,
                                 .takes_weights = true,
                                 .max_d = kMostFeatures,
                                 .previous = "kmeans_cuda_mma"},
                                both_precisions<WgmmaRun>());

} // namespace
} // namespace clusterbench
