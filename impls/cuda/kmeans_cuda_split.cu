// K-means for many clusters on tensor cores, in nearly float32: two float16 numbers for each value.
//
// Idea: a float is, but for its last two bits, the sum of two float16 numbers; the product of two
//   such sums needs three products on tensor cores, as the fourth is below the rounding.
// Changed since kmeans_cuda_tiled: 16 x 8 x 16 products an instruction (mma.sync) instead of one a
//   lane, at three times the products; operands from swizzled tiles in shared memory by ldmatrix;
//   copies that do not pass through registers.
// Source: kmeans_cublas without its n x k matrix; docs/certified.md has the bound.
// Cost per iteration: 4 n d bytes of points, n k d / 16 bytes of centroids from L2; 6 n k d flops.
// Limits: d <= 448, two parts of 64 points in shared memory; n below 2^31, k below 2^30. Another
//   float16 copy of the data. Deterministic.
// Needs: sm_80
#include "impls/cuda/support/large_k.cuh"

namespace clusterbench {
namespace {

using namespace cuda;

constexpr unsigned kRows = 64, kThreads = 256, kStages = 2;
constexpr std::size_t kMostSplitFeatures = 448;

/// rests = what rounding to float16 has left over, rounded to float16. rows: [count, d]
__global__ void round_rest(const float* rows, std::size_t count, unsigned d, Frame frame,
                           HalfTiles shape, const __half* rounded, __half* rests) {
  const std::size_t warps = std::size_t{gridDim.x} * blockDim.x / 32;
  for (std::size_t i = (std::size_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32; i < count;
       i += warps) {
    for (unsigned f = threadIdx.x % 32; f < d; f += 32) {
      const double value =
          (static_cast<double>(rows[i * d + f]) - static_cast<double>(frame.mean[f])) * frame.scale;
      const std::size_t place = shape.offset(i, f);
      rests[place] = __double2half(value - static_cast<double>(__half2float(rounded[place])));
    }
  }
}

struct Rests {
  const __half* points;
  const __half* centroids;
  PlainError of_scores;
};

/// 64 points a block; 2 x 4 warps, each with 32 points and 32 of the 128 centroids of a tile.
/// Dynamic shared memory: points [2 parts][chunks][kRows][kWidth], then kStages times two parts of
/// a tile of centroids.
template <unsigned kWidth>
__global__ void __launch_bounds__(kThreads) sweep_split(const SweepTask task, const Rests rests) {
  constexpr unsigned kStageSize = kHalfTileRows * kWidth;
  extern __shared__ __align__(128) unsigned char s_dynamic[];
  __shared__ float s_best[4][kRows], s_second[4][kRows];
  __shared__ unsigned s_nearest[4][kRows];
  const HalfTiles shape = task.points.shape;
  const unsigned part_size = shape.chunks * kRows * kWidth;
  __half* s_rows = reinterpret_cast<__half*>(s_dynamic);
  __half* s_stages = s_rows + 2 * part_size;
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const unsigned warp_rows = warp / 4 * 32, quarter = warp % 4;
  const std::size_t first_row = std::size_t{blockIdx.x} * kRows;
  const unsigned steps = task.centroids.tiles * shape.chunks;

  const auto fetch = [&](unsigned step) {
    if (step < steps) {
      __half* to = s_stages + step % kStages * 2 * kStageSize;
      for (unsigned part = 0; part < 2; ++part, to += kStageSize) {
        const __half* from =
            (part == 0 ? task.centroids.rounded : rests.centroids) + std::size_t{step} * kStageSize;
        for (unsigned e = threadIdx.x * 8; e < kStageSize; e += kThreads * 8) {
          copy_async(to + e, from + e);
        }
      }
    }
    close_copies();
  };

  for (unsigned part = 0; part < 2; ++part) {
    const __half* tile = (part == 0 ? task.points.rounded : rests.points) +
                         first_row / kHalfTileRows * shape.tile_size() +
                         first_row % kHalfTileRows * kWidth;
    for (unsigned chunk = 0; chunk < shape.chunks; ++chunk) {
      for (unsigned e = threadIdx.x * 8; e < kRows * kWidth; e += kThreads * 8) {
        copy_async(s_rows + part * part_size + chunk * kRows * kWidth + e,
                   tile + chunk * shape.chunk_size() + e);
      }
    }
  }
  fetch(0); // its group brings the points, too

  WarpSums<32> sums = {};
  float best[4], second[4];
  unsigned nearest[4] = {};
#pragma unroll
  for (unsigned p = 0; p < 4; ++p) {
    best[p] = second[p] = kFarAway;
  }
  for (unsigned step = 0; step < steps; ++step) {
    const unsigned chunk = step % shape.chunks, left = shape.steps - chunk * kWidth / 16;
    wait_for_copies<0>();
    __syncthreads(); // the stage is there for all, and the other one is free
    fetch(step + 1);
    const __half* rows = s_rows + (chunk * kRows + warp_rows) * kWidth;
    const __half* columns = s_stages + step % kStages * 2 * kStageSize + quarter * 32 * kWidth;
    multiply_chunk<kWidth, 32>(sums, rows, columns + kStageSize, left, lane);
    multiply_chunk<kWidth, 32>(sums, rows + part_size, columns, left, lane);
    multiply_chunk<kWidth, 32>(sums, rows, columns, left, lane);
    if (chunk + 1 < shape.chunks) {
      continue;
    }
    const unsigned first = step / shape.chunks * kHalfTileRows + quarter * 32 + lane % 4 * 2;
#pragma unroll
    for (unsigned ni = 0; ni < 4; ++ni) {
      const float2 two =
          *reinterpret_cast<const float2*>(task.centroids.half_squares + first + ni * 8);
#pragma unroll
      for (unsigned e = 0; e < 8; ++e) {
        const unsigned p = e / 2, column = e % 2;
        float& sum = sums[p / 2][ni][p % 2 * 2 + column];
        const float score = (column == 0 ? two.x : two.y) - sum;
        second[p] = fminf(second[p], fmaxf(best[p], score));
        nearest[p] = score < best[p] ? first + ni * 8 + column : nearest[p];
        best[p] = fminf(best[p], score);
        sum = 0.0f;
      }
    }
  }

  const auto merge = [](float& a, float& a_second, unsigned& a_nearest, float b, float b_second,
                        unsigned b_nearest) {
    a_second = fminf(fminf(a_second, b_second), fmaxf(a, b));
    a_nearest = b < a ? b_nearest : a_nearest;
    a = fminf(a, b);
  };
#pragma unroll
  for (unsigned p = 0; p < 4; ++p) {
    for (int offset = 1; offset < 4; offset *= 2) { // the four lanes of a row
      const float other = __shfl_xor_sync(0xffffffffu, best[p], offset);
      const float other_second = __shfl_xor_sync(0xffffffffu, second[p], offset);
      const unsigned other_nearest = __shfl_xor_sync(0xffffffffu, nearest[p], offset);
      merge(best[p], second[p], nearest[p], other, other_second, other_nearest);
    }
    if (lane % 4 == 0) {
      const unsigned row = warp_rows + p / 2 * 16 + p % 2 * 8 + lane / 4;
      s_best[quarter][row] = best[p];
      s_second[quarter][row] = second[p];
      s_nearest[quarter][row] = nearest[p];
    }
  }
  __syncthreads();           // all quarters of the columns are there
  if (threadIdx.x < kRows) { // whole warps
    const unsigned r = threadIdx.x;
    float least = s_best[0][r], next = s_second[0][r];
    unsigned of_least = s_nearest[0][r];
    for (unsigned q = 1; q < 4; ++q) {
      merge(least, next, of_least, s_best[q][r], s_second[q][r], s_nearest[q][r]);
    }
    const std::size_t row = first_row + r;
    const bool has_row = row < task.points.n;
    float error = 0.0f, largest = 0.0f;
    if (has_row) {
      const float norm = task.points.norm[row] + task.points.residual[row];
      error = rests.of_scores.of(norm, task.centroids.terms[of_least].x);
      largest = rests.of_scores.of(norm, task.counters->largest().of_residual);
    }
    decide(task, has_row, row, least, of_least, next, error, largest);
  }
}

class SplitSweep {
public:
  static constexpr unsigned kPaddedRows = kHalfTileRows;

  static std::string refuse(const Shape& shape) {
    if (shape.d > kMostSplitFeatures) {
      return "d = " + std::to_string(shape.d) + ": both parts of 64 points fit up to " +
             std::to_string(kMostSplitFeatures) + " features";
    }
    const int capability = compute_capability(); // 0: no device, which others report
    return capability == 0 || capability >= 80 ? "" : "compute capability 8.0 is needed";
  }
  static std::size_t bytes(const Shape& shape) {
    const HalfTiles tiles = HalfTiles::of(shape.d);
    return (tiles.size(shape.n) + tiles.size(shape.k)) * sizeof(__half);
  }

  void prepare(const SweepTask& task) {
    const HalfTiles shape = task.points.shape;
    d_points_ = DeviceBuffer<__half>(shape.size(task.points.n));
    d_points_.zero();
    d_centroids_ = DeviceBuffer<__half>(shape.size(task.centroids.k));
    d_centroids_.zero();
    bytes_ = (std::size_t{2} * kRows * shape.chunks + 2 * kStages * kHalfTileRows) * shape.width *
             sizeof(__half);
    kernel_ = shape.width == 32 ? sweep_split<32> : sweep_split<64>;
    allow_shared_memory(kernel_, bytes_);
  }
  void follow(const SweepTask& task) {
    round_rest<<<blocks_at_most(task.points.n * 32, 256, 8192), 256>>>(
        task.points.exact, task.points.n, task.points.d, task.frame, task.points.shape,
        task.points.rounded, d_points_.data());
    check_launch("round_rest");
  }

  void launch(const SweepTask& task) {
    const std::size_t k = task.centroids.k;
    round_rest<<<blocks_for(k * 32, 256), 256>>>(task.centroids.exact, k, task.points.d, task.frame,
                                                 task.points.shape, task.centroids.rounded,
                                                 d_centroids_.data());
    check_launch("round_rest");
    kernel_<<<blocks_for(task.points.n, kRows), kThreads, bytes_>>>(
        task, {d_points_.data(), d_centroids_.data(), split_error(task.points.d)});
    check_launch("sweep_split");
  }

  std::string path() const { return "64 points a block, two parts"; }

private:
  void (*kernel_)(SweepTask, Rests) = nullptr;
  std::size_t bytes_ = 0;
  DeviceBuffer<__half> d_points_, d_centroids_;
};

const Registration registration({.name = "kmeans_cuda_split",
                                 .idea = "three float16 products for one of float32",
                                 .source = "kmeans_cuda_tiled on tensor cores, split precision",
                                 .device = Device::gpu,
                                 .multiplier = Multiplier::tensor_f16,
                                 .max_d = kMostSplitFeatures,
                                 .previous = "kmeans_cuda_tiled"},
                                f32_only<LargeK<SplitSweep>>());

} // namespace
} // namespace clusterbench
