// K-means for many clusters, few features: groups of centroids compete before single ones do.
//
// Idea: with few features the tensor cores make scores faster than two comparisons and a selection
//   can follow. Of a group of 16 scores only the least is kept; the two least groups prove which one
//   holds the nearest centroid, and its 16 are compared in float32.
// Changed since kmeans_cuda_wgmma: for d <= 32, 16 more features bring |c|^2 / 2 and |x|^2 / 2 into
//   the product, so that scores are complete and not negative: their bits are compared as integers,
//   three in one instruction, half an operation a score instead of five. Then a kernel compares the
//   16 centroids of every point by the difference form. Beyond d = 32 it is kmeans_cuda_wgmma.
// Source: kmeans_cuda_wgmma; docs/certified.md has the proof for groups and complete scores.
// Cost per iteration: as kmeans_cuda_wgmma, 2 n k (d + 16) flops, and 68 n d bytes for groups.
// Limits: d <= 1024; n below 2^31, k below 2^30; compute capability 9.0. Deterministic.
// Needs: sm_90a
#include "impls/cuda/support/each_score.cuh"
#include "impls/cuda/support/folded_scores.cuh"
#include "impls/cuda/support/groups.cuh"

namespace clusterbench {
namespace {

using namespace cuda;

class CertifiedSweep {
public:
  static constexpr unsigned kPaddedRows = WgmmaSweep::kPaddedRows;

  static std::string refuse(const Shape& shape) { return WgmmaSweep::refuse(shape); }
  static std::size_t bytes(const Shape& shape) {
    const bool groups = HalfTiles::of(shape.d).width == 32;
    return groups ? (shape.n + shape.k) * kFoldedFeatures * sizeof(__half) : 0;
  }

  void prepare(const SweepTask& task) {
    groups_ = task.points.shape.width == 32;
    if (!groups_) {
      each_.prepare(task);
      return;
    }
    const std::size_t rows = ceil_div(task.points.n, kPaddedRows) * kPaddedRows;
    d_points_ = DeviceBuffer<__half>(rows * kFoldedFeatures);
    d_points_.zero(nullptr);
    d_centroids_ = DeviceBuffer<__half>(padded_k(task) * kFoldedFeatures);
    fold_points<<<blocks_at_most(task.points.n, 256, 8192), 256>>>(task.points.norm, task.points.n,
                                                                   d_points_.data());
    check_launch("fold_points");
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize after folding");
    resolve_ = task.points.d % 4 == 0 ? resolve_groups<true> : resolve_groups<false>;
    launch_.prepare(task);
  }

  void launch(const SweepTask& task, cudaStream_t stream) {
    if (!groups_) {
      each_.launch(task, stream);
      return;
    }
    const unsigned k = padded_k(task);
    fold_centroids<<<blocks_for(k, 256), 256, 0, stream>>>(
        task.centroids.half_squares, task.centroids.k, k, d_centroids_.data());
    check_launch("fold_centroids");
    launch_.launch(task, {d_centroids_.data(), d_points_.data()}, stream);
    resolve_<<<blocks_at_most(task.points.n * 8, 256, 132 * 8), 256, 0, stream>>>(task);
    check_launch("resolve_groups");
  }

  std::string path() const { return groups_ ? launch_.path() + ", groups of 16" : each_.path(); }

private:
  static unsigned padded_k(const SweepTask& task) { return task.centroids.tiles * kHalfTileRows; }

  bool groups_ = false;
  WgmmaSweep each_;
  WgmmaLaunch<FoldedGroups> launch_;
  void (*resolve_)(SweepTask) = nullptr;
  DeviceBuffer<__half> d_points_, d_centroids_;
};

const Registration registration({.name = "kmeans_cuda_certified",
                                 .idea = "groups of centroids compete before single ones",
                                 .source = "kmeans_cuda_wgmma, groups for few features",
                                 .device = Device::gpu,
                                 .multiplier = Multiplier::tensor_f16,
                                 .max_d = kMostFeatures,
                                 .previous = "kmeans_cuda_wgmma"},
                                f32_only<LargeK<CertifiedSweep>>());

} // namespace
} // namespace clusterbench
