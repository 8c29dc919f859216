// K-means for many clusters on tensor cores: float16 products by mma.sync, and answers of float32.
//
// Idea: a score |c|^2 / 2 - x.c needs one product; in float16 the tensor cores make it, and the
//   rounding of both sides is known (norms of the residuals), so the gap between the two least
//   scores proves most labels. The few rows whose gap is inside the bound are looked at again.
// Changed since kmeans_cuda_tiled: 16 x 8 x 16 products an instruction (mma.sync) instead of one a
//   lane, and half the bytes; operands from swizzled tiles in shared memory by ldmatrix. A block
//   keeps 128 points for its whole sweep, the column's number rides in the low bits of its score,
//   and no score leaves the registers.
// Source: kmeans_cublas without its n x k matrix; docs/certified.md has the proof of the bound.
// Cost per iteration: 2 n d bytes of points, n k d / 64 bytes of centroids from L2; 2 n k d flops.
// Limits: float; d <= 1024; n below 2^31, k below 2^30. Deterministic.
// Needs: sm_80
#include "impls/cuda/many_clusters/large_k.cuh"

namespace clusterbench {
namespace {

using namespace cuda;

constexpr unsigned kStages = 3;

/// Two least scores of a row among those that a lane, a quad or a warp has seen. The low bits of
/// best hold which of its columns a lane means, until it is known which tile they belong to.
struct TwoLeast {
  float best = kFarAway, second = kFarAway;
  unsigned nearest = 0;

  __device__ void merge(float other_best, float other_second, unsigned other_nearest) {
    second = fminf(fminf(second, other_second), fmaxf(best, other_best));
    nearest = other_best < best ? other_nearest : nearest;
    best = fminf(best, other_best);
  }
};

/// kWarps / 2 rows of two warps; each warp has 32 points and 64 of the 128 centroids of a tile.
/// Dynamic shared memory: points [chunks][16 kWarps][kWidth], then kStages tiles of centroids.
template <unsigned kWidth, unsigned kWarps>
__global__ void __launch_bounds__(kWarps * 32) sweep_mma(const SweepTask<> task) {
  constexpr unsigned kThreads = kWarps * 32, kRows = kWarps * 16;
  constexpr unsigned kStageSize = kHalfTileRows * kWidth;
  extern __shared__ __align__(128) unsigned char s_dynamic[];
  __shared__ TwoLeast s_least[2][kRows];
  const HalfTiles shape = task.points.shape;
  __half* s_rows = reinterpret_cast<__half*>(s_dynamic);
  __half* s_stages = s_rows + std::size_t{kRows} * shape.chunks * kWidth;
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const unsigned warp_rows = warp / 2 * 32, half = warp % 2;
  const std::size_t first_row = std::size_t{blockIdx.x} * kRows;
  const unsigned steps = task.centroids.tiles * shape.chunks;

  const auto fetch = [&](unsigned step) {
    if (step < steps) {
      const __half* from = task.centroids.rounded + std::size_t{step} * kStageSize;
      __half* to = s_stages + step % kStages * kStageSize;
      for (unsigned e = threadIdx.x * 8; e < kStageSize; e += kThreads * 8) {
        cp_async(to + e, from + e);
      }
    }
    cp_async_commit(); // also when empty: the number of groups tells which have arrived
  };

  const __half* tile = task.points.rounded + first_row / kHalfTileRows * shape.tile_size() +
                       first_row % kHalfTileRows * kWidth;
  for (unsigned chunk = 0; chunk < shape.chunks; ++chunk) {
    for (unsigned e = threadIdx.x * 8; e < kRows * kWidth; e += kThreads * 8) {
      cp_async(s_rows + chunk * kRows * kWidth + e, tile + chunk * shape.chunk_size() + e);
    }
  }
  for (unsigned step = 0; step + 1 < kStages; ++step) {
    fetch(step); // the first group brings the points, too
  }

  WarpSums<64> sums = {};
  TwoLeast least[4]; // of rows 16 (p / 2) + 8 (p % 2) + lane / 4; nearest: tile, for now
  for (unsigned step = 0; step < steps; ++step) {
    const unsigned chunk = step % shape.chunks;
    cp_async_wait<kStages - 2>();
    __syncthreads(); // the stage is there for all, and the one before it is free
    fetch(step + kStages - 1);
    multiply_chunk<kWidth, 64>(sums, s_rows + (chunk * kRows + warp_rows) * kWidth,
                               s_stages + step % kStages * kStageSize + half * 64 * kWidth,
                               shape.steps - chunk * kWidth / 16, lane);
    if (chunk + 1 < shape.chunks) {
      continue;
    }
    const unsigned j = step / shape.chunks;
    const float* half_squares =
        task.centroids.half_squares + j * kHalfTileRows + half * 64 + lane % 4 * 2;
    float before[4];
#pragma unroll
    for (unsigned p = 0; p < 4; ++p) {
      before[p] = least[p].best;
    }
#pragma unroll
    for (unsigned ni = 0; ni < 8; ++ni) {
      const float2 two = *reinterpret_cast<const float2*>(half_squares + ni * 8);
#pragma unroll
      for (unsigned e = 0; e < 2; ++e) {
#pragma unroll
        for (unsigned p = 0; p < 4; ++p) {
          float& sum = sums[p / 2][ni][p % 2 * 2 + e];
          const float exact = (e == 0 ? two.x : two.y) - sum;
          // The column's number replaces the lowest bits: one instruction instead of a selection.
          const float score = __uint_as_float((__float_as_uint(exact) & ~31u) | (ni * 2 + e));
          least[p].second = fminf(least[p].second, fmaxf(least[p].best, score));
          least[p].best = fminf(least[p].best, score);
          sum = 0.0f;
        }
      }
    }
#pragma unroll
    for (unsigned p = 0; p < 4; ++p) {
      least[p].nearest = least[p].best < before[p] ? j : least[p].nearest;
    }
  }

#pragma unroll
  for (unsigned p = 0; p < 4; ++p) {
    const unsigned place = __float_as_uint(least[p].best) & 31;
    least[p].nearest =
        least[p].nearest * kHalfTileRows + half * 64 + place / 2 * 8 + lane % 4 * 2 + place % 2;
    for (int offset = 1; offset < 4; offset *= 2) { // the four lanes of a row
      const float best = __shfl_xor_sync(0xffffffffu, least[p].best, offset);
      const float second = __shfl_xor_sync(0xffffffffu, least[p].second, offset);
      const unsigned nearest = __shfl_xor_sync(0xffffffffu, least[p].nearest, offset);
      least[p].merge(best, second, nearest);
    }
    if (lane % 4 == 0) {
      s_least[half][warp_rows + p / 2 * 16 + p % 2 * 8 + lane / 4] = least[p];
    }
  }
  __syncthreads();           // both halves of the columns are there
  if (threadIdx.x < kRows) { // whole warps
    TwoLeast all = s_least[0][threadIdx.x];
    const TwoLeast other = s_least[1][threadIdx.x];
    all.merge(other.best, other.second, other.nearest);
    const std::size_t row = first_row + threadIdx.x;
    decide_half(task, row < task.points.n, row, all.best, all.nearest, all.second);
  }
}

/// The compiled shapes: as many points a block as shared memory holds.
class MmaSweep {
public:
  using Real = float;
  static constexpr unsigned kPaddedRows = kHalfTileRows;

  static std::string refuse(const Shape&) {
    const int capability = compute_capability(); // 0: no device, which others report
    return capability == 0 || capability >= 80 ? "" : "compute capability 8.0 is needed";
  }
  static std::size_t bytes(const Shape&) { return 0; }

  void prepare(const SweepTask<>& task) {
    const HalfTiles shape = task.points.shape;
    const auto bytes = [&](unsigned rows) {
      return (std::size_t{rows} * shape.chunks + kStages * kHalfTileRows) * shape.width *
             sizeof(__half);
    };
    rows_ = bytes(128) + 8192 <= shared_memory_limit() ? 128 : 64;
    bytes_ = bytes(rows_);
    kernel_ = shape.width == 32 ? sweep_mma<32, 8>
              : rows_ == 128    ? sweep_mma<64, 8>
                                : sweep_mma<64, 4>;
    allow_shared_memory(kernel_, bytes_);
  }
  void follow(const SweepTask<>&) {}

  void launch(const SweepTask<>& task) const {
    kernel_<<<blocks_for(task.points.n, rows_), rows_ * 2, bytes_>>>(task);
    check_launch("sweep_mma");
  }

  std::string path() const { return std::to_string(rows_) + " points a block"; }

private:
  void (*kernel_)(SweepTask<>) = nullptr;
  unsigned rows_ = 0;
  std::size_t bytes_ = 0;
};

const Registration registration({.name = "kmeans_cuda_mma",
                                 .idea = "float16 tensor cores, labels proved or looked at again",
                                 .source = "the expansion of article 004 without its matrix",
                                 .device = Device::gpu,
                                 .multiplier = Multiplier::tensor_f16,
                                 .takes_weights = true,
                                 .max_d = 1024, // 64 rows and the stages fit shared memory
                                 .previous = "kmeans_cuda_tiled"},
                                f32_only<LargeK<MmaSweep>>());

} // namespace
} // namespace clusterbench
