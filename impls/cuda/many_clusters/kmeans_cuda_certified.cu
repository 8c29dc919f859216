// K-means for many clusters, few features: groups of centroids compete before single ones do.
//
// Idea: with few features the tensor cores make scores faster than two comparisons and a selection
//   can follow. Of a group of 16 scores only the least is kept; the two least groups prove which
//   one holds the nearest centroid, and its 16 are compared in float32.
// Changed since kmeans_cuda_wgmma: for d <= 32, the further features that make scores whole fill up
//   those of the data instead of being 16 of their own. Of 16 scores the least competes, three
//   compared in one instruction: half an operation a score. Then a kernel compares the 16 centroids
//   of every point by the difference form. Beyond d = 32 it is kmeans_cuda_wgmma.
// Source: kmeans_cuda_wgmma; docs/certified_variants.md has the proof for groups, whole scores.
// Cost per iteration: as kmeans_cuda_wgmma, 2 n k (d + 5) flops with d + 5 rounded up to 16, 32 or
//   48, and 68 n d bytes for groups.
// Limits: d <= 32768; n below 2^31, k below 2^30; compute capability 9.0. Deterministic.
// Needs: sm_90a
#include "impls/cuda/many_clusters/folded_bounds.hpp"
#include "impls/cuda/many_clusters/large_k.cuh"
#include "impls/cuda/many_clusters/wgmma_sweep.cuh"

#include <bit>

namespace clusterbench {
namespace {

using namespace cuda;

// Scores that the tensor cores make whole: |c'|^2 / 2 and a constant of the row are further
// features of the product, so that nothing is left to add and no score is negative but by rounding.

/// Features behind those of the data. Of a point: 2^15, 2^4, 1 for the three parts of |c'|^2 / 2,
/// the row's constant in units of 2^15, and 2^15. Of a centroid: those parts, 2^15 and nothing; of
/// one that does not exist, the largest number for both.
constexpr unsigned kFoldedFeatures = 5, kRowConstant = 3;

/// One chunk, of which `steps` groups of 16 features hold those of the data and the further ones.
HalfTiles folded_tiles(std::size_t d) {
  const auto steps = static_cast<unsigned>(ceil_div(d + kFoldedFeatures, 16));
  return {steps == 1 ? 16u : steps == 2 ? 32u : 64u, 1, steps};
}

/// Eight features of a row, from feature `first` on: those of the data, then `further`, then zeros.
template <bool kNegative>
__device__ void fold_eight(const __half* rounded, const HalfTiles& from, std::size_t row,
                           unsigned first, unsigned d, const __half (&further)[kFoldedFeatures],
                           __half* folded, const HalfTiles& to) {
#pragma unroll
  for (unsigned f = first; f < first + 8; ++f) {
    __half value = __float2half(0.0f);
    if (f < d) {
      const __half own = rounded[from.offset(row, f)];
      value = kNegative ? __hneg(own) : own;
    }
#pragma unroll
    for (unsigned e = 0; e < kFoldedFeatures; ++e) {
      value = f == d + e ? further[e] : value;
    }
    folded[to.offset(row, f)] = value;
  }
}

/// The constant is |x'|^2 / 2 or a little more: any other would do, as it moves all scores of a
/// row. A thread has eight features of a row. Rows behind n, up to padded_n, are zero.
__global__ void fold_points(const PointsView<> points, std::size_t padded_n, HalfTiles to,
                            __half* folded) {
  const unsigned groups = to.width / 8;
  for (std::size_t e = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; e < padded_n * groups;
       e += std::size_t{gridDim.x} * blockDim.x) {
    const std::size_t i = e / groups;
    const unsigned first = static_cast<unsigned>(e % groups) * 8;
    if (i >= points.n) {
      fold_eight<false>(nullptr, points.shape, i, first, 0, {}, folded, to);
      continue;
    }
    fold_eight<false>(points.rounded, points.shape, i, first, points.d,
                      {__float2half(0x1p15f), __float2half(0x1p4f), __float2half(1.0f),
                       row_constant(points.norm[i]), __float2half(0x1p15f)},
                      folded, to);
  }
}

/// A thread has eight features of a centroid, which are negative, as scores have -x'.c'.
__global__ void fold_centroids(const CentroidsView<> centroids, HalfTiles from, unsigned d,
                               HalfTiles to, __half* folded) {
  const unsigned groups = to.width / 8;
  const unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
  const unsigned j = thread / groups, first = thread % groups * 8;
  if (j >= centroids.tiles * kHalfTileRows) {
    return;
  }
  const __half zero = __float2half(0.0f), most = __float2half(65504.0f);
  if (j >= centroids.k) { // the rounded ones are zero
    fold_eight<true>(centroids.rounded, from, j, first, d, {most, zero, zero, zero, most}, folded,
                     to);
    return;
  }
  const HalfSquare parts(centroids.half_squares[j]);
  fold_eight<true>(centroids.rounded, from, j, first, d,
                   {parts.high, parts.middle, parts.low, __float2half(0x1p15f), zero}, folded, to);
}

/// Groups of 16 scores compete, as integers: numbers that are not negative have the order of their
/// bits, and where a best score is negative no gap is claimed. Half an operation a score.
class FoldedGroups {
public:
  static constexpr bool kOneChunk = true, kHasTail = false;
  static constexpr int kSign = 1;

  struct Facts { // rows are looked at in the end
    __device__ void fetch(const PointsView<>&, std::size_t) {}
  };

  __device__ FoldedGroups(const Facts&, const ScoreError& largest) : largest_(largest) {
    // A constant would take a second instruction, as only one operand is immediate.
    asm volatile("mov.b32 %0, 0xffffffe0;" : "=r"(keep_));
  }

  __device__ void compete(const float (&sums)[64], unsigned tile) {
    const int before[2] = {best_[0], best_[1]};
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
            static_cast<int>((static_cast<unsigned>(group_least) & keep_) | group * 16);
        second_[p] = min(second_[p], max(best_[p], value));
        best_[p] = min(best_[p], value);
      }
    }
#pragma unroll
    for (unsigned p = 0; p < 2; ++p) {
      tile_[p] = best_[p] < before[p] ? tile : tile_[p];
    }
  }

  /// Of the rows `row` and 8 further on. All lanes of the warp must call it.
  __device__ void decide(const SweepTask<>& task, std::size_t row, UndecidedRows& undecided) {
    const unsigned quarter = threadIdx.x % 4;
    unsigned nearest[2];
#pragma unroll
    for (unsigned p = 0; p < 2; ++p) {
      const unsigned low_bits = static_cast<unsigned>(best_[p]) & 31;
      nearest[p] = tile_[p] * kHalfTileRows + low_bits / 2 * 8 + quarter * 2 + low_bits % 2;
      for (int offset = 1; offset < 4; offset *= 2) { // the four lanes of a row
        const int other = __shfl_xor_sync(0xffffffffu, best_[p], offset);
        const int other_second = __shfl_xor_sync(0xffffffffu, second_[p], offset);
        const unsigned other_nearest = __shfl_xor_sync(0xffffffffu, nearest[p], offset);
        second_[p] = __vimin3_s32(second_[p], other_second, max(best_[p], other));
        nearest[p] = other < best_[p] ? other_nearest : nearest[p];
        best_[p] = min(best_[p], other);
      }
    }
    const std::size_t own = row + quarter * 8; // two of the four lanes decide on a row each
    const bool has_row = quarter < 2 && own < task.points.n;
    float error = 0.0f, constant = 0.0f; // whose score is the least of its group is not known
    if (has_row) {
      const HalfTiles& folded = task.points.shape;
      constant =
          __half2float(task.points.rounded[folded.offset(own, task.points.d + kRowConstant)]) *
          0x1p15f;
      error = folded_error(largest_, task.points.residual[own], task.points.norm[own], constant,
                           folded.steps * 16);
    }
    const float best = __fadd_ru(__int_as_float(quarter == 0 ? best_[0] : best_[1]), -constant);
    const float second =
        __fadd_rd(__int_as_float(quarter == 0 ? second_[0] : second_[1]), -constant);
    if (has_row) {
      task.labels[own] = static_cast<std::int32_t>(quarter == 0 ? nearest[0] : nearest[1]);
    }
    const bool certain = second - best > 2.0f * error * kUpwards; // false for NaN, too
    undecided.add(task, has_row && !certain, static_cast<unsigned>(own),
                  __fadd_ru(best, __fmul_ru(error, kUpwards)));
  }

private:
  ScoreError largest_;
  unsigned keep_;
  int best_[2] = {std::bit_cast<int>(kFarAway), std::bit_cast<int>(kFarAway)};
  int second_[2] = {std::bit_cast<int>(kFarAway), std::bit_cast<int>(kFarAway)};
  unsigned tile_[2] = {};
};

constexpr unsigned kGroup = 16, kGroupsOfTile = kHalfTileRows / kGroup;

/// Which centroid is place g of a group, and which group begins with a centroid.
__device__ unsigned in_group(unsigned base, unsigned g) {
  return base + g / 2 * 8 + g % 2;
}
__device__ unsigned group_of(unsigned base) {
  return base / kHalfTileRows * kGroupsOfTile + base % kHalfTileRows / 64 * 4 + base % 8 / 2;
}
__device__ unsigned first_of(unsigned group) {
  return group / kGroupsOfTile * kHalfTileRows + group % kGroupsOfTile / 4 * 64 + group % 4 * 2;
}

/// grouped: [groups, 16, width] the centroids [k, d] of each group side by side, zero behind d, far
/// away behind k.
__global__ void group_centroids(const float* centroids, unsigned k, unsigned d, unsigned width,
                                unsigned size, float* grouped) {
  for (unsigned e = blockIdx.x * blockDim.x + threadIdx.x; e < size; e += gridDim.x * blockDim.x) {
    const unsigned f = e % width, place = e / width;
    const unsigned j = in_group(first_of(place / kGroup), place % kGroup);
    grouped[e] = f >= d ? 0.0f : j < k ? centroids[std::size_t{j} * d + f] : INFINITY;
  }
}

/// Adds up each of N values (a power of two, at most 32) over groups of N lanes; lane l gets the
/// sum of value l % N of its group. Each step halves the values that a lane carries, so that 32
/// values take 31 shuffles instead of 160.
template <unsigned N>
__device__ float transposing_sum(const float (&value)[N], unsigned lane) {
  if constexpr (N == 1) {
    return value[0];
  } else {
    float half[N / 2];
    const bool upper = (lane & (N / 2)) != 0;
#pragma unroll
    for (unsigned v = 0; v < N / 2; ++v) {
      const float given = upper ? value[v] : value[v + N / 2];
      const float kept = upper ? value[v + N / 2] : value[v];
      half[v] = kept + __shfl_xor_sync(kAllLanes, given, static_cast<int>(N / 2));
    }
    return transposing_sum(half, lane);
  }
}

/// Labels are the first centroids of groups: compares all 16 of the group, 8 lanes a row, of which
/// kLanes share a centroid of up to 4 kLanes features: so they read whole lines of 128 bytes.
/// kFour: d is a multiple of 4, so that 16 bytes may be read at once.
template <unsigned kLanes, bool kFour>
__global__ void __launch_bounds__(256)
    resolve_groups(const SweepTask<> task, const float* grouped) {
  constexpr unsigned kSide = 8 / kLanes; // centroids at a time
  const unsigned lane = threadIdx.x % 8, of_centroid = lane % kLanes, d = task.points.d;
  const std::size_t stride = std::size_t{gridDim.x} * blockDim.x / 8;
  for (std::size_t first = (std::size_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32 * 4;
       first < task.points.n; first += stride) {
    const std::size_t i = first + threadIdx.x % 32 / 8;
    const std::size_t row = min(i, task.points.n - 1); // all lanes are needed for the sums
    const unsigned base = static_cast<unsigned>(task.labels[row]);
    const float* group = grouped + std::size_t{group_of(base)} * kGroup * 4 * kLanes + lane * 4;
    float x[4], squared[2][kLanes];
    load_four<kFour>(task.points.exact + row * d, of_centroid * 4, d, x);
#pragma unroll
    for (unsigned e = 0; e < 2 * kLanes; ++e) {
      const float4 c = *reinterpret_cast<const float4*>(group + e * 32);
      squared[e / kLanes][e % kLanes] = (x[0] - c.x) * (x[0] - c.x) + (x[1] - c.y) * (x[1] - c.y) +
                                        (x[2] - c.z) * (x[2] - c.z) + (x[3] - c.w) * (x[3] - c.w);
    }
    const float sums[2] = {transposing_sum(squared[0], lane), transposing_sum(squared[1], lane)};
    const unsigned own =
        of_centroid * kSide + lane / kLanes; // what this lane has the sum of, and 8 on
    const bool second = sums[1] < sums[0];   // ties go to the lowest index
    unsigned long long nearest =
        ranked(second ? sums[1] : sums[0], in_group(base, second ? own + kGroup / 2 : own));
#pragma unroll
    for (unsigned offset = 4; offset > 0; offset /= 2) {
      nearest = min(nearest, __shfl_xor_sync(0xffffffffu, nearest, static_cast<int>(offset)));
    }
    if (lane == 0 && i < task.points.n) {
      task.labels[i] = static_cast<std::int32_t>(static_cast<unsigned>(nearest));
    }
  }
}

class CertifiedSweep {
public:
  using Real = float;
  static constexpr unsigned kPaddedRows = WgmmaSweep<>::kPaddedRows;

  static std::string refuse(const Shape& shape) { return WgmmaSweep<>::refuse(shape); }
  static std::size_t bytes(const Shape& shape) {
    const bool groups = HalfTiles::of(shape.d).width == 32;
    return groups ? (shape.n + shape.k) * folded_tiles(shape.d).width * sizeof(__half) +
                        (shape.k + kHalfTileRows) * 32 * sizeof(float)
                  : 0;
  }

  void prepare(const SweepTask<>& task) {
    groups_ = task.points.shape.width == 32;
    if (!groups_) {
      each_.prepare(task);
      return;
    }
    tiles_ = folded_tiles(task.points.d);
    d_points_ = DeviceBuffer<__half>(tiles_.size(padded_n(task)));
    d_centroids_ = DeviceBuffer<__half>(tiles_.size(padded_k(task)));
    lanes_ = task.points.d <= 8 ? 2 : task.points.d <= 16 ? 4 : 8;
    const bool four = task.points.d % 4 == 0;
    resolve_ = lanes_ == 2   ? (four ? resolve_groups<2, true> : resolve_groups<2, false>)
               : lanes_ == 4 ? (four ? resolve_groups<4, true> : resolve_groups<4, false>)
                             : (four ? resolve_groups<8, true> : resolve_groups<8, false>);
    resolving_blocks_ =
        std::min(resident_blocks(resolve_, 256, 0), ceil_div(task.points.n * 8, 256));
    d_grouped_ = DeviceBuffer<float>(std::size_t{padded_k(task)} * 4 * lanes_);
    launch_.prepare(folded(task));
  }
  void follow(const SweepTask<>& task) {
    if (groups_) {
      fold_points<<<blocks_at_most(padded_n(task) * tiles_.width / 8, 256, 8192), 256>>>(
          task.points, padded_n(task), tiles_, d_points_.data());
      check_launch("fold_points");
    }
  }

  void launch(const SweepTask<>& task) {
    if (!groups_) {
      each_.launch(task);
      return;
    }
    fold_centroids<<<blocks_for(padded_k(task) * tiles_.width / 8, 256), 256>>>(
        task.centroids, task.points.shape, task.points.d, tiles_, d_centroids_.data());
    check_launch("fold_centroids");
    launch_.launch(folded(task));
    const auto size = static_cast<unsigned>(d_grouped_.size());
    group_centroids<<<blocks_at_most(size, 256, 1024), 256>>>(
        task.centroids.exact, task.centroids.k, task.points.d, 4 * lanes_, size, d_grouped_.data());
    check_launch("group_centroids");
    resolve_<<<static_cast<unsigned>(resolving_blocks_), 256>>>(task, d_grouped_.data());
    check_launch("resolve_groups");
  }

  std::string path() const { return groups_ ? launch_.path() + ", groups of 16" : each_.path(); }

private:
  /// The same with the further features.
  SweepTask<> folded(const SweepTask<>& task) const {
    SweepTask<> made = task;
    made.points.shape = tiles_;
    made.points.rounded = d_points_.data();
    made.centroids.rounded = d_centroids_.data();
    return made;
  }
  static std::size_t padded_n(const SweepTask<>& task) {
    return ceil_div(task.points.n, kPaddedRows) * kPaddedRows;
  }
  static unsigned padded_k(const SweepTask<>& task) { return task.centroids.tiles * kHalfTileRows; }

  bool groups_ = false;
  HalfTiles tiles_{};
  WgmmaSweep<> each_;
  WgmmaLaunch<FoldedGroups> launch_;
  unsigned lanes_ = 0; // of a centroid in resolve_groups()
  std::size_t resolving_blocks_ = 0;
  void (*resolve_)(SweepTask<>, const float*) = nullptr;
  DeviceBuffer<__half> d_points_, d_centroids_;
  DeviceBuffer<float> d_grouped_;
};

const Registration registration({.name = "kmeans_cuda_certified",
                                 .idea = "groups of centroids compete before single ones",
                                 .source = "kmeans_cuda_wgmma, groups for few features",
                                 .device = Device::gpu,
                                 .multiplier = Multiplier::tensor_f16,
                                 .takes_weights = true,
                                 .max_d = kMostFeatures,
                                 .previous = "kmeans_cuda_wgmma"},
                                f32_only<LargeK<CertifiedSweep>>());

} // namespace
} // namespace clusterbench
