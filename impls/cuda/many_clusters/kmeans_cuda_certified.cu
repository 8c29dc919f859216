// K-means for many clusters, few features: groups of centroids compete before single ones do.
//
// Idea: with few features the tensor cores make scores faster than two comparisons and a selection
//   can follow. Of a group of 16 scores only the least is kept; the two least groups prove which
//   one holds the nearest centroid, and its 16 are compared in float32.
// Changed since kmeans_cuda_wgmma: for d <= 32, 16 more features bring |c|^2 / 2 and |x|^2 / 2 into
//   the product, so that scores are complete and not negative: their bits are compared as integers,
//   three in one instruction, half an operation a score instead of five. Then a kernel compares the
//   16 centroids of every point by the difference form. Beyond d = 32 it is kmeans_cuda_wgmma.
// Source: kmeans_cuda_wgmma; docs/certified.md has the proof for groups and complete scores.
// Cost per iteration: as kmeans_cuda_wgmma, 2 n k (d + 16) flops, and 68 n d bytes for groups.
// Limits: d <= 1024; n below 2^31, k below 2^30; compute capability 9.0. Deterministic.
// Needs: sm_90a
#include "impls/cuda/many_clusters/wgmma_sweep.cuh"

namespace clusterbench {
namespace {

using namespace cuda;

// Scores that the tensor cores make whole: |c'|^2 / 2 and a constant of the row are further features
// of the product, so that nothing is left to add and no score is negative but by rounding.

/// Features beside those of the data. Of a point: 2^15, 2^4, 1 for the three parts of |c'|^2 / 2,
/// the row's constant in units of 2^15, and 2^15 twelve times. Of a centroid: those parts, 2^15,
/// and twelve times nothing; of one that does not exist, the largest number twelve times.
constexpr unsigned kFoldedFeatures = 16;

/// Eight halves of a row at a place that the 32-byte swizzle gives them. tiles: [rows][16]
__device__ void store_folded(__half* tiles, std::size_t row, unsigned group,
                             const __half (&values)[8]) {
  const unsigned to = HalfTiles::swizzled(kFoldedFeatures, static_cast<unsigned>(row % 8), group);
  for (unsigned e = 0; e < 8; ++e) {
    tiles[row * kFoldedFeatures + to * 8 + e] = values[e];
  }
}

/// The constant is |x'|^2 / 2 or a little more: any other would do, as it moves all scores of a
/// row. Rows behind n are zero.
__global__ void fold_points(const float* norms, std::size_t n, std::size_t padded_n,
                            __half* tiles) {
  const __half unit = __float2half(0x1p15f), four = __float2half(0x1p4f), one = __float2half(1.0f);
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < padded_n;
       i += std::size_t{gridDim.x} * blockDim.x) {
    if (i >= n) {
      store_folded(tiles, i, 0, {});
      store_folded(tiles, i, 1, {});
      continue;
    }
    const __half constant = __float2half_ru(0.5f * norms[i] * norms[i] * 0x1p-15f);
    store_folded(tiles, i, 0, {unit, four, one, constant, unit, unit, unit, unit});
    store_folded(tiles, i, 1, {unit, unit, unit, unit, unit, unit, unit, unit});
  }
}

__device__ float folded_constant(const __half* tiles, std::size_t row) {
  const unsigned group = HalfTiles::swizzled(kFoldedFeatures, static_cast<unsigned>(row % 8), 0);
  return __half2float(tiles[row * kFoldedFeatures + group * 8 + 3]) * 0x1p15f;
}

/// half_squares: [k], at most 2^30; three halves hold them to 2^-33 of themselves and 2^-25.
__global__ void fold_centroids(const float* half_squares, unsigned k, unsigned padded_k,
                               __half* tiles) {
  const unsigned j = blockIdx.x * blockDim.x + threadIdx.x;
  if (j >= padded_k) {
    return;
  }
  const __half zero = __float2half(0.0f), most = __float2half(65504.0f);
  const __half fill = j < k ? zero : most;
  const float whole = j < k ? half_squares[j] : 0.0f;
  const __half first = __float2half(whole * 0x1p-15f);
  const float rest = whole - __half2float(first) * 0x1p15f; // exact, as all of these are
  const __half second = __float2half(rest * 0x1p-4f);
  const __half third = __float2half(rest - __half2float(second) * 0x1p4f);
  const __half unit = j < k ? __float2half(0x1p15f) : zero;
  store_folded(tiles, j, 0, {first, second, third, unit, fill, fill, fill, fill});
  store_folded(tiles, j, 1, {fill, fill, fill, fill, fill, fill, fill, fill});
}

/// Groups of 16 scores compete, as integers: numbers that are not negative have the order of their
/// bits, and where a best score is negative no gap is claimed. Half an operation a score.
struct FoldedGroups {
  using Value = int;
  static constexpr unsigned kMoreFeatures = kFoldedFeatures;
  static constexpr int kSign = -1;

  __device__ static int far_away() { return __float_as_int(kFarAway); }
  __device__ static int least(int a, int b) { return min(a, b); }
  __device__ static int most(int a, int b) { return max(a, b); }
  __device__ static unsigned bits(int value) { return static_cast<unsigned>(value); }

  __device__ static void compete(const float (&sums)[64], const unsigned char*, unsigned keep,
                                 int (&best)[2], int (&second)[2]) {
#pragma unroll
    for (unsigned group = 0; group < 2; ++group) {
#pragma unroll
      for (unsigned p = 0; p < 2; ++p) {
        const auto score = [&](unsigned e) { // the e-th of the row's 16 of this group
          return __float_as_int(sums[(group * 8 + e / 2) * 4 + p * 2 + e % 2]);
        };
        int all[5];
#pragma unroll
        for (unsigned e = 0; e < 5; ++e) {
          all[e] = __vimin3_s32(score(e * 3), score(e * 3 + 1), score(e * 3 + 2));
        }
        const int some = __vimin3_s32(all[0], all[1], score(15));
        const int group_least = min(__vimin3_s32(all[2], all[3], all[4]), some);
        const int value =
            static_cast<int>((static_cast<unsigned>(group_least) & keep) | group * 16);
        second[p] = min(second[p], max(best[p], value));
        best[p] = min(best[p], value);
      }
    }
  }

  __device__ static void decide(const SweepTask& task, const ScoreConstants& beside, bool has_row,
                                std::size_t row, int best, unsigned nearest, int second) {
    float largest = 0.0f, constant = 0.0f; // whose score is the least of its group is not known
    if (has_row) {
      constant = folded_constant(beside.points, row);
      largest = folded_error(task.counters->largest(), task.points.residual[row],
                             task.points.norm[row], constant);
    }
    cuda::decide(task, has_row, row, __fadd_ru(__int_as_float(best), -constant), nearest,
                 __fadd_rd(__int_as_float(second), -constant), largest, largest);
  }
};

/// Labels are the first centroids of groups: compares all 16 of the group, 8 lanes a row of up to
/// 32 features. kFour: d is a multiple of 4, so that 16 bytes may be read at once.
template <bool kFour>
__global__ void resolve_groups(const SweepTask task) {
  const unsigned lane = threadIdx.x % 8, d = task.points.d;
  const std::size_t stride = std::size_t{gridDim.x} * blockDim.x / 8;
  for (std::size_t first = (std::size_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32 * 4;
       first < task.points.n; first += stride) {
    const std::size_t i = first + threadIdx.x % 32 / 8;
    const std::size_t row = min(i, task.points.n - 1); // all lanes are needed for the sums
    const unsigned base = static_cast<unsigned>(task.labels[row]);
    float x[4], squared[16];
    load_four<kFour>(task.points.exact + row * d, lane * 4, d, x);
#pragma unroll
    for (unsigned g = 0; g < 16; ++g) {
      float c[4]; // the last tile may not be full
      const unsigned j = min(base + g / 2 * 8 + g % 2, task.centroids.k - 1);
      load_four<kFour>(task.centroids.exact + std::size_t{j} * d, lane * 4, d, c);
      squared[g] = 0.0f;
#pragma unroll
      for (unsigned e = 0; e < 4; ++e) {
        squared[g] += (x[e] - c[e]) * (x[e] - c[e]);
      }
    }
#pragma unroll
    for (unsigned left = 8; left >= 2; left /= 2) { // each step halves the sums that a lane has
      const unsigned offset = left / 2;
#pragma unroll
      for (unsigned g = 0; g < left; ++g) {
        const float given = (lane & offset) != 0 ? squared[g] : squared[g + left];
        const float kept = (lane & offset) != 0 ? squared[g + left] : squared[g];
        squared[g] = kept + __shfl_xor_sync(0xffffffffu, given, static_cast<int>(offset));
      }
    }
    unsigned long long nearest = ~0ull; // of the two that this lane has now, and then of all
#pragma unroll
    for (unsigned e = 0; e < 2; ++e) {
      const unsigned g = lane * 2 + e, j = base + g / 2 * 8 + g % 2;
      nearest = j < task.centroids.k ? min(nearest, ranked(squared[e], j)) : nearest;
    }
    for (int offset = 4; offset > 0; offset /= 2) {
      nearest = min(nearest, __shfl_xor_sync(0xffffffffu, nearest, offset));
    }
    if (lane == 0 && i < task.points.n) {
      task.labels[i] = static_cast<std::int32_t>(static_cast<unsigned>(nearest));
    }
  }
}

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
    d_points_ = DeviceBuffer<__half>(padded_n(task) * kFoldedFeatures);
    d_centroids_ = DeviceBuffer<__half>(padded_k(task) * kFoldedFeatures);
    resolve_ = task.points.d % 4 == 0 ? resolve_groups<true> : resolve_groups<false>;
    launch_.prepare(task);
  }
  void follow(const SweepTask& task) {
    if (groups_) {
      fold_points<<<blocks_at_most(padded_n(task), 256, 8192), 256>>>(
          task.points.norm, task.points.n, padded_n(task), d_points_.data());
      check_launch("fold_points");
    }
  }

  void launch(const SweepTask& task) {
    if (!groups_) {
      each_.launch(task);
      return;
    }
    const unsigned k = padded_k(task);
    fold_centroids<<<blocks_for(k, 256), 256>>>(task.centroids.half_squares, task.centroids.k, k,
                                                d_centroids_.data());
    check_launch("fold_centroids");
    launch_.launch(task, {d_centroids_.data(), d_points_.data()});
    resolve_<<<blocks_at_most(task.points.n * 8, 256, 132 * 8), 256>>>(task);
    check_launch("resolve_groups");
  }

  std::string path() const { return groups_ ? launch_.path() + ", groups of 16" : each_.path(); }

private:
  static std::size_t padded_n(const SweepTask& task) {
    return ceil_div(task.points.n, kPaddedRows) * kPaddedRows;
  }
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
