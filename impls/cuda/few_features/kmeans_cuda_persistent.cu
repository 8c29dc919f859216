// K-means with few features: one launch for the whole run, points resident, no barrier of the grid.
//
// Changed since kmeans_cuda_block_sums: a block a multiprocessor keeps its points in shared memory
//   for all passes; what does not fit is fetched again, from L2 if it can be, a step ahead. Every
//   lane of every warp has sums of its own in shared memory, [cluster, feature, lane]: adding a
//   point is a load, an addition and a store a feature, without atomics and bank conflicts.
// Blocks add their sums to words in the L2 cache that count them (counted_sums.cuh). Then
//   all take the same decision to stop.
// Source: article 004, "CUDA (3)", for the sums; persistent kernels, after Gupta and others, 2012.
// Cost per iteration: bytes of the points that do not fit; n k (2 d + 3) instructions, 2 flops of
//   them useful a coordinate; about 2 us of latency.
// Limits: float; d <= 16, k <= 64, k (d + 1) <= 208, what shared memory holds for 8 warps, else
//   refused; n < 2^31. d is padded to the next size that was compiled. Of sums, what is 2^-91 of a
//   feature's largest value times a block's points is rounded off. Same bits in every run.
#include "impls/cuda/few_features/persistent_run.cuh"

namespace clusterbench {
namespace {

using namespace cuda;

// The kernel is in persistent_run.cuh, because each of several devices has it, too.
const Registration
    registration({.name = "kmeans_cuda_persistent",
                  .idea = "one launch, points resident, sums by lane, no barrier of the grid",
                  .source = "article 004, CUDA (3), as one persistent kernel",
                  .device = Device::gpu,
                  .max_d = kMaxFeatures,
                  .max_k = kMaxClusters,
                  .previous = "kmeans_cuda_block_sums"},
                 f32_only<PersistentRun<>>());

} // namespace
} // namespace clusterbench
