// Fuzzy c-means in one pass over rows that lie in memory as two float16 parts.
//
// Changed since fcm_cuda_fused: prepare splits every value into a high and a low float16, together
//   four bytes and as exact as float32. So a sweep splits nothing, a product of the tensor cores
//   takes 16 features instead of 8, and ldmatrix brings rows and columns in the form they want.
//   Teams of warps with a ring of tiles each take turns: one waits, one multiplies.
// Weights u^m are split as well, times 2^14. A cluster whose weights are so small that their low
//   parts are lost shows in its mass; then the sweep is done again with a larger factor.
// Source: article 001, sections 4.2 to 4.4; Markidis et al., 2018, for products of split floats.
// Cost per iteration: n d values and 4 n bytes; some 195 instructions of a warp a row of 500 at
//   c = 8. Started from memberships, one sweep more for the first centres.
// Limits: float; 129 <= d <= 512, k <= 16, finite values that one scale serves (rows of 2^-12 of
//   the largest value at least, features of 2^-16; the largest between 2^-48 and 2^58), else
//   refused; n < 2^31. Same bits in every run.
#include "impls/contract.hpp"
#include "impls/cuda/common/copies.cuh"
#include "impls/cuda/common/magnitudes.hpp"
#include "impls/cuda/few_clusters/fcm_rows.cuh"
#include "impls/cuda/few_clusters/grid_sums.cuh"
#include "impls/cuda/few_clusters/rounding_bounds.hpp"
#include "impls/cuda/few_clusters/tile_run.cuh"

#include <array>
#include <cmath>
#include <cuda_fp16.h>
#include <nv/target>
#include <span>
#include <string>

namespace clusterbench {
namespace {

using namespace cuda;

// ---- rows
//
// Rows as two float16 parts for the tensor cores: their layout, the products of 16 rows with all
// centres, and the weighted sums of 16 rows, as m16n8k16 products with float32 sums.
//
// A value x times a power of two is h + l: h rounds it to float16, l rounds what is left. Either
// has 11 bits and l a sign of its own, so h + l differs from it by 2^-23 of it at most; or, as
// float16 ends at 2^-24, by 2^-25, which is 2^-39 of a largest value between 2^14 and 2^15. Of a
// product of two such values that of the two low parts is left out: 2^-22 of the term. Both parts
// lie in memory side by side, four bytes a value, so nothing is split during a sweep. Sums of a
// tile are added to those of the sweep in float32, as the tensor cores' own additions do not round
// to nearest.
//
// Lanes are counted as the instruction does: lane = 4 g + t. A warp looks after kSteps groups of 16
// features from a first one on; features behind the last read column 0 and are multiplied by zero.

constexpr unsigned kSplitRows = 16;

/// Rows of whole columns of eight halves (16 bytes), and one more if they would be even: so eight
/// rows of one column lie in different banks. A tile: high parts, low parts [rows, stride], lengths
/// |x| [rows].
struct SplitLayout {
  unsigned columns;

  __host__ __device__ static SplitLayout of(std::size_t d) {
    return {static_cast<unsigned>((d + 7) / 8)};
  }
  /// Features of a centre.
  __host__ __device__ unsigned width() const { return 8 * columns; }
  /// Halves from row to row.
  __host__ __device__ unsigned stride() const { return 8 * (columns | 1u); }
};

/// Four 8x8 matrices; the address is that of row lane % 8 of matrix lane / 8.
template <bool kTransposed>
__device__ void load_matrices(unsigned (&to)[4], const __half* from) {
  if constexpr (kTransposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(shared_address(from)));
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(shared_address(from)));
  }
}

/// c (16 x 8) += a (16 x 16) b (16 x 8)
__device__ inline void multiply_halves(float (&c)[4], const unsigned (&a)[4],
                                       const unsigned (&b)[2]) {
  NV_IF_ELSE_TARGET(
      NV_PROVIDES_SM_80,
      (asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
           "{%8, %9}, {%0, %1, %2, %3};"
           : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
           : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));),
      (__trap();))
}

struct SplitPair {
  __half high, low;
  __device__ static SplitPair of(float scaled) {
    const __half high = __float2half_rn(scaled);
    return {high, __float2half_rn(scaled - __half2float(high))};
  }
};

/// Two halves in one register, the first one in the low bits.
__device__ inline unsigned packed(__half first, __half second) {
  return unsigned{__half_as_ushort(first)} | unsigned{__half_as_ushort(second)} << 16;
}

/// A warp's features of 8 T centres, in registers for a whole sweep.
template <unsigned kSteps, unsigned T>
class SplitCentres {
public:
  /// s_centres: [k, width]; s_scales: [8 T], powers of two that take each centre below 2^15.
  __device__ SplitCentres(const float* s_centres, const float* s_scales, unsigned k, unsigned width,
                          unsigned first_step) {
    const unsigned g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
    for (unsigned e = 0; e < kSteps * T * 2; ++e) {
      const unsigned step = e / (2 * T), tile = e / 2 % T, half = e % 2, j = tile * 8 + g;
      const unsigned f = (first_step + step) * 16 + 8 * half + 2 * t;
      const bool real = j < k && f < width; // width is even
      const auto first = SplitPair::of(real ? s_centres[j * width + f] * s_scales[j] : 0.0f);
      const auto second = SplitPair::of(real ? s_centres[j * width + f + 1] * s_scales[j] : 0.0f);
      high_[step][tile][half] = packed(first.high, second.high);
      low_[step][tile][half] = packed(first.low, second.low);
    }
  }
  /// products[tile]: of rows g and g + 8 with clusters 8 tile + 2 t and the next, in this order:
  /// (g, 2 t), (g, 2 t + 1), (g + 8, 2 t), (g + 8, 2 t + 1). high, low: the parts of 16 rows.
  __device__ void multiply(const __half* high, const __half* low, SplitLayout layout,
                           unsigned first_step, float (&products)[T][4]) const {
    float sums[3][T][4] = {}; // several, as one would wait for itself
    const unsigned lane = threadIdx.x % 32;
#pragma unroll
    for (unsigned step = 0; step < kSteps; ++step) {
      const unsigned column = (first_step + step) * 2 + lane / 16;
      const unsigned at = lane % 16 * layout.stride() + 8 * (column < layout.columns ? column : 0);
      unsigned a_high[4], a_low[4];
      load_matrices<false>(a_high, high + at);
      load_matrices<false>(a_low, low + at);
#pragma unroll
      for (unsigned tile = 0; tile < T; ++tile) {
        multiply_halves(sums[0][tile], a_high, high_[step][tile]);
        multiply_halves(sums[1][tile], a_low, high_[step][tile]);
        multiply_halves(sums[2][tile], a_high, low_[step][tile]);
      }
    }
#pragma unroll
    for (unsigned e = 0; e < T * 4; ++e) {
      products[e / 4][e % 4] =
          sums[0][e / 4][e % 4] + (sums[1][e / 4][e % 4] + sums[2][e / 4][e % 4]);
    }
  }

private:
  unsigned high_[kSteps][T][2], low_[kSteps][T][2];
};

/// A warp's features of the weighted sums of 8 T clusters.
template <unsigned kSteps, unsigned T>
class SplitSums {
public:
  /// Adds 16 rows. w_high, w_low [tile]: weights of rows (2 t, 2 t + 1) and (2 t + 8, 2 t + 9) in
  /// cluster 8 tile + g.
  __device__ void add(const __half* high, const __half* low, SplitLayout layout,
                      unsigned first_step, const unsigned (&w_high)[T][2],
                      const unsigned (&w_low)[T][2]) {
    const unsigned lane = threadIdx.x % 32, row = lane / 16 * 8 + lane % 8;
#pragma unroll
    for (unsigned step = 0; step < kSteps; ++step) {
      const unsigned column = (first_step + step) * 2 + lane / 8 % 2;
      const unsigned at = row * layout.stride() + 8 * (column < layout.columns ? column : 0);
      unsigned a_high[4], a_low[4];
      load_matrices<true>(a_high, high + at);
      load_matrices<true>(a_low, low + at);
#pragma unroll
      for (unsigned tile = 0; tile < T; ++tile) {
        float sums[4] = {}, rests[4] = {};
        multiply_halves(sums, a_high, w_high[tile]);
        multiply_halves(rests, a_low, w_high[tile]);
        multiply_halves(rests, a_high, w_low[tile]);
#pragma unroll
        for (unsigned e = 0; e < 4; ++e) {
          sums_[step][tile][e] += sums[e] + rests[e];
        }
      }
    }
  }
  /// Puts the sums, times s_factors [8 T], into s_sums [k, width], or adds them to what is there.
  __device__ void store(const float* s_factors, unsigned first_step, unsigned k, unsigned width,
                        bool add, float* s_sums) const {
    const unsigned g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
    for (unsigned e = 0; e < kSteps * T * 4; ++e) {
      const unsigned step = e / (4 * T), tile = e / 4 % T, j = tile * 8 + 2 * t + e % 2;
      const unsigned f = (first_step + step) * 16 + g + 8 * (e % 4 / 2);
      if (f < width && j < k) {
        const float sum = sums_[step][tile][e % 4] * s_factors[j];
        s_sums[j * width + f] = add ? s_sums[j * width + f] + sum : sum;
      }
    }
  }

private:
  float sums_[kSteps][T][4] = {};
};

// ---- the kernel

struct Task : FcmTask {
  float scale; // of the values in the tiles
};

constexpr float kWeightScale = 0x1p14f;  // weights are at most 1
constexpr double kSmallWeight = 0x1p-17; // on average, or 1 in all: less is scaled again
constexpr unsigned kRowsOfWeights = 24;  // 16 and a gap: eight clusters in different banks

/// A warp a row; what lies behind n or d becomes zero. rows: [n, d]; size: rows of all tiles.
__global__ void pack_split_rows(const float* rows, std::size_t n, unsigned d, std::size_t size,
                                unsigned tile_rows, float scale, float* tiles) {
  const SplitLayout layout = SplitLayout::of(d);
  const unsigned lane = threadIdx.x % 32;
  for (std::size_t i = (std::size_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32; i < size;
       i += std::size_t{gridDim.x} * blockDim.x / 32) {
    const unsigned row = static_cast<unsigned>(i % tile_rows);
    float* tile = tiles + i / tile_rows * tile_rows * (layout.stride() + 1);
    __half* high = reinterpret_cast<__half*>(tile);
    __half* low = high + tile_rows * layout.stride();
    double squared = 0.0;
#pragma unroll 4
    for (unsigned f = lane; f < layout.stride(); f += 32) {
      const float x = i < n && f < d ? rows[i * d + f] : 0.0f;
      const SplitPair parts = SplitPair::of(x * scale);
      high[row * layout.stride() + f] = parts.high;
      low[row * layout.stride() + f] = parts.low;
      squared += static_cast<double>(x) * static_cast<double>(x);
    }
    squared = over_lanes<32>(squared);
    if (lane == 0) {
      tile[tile_rows * layout.stride() + row] = static_cast<float>(sqrt(squared));
    }
  }
}

/// What TileRun needs to know of such tiles.
struct PackedSplitRows {
  float scale = 1.0f; ///< of all values

  static unsigned width(std::size_t d) { return SplitLayout::of(d).width(); }
  static std::size_t tile_size(std::size_t rows, std::size_t d) {
    return rows * (SplitLayout::of(d).stride() + 1);
  }
  /// See FloatRows::make_tiles().
  DeviceBuffer<float> make_tiles(std::span<const float> d_rows, std::size_t n, std::size_t d,
                                 unsigned tile_rows) const {
    const std::size_t count = ceil_div(n, tile_rows), size = count * tile_rows;
    DeviceBuffer<float> tiles(count * tile_size(tile_rows, d));
    pack_split_rows<<<blocks_at_most(size, 8, 65536), 256>>>(
        d_rows.data(), n, static_cast<unsigned>(d), size, tile_rows, scale, tiles.data());
    check_launch("pack_split_rows");
    return tiles;
  }
};

/// A compiled shape: a team of kSlices warps works on a tile, each on 16 kSteps features, for 8 T
/// clusters.
template <unsigned kSteps_, unsigned kSlices_, unsigned kTeams_, unsigned T_>
struct Teams {
  static constexpr unsigned kSteps = kSteps_, kSlices = kSlices_, kTeams = kTeams_, T = T_;
  static constexpr unsigned K = 8 * T, kTeamThreads = 32 * kSlices;
  static constexpr unsigned kThreads = kTeamThreads * kTeams;
  static constexpr unsigned kParts = kSlices * kSplitRows * K; // floats of a team
  static constexpr unsigned kWeights = K * kRowsOfWeights;     // halves of a part, of a team
};

/// A barrier of a team of warps.
template <typename Shape>
__device__ void team_barrier(unsigned team) {
  asm volatile("bar.sync %0, %1;" ::"r"(team + 1), "n"(Shape::kTeamThreads) : "memory");
}

/// The whole run; all blocks are resident. Dynamic shared memory: see below.
template <typename Shape>
__global__ void __launch_bounds__(Shape::kThreads, 1) cluster_rows(const Task task) {
  constexpr unsigned kThreads = Shape::kThreads, kSlices = Shape::kSlices, kTeams = Shape::kTeams;
  constexpr unsigned T = Shape::T, K = Shape::K, kWarps = kThreads / 32;
  extern __shared__ __align__(128) float s_dynamic[];
  const SplitLayout layout = SplitLayout::of(task.d);
  const unsigned width = layout.width(), values = task.k * width;
  const unsigned tile_floats = kSplitRows * (layout.stride() + 1);
  const unsigned padded = ManySums<kTileCluster>::padded(values);
  // Dynamic: tiles [kTeams, stages, tile_floats], then:
  float* s_parts = s_dynamic + kTeams * task.stages * tile_floats; // [kTeams, kSlices, rows, K]
  __half* s_weights = reinterpret_cast<__half*>(s_parts + kTeams * Shape::kParts); // see below
  float* s_centres = s_parts + kTeams * (Shape::kParts + Shape::kWeights);         // [k, width]
  float* s_totals = s_centres + values; // [k, width]; the block's sums
  float* s_received = s_totals + padded;
  __shared__ double s_received_facts[32], s_facts[32], s_wanted[kWarps];
  __shared__ std::uint64_t s_barriers[4 + kTeams * kMaxStages];
  __shared__ float s_squared[K], s_raised[K], s_lowered[K], s_weight_scales[K], s_factors[K];
  __shared__ float s_masses[kWarps][K];

  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
  const unsigned slice = warp % kSlices, team = warp / kSlices, step = slice * Shape::kSteps;
  const unsigned member = threadIdx.x % Shape::kTeamThreads; // of the team
  s_parts += team * Shape::kParts;
  __half* s_high = s_weights + team * 2 * Shape::kWeights; // [K, kRowsOfWeights]
  __half* s_low = s_high + Shape::kWeights;                // the same
  ManySums<kTileCluster> sums_of_all(s_received, s_totals, s_barriers, task.sum_words, values);
  FewSums<kTileCluster> facts_of_all(s_received_facts, s_facts, s_barriers + 2, task.fact_words,
                                     task.k + 1);
  BulkRing ring(task.tiles, task.tiles_count, tile_floats, task.stages,
                s_dynamic + team * task.stages * tile_floats, s_barriers + 4 + team * kMaxStages,
                blockIdx.x * kTeams + team, gridDim.x * kTeams, member == 0);
  for (unsigned e = threadIdx.x; e < values; e += kThreads) {
    // Features behind d are zero everywhere; so are, without initial centres, those of clusters
    // that never get any weight.
    const unsigned j = e / width, f = e % width;
    const bool known = f < task.d && task.given == nullptr;
    s_centres[e] = known ? task.run.initial[j * task.d + f] : 0.0f;
  }
  // Started from memberships, sweep 0 only finds the first centres, and sweep s is pass s: its
  // memberships, and the centres of the pass after it. From centres, sweep s is all of pass s + 1.
  const bool from_memberships = task.given != nullptr;
  double previous = INFINITY, previous_shift = INFINITY, first_fact = 0.0;
  std::size_t sweep = 0, rounds = 0; // a sweep that is done again takes two rounds
  bool again = false, last = false;
  if (threadIdx.x < K) {
    s_weight_scales[threadIdx.x] = kWeightScale;
  }
  cluster_barrier(); // all of this, and the barriers of all blocks, are there
  ring.start();
  task.run.note_time(0);

  while (!last) {
    sums_of_all.expect();
    facts_of_all.expect();
    const bool given = from_memberships && sweep == 0;
    const std::size_t passes = from_memberships ? sweep : sweep + 1; // when this sweep is done
    const bool keep = !given && (task.run.rule != StopRule::Kind::iterations ||
                                 passes == task.run.max_iterations);
    for (unsigned j = warp; j < K; j += kWarps) {
      float squared = 0.0f, largest = 0.0f;
      for (unsigned f = lane; f < width && j < task.k; f += 32) {
        const float c = s_centres[j * width + f];
        squared += c * c;
        largest = fmaxf(largest, fabsf(c));
      }
      squared = over_lanes<32>(squared);
      largest = combine_lanes<32>(largest, [](float a, float b) { return fmaxf(a, b); });
      if (lane == 0) {
        s_squared[j] = j < task.k ? squared : INFINITY;
        s_raised[j] = split_scale(largest);
        s_lowered[j] = 1.0f / s_raised[j] / task.scale;
        s_factors[j] = 1.0f / s_weight_scales[j] / task.scale;
      }
    }
    __syncthreads(); // scales and lengths are there
    const SplitCentres<Shape::kSteps, T> centres(s_centres, s_raised, task.k, width, step);
    SplitSums<Shape::kSteps, T> sums;
    float mass = 0.0f; // of cluster lane % K, in the rows that this thread weighs
    double wanted = 0.0;
#pragma unroll 1
    for (unsigned i = 0; i < ring.count(); ++i) {
      const float* tile = ring.next();
      const __half* high = reinterpret_cast<const __half*>(tile);
      const __half* low = high + kSplitRows * layout.stride();
      float products[T][4];
      centres.multiply(high, low, layout, step, products);
#pragma unroll
      for (unsigned e = 0; e < 2 * T; ++e) {
        float* to = s_parts + (slice * kSplitRows + g + e % 2 * 8) * K + e / 2 * 8 + 2 * t;
        *reinterpret_cast<float2*>(to) =
            make_float2(products[e / 2][e % 2 * 2], products[e / 2][e % 2 * 2 + 1]);
      }
      team_barrier<Shape>(team); // all products are there, and nobody needs the tile before
      ring.fetch();
      const std::size_t first = std::size_t{ring.tile(rounds, i)} * kSplitRows;
#pragma unroll
      for (unsigned e = member; e < kSplitRows * K; e += Shape::kTeamThreads) {
        const unsigned row = e / K, j = e % K;
        const std::size_t point = first + row;
        float weight = 0.0f;
        if (given) {
          weight = point < task.n && j < task.k
                       ? to_the_m(task.given[point * task.k + j], task.fuzzifier)
                       : 0.0f;
        } else {
          float product = 0.0f;
#pragma unroll
          for (unsigned s = 0; s < kSlices; ++s) {
            product += s_parts[s * kSplitRows * K + e];
          }
          const float length = tile[kSplitRows * layout.stride() + row];
          const float squared =
              fmaxf(length * length + s_squared[j] - 2.0f * (product * s_lowered[j]), 0.0f);
          weight = membership_weight<K>(task, keep, point, j, squared, wanted);
        }
        const SplitPair parts = SplitPair::of(weight * s_weight_scales[j]);
        s_high[j * kRowsOfWeights + row] = parts.high;
        s_low[j * kRowsOfWeights + row] = parts.low;
        mass += weight;
      }
      team_barrier<Shape>(team); // the weights of all rows are there
      unsigned w_high[T][2], w_low[T][2];
#pragma unroll
      for (unsigned e = 0; e < 2 * T; ++e) {
        const unsigned at = (e / 2 * 8 + g) * kRowsOfWeights + e % 2 * 8 + 2 * t;
        w_high[e / 2][e % 2] = *reinterpret_cast<const unsigned*>(s_high + at);
        w_low[e / 2][e % 2] = *reinterpret_cast<const unsigned*>(s_low + at);
      }
      sums.add(high, low, layout, step, w_high, w_low);
    }

#pragma unroll
    for (unsigned offset = K; offset < 32; offset *= 2) {
      mass += __shfl_xor_sync(kAllLanes, mass, static_cast<int>(offset));
    }
    if (lane < K) {
      s_masses[warp][lane] = mass;
    }
    wanted = over_lanes<32>(wanted);
    if (lane == 0) {
      s_wanted[warp] = wanted;
    }
    const auto store_team = [&](bool later) {
      sums.store(s_factors, step, task.k, width, later, s_totals);
    };
    share_sums<kTeams>(facts_of_all, sums_of_all, task.run.tag(rounds), team, store_team, s_masses,
                       s_wanted, task.k, s_totals, values);
    ++rounds;
    // All threads of all blocks get the same bits, so they take the same decisions. A weight is no
    // larger than its cluster's mass, so a scale that suits the mass suits the weights.
    const double small_mass = fmin(kSmallWeight * static_cast<double>(task.n), 1.0);
    bool scaled = false;
    for (unsigned j = 0; j < task.k && !again; ++j) {
      scaled |= s_facts[j] > 0.0 && s_facts[j] < small_mass;
    }
    if (threadIdx.x < task.k) {
      const bool small = s_facts[threadIdx.x] < small_mass;
      const float mass_of_all = static_cast<float>(s_facts[threadIdx.x]);
      s_weight_scales[threadIdx.x] =
          scaled && small ? fmaxf(kWeightScale, split_scale(mass_of_all)) : kWeightScale;
    }
    if (!again) {
      first_fact = s_facts[task.k]; // labels change in the first round only
    }
    again = scaled;
    if (again) {
      __syncthreads(); // facts have been read, and the scales are there
      continue;
    }
    // From memberships, a pass moves the centres before it needs them, and the last pass moves them
    // no more.
    const double fact = first_fact;
    const double known_shift = previous_shift;
    const auto is_last = [&](double shift) {
      return !given && task.run.is_last(passes, fact, previous, shift);
    };
    if (from_memberships) {
      last = is_last(known_shift);
    }
    if (!(last && from_memberships)) {
      previous_shift = adopt_means<kThreads>(task.run, s_totals, s_facts, s_centres, task.k, task.d,
                                             width, sweep);
    }
    if (!from_memberships) {
      last = is_last(previous_shift);
    }
    if (!given) {
      previous = fact;
      task.run.note_time(passes);
    }
    ++sweep;
    __syncthreads(); // totals and facts have been read, and the centres are there
  }
  ring.drain();
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    *task.run.iterations = from_memberships ? sweep - 1 : sweep;
  }
  cluster_barrier(); // nobody leaves while others may still write to it
}

using Kernel = TileKernel<Task, PackedSplitRows>;
template <typename S>
constexpr Kernel kKernel{
    16 * S::kSteps * S::kSlices,         S::K,           kSplitRows, S::kTeams, S::kThreads, 1,
    S::kTeams*(S::kParts + S::kWeights), cluster_rows<S>};
constexpr std::array kKernels{// the first that is large enough is taken
                              kKernel<Teams<4, 4, 4, 1>>, kKernel<Teams<4, 8, 2, 1>>,
                              kKernel<Teams<4, 8, 1, 2>>};
constexpr std::size_t kFeatures = 129; // fewer are left to fcm_cuda_fused

class FcmCudaSplit final : public Variant<float> {
public:
  std::string refuse(const Shape& shape) const override {
    if (!(shape.fuzzifier > 1.0)) {
      return "the fuzzifier must be greater than 1";
    }
    if (shape.d < kFeatures) {
      return "d = " + std::to_string(shape.d) + ": below " + std::to_string(kFeatures) +
             " features splitting is not what a pass waits for, and fcm_cuda_fused is faster";
    }
    return refuse_tiles<Kernel>(kKernels, shape);
  }

  void prepare(const Shape& shape, const Points<float>& points) override {
    const Magnitudes rows = device_magnitudes(points.rows, shape.d);
    const SplitRange range(rows.finite, rows.shortest, rows.longest, rows.largest);
    if (const std::string reason = range.refuse(); !reason.empty()) {
      throw Refusal(reason);
    }
    task_.scale = range.scale();
    task_.fuzzifier = static_cast<float>(shape.fuzzifier);
    run_.prepare(kKernels, shape, points.rows, task_, PackedSplitRows{task_.scale});
  }

  void run(const Start<float>& start, Answer<float>& answer, Observer<float>& observer) override {
    task_.exchange(start, answer);
    run_.run(start, answer, observer, task_);
  }

private:
  Task task_{};
  TileRun<Task, PackedSplitRows> run_;
};

const Registration registration({.name = "fcm_cuda_split",
                                 .idea = "rows as two float16 parts, one pass on tensor cores",
                                 .source = "article 001, sections 4.2 to 4.4, as one kernel",
                                 .family = Family::fcm,
                                 .device = Device::gpu,
                                 .multiplier = Multiplier::tensor_f16,
                                 .distance = DistanceForm::expanded,
                                 .min_d = kFeatures,
                                 .max_d = 512,
                                 .max_k = 16,
                                 .previous = "fcm_cuda_fused"},
                                f32_only<FcmCudaSplit>());

} // namespace
} // namespace clusterbench
