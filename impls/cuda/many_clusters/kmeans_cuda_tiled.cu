// K-means for many clusters in plain float32: the matrix product and its minimum in one kernel.
//
// Idea: the scores |c|^2 / 2 - x.c of 128 points and 128 centroids are one tile of a matrix
//   product; a thread holds 8 x 8 of them, and when they are complete keeps the two least of each
//   point.
// Changed since kmeans_cublas: no n x k matrix is written and read; the gap between the two least
//   scores proves the label, so that the product form, which cancels, ends in labels of the
//   difference form: see docs/certified.md. Data are moved to their mean on the way.
// Source: the expansion of article 004's Eigen programs, without its matrix.
// Cost per iteration: 4 n d bytes of points, n k d / 32 bytes of centroids from L2; 2 n k d flops.
// Limits: float; d <= 32768; n below 2^31, k below 2^30. Deterministic.
// Needs: sm_80
#include "impls/cuda/many_clusters/large_k.cuh"

namespace clusterbench {
namespace {

using namespace cuda;

constexpr unsigned kThreads = 256, kTile = 128, kDepth = 16;
constexpr unsigned kPitch = kTile + 4; // of 16 bytes, which keeps float4 aligned and banks apart
constexpr unsigned kLoads = kTile * kDepth / kThreads;

/// A thread's share of a tile on its way: 8 features of a row, moved and scaled.
struct TileFragment {
  float values[kLoads];

  /// rows: [count, d]; a row behind the last one repeats it.
  __device__ void load(const float* rows, std::size_t row, std::size_t count, unsigned feature,
                       unsigned d, const float* mean, float scale) {
    const float* from = rows + min(row, count - 1) * d;
#pragma unroll
    for (unsigned e = 0; e < kLoads; ++e) {
      const unsigned f = feature + e;
      values[e] = f < d ? (from[f] - mean[f]) * scale : 0.0f;
    }
  }
  __device__ void store(float (*tile)[kPitch], unsigned row, unsigned feature) const {
#pragma unroll
    for (unsigned e = 0; e < kLoads; ++e) {
      tile[feature + e][row] = values[e];
    }
  }
};

/// Four values here and four 64 further on: neighbouring threads read neighbouring 16 bytes.
__device__ void load_eight(const float* from, float (&to)[8]) {
  const float4 low = *reinterpret_cast<const float4*>(from);
  const float4 high = *reinterpret_cast<const float4*>(from + 64);
  to[0] = low.x, to[1] = low.y, to[2] = low.z, to[3] = low.w;
  to[4] = high.x, to[5] = high.y, to[6] = high.z, to[7] = high.w;
}

__device__ unsigned place_of(unsigned thread, unsigned e) {
  return thread * 4 + e % 4 + e / 4 * 64;
}

/// 128 points a block, 16 x 16 threads: a thread has 8 points and, of each tile, 8 centroids.
__global__ void __launch_bounds__(kThreads, 2)
    sweep_tiles(const SweepTask<> task, PlainError of_scores) {
  __shared__ __align__(16) float s_points[kDepth][kPitch], s_centroids[kDepth][kPitch];
  const unsigned of_row = threadIdx.x / 16, of_column = threadIdx.x % 16;
  const unsigned loaded = threadIdx.x / 2, feature = threadIdx.x % 2 * kLoads;
  const std::size_t first_row = std::size_t{blockIdx.x} * kTile;
  const unsigned d = task.points.d, depths = (d + kDepth - 1) / kDepth;
  const unsigned steps = task.centroids.tiles * depths;
  const float scale = static_cast<float>(task.frame.scale);

  TileFragment point, centroid;
  const auto load = [&](unsigned step) {
    const unsigned from = step % depths * kDepth + feature, tile = step / depths;
    point.load(task.points.exact, first_row + loaded, task.points.n, from, d, task.frame.mean,
               scale);
    centroid.load(task.centroids.exact, std::size_t{tile} * kTile + loaded, task.centroids.k, from,
                  d, task.frame.mean, scale);
  };
  load(0);

  float sums[8][8] = {};
  float best[8], second[8];
  unsigned nearest[8] = {};
#pragma unroll
  for (unsigned r = 0; r < 8; ++r) {
    best[r] = second[r] = kFarAway;
  }
  for (unsigned step = 0; step < steps; ++step) {
    __syncthreads(); // the last tile is done with
    point.store(s_points, loaded, feature);
    centroid.store(s_centroids, loaded, feature);
    __syncthreads(); // the tile is complete
    if (step + 1 < steps) {
      load(step + 1); // arrives while this one is multiplied
    }
#pragma unroll
    for (unsigned f = 0; f < kDepth; ++f) {
      float x[8], c[8];
      load_eight(&s_points[f][of_row * 4], x);
      load_eight(&s_centroids[f][of_column * 4], c);
#pragma unroll
      for (unsigned e = 0; e < 64; ++e) {
        sums[e / 8][e % 8] += x[e / 8] * c[e % 8];
      }
    }
    if ((step + 1) % depths != 0) {
      continue;
    }
#pragma unroll
    for (unsigned e = 0; e < 8; ++e) {
      const unsigned j = step / depths * kTile + place_of(of_column, e);
      const float half_square = task.centroids.half_squares[j]; // behind k: far away
#pragma unroll
      for (unsigned r = 0; r < 8; ++r) {
        const float score = half_square - sums[r][e];
        second[r] = fminf(second[r], fmaxf(best[r], score));
        nearest[r] = score < best[r] ? j : nearest[r];
        best[r] = fminf(best[r], score);
        sums[r][e] = 0.0f;
      }
    }
  }

  const float largest_norm = task.counters->largest().of_residual;
#pragma unroll
  for (unsigned r = 0; r < 8; ++r) {
    for (int offset = 1; offset < 16; offset *= 2) { // the 16 threads of a point
      const float other = __shfl_xor_sync(0xffffffffu, best[r], offset);
      const float other_second = __shfl_xor_sync(0xffffffffu, second[r], offset);
      const unsigned other_nearest = __shfl_xor_sync(0xffffffffu, nearest[r], offset);
      second[r] = fminf(fminf(second[r], other_second), fmaxf(best[r], other));
      nearest[r] = other < best[r] ? other_nearest : nearest[r];
      best[r] = fminf(best[r], other);
    }
    const std::size_t row = first_row + place_of(of_row, r);
    const bool has_row = of_column == 0 && row < task.points.n;
    float error = 0.0f, largest = 0.0f;
    if (has_row) {
      const float norm = task.points.norm[row] + task.points.residual[row];
      error = of_scores.of(norm, task.centroids.terms[nearest[r]].x);
      largest = of_scores.of(norm, largest_norm);
    }
    decide(task, has_row, row, best[r], nearest[r], second[r], error, largest);
  }
}

class TiledSweep {
public:
  using Real = float;
  static constexpr unsigned kPaddedRows = kHalfTileRows;

  static std::string refuse(const Shape&) {
    const int capability = compute_capability(); // 0: no device, which others report
    return capability == 0 || capability >= 80 ? "" : "compute capability 8.0 is needed";
  }
  static std::size_t bytes(const Shape&) { return 0; }
  void prepare(const SweepTask<>& task) { of_scores_ = float_error(task.points.d); }
  void follow(const SweepTask<>&) {}
  void launch(const SweepTask<>& task) const {
    sweep_tiles<<<blocks_for(task.points.n, kTile), kThreads>>>(task, of_scores_);
    check_launch("sweep_tiles");
  }
  std::string path() const { return "128 x 128 x 16 a block"; }

private:
  PlainError of_scores_;
};

const Registration registration({.name = "kmeans_cuda_tiled",
                                 .idea = "product and minimum in one kernel, labels proved",
                                 .source = "the expansion of article 004 without its matrix",
                                 .device = Device::gpu,
                                 .takes_weights = true,
                                 .max_d = kMostFeatures,
                                 .previous = "kmeans_cublas"},
                                f32_only<LargeK<TiledSweep>>());

} // namespace
} // namespace clusterbench
