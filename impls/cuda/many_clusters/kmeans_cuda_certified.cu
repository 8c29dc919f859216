// K-means for many clusters, few features: groups of centroids compete before single ones do.
//
// Idea: with few features the tensor cores make scores faster than two comparisons and a selection
//   can follow. Of a group of 16 scores only the least is kept. Four lanes share a row, and each
//   has a best group: these prove which ones can hold the nearest centroid, mostly one. Their
//   centroids are compared in float32.
// Changed since kmeans_cuda_wgmma: for d <= 32, the further features that make scores whole fill up
//   those of the data instead of being 16 of their own. Of 16 scores the least competes, three
//   compared in one instruction: half an operation a score. Rows of which a lane might have
//   forgotten a group are multiplied again. Beyond d = 32 it is kmeans_cuda_wgmma.
// Source: kmeans_cuda_wgmma; docs/certified_variants.md has the proof for groups, whole scores.
// Cost per iteration: as kmeans_cuda_wgmma, 2 n k (d + 5) flops with d + 5 rounded up to 16, 32 or
//   48, and 70 n d bytes for groups.
// Limits: float; d <= 32768; n below 2^31, k up to 2^29; compute capability 9.0. Deterministic.
// Needs: sm_90a
#include "impls/cuda/many_clusters/group_sweep.cuh"
#include "impls/cuda/many_clusters/large_k.cuh"
#include "impls/cuda/many_clusters/wgmma_sweep.cuh"

#include <bit>

namespace clusterbench {
namespace {

using namespace cuda;

// ---- whole scores
//
// |c'|^2 / 2 and a constant of the row are further features of the product, so that nothing is left
// to add to a score and none is negative but by rounding.

/// Features behind those of the data. Of a point: 2^15, 2^4, 1 for the three parts of |c'|^2 / 2,
/// the row's constant in units of 2^15, and 2^15. Of a centroid: those parts, 2^15 and nothing; of
/// one that does not exist, the largest number for both.
constexpr unsigned kFoldedFeatures = 5;

/// One chunk, of which `steps` groups of 16 features hold those of the data and the further ones.
HalfTiles folded_tiles(std::size_t d) {
  const auto steps = static_cast<unsigned>(ceil_div(d + kFoldedFeatures, 16));
  return {steps == 1 ? 16u : steps == 2 ? 32u : 64u, 1, steps};
}

/// Eight features of a row, from feature `first` on: those of the data, then `further`, then zeros.
/// to_row: where it goes.
template <bool kNegative>
__device__ void fold_eight(const __half* rounded, const HalfTiles& from, std::size_t row,
                           std::size_t to_row, unsigned first, unsigned d,
                           const __half (&further)[kFoldedFeatures], __half* folded,
                           const HalfTiles& to) {
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
    folded[to.offset(to_row, f)] = value;
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
      fold_eight<false>(nullptr, points.shape, i, i, first, 0, {}, folded, to);
      continue;
    }
    fold_eight<false>(points.rounded, points.shape, i, i, first, points.d,
                      {__float2half(0x1p15f), __float2half(0x1p4f), __float2half(1.0f),
                       row_constant(points.norm[i]), __float2half(0x1p15f)},
                      folded, to);
  }
}

/// Centroids in the order in which lanes that compare a group with a row read them: `side` of them
/// at a time, whose `lanes` each take four features, `quads` times.
/// [groups, 16 / side, quads, side, lanes, 4]
struct GroupRows {
  unsigned lanes, quads, side;

  __host__ __device__ unsigned width() const { return 4 * lanes * quads; }
  __device__ std::size_t place(unsigned j, unsigned f) const {
    const unsigned at_once = 4 * lanes, in_group = j % kGroup;
    return (((std::size_t{j / kGroup} * (kGroup / side) + in_group / side) * quads + f / at_once) *
                side +
            in_group % side) *
               at_once +
           f % at_once;
  }
};

/// A thread has eight features of a centroid, which are negative, as scores have -x'.c'. It copies
/// its part of the centroid, too: to rows, zero behind d, far away behind k.
__global__ void fold_centroids(const CentroidsView<> centroids, HalfTiles from, unsigned d,
                               HalfTiles to, __half* folded, GroupRows order, float* rows) {
  const unsigned groups = to.width / 8;
  const unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
  const unsigned j = thread / groups, first = thread % groups * 8;
  if (j >= centroids.tiles * kHalfTileRows) {
    return;
  }
  const unsigned column = j / kHalfTileRows * kHalfTileRows + column_of(j % kHalfTileRows);
  const __half zero = __float2half(0.0f), most = __float2half(65504.0f);
  const bool exists = j < centroids.k; // else the rounded one is zero
  const HalfSquare parts(exists ? centroids.half_squares[j] : 0.0f);
  fold_eight<true>(centroids.rounded, from, j, column, first, d,
                   {exists ? parts.high : most, parts.middle, parts.low,
                    exists ? __float2half(0x1p15f) : zero, exists ? zero : most},
                   folded, to);
  for (unsigned f = first; f < min(first + 8, order.width()); ++f) {
    rows[order.place(j, f)] = !exists ? INFINITY
                              : f < d ? centroids.exact[std::size_t{j} * d + f]
                                      : 0.0f;
  }
}

// ---- the nearest of a group

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

/// Labels are groups: compares their 16 centroids with the row, kSide of them at a time. kLanes
/// lanes share a centroid of up to 4 kLanes kQuads features. rows: see GroupRows. kFour: d is a
/// multiple of 4, so that 16 bytes may be read at once.
template <unsigned kLanes, unsigned kQuads, unsigned kSide, bool kFour>
__global__ void __launch_bounds__(256) resolve_groups(const GroupsTask task, const float* rows) {
  constexpr unsigned kTogether = kLanes * kSide, kResults = kGroup / kTogether; // lanes of a row
  constexpr unsigned kWidth = 4 * kLanes * kQuads;
  const PointsView<>& points = task.sweep.points;
  const unsigned lane = threadIdx.x % kTogether, part = lane % kLanes, side = lane / kLanes;
  const unsigned d = points.d, n = static_cast<unsigned>(points.n);
  const unsigned stride = gridDim.x * (blockDim.x / kTogether);
  const unsigned warp = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
  const unsigned in_warp = threadIdx.x % 32 / kTogether;
  struct Row {
    unsigned label;
    float x[kQuads][4];
  };
  const auto fetch = [&](unsigned i) {
    const std::size_t row = min(i, n - 1); // all lanes are needed for the sums
    Row made;
    made.label = i < n ? static_cast<unsigned>(task.sweep.labels[row]) : 0;
#pragma unroll
    for (unsigned q = 0; q < kQuads; ++q) {
      load_four<kFour>(points.exact + row * d, (q * kLanes + part) * 4, d, made.x[q]);
    }
    return made;
  };
  Row next = fetch(warp * (32 / kTogether) + in_warp);
#pragma unroll 1
  for (unsigned first = warp * (32 / kTogether); first < n; first += stride) {
    const unsigned i = first + in_warp;
    const Row own = next;
    next = fetch(i + stride);                            // on its way during the rest
    uint4 left{own.label, kNoGroup, kNoGroup, kNoGroup}; // groups, which differ
    if (own.label == kNoGroup) {
      left = task.several[min(i, n - 1)];
    }
    float least = INFINITY;
    unsigned nearest = ~0u;
    do { // the first of several groups may be none
      const unsigned group = left.x;
      left = {left.y, left.z, left.w, kNoGroup};
      const float* from =
          rows + std::size_t{group == kNoGroup ? 0 : group} * (kGroup * kWidth) + lane * 4;
      float best = INFINITY;
      unsigned which = part * kSide + side;
#pragma unroll
      for (unsigned result = 0; result < kResults; ++result) {
        float squared[kLanes];
#pragma unroll
        for (unsigned e = 0; e < kLanes; ++e) {
#pragma unroll
          for (unsigned q = 0; q < kQuads; ++q) {
            const float4 c = *reinterpret_cast<const float4*>(
                from + ((result * kLanes + e) * kQuads + q) * kTogether * 4);
            const float dx = own.x[q][0] - c.x, dy = own.x[q][1] - c.y;
            const float dz = own.x[q][2] - c.z, dw = own.x[q][3] - c.w;
            const float its = dx * dx + dy * dy + dz * dz + dw * dw;
            squared[e] = q == 0 ? its : squared[e] + its;
          }
        }
        const float sum = transposing_sum(squared, part);
        which = sum < best ? (result * kLanes + part) * kSide + side : which; // ties: the lowest
        best = fminf(best, sum);
      }
      const unsigned j = group * kGroup + which;
      const bool nearer = group != kNoGroup && (best < least || (best == least && j < nearest));
      nearest = nearer ? j : nearest;
      least = nearer ? best : least;
    } while (__any_sync(kAllLanes, (left.x & left.y & left.z & left.w) != kNoGroup));
#pragma unroll
    for (unsigned offset = kTogether / 2; offset > 0; offset /= 2) {
      const float its = __shfl_xor_sync(kAllLanes, least, static_cast<int>(offset));
      const unsigned who = __shfl_xor_sync(kAllLanes, nearest, static_cast<int>(offset));
      nearest = its < least || (its == least && who < nearest) ? who : nearest;
      least = fminf(least, its);
    }
    if (lane == 0 && i < n) {
      task.sweep.labels[i] = static_cast<std::int32_t>(nearest);
    }
  }
}

class CertifiedSweep {
public:
  using Real = float;
  static constexpr unsigned kPaddedRows = WgmmaSweep<>::kPaddedRows;
  static_assert(kPaddedRows % kSweepRows == 0);

  static std::string refuse(const Shape& shape) {
    constexpr std::size_t kMost = std::size_t{1} << 29; // 23 bits for the number of a lane's group
    return shape.k > kMost ? "more than 2^29 clusters" : WgmmaSweep<>::refuse(shape);
  }
  static std::size_t bytes(const Shape& shape) {
    const bool groups = HalfTiles::of(shape.d).width == 32;
    return groups ? (shape.n + shape.k) * folded_tiles(shape.d).width * sizeof(__half) +
                        (shape.k + kHalfTileRows) * 32 * sizeof(float) + shape.n * sizeof(uint4)
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
    d_several_ = DeviceBuffer<uint4>(task.points.n);
    const bool four = task.points.d % 4 == 0;
    if (task.points.d <= 8) {
      choose_resolve<1, 2, 4>(task, four);
    } else if (task.points.d <= 16) {
      choose_resolve<4, 1, 2>(task, four);
    } else {
      choose_resolve<8, 1, 1>(task, four);
    }
    d_rows_ = DeviceBuffer<float>(std::size_t{padded_k(task)} * order_.width());
    if (tiles_.width == 16) {
      choose_sweep<16, 1>(task);
    } else if (tiles_.width == 32) {
      choose_sweep<32, 2>(task);
    } else {
      choose_sweep<64, 3>(task);
    }
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
        task.centroids, task.points.shape, task.points.d, tiles_, d_centroids_.data(), order_,
        d_rows_.data());
    check_launch("fold_centroids");
    const GroupsTask folded = fold(task);
    sweep_<<<sweep_blocks_, (kSweepTeams + 1) * 128, sweep_bytes_>>>(folded);
    check_launch("sweep_groups");
    resolve_<<<resolving_blocks_, 256>>>(folded, d_rows_.data());
    check_launch("resolve_groups");
  }

  /// Lists the candidates of the undecided rows.
  void find(const SweepTask<>& task, const SecondLevel<256>& second_level) {
    if (!groups_) {
      second_level.find(task);
      return;
    }
    find_<<<multiprocessors_, (kSweepTeams + 1) * 128, sweep_bytes_>>>(fold(task));
    check_launch("list_candidates");
  }

  std::string path() const { return groups_ ? "groups of 16" : each_.path(); }

private:
  /// The same with the further features.
  GroupsTask fold(const SweepTask<>& task) {
    GroupsTask made{task, d_several_.data(),
                    static_cast<unsigned>(std::bit_width(2 * task.centroids.tiles - 1))};
    made.sweep.points.shape = tiles_;
    made.sweep.points.rounded = d_points_.data();
    made.sweep.centroids.rounded = d_centroids_.data();
    return made;
  }
  template <unsigned kWidth, unsigned kSteps>
  void choose_sweep(const SweepTask<>& task) {
    sweep_ = sweep_groups<kWidth, kSteps>;
    find_ = list_candidates<kWidth, kSteps>;
    sweep_bytes_ = kSweepBytes<kWidth>;
    allow_shared_memory(sweep_, sweep_bytes_);
    allow_shared_memory(find_, sweep_bytes_);
    multiprocessors_ = static_cast<unsigned>(multiprocessors()); // a block each
    sweep_blocks_ =
        std::min(multiprocessors_, static_cast<unsigned>(ceil_div(task.points.n, kSweepRows)));
  }
  template <unsigned kLanes, unsigned kQuads, unsigned kSide>
  void choose_resolve(const SweepTask<>& task, bool four) {
    order_ = {kLanes, kQuads, kSide};
    resolve_ = four ? resolve_groups<kLanes, kQuads, kSide, true>
                    : resolve_groups<kLanes, kQuads, kSide, false>;
    resolving_blocks_ = static_cast<unsigned>(
        std::min(resident_blocks(resolve_, 256, 0), ceil_div(task.points.n * kLanes * kSide, 256)));
  }
  static std::size_t padded_n(const SweepTask<>& task) {
    return ceil_div(task.points.n, kPaddedRows) * kPaddedRows;
  }
  static unsigned padded_k(const SweepTask<>& task) { return task.centroids.tiles * kHalfTileRows; }

  bool groups_ = false;
  HalfTiles tiles_{};
  WgmmaSweep<> each_;
  void (*sweep_)(GroupsTask) = nullptr;
  void (*find_)(GroupsTask) = nullptr;
  std::size_t sweep_bytes_ = 0; // of shared memory, of both
  unsigned sweep_blocks_ = 0, multiprocessors_ = 0;
  GroupRows order_{}; // of d_rows_
  void (*resolve_)(GroupsTask, const float*) = nullptr;
  unsigned resolving_blocks_ = 0;
  DeviceBuffer<__half> d_points_, d_centroids_;
  DeviceBuffer<uint4> d_several_;
  DeviceBuffer<float> d_rows_;
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
