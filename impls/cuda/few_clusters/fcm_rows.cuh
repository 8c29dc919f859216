// Fuzzy c-means in one sweep over tiles of rows: distances, weights u^m and weighted sums together.
// A launch does a whole run, or one sweep of a run of which other devices have other rows.
#pragma once

#include "impls/contract.hpp"
#include "impls/cuda/common/runtime.hpp"
#include "impls/cuda/few_clusters/grid_sums.cuh"
#include "impls/cuda/few_clusters/tile_run.cuh"

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cuda_runtime.h>
#include <span>
#include <string>

namespace clusterbench::cuda {

// ---- weights
//
// From squared distances to weights u^m, a lane for each pair of a point and a centre.

struct FcmTask : TileTask {
  const float* given; // [n, k] initial memberships, or null
  float* memberships; // [n, k]
  float fuzzifier;

  /// Takes the memberships of a start, if there are any, and leaves its own in an answer.
  void exchange(const Start<float>& start, const Answer<float>& answer) {
    given = start.memberships.empty() ? nullptr : start.memberships.data();
    memberships = answer.memberships.data();
  }
};

__device__ inline float to_the_m(float membership, float m) {
  return m == 2.0f ? membership * membership : powf(membership, m);
}

/// (nearest / squared)^(1 / (m - 1)), which cannot overflow; 1 for every centre a sample sits on.
__device__ inline float closeness(float nearest, float squared, float m) {
  const float ratio = squared == nearest ? 1.0f : nearest / squared;
  return m == 2.0f ? ratio : powf(ratio, 1.0f / (m - 1.0f));
}

/// Combines lanes that differ in the bits below `width`; all of them get the result.
template <unsigned width, typename Combine>
__device__ float combine_lanes(float value, Combine combine) {
#pragma unroll
  for (unsigned offset = width / 2; offset > 0; offset /= 2) {
    value = combine(value, __shfl_xor_sync(kAllLanes, value, static_cast<int>(offset)));
  }
  return value;
}

/// The weight u^m of a point in cluster j = lane % K from the squared distance; K lanes a point,
/// whole warps. Adds what the stop rule wants.
template <unsigned K>
__device__ float membership_weight(const FcmTask& task, bool keep, std::size_t point, unsigned j,
                                   float squared, double& wanted) {
  // A cluster behind k is infinitely far: it is never the nearest and has no closeness.
  const bool real = point < task.n && j < task.k;
  const float nearest = combine_lanes<K>(squared, [](float a, float b) { return fminf(a, b); });
  const float close = closeness(nearest, squared, task.fuzzifier);
  const float membership = close / over_lanes<K>(close);
  const float weight = real ? to_the_m(membership, task.fuzzifier) : 0.0f;
  if (real && task.run.rule == StopRule::Kind::loss) {
    wanted += static_cast<double>(weight) * static_cast<double>(squared);
  }
  if (keep) {
    const float largest =
        combine_lanes<K>(membership, [](float a, float b) { return fmaxf(a, b); });
    const unsigned at =
        __ballot_sync(kAllLanes, membership == largest) >> (threadIdx.x % 32 / K * K);
    const std::int32_t label = __ffs(static_cast<int>(at)) - 1; // the lowest of equal ones
    if (real) {
      task.memberships[point * task.k + j] = membership;
    }
    if (real && j == static_cast<unsigned>(label)) {
      wanted += task.run.rule == StopRule::Kind::labels && task.run.labels[point] != label;
      task.run.labels[point] = label;
    }
  }
  return weight;
}

// ---- sweeps

inline constexpr unsigned kFcmThreads = 256, kFcmWarps = kFcmThreads / 32;

/// A compiled shape: kSlices warps share the features of a row, each has 32 kGroups of them; the
/// other warps, and the 16 rows again kTimes, make a tile; for 8 T clusters.
template <unsigned kGroups_, unsigned kSlices_, unsigned kTimes_, unsigned T_>
struct FcmTile {
  static constexpr unsigned kGroups = kGroups_, kSlices = kSlices_, kTimes = kTimes_, T = T_;
  static constexpr unsigned kTeams = kFcmWarps / kSlices;
  static constexpr unsigned kRows = kTeams * kTimes * kTileRows;
  static constexpr unsigned kBlocksPerProcessor = kGroups * T == 1 ? 2 : 1;
};

// Started from memberships, sweep 0 only finds the first centres, and sweep s is pass s: its
// memberships, and the centres of the pass after it. From centres, sweep s is all of pass s + 1.

/// The argument of a launch that does a whole run.
struct FcmWholeRun : FcmTask {
  static constexpr bool kOneSweep = false;
  __device__ bool from_memberships() const { return given != nullptr; }
  __device__ std::size_t first_sweep() const { return 0; }
};

/// Of a launch that does one sweep, with the centres run.initial, and leaves its sums.
struct FcmSweep : FcmTask {
  static constexpr bool kOneSweep = true;
  bool starts_from_memberships; // the run; a device without rows is given none
  std::size_t number;           // of this sweep
  double* sums;                 // k d of u^m x, k of u^m, and what the stop rule wants

  static std::size_t size(std::size_t d, std::size_t k) { return k * (d + 1) + 1; }
  __device__ bool from_memberships() const { return starts_from_memberships; }
  __device__ std::size_t first_sweep() const { return number; }

  /// One block: s_sums [k, width >= d]; s_facts: weights and what the stop rule wants.
  __device__ void leave(const float* s_sums, const double* s_facts, unsigned width) const {
    for (unsigned e = threadIdx.x; e < k * d; e += blockDim.x) {
      sums[e] = static_cast<double>(s_sums[e / d * width + e % d]);
    }
    for (unsigned j = threadIdx.x; j <= k; j += blockDim.x) {
      sums[k * d + j] = s_facts[j];
    }
  }
};

/// Task: FcmWholeRun or FcmSweep. All blocks are resident. Dynamic shared memory: see below.
template <typename Shape, typename Task>
__global__ void __launch_bounds__(kFcmThreads, Shape::kBlocksPerProcessor)
    cluster_rows(const Task task) {
  constexpr unsigned kSlices = Shape::kSlices, kTeams = Shape::kTeams, kRows = Shape::kRows;
  constexpr unsigned T = Shape::T, K = 8 * T;
  static_assert(kRows * K % kFcmThreads == 0, "whole warps weigh");
  extern __shared__ __align__(128) float s_dynamic[];
  const RowLayout layout = RowLayout::of(task.d);
  const unsigned width = layout.stride(), values = task.k * width;
  const unsigned tile_floats = kRows * (width + 2);
  // Dynamic: tiles [stages, tile_floats], then:
  float* s_parts = s_dynamic + task.stages * tile_floats; // [kSlices, kRows, K] products
  float* s_weights = s_parts + kSlices * kRows * K;       // [kRows, K] u^m
  float* s_centres = s_weights + kRows * K;               // [k, width]
  float* s_totals = s_centres + values;                   // [k, width]; the block's sums
  float* s_received = s_totals + ManySums<kTileCluster>::padded(values);
  __shared__ double s_received_facts[32], s_facts[32], s_wanted[kFcmWarps];
  __shared__ std::uint64_t s_barriers[4 + kMaxStages];
  __shared__ float s_squared[K], s_masses[kFcmWarps][K];

  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const unsigned slice = warp % kSlices, team = warp / kSlices, group = slice * Shape::kGroups;
  const auto [g, t] = Lane::get();
  ManySums<kTileCluster> sums_of_all(s_received, s_totals, s_barriers, task.sum_words, values);
  FewSums<kTileCluster> facts_of_all(s_received_facts, s_facts, s_barriers + 2, task.fact_words,
                                     task.k + 1);
  BulkRing ring(task.tiles, task.tiles_count, tile_floats, task.stages, s_dynamic, s_barriers + 4,
                blockIdx.x, gridDim.x, threadIdx.x == 0, task.first_sweep());
  for (unsigned e = threadIdx.x; e < values; e += kFcmThreads) {
    // Features behind d are zero everywhere; so are, without initial centres, those of clusters
    // that never get any weight.
    const unsigned j = e / width, f = e % width;
    const bool known = f < task.d && task.given == nullptr;
    s_centres[e] = known ? task.run.initial[j * task.d + f] : 0.0f;
  }
  const bool from_memberships = task.from_memberships();
  double previous = INFINITY, previous_shift = INFINITY;
  std::size_t sweep = task.first_sweep();
  bool last = false;
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
    for (unsigned j = warp; j < K; j += kFcmWarps) {
      float squared = 0.0f;
      for (unsigned f = lane; f < width && j < task.k; f += 32) {
        squared += s_centres[j * width + f] * s_centres[j * width + f];
      }
      squared = over_lanes<32>(squared);
      if (lane == 0) {
        s_squared[j] = j < task.k ? squared : INFINITY;
      }
    }
    const Centroids<Shape::kGroups, T, false> centres(s_centres, task.k, width, group);
    WeightedSums<Shape::kGroups, T, false> sums;
    float mass = 0.0f; // of cluster lane % K, in the rows that this thread weighs
    double wanted = 0.0;
#pragma unroll 1
    for (unsigned i = 0; i < ring.count(); ++i) {
      const float* tile = ring.next();
#pragma unroll
      for (unsigned time = 0; time < Shape::kTimes; ++time) {
        const unsigned row = (team * Shape::kTimes + time) * kTileRows;
        float products[T][4];
        centres.multiply(tile + row * width, layout, group, products);
#pragma unroll
        for (unsigned e = 0; e < 2 * T; ++e) {
          const unsigned half = e % 2;
          float* to = s_parts + (slice * kRows + row + g + 8 * half) * K + e / 2 * 8 + 2 * t;
          *reinterpret_cast<float2*>(to) =
              make_float2(products[e / 2][2 * half], products[e / 2][2 * half + 1]);
        }
      }
      __syncthreads(); // all products are there, and nobody needs the tile before
      ring.fetch();
      const std::size_t first = std::size_t{ring.tile(sweep, i)} * kRows;
#pragma unroll
      for (unsigned e = threadIdx.x; e < kRows * K; e += kFcmThreads) {
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
            product += s_parts[s * kRows * K + e];
          }
          const float length = tile[kRows * width + row];
          const float squared = fmaxf(length * length + s_squared[j] - 2.0f * product, 0.0f);
          weight = membership_weight<K>(task, keep, point, j, squared, wanted);
        }
        s_weights[e] = weight;
        mass += weight;
      }
      __syncthreads(); // the weights of all rows are there
#pragma unroll
      for (unsigned time = 0; time < Shape::kTimes; ++time) {
        const unsigned row = (team * Shape::kTimes + time) * kTileRows;
        float weights[2][T][2];
#pragma unroll
        for (unsigned e = 0; e < 4 * T; ++e) {
          const unsigned step = e / (2 * T), half = e % 2;
          weights[step][e / 2 % T][half] =
              s_weights[(row + 8 * step + 4 * half + t) * K + e / 2 % T * 8 + g];
        }
        sums.add(tile + row * width, layout, group, weights);
      }
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
      sums.store(layout, group, task.k, width, later, s_totals);
    };
    share_sums<kTeams>(facts_of_all, sums_of_all, task.run.tag(sweep), team, store_team, s_masses,
                       s_wanted, task.k, s_totals, values);
    if constexpr (Task::kOneSweep) {
      if (blockIdx.x == 0) {
        task.leave(s_totals, s_facts, width);
      }
      break;
    }
    // All threads of all blocks get the same bits, so they take the same decision. From
    // memberships, a pass moves the centres before it needs them; the last one moves them no more.
    const double fact = s_facts[task.k];
    const double known_shift = previous_shift;
    const auto is_last = [&](double shift) {
      return !given && task.run.is_last(passes, fact, previous, shift);
    };
    if (from_memberships) {
      last = is_last(known_shift);
    }
    if (!(last && from_memberships)) {
      previous_shift = adopt_means<kFcmThreads>(task.run, s_totals, s_facts, s_centres, task.k,
                                                task.d, width, sweep);
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
  if (!Task::kOneSweep && blockIdx.x == 0 && threadIdx.x == 0) {
    *task.run.iterations = from_memberships ? sweep - 1 : sweep;
  }
  cluster_barrier(); // nobody leaves while others may still write to it
}

template <typename S, typename Task>
constexpr TileKernel<Task> kFcmKernel{32 * S::kGroups * S::kSlices,
                                      8 * S::T,
                                      S::kRows,
                                      1,
                                      kFcmThreads,
                                      S::kBlocksPerProcessor,
                                      (S::kSlices + 1) * S::kRows * 8 * S::T,
                                      cluster_rows<S, Task>};
template <typename Task>
inline constexpr std::array kFcmKernels{
    // the first that is large enough is taken
    kFcmKernel<FcmTile<1, 1, 1, 1>, Task>, kFcmKernel<FcmTile<1, 2, 1, 1>, Task>,
    kFcmKernel<FcmTile<1, 4, 1, 1>, Task>, kFcmKernel<FcmTile<1, 8, 2, 1>, Task>,
    kFcmKernel<FcmTile<2, 8, 2, 1>, Task>, kFcmKernel<FcmTile<1, 2, 1, 2>, Task>,
    kFcmKernel<FcmTile<1, 8, 1, 2>, Task>, kFcmKernel<FcmTile<2, 8, 1, 2>, Task>};

/// Which of these kernels fits, its tiles and its launch. Task_: FcmWholeRun or FcmSweep.
template <typename Task_>
class FcmRun : public TileRun<Task_> {
public:
  using Task = Task_;

  /// Why the shape is not taken; empty if it is.
  static std::string refuse(const Shape& shape) {
    if (!(shape.fuzzifier > 1.0)) {
      return "the fuzzifier must be greater than 1";
    }
    return refuse_tiles<TileKernel<Task>>(kFcmKernels<Task>, shape);
  }
  /// See TileRun::prepare().
  void prepare(const Shape& shape, std::span<const float> d_points, Task& task) {
    TileRun<Task>::prepare(kFcmKernels<Task>, shape, d_points, task);
    task.fuzzifier = static_cast<float>(shape.fuzzifier);
  }
};

} // namespace clusterbench::cuda
