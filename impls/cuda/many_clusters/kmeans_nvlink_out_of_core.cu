// K-means for many clusters on several GPUs of one host, with points that stay in host memory.
//
// Changed since kmeans_cuda_out_of_core: every device has a share of the rows, a half-precision
//   copy of it, and a link of its own to the host. Between two passes it exchanges sums as
//   kmeans_nvlink does.
// Source: kmeans_cuda_out_of_core, kmeans_nvlink.
// Cost per iteration: that of kmeans_cuda_out_of_core for n / GPUs rows; 16 k d + 4 k bytes to each
//   of the others.
// Limits: those of both.
// Needs: sm_90a, a stream per thread
#include "impls/cuda/many_clusters/out_of_core.cuh"
#include "impls/cuda/many_clusters/peer_writes.cuh"

namespace clusterbench {
namespace {

using namespace cuda;

using Member = RankMember<PeerWrites>;

const Registration registration({.name = "kmeans_nvlink_out_of_core",
                                 .idea = "points in host memory, a share of the rows a GPU",
                                 .source = "kmeans_cuda_out_of_core, on several GPUs",
                                 .device = Device::multi_gpu,
                                 .multiplier = Multiplier::tensor_f16,
                                 .points_on_host = true,
                                 .max_d = kMostFeatures,
                                 .previous = "kmeans_cuda_out_of_core"},
                                f32_only<RankedRun<OutOfCore<Member>, Member, PeerWrites>>());

} // namespace
} // namespace clusterbench
