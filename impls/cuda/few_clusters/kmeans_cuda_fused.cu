// K-means with few clusters: labels and sums in one pass over the data, one launch for the run.
//
// Changed since kmeans_cuda_persistent: the points stream, and both halves of a pass are products
//   on the tensor cores: a warp takes 16 rows, multiplies them with all centroids, and their
//   weights (1 or the point's own, 0 in other clusters) with the rows again (tile_run.cuh). The
//   copy engine keeps the next tiles coming without any thread's help.
// The products of distances are rough: tf32 keeps 11 bits. But the lengths of what it cuts off are
//   known, and with them how wrong a difference of distances can be (Cauchy and Schwarz). Rows
//   whose nearest centroids are closer than that are compared by squared differences in float32.
// Source: article 000's two kernels as one; the bound: |x c - x'c'| <= |x - x'||c| + |x'||c - c'|.
// Cost per iteration: n d values and 8 n bytes; some 880 instructions of a warp per 16 rows of 100.
// Limits: float; 13 <= d <= 512, k <= 16, n < 2^31, else refused, as are rows of up to 64 features
//   far from the origin (magnitudes.hpp). Where many rows lie between centroids, comparing adds
//   to the pass, as does the rule `loss`, which sums every row's distance so. Same bits in all
//   runs.
#include "impls/contract.hpp"
#include "impls/cuda/common/magnitudes.hpp"
#include "impls/cuda/common/runtime.hpp"
#include "impls/cuda/few_clusters/grid_sums.cuh"
#include "impls/cuda/few_clusters/tile_run.cuh"

#include <cuda_runtime.h>

#include <array>
#include <cmath>
#include <string>
#include <variant>

namespace clusterbench::cuda {

// Labels from rough products: those that rounding may have decided are compared again, by squared
// differences.

/// What is known of the centroids during a sweep.
struct Lengths {
  float largest, largest_rest; // of all centroids, and of what tf32 rounds off
};

/// The centroids' squared lengths, and the largest; all threads of the block.
template <unsigned kThreads, unsigned K>
__device__ Lengths measure(const float* s_centroids, unsigned k, unsigned width, float* s_squared,
                           float* s_rests) {
  for (unsigned j = threadIdx.x / 32; j < K; j += kThreads / 32) {
    float squared = 0.0f, rest = 0.0f;
    for (unsigned f = threadIdx.x % 32; f < width && j < k; f += 32) {
      const float c = s_centroids[j * width + f], r = c - rounded_part(c);
      squared += c * c;
      rest += r * r;
    }
    squared = over_lanes<32>(squared);
    rest = over_lanes<32>(rest);
    if (threadIdx.x % 32 == 0) {
      s_squared[j] = j < k ? squared : INFINITY; // clusters behind k are infinitely far
      s_rests[j] = rest;
    }
  }
  __syncthreads(); // the lengths are there
  Lengths lengths{0.0f, 0.0f};
  for (unsigned j = 0; j < k; ++j) {
    lengths.largest = fmaxf(lengths.largest, s_squared[j]);
    lengths.largest_rest = fmaxf(lengths.largest_rest, s_rests[j]);
  }
  return {sqrtf(lengths.largest), sqrtf(lengths.largest_rest)};
}

/// Squared distance of a row to a centroid as a sum of squared differences, by four lanes.
__device__ inline float squared_distance(const float* tile, RowLayout layout, unsigned row,
                                         const float* s_centroid) {
  float squared = 0.0f;
  for (unsigned column = threadIdx.x % 4; column < layout.columns; column += 4) {
    float x[4], c[4];
    read_four(tile + layout.at(row, 4 * column), x);
    read_four(s_centroid + 4 * column, c);
#pragma unroll
    for (unsigned e = 0; e < 4; ++e) {
      squared += (x[e] - c[e]) * (x[e] - c[e]);
    }
  }
  return over_lanes<4>(squared);
}

/// The label of a row whose products four lanes hold, two of every eight each: the nearest by rough
/// products, if these decide; else, or if the distance is wanted, by squared differences.
template <unsigned T>
__device__ unsigned label_of(const float (&products)[T][4], unsigned half,
                             const float (&squared_lengths)[T][2], const float* tile,
                             RowLayout layout, unsigned row, const Lengths& lengths,
                             const float* s_centroids, bool wants_distance, float& nearest) {
  const unsigned t = threadIdx.x % 4;
  float score[T][2], best = INFINITY; // |c|^2 - 2 x.c
  unsigned label = 0;
#pragma unroll
  for (unsigned e = 0; e < 2 * T; ++e) {
    const float now = squared_lengths[e / 2][e % 2] - 2.0f * products[e / 2][2 * half + e % 2];
    score[e / 2][e % 2] = now;
    label = now < best ? e / 2 * 8 + 2 * t + e % 2 : label;
    best = fminf(best, now);
  }
#pragma unroll
  for (int offset = 1; offset < 4; offset *= 2) {
    const float other = __shfl_xor_sync(kAllLanes, best, offset);
    const unsigned other_label = __shfl_xor_sync(kAllLanes, label, offset);
    label = other < best || (other == best && other_label < label) ? other_label : label;
    best = fminf(best, other);
  }
  const float length = tile[kTileRows * layout.stride() + row];
  const float rest = tile[kTileRows * (layout.stride() + 1) + row];
  // Twice the error of a score, and what float32 sums may add: d <= 512 terms, cut off and not
  // rounded by the tensor cores, stay below 2^-16 of the product of the lengths.
  const float margin = 4.0f * (rest * lengths.largest + length * lengths.largest_rest) +
                       0x1p-15f * lengths.largest * (length + lengths.largest);
  unsigned candidates = 0;
#pragma unroll
  for (unsigned e = 0; e < 2 * T; ++e) {
    candidates |= score[e / 2][e % 2] <= best + margin ? 1u << (e / 2 * 8 + 2 * t + e % 2) : 0u;
  }
  candidates |= __shfl_xor_sync(kAllLanes, candidates, 1);
  candidates |= __shfl_xor_sync(kAllLanes, candidates, 2);
  unsigned left = wants_distance || (candidates & (candidates - 1)) != 0 ? candidates : 0;
  nearest = INFINITY;
  while (__any_sync(kAllLanes, left != 0)) { // rows that are done wait for the others
    const unsigned j = left != 0 ? static_cast<unsigned>(__ffs(static_cast<int>(left))) - 1 : 0;
    const float squared = squared_distance(tile, layout, row, s_centroids + j * layout.stride());
    if (left != 0 && squared < nearest) { // strictly, so that ties go to the lowest index
      nearest = squared;
      label = j;
    }
    left &= left - 1;
  }
  return label;
}

} // namespace clusterbench::cuda

namespace clusterbench {
namespace {

using namespace cuda;

using Task = TileTask;

/// A compiled shape: a team of kSlices warps works on a tile, each on 32 kGroups features, for 8 T
/// clusters; kBlocks of kTeams teams share a multiprocessor.
template <unsigned kGroups_, unsigned kSlices_, unsigned kTeams_, unsigned T_, unsigned kBlocks_>
struct Teams {
  static constexpr unsigned kGroups = kGroups_, kSlices = kSlices_, kTeams = kTeams_, T = T_;
  static constexpr unsigned kThreads = 32 * kSlices * kTeams;
  static constexpr unsigned kBlocksPerProcessor = kBlocks_;
  /// Floats in which the warps of all teams exchange products, in two places by turns.
  static constexpr unsigned kParts = kSlices > 1 ? kTeams * 2 * kSlices* T * 128 : 0;
};

/// The whole run; all blocks are resident. Dynamic shared memory: see below.
template <typename Shape, bool kWeighted>
__global__ void __launch_bounds__(Shape::kThreads, Shape::kBlocksPerProcessor)
    cluster_rows(const Task task) {
  constexpr unsigned kThreads = Shape::kThreads, kSlices = Shape::kSlices, kTeams = Shape::kTeams;
  constexpr unsigned T = Shape::T, K = 8 * T;
  extern __shared__ __align__(128) float s_dynamic[];
  const RowLayout layout = RowLayout::of(task.d);
  const unsigned width = layout.stride(), values = task.k * width;
  const unsigned tile_floats = kTileRows * (width + (kWeighted ? 3 : 2)); // see pack_rows()
  const unsigned padded = ManySums<kTileCluster>::padded(values);
  // Dynamic: tiles [kTeams, stages, tile_floats], then:
  float* s_parts = s_dynamic + kTeams * task.stages * tile_floats; // [kTeams, 2, kSlices, T, 32, 4]
  float* s_centroids = s_parts + Shape::kParts;                    // [k, width]
  float* s_totals = s_centroids + values;                          // [k, width]; the block's sums
  float* s_received = s_totals + padded;
  __shared__ double s_received_facts[32], s_facts[32], s_wanted[kTeams];
  __shared__ std::uint64_t s_barriers[4 + kTeams * kMaxStages];
  __shared__ float s_squared[K], s_rests[K], s_counts[kTeams][K];

  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const unsigned slice = warp % kSlices, team = warp / kSlices, group = slice * Shape::kGroups;
  const auto [g, t] = Lane::get();
  const bool wants_loss = task.run.rule == StopRule::Kind::loss;
  ManySums<kTileCluster> sums_of_all(s_received, s_totals, s_barriers, task.sum_words, values);
  FewSums<kTileCluster> facts_of_all(s_received_facts, s_facts, s_barriers + 2, task.fact_words,
                                     task.k + 1);
  BulkRing ring(task.tiles, task.tiles_count, tile_floats, task.stages,
                s_dynamic + team * task.stages * tile_floats, s_barriers + 4 + team * kMaxStages,
                blockIdx.x * kTeams + team, gridDim.x * kTeams, slice == 0 && lane == 0);
  for (unsigned e = threadIdx.x; e < values; e += kThreads) {
    const unsigned j = e / width, f = e % width; // features behind d are zero everywhere
    s_centroids[e] = f < task.d ? task.run.initial[j * task.d + f] : 0.0f;
  }
  double previous = INFINITY;
  std::size_t pass = 0;
  unsigned turn = 0;
  bool last = false;
  cluster_barrier(); // all of this, and the barriers of all blocks, are there
  ring.start();
  task.run.note_time(0);

  while (!last) {
    sums_of_all.expect();
    facts_of_all.expect();
    const bool keep_labels = task.run.keeps_labels(pass);
    const Lengths lengths = measure<kThreads, K>(s_centroids, task.k, width, s_squared, s_rests);
    const Centroids<Shape::kGroups, T, true> centroids(s_centroids, task.k, width, group);
    WeightedSums<Shape::kGroups, T, !kWeighted> sums;
    float squared_lengths[T][2]; // of clusters 8 tile + 2 t and the next
    float counts[T] = {};        // or weights, of clusters 8 tile + g, in rows t, t + 4, ...
#pragma unroll
    for (unsigned e = 0; e < 2 * T; ++e) {
      squared_lengths[e / 2][e % 2] = s_squared[e / 2 * 8 + 2 * t + e % 2];
    }
    double wanted = 0.0;
#pragma unroll 1
    for (unsigned i = 0; i < ring.count(); ++i) {
      const float* tile = ring.next();
      float products[T][4];
      centroids.multiply(tile, layout, group, products);
      if constexpr (kSlices > 1) {
        float4* parts = reinterpret_cast<float4*>(s_parts) + (team * 2 + turn) * kSlices * T * 32;
#pragma unroll
        for (unsigned e = 0; e < T; ++e) {
          parts[(slice * T + e) * 32 + lane] =
              make_float4(products[e][0], products[e][1], products[e][2], products[e][3]);
        }
        // All slices are there, and the team has left the tile and the parts before.
        asm volatile("bar.sync %0, %1;" ::"r"(team + 1), "n"(kSlices * 32) : "memory");
#pragma unroll
        for (unsigned e = 0; e < T * kSlices; ++e) {
          float part[4];
          read_four(reinterpret_cast<const float*>(&parts[e * 32 + lane]), part);
#pragma unroll
          for (unsigned v = 0; v < 4; ++v) {
            float& product = products[e % T][v];
            product = e < T ? part[v] : product + part[v];
          }
        }
        turn = 1 - turn;
      } else {
        __syncwarp(); // the warp has left the tile before
      }
      ring.fetch();

      const float* weight_of_row = tile + kTileRows * (width + 2); // if points have some
      unsigned labels[2]; // of rows g and g + 8; K: of no cluster
#pragma unroll
      for (unsigned half = 0; half < 2; ++half) {
        const unsigned row = g + 8 * half;
        const std::size_t point = std::size_t{ring.tile(pass, i)} * kTileRows + row;
        const bool real = point < task.n;
        float nearest = 0.0f;
        const unsigned label = label_of<T>(products, half, squared_lengths, tile, layout, row,
                                           lengths, s_centroids, wants_loss, nearest);
        labels[half] = real ? label : K;
        if (real && keep_labels && slice == 0 && t == 0) { // one lane a row
          const std::int32_t now = static_cast<std::int32_t>(label);
          if (wants_loss) {
            const double weight = kWeighted ? static_cast<double>(weight_of_row[row]) : 1.0;
            wanted += weight * static_cast<double>(sqrtf(nearest));
          } else if (task.run.rule == StopRule::Kind::labels) {
            wanted += task.run.labels[point] != now ? 1.0 : 0.0;
          }
          task.run.labels[point] = now;
        }
      }
      float weights[2][T][2]; // as WeightedSums wants them
#pragma unroll
      for (unsigned e = 0; e < 4; ++e) {
        const unsigned step = e / 2, half = e % 2;
        const unsigned label =
            __shfl_sync(kAllLanes, labels[step], static_cast<int>((4 * half + t) * 4));
#pragma unroll
        for (unsigned tile_of_k = 0; tile_of_k < T; ++tile_of_k) {
          const float own = kWeighted ? weight_of_row[8 * step + 4 * half + t] : 1.0f;
          const float weight = label == tile_of_k * 8 + g ? own : 0.0f;
          weights[step][tile_of_k][half] = weight;
          counts[tile_of_k] += weight;
        }
      }
      sums.add(tile, layout, group, weights);
    }

#pragma unroll
    for (unsigned e = 0; e < T; ++e) {
      const float count = over_lanes<4>(counts[e]);
      if (t == 0 && slice == 0) {
        s_counts[team][e * 8 + g] = count;
      }
    }
    wanted = over_lanes<32>(wanted);
    if (lane == 0 && slice == 0) {
      s_wanted[team] = wanted;
    }
    const auto store_team = [&](bool later) {
      sums.store(layout, group, task.k, width, later, s_totals);
    };
    share_sums<kTeams>(facts_of_all, sums_of_all, task.run.tag(pass), team, store_team, s_counts,
                       s_wanted, task.k, s_totals, values);
    // All threads of all blocks get the same bits, so they take the same decision.
    const double squared_shift = adopt_means<kThreads>(task.run, s_totals, s_facts, s_centroids,
                                                       task.k, task.d, width, pass);
    const double fact = s_facts[task.k];
    ++pass;
    task.run.note_time(pass);
    last = task.run.is_last(pass, fact, previous, squared_shift);
    previous = fact;
    __syncthreads(); // totals and facts have been read
  }
  ring.drain();
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    *task.run.iterations = pass;
  }
  cluster_barrier(); // nobody leaves while others may still write to it
}

template <bool kWeighted>
using Kernel = TileKernel<Task, FloatRows<kWeighted>>;
template <bool kWeighted>
using Run = TileRun<Task, FloatRows<kWeighted>>;

template <bool kWeighted, typename... Shapes>
constexpr std::array<Kernel<kWeighted>, sizeof...(Shapes)> kernels_for() {
  return {Kernel<kWeighted>{32 * Shapes::kGroups * Shapes::kSlices, 8 * Shapes::T, kTileRows,
                            Shapes::kTeams, Shapes::kThreads, Shapes::kBlocksPerProcessor,
                            Shapes::kParts, cluster_rows<Shapes, kWeighted>}...};
}
template <bool kWeighted>
constexpr std::array kKernels = // the first that is large enough is taken
    kernels_for<kWeighted, Teams<1, 1, 8, 1, 2>, Teams<2, 1, 8, 1, 2>, Teams<4, 1, 4, 1, 3>,
                Teams<4, 2, 4, 1, 1>, Teams<4, 4, 2, 1, 1>, Teams<1, 1, 8, 2, 2>,
                Teams<2, 1, 4, 2, 3>, Teams<2, 2, 4, 2, 1>, Teams<2, 4, 2, 2, 1>,
                Teams<2, 8, 1, 2, 1>>();

constexpr std::size_t kFeatures = 13;    // fewer are left to kmeans_cuda_persistent
constexpr std::size_t kFarFeatures = 64; // of rows far from the origin, to kmeans_cuda_wgmma

class KmeansCudaFused final : public Variant<float> {
public:
  std::string refuse(const Shape& shape) const override {
    if (shape.d < kFeatures) {
      return "d = " + std::to_string(shape.d) + ": below " + std::to_string(kFeatures) +
             " features most of a tile would be padding, 5 to 20 % of the model bound; "
             "kmeans_cuda_persistent keeps such points on the chip";
    }
    return shape.weighted ? refuse_tiles<Kernel<true>>(kKernels<true>, shape)
                          : refuse_tiles<Kernel<false>>(kKernels<false>, shape);
  }
  void prepare(const Shape& shape, const Points<float>& points) override {
    if (shape.d <= kFarFeatures) {
      throw_if_far(points.rows, shape.d, shape.k, device_magnitudes(points.rows, shape.d).longest);
    }
    if (shape.weighted) {
      require_range(device_magnitudes(points.weights, 1));
      run_.emplace<Run<true>>().prepare(kKernels<true>, shape, points.rows, task_,
                                        {points.weights});
    } else {
      run_.emplace<Run<false>>().prepare(kKernels<false>, shape, points.rows, task_);
    }
  }
  void run(const Start<float>& start, Answer<float>& answer, Observer<float>& observer) override {
    std::visit([&](auto& run) { run.run(start, answer, observer, task_); }, run_);
  }

private:
  /// Throws Refusal where products with weights might lose digits below the smallest normal number.
  static void require_range(const Magnitudes& weights) {
    if (weights.shortest < 0x1p-60 || weights.longest > 0x1p60) {
      throw Refusal("weights from 2^" + std::to_string(std::ilogb(weights.shortest)) + " to 2^" +
                    std::to_string(std::ilogb(weights.longest)) +
                    ": products in parts of 11 bits keep their digits from 2^-60 to 2^60");
    }
  }

  Task task_{};
  std::variant<Run<false>, Run<true>> run_;
};

const Registration
    registration({.name = "kmeans_cuda_fused",
                  .idea = "one pass on tensor cores, undecided labels compared again",
                  .source = "article 000, both kernels as one persistent kernel",
                  .device = Device::gpu,
                  .multiplier = Multiplier::tensor_tf32,
                  .takes_weights = true,
                  .min_d = kFeatures,
                  .max_d = 512,
                  .max_k = 16,
                  .previous = "kmeans_cuda_persistent"},
                 f32_only<KmeansCudaFused>());

} // namespace
} // namespace clusterbench
