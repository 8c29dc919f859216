// Fuzzy c-means in one pass over the data: distances, memberships and weighted sums together.
//
// Changed since fcm_cuda_warp: a sample comes from memory once an iteration instead of twice, and
//   memberships go there only when somebody will read them. Both halves of a pass are products on
//   the tensor cores in split tf32, which keeps 22 bits (tile_run.cuh): the warps of a
//   block share the features of a tile, multiply its rows with all centres, add up these products,
//   turn one distance each into one membership, and multiply the memberships with the rows again.
//   The copy engine keeps the next tiles coming.
// Distances are |x|^2 - 2 x.c + |c|^2, never below 0: three products a feature instead of the two
//   instructions a lane of a sum of squares, which were the bound; they cancel far from the origin.
// Source: article 001, sections 4.2 to 4.4, its kernels as one; one persistent launch.
// Cost per iteration: n d values and 8 n bytes; some 270 instructions of a warp a row of 500 at c =
//   8. Started from memberships, one sweep more for the first centres.
// Limits: float; d <= 512, k <= 16, else refused; n < 2^31. Same bits in every run.
#include "impls/contract.hpp"
#include "impls/cuda/few_clusters/fcm_weights.cuh"
#include "impls/cuda/few_clusters/grid_sums.cuh"
#include "impls/cuda/few_clusters/tile_ring.cuh"
#include "impls/cuda/few_clusters/tile_run.cuh"

#include <array>
#include <cmath>
#include <string>

namespace clusterbench {
namespace {

using namespace cuda;

constexpr unsigned kThreads = 256, kWarps = kThreads / 32;

using Task = FcmTask;

/// A compiled shape: kSlices warps share the features of a row, each has 32 kGroups of them; the
/// other warps, and the 16 rows again kTimes, make a tile; for 8 T clusters.
template <unsigned kGroups_, unsigned kSlices_, unsigned kTimes_, unsigned T_>
struct Tile {
  static constexpr unsigned kGroups = kGroups_, kSlices = kSlices_, kTimes = kTimes_, T = T_;
  static constexpr unsigned kTeams = kWarps / kSlices;
  static constexpr unsigned kRows = kTeams * kTimes * kTileRows;
  static constexpr unsigned kBlocksPerProcessor = kGroups * T == 1 ? 2 : 1;
};

/// The whole run; all blocks are resident. Dynamic shared memory: see below.
template <typename Shape>
__global__ void __launch_bounds__(kThreads, Shape::kBlocksPerProcessor)
    cluster_rows(const Task task) {
  constexpr unsigned kSlices = Shape::kSlices, kTeams = Shape::kTeams, kRows = Shape::kRows;
  constexpr unsigned T = Shape::T, K = 8 * T;
  static_assert(kRows * K % kThreads == 0, "whole warps weigh");
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
  __shared__ double s_received_facts[32], s_facts[32], s_wanted[kWarps];
  __shared__ std::uint64_t s_barriers[4 + kMaxStages];
  __shared__ float s_squared[K], s_masses[kWarps][K];

  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const unsigned slice = warp % kSlices, team = warp / kSlices, group = slice * Shape::kGroups;
  const auto [g, t] = Lane::get();
  ManySums<kTileCluster> sums_of_all(s_received, s_totals, s_barriers, task.sum_words, values);
  FewSums<kTileCluster> facts_of_all(s_received_facts, s_facts, s_barriers + 2, task.fact_words,
                                     task.k + 1);
  BulkRing ring(task.tiles, task.tiles_count, tile_floats, task.stages, s_dynamic, s_barriers + 4,
                blockIdx.x, gridDim.x, threadIdx.x == 0);
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
  double previous = INFINITY, previous_shift = INFINITY;
  std::size_t sweep = 0;
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
    for (unsigned j = warp; j < K; j += kWarps) {
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
      for (unsigned e = threadIdx.x; e < kRows * K; e += kThreads) {
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

template <typename S>
constexpr TileKernel<Task> kKernel{32 * S::kGroups * S::kSlices,
                                   8 * S::T,
                                   S::kRows,
                                   1,
                                   kThreads,
                                   S::kBlocksPerProcessor,
                                   (S::kSlices + 1) * S::kRows * 8 * S::T,
                                   cluster_rows<S>};
constexpr std::array kKernels{// the first that is large enough is taken
                              kKernel<Tile<1, 1, 1, 1>>, kKernel<Tile<1, 2, 1, 1>>,
                              kKernel<Tile<1, 4, 1, 1>>, kKernel<Tile<1, 8, 2, 1>>,
                              kKernel<Tile<2, 8, 2, 1>>, kKernel<Tile<1, 2, 1, 2>>,
                              kKernel<Tile<1, 8, 1, 2>>, kKernel<Tile<2, 8, 1, 2>>};

class FcmCudaFused final : public Variant<float> {
public:
  std::string refuse(const Shape& shape) const override {
    if (!(shape.fuzzifier > 1.0)) {
      return "the fuzzifier must be greater than 1";
    }
    return refuse_tiles<TileKernel<Task>>(kKernels, shape);
  }

  void prepare(const Shape& shape, const Points<float>& points) override {
    run_.prepare(kKernels, shape, points.rows, task_);
    task_.fuzzifier = static_cast<float>(shape.fuzzifier);
  }

  void run(const Start<float>& start, Answer<float>& answer, Observer<float>& observer) override {
    task_.exchange(start, answer);
    run_.run(start, answer, observer, task_);
  }

private:
  Task task_{};
  TileRun<Task> run_;
};

const Registration registration({.name = "fcm_cuda_fused",
                                 .idea = "distances, memberships and sums in one pass",
                                 .source = "article 001, sections 4.2 to 4.4, as one kernel",
                                 .family = Family::fcm,
                                 .device = Device::gpu,
                                 .multiplier = Multiplier::tensor_tf32,
                                 .distance = DistanceForm::expanded,
                                 .max_d = 512,
                                 .max_k = 16,
                                 .previous = "fcm_cuda_warp"},
                                f32_only<FcmCudaFused>());

} // namespace
} // namespace clusterbench
