// K-means on several GPUs of one host, which write into one another's memory.
//
// Changed since kmeans_cuda_wgmma: every device has a share of the rows and runs the same pass on
//   it. Then a small kernel writes the device's sums into a place of its own in the memory of every
//   other, raises a flag there, waits for theirs, and adds up all of them. No library, no host
//   between two passes. Sums are integers, so all devices have the same.
// Source: kmeans_cuda_wgmma.
// Cost per iteration: that of kmeans_cuda_wgmma for n / GPUs rows; 16 k d + 4 k bytes to each of
//   the others, and about 2 microseconds for the flags.
// Limits: float, without weights; those of kmeans_cuda_wgmma; at most 16 devices. Where a pair of
//   devices has no access to one another's memory, or CLUSTERBENCH_NO_PEER_WRITES is set, the host
//   copies the sums.
// Needs: sm_90a, a stream per thread
#include "impls/cuda/many_clusters/large_k.cuh"
#include "impls/cuda/many_clusters/peer_writes.cuh"
#include "impls/cuda/many_clusters/wgmma_sweep.cuh"

namespace clusterbench {
namespace {

using namespace cuda;

using Member = RankMember<PeerWrites>;

const Registration
    registration({.name = "kmeans_nvlink",
                  .idea = "a share of the rows a GPU, sums written to peers",
                  .source = "kmeans_cuda_wgmma, on several GPUs",
                  .device = Device::multi_gpu,
                  .multiplier = Multiplier::tensor_f16,
                  .max_d = kMostFeatures,
                  .previous = "kmeans_cuda_wgmma"},
                 f32_only<RankedRun<LargeK<WgmmaSweep<>, Member>, Member, PeerWrites>>());

} // namespace
} // namespace clusterbench
