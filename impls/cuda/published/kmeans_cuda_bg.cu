// BG k-means: every thread adds up a column of the data, and the host adds up the threads.
//
// Idea: centroids in constant memory, which broadcasts one value to a warp; data folded into as
//   many columns as there are threads; centroids in batches of kMax, so that the squared errors of
//   a batch fit into shared memory, one column a thread. No barrier and no atomic anywhere.
// Changed since kmeans_cuda_soa: additions cannot collide, so results repeat to the bit; the price
//   is k (d + 1) partial sums a thread, which the host waits for and adds up in every pass.
// Source: article 002, sections 2.3 and 3. Corrected: errors are cleared for every batch, the
//   smallest is carried from batch to batch, the last batch may be short, no index leaves the data.
//   A block has the article's 16,384 bytes of shared memory: 256 threads; 128 where all of k then
//   fits one batch.
// Cost per iteration: (ceil(k / kMax) + 1) n d values read, k (d + 1) columns of sums written,
//   downloaded and added on the host; 3 n k d + n d flops.
// Limits: k d values within 64 KiB of constant memory; the host takes part in every pass.
#include "impls/cuda/published/bg_passes.cuh"

namespace clusterbench {
namespace {

// All code is in bg_passes.cuh, because kmeans_cuda_bg_device has it, too.
template <typename T>
using KmeansCudaBg = cuda::BgPasses<T, 16384>;

const Registration
    registration({.name = "kmeans_cuda_bg",
                  .idea = "a column of sums a thread; 16 KiB of shared memory as in 2009",
                  .source = "article 002, sections 2.3 and 3",
                  .device = Device::gpu,
                  .previous = "kmeans_cuda_soa"},
                 both_precisions<KmeansCudaBg>());

} // namespace
} // namespace clusterbench
