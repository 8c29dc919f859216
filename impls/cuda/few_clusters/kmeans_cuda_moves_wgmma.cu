// K-means with up to 64 features and clusters: rows that change their cluster change the sums.
//
// Changed since kmeans_cuda_fused_wgmma: the sums are updated incrementally. After a few passes one
//   or two rows of a hundred change their cluster; every block keeps the sums of its rows in shared
//   memory, in fixed point, and moves such a row. That spares the products for sums and their
//   registers, so more warpgroups work side by side. All are added up after a pass in which many
//   moved, and under the rule `loss`; sums that could show it (rounding_bounds.hpp) are made anew.
// Source: kmeans_cuda_fused_wgmma; MacQueen, 1967, moved a mean with each point, here in passes.
// Cost per iteration: 4 n d bytes, d padded to eight, and one a row; for 64 rows 3 d / 16 products
//   with k columns, 4 k + 150 other instructions of a warp for 16 of them, 50 for each that moves.
// Limits: float; d, k <= 64, n < 2^31, 2^17 a multiprocessor, values that one scale serves
//   (rounding_bounds.hpp), not far from the origin (magnitudes.hpp), no feature that is tiny, but
//   not zero, in many rows (rounding_bounds.hpp), else refused. The data lies on the device once
//   more, twice if d is no multiple of four. Same bits in every run.
// Needs: sm_90a
#include "impls/contract.hpp"
#include "impls/cuda/few_clusters/incremental_launch.cuh"
#include "impls/cuda/few_clusters/incremental_run.cuh"
#include "impls/cuda/few_clusters/split_teams.cuh"

#include <array>
#include <string>

namespace clusterbench {
namespace {

using namespace cuda;

/// Moves rows of a tile, which `moving` has a bit for: of the lane (g, t) that knows where from and
/// where to, row g + 8 t from first_row on.
template <typename S>
__device__ void move_rows(const MovedSums<S::D>& sums, unsigned tile, unsigned first_row,
                          unsigned moving, unsigned from, unsigned to) {
#pragma unroll 1
  for (; moving != 0; moving &= moving - 1) {
    const int of = __ffs(static_cast<int>(moving)) - 1;
    sums.move(two_of_parts<S>(tile, first_row + of / 4 + of % 4 * 8),
              __shfl_sync(kAllLanes, from, of), __shfl_sync(kAllLanes, to, of));
  }
}

/// Labels all rows, and moves those that change their cluster.
template <typename S, typename Run, typename Ring>
__device__ void move_changed(const Run& block, Ring& ring, unsigned sweep) {
#pragma unroll 1
  for (unsigned i = 0; i < ring.count(); ++i) {
    sync_team(block.team); // this tile is there, and nobody needs the one before
    const unsigned tile = warp_uniform(ring.place());
    float score[S::K / 8][4];
    multiply_tile<S>(tile, shared_address(block.s_parts) / 16, score);
    ring.fetch();
    const unsigned row = ring.tile(sweep, i) * S::Tile::kRows + block.first_row;
    const bool real = block.t < 2 && row + block.own < block.exact.n;
    const unsigned before = real ? block.task.clusters[row + block.own] : 0; // on its way
    wgmma_wait_group<0>();
    take_products(score);
    unsigned label[2];
    label_rows(block.exact, block.shared.half_squares, block.certain, score, label,
               [&](unsigned r, const auto& among) {
                 return settle<S>(block.task.split, tile, block.first_row + r, row + r, among);
               });
    const unsigned to = block.t == 0 ? label[0] : label[1], from = before % kMostIncremental;
    const unsigned moving =
        block.note_moves(real && to != from, row + block.own, from, to, before >= kWithZeros);
    move_rows<S>(block.sums, tile, block.first_row, moving, from, to);
    __syncwarp(); // products are waited for together
    ring.await_next();
    ring.advance();
  }
  __syncthreads(); // all have moved, and nobody needs the parts
}

/// The whole run. One block a multiprocessor, all of them resident.
template <typename S>
__global__ void __launch_bounds__(S::kThreads, 1) cluster_rows(const IncrementalTask task) {
  extern __shared__ __align__(
      128) float s_tiles[]; // [kTeams, kStages, tile], and see IncrementalShared
  __shared__ IncrementalShared<S> s_shared;
  IncrementalRun<S> block(task, s_tiles, s_shared);
  auto ring = block.template ring_of<CopiedRing<S::kStages, S::Tile::kBytes, 0>>(s_tiles);
  __syncthreads(); // the first tiles are there
  task.run.note_time(0);
  unsigned sweeps = 0;
  bool last = false;
  while (!last) {
    block.begin_pass();
    if (block.is_afresh()) {
      block.add_up(ring, sweeps++);
    } else {
      move_changed<S>(block, ring, sweeps++);
    }
    last = block.end_pass();
  }
  cp_async_wait<0>();
}

/// As many teams of a block as were fastest, and few tiles on their way: more were slower
/// (docs/notes/incremental_sums.md).
template <unsigned D, unsigned K>
constexpr unsigned kTeamsOf = (D > 40) || K == 8 ? 4
                              : K == 24          ? 5
                                                 : 6;
template <unsigned D, unsigned K>
constexpr unsigned kStagesOf = (D > 40) || (D == 40 && K == 24) ? 2 : 3;
template <unsigned D, unsigned K>
using MoveShape = SplitShape<D, K, kTeamsOf<D, K>, kStagesOf<D, K>>;

template <unsigned D, unsigned K, typename S = MoveShape<D, K>>
constexpr auto kKernel = incremental_kernel<IncrementalTask, S>(cluster_rows<S>);
template <unsigned K>
constexpr std::array kKernelsOf{kKernel<8, K>,  kKernel<16, K>, kKernel<24, K>, kKernel<32, K>,
                                kKernel<40, K>, kKernel<48, K>, kKernel<56, K>, kKernel<64, K>};
constexpr std::array kKernels{kKernelsOf<8>, kKernelsOf<24>, kKernelsOf<64>};

class KmeansCudaMovesWgmma final : public Variant<float> {
public:
  std::string refuse(const Shape& shape) const override { return IncrementalLaunch::refuse(shape); }

  void prepare(const Shape& shape, const Points<float>& points) override {
    kernel_ = kernel_for(kKernels, shape.d, shape.k);
    incremental_.prepare(shape, points.rows, kernel_);
  }

  void run(const Start<float>& start, Answer<float>& answer, Observer<float>& observer) override {
    incremental_.fit(start.centroids);
    incremental_.run(start, answer, observer, kernel_, incremental_.task);
  }

private:
  IncrementalKernel<IncrementalTask> kernel_{};
  IncrementalLaunch incremental_;
};

const Registration registration({.name = "kmeans_cuda_moves_wgmma",
                                 .idea = "sums change by rows that change their cluster",
                                 .source = "kmeans_cuda_fused_wgmma",
                                 .device = Device::gpu,
                                 .multiplier = Multiplier::tensor_f16,
                                 .max_d = kMostIncremental,
                                 .max_k = kMostIncremental,
                                 .previous = "kmeans_cuda_fused_wgmma"},
                                f32_only<KmeansCudaMovesWgmma>());

} // namespace
} // namespace clusterbench
