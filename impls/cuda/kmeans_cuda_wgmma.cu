// K-means for many clusters: the asynchronous products of a whole warpgroup.
//
// Idea: wgmma takes both operands from shared memory and runs beside the arithmetic units, which
//   look for the two least scores of one tile while the tensor cores make the next.
// Changed since kmeans_cuda_mma: 64 x 128 x 16 products an instruction; no register holds an
//   operand; a warp does nothing but start bulk copies, which barriers in shared memory count.
//   Warpgroups with 64 points each share the centroids' tiles and run out of step by themselves:
//   what one compares, another multiplies. Blocks stay, and their next points arrive early.
// Source: kmeans_cuda_mma; docs/certified.md has the proof of the bound.
// Cost per iteration: 2 n d bytes of points, n k d / 128 bytes of centroids from L2; 2 n k d flops.
// Limits: d <= 1024; n below 2^31, k below 2^30; compute capability 9.0. Deterministic.
// Needs: sm_90a
#include "impls/cuda/support/large_k.cuh"
#include "impls/cuda/support/wgmma.cuh"

namespace clusterbench {
namespace {

using namespace cuda;

constexpr unsigned kMaxStages = 8;

/// Dynamic shared memory: points [copies][chunks][rows][width], then [stages] tiles of centroids,
/// then their |c|^2 / 2, [stages + 2][kTileRows].
struct Layout {
  unsigned copies, stages;

  __host__ __device__ static std::size_t rows_size(const HalfTiles& shape, unsigned rows) {
    return std::size_t{rows} * shape.chunks * shape.width;
  }
  std::size_t bytes(const HalfTiles& shape, unsigned rows) const {
    return (copies * rows_size(shape, rows) + stages * shape.chunk_size()) * sizeof(__half) +
           (stages + 2) * kTileRows * sizeof(float) + 1024; // the swizzle asks for 1024 bytes
  }
};

/// Counts through the stages; the parity changes with each turn.
struct Turn {
  unsigned stage = 0, parity = 0;
  __device__ void next(unsigned stages) {
    if (++stage == stages) {
      stage = 0;
      parity ^= 1;
    }
  }
};

/// kTeams warpgroups with 64 points each, and a warpgroup of which one thread copies.
template <unsigned kWidth, unsigned kTeams>
__global__ void __launch_bounds__((kTeams + 1) * 128, 1)
    sweep_wgmma(const SweepTask task, const Layout layout) {
  constexpr unsigned kRows = kTeams * 64, kStageSize = kTileRows * kWidth;
  extern __shared__ unsigned char s_dynamic[];
  __shared__ Barrier s_barriers[4 + 2 * kMaxStages];
  const HalfTiles shape = task.points.shape;
  const unsigned chunks = kWidth == 32 ? 1 : shape.chunks;
  const unsigned rows_size = static_cast<unsigned>(Layout::rows_size(shape, kRows));
  __half* s_rows =
      reinterpret_cast<__half*>(s_dynamic + (1024 - shared_address(s_dynamic) % 1024) % 1024);
  __half* s_stages = s_rows + layout.copies * rows_size;
  float* s_squares = reinterpret_cast<float*>(s_stages + layout.stages * kStageSize);
  const unsigned rows_full = shared_address(s_barriers), rows_free = rows_full + 16;
  const unsigned full = rows_full + 32, free = full + 8 * kMaxStages; // 8 bytes each
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const unsigned tiles = task.centroids.tiles;
  const unsigned pieces = static_cast<unsigned>((task.points.n + kRows - 1) / kRows);

  if (threadIdx.x == 0) {
    for (unsigned e = 0; e < 2; ++e) {
      start_barrier(rows_full + 8 * e, 1);
      start_barrier(rows_free + 8 * e, kTeams * 4);
    }
    for (unsigned e = 0; e < layout.stages; ++e) {
      start_barrier(full + 8 * e, 1);
      start_barrier(free + 8 * e, kTeams * 4);
    }
    publish_barriers();
  }
  __syncthreads(); // no one waits at a barrier that was not started

  Turn turn;
  unsigned square = 0, round = 0;
  if (warp >= kTeams * 4) { // the copying warpgroup
    if constexpr (kTeams == 4) {
      give_registers<24>();
    }
    if (threadIdx.x != kTeams * 128) {
      return;
    }
    for (unsigned piece = blockIdx.x; piece < pieces; piece += gridDim.x, ++round) {
      const unsigned copy = round % layout.copies, use = round / layout.copies;
      wait(rows_free + 8 * copy, (use & 1) ^ 1); // passes at once the first time
      expect(rows_full + 8 * copy, rows_size * 2);
      constexpr unsigned kPart = kRows < kTileRows ? kRows : kTileRows;
      for (unsigned chunk = 0; chunk < chunks; ++chunk) {
        for (unsigned r = 0; r < kRows; r += kPart) {
          const std::size_t row = std::size_t{piece} * kRows + r;
          copy_bulk(s_rows + copy * rows_size + (chunk * kRows + r) * kWidth,
                    task.points.rounded + row / kTileRows * shape.tile_size() +
                        chunk * shape.chunk_size() + row % kTileRows * kWidth,
                    kPart * kWidth * 2, rows_full + 8 * copy);
        }
      }
      const __half* from = task.centroids.rounded;
      for (unsigned j = 0; j < tiles; ++j) {
        for (unsigned chunk = 0; chunk < chunks; ++chunk, from += kStageSize) {
          const bool last = chunk + 1 == chunks;
          const unsigned barrier = full + 8 * turn.stage;
          wait(free + 8 * turn.stage, turn.parity ^ 1);
          expect(barrier, kStageSize * 2 + (last ? kTileRows * 4 : 0));
          copy_bulk(s_stages + turn.stage * kStageSize, from, kStageSize * 2, barrier);
          if (last) {
            // Whoever freed this stage has long read the squares that were here: there are more
            // places for squares than tiles in flight.
            copy_bulk(s_squares + square * kTileRows, task.centroids.half_squares + j * kTileRows,
                      kTileRows * 4, barrier);
            square = square + 1 == layout.stages + 2 ? 0 : square + 1;
          }
          turn.next(layout.stages);
        }
      }
    }
    return;
  }
  if constexpr (kTeams == 4) {
    take_registers<112>();
  }

  unsigned keep; // a constant would take a second instruction, as only one operand is immediate
  asm volatile("mov.b32 %0, 0xffffffe0;" : "=r"(keep));
  const std::uint64_t first_stage = describe<kWidth>(s_stages);
  for (unsigned piece = blockIdx.x; piece < pieces; piece += gridDim.x, ++round) {
    const unsigned copy = round % layout.copies, use = round / layout.copies;
    const std::uint64_t first_rows =
        describe<kWidth>(s_rows + copy * rows_size + warp / 4 * 64 * kWidth);
    wait(rows_full + 8 * copy, use & 1);
    float best[2] = {kFarAway, kFarAway}, second[2] = {kFarAway, kFarAway};
    unsigned nearest[2] = {0, 0}; // the tile, until the end
    float sums[64];
#pragma unroll 1
    for (unsigned j = 0; j < tiles; ++j) {
      unsigned previous = 0;
#pragma unroll 1
      for (unsigned chunk = 0; chunk < chunks; ++chunk) {
        wait(full + 8 * turn.stage, turn.parity);
        open_products();
        const std::uint64_t of_rows = first_rows + chunk * (kRows * kWidth * 2 / 16);
        const std::uint64_t of_columns = first_stage + turn.stage * (kStageSize * 2 / 16);
#pragma unroll
        for (unsigned step = 0; step < kWidth / 16; ++step) { // products of padding are zero
          multiply_add(sums, of_rows + step * 2, of_columns + step * 2, chunk + step > 0);
        }
        close_products();
        if (chunk > 0) { // the products of the chunk before are complete: its stage is free
          wait_for_products<1>();
          if (lane == 0) {
            arrive(free + 8 * previous);
          }
        }
        previous = turn.stage;
        turn.next(layout.stages);
      }
      wait_for_products<0>();
      if (lane == 0) {
        arrive(free + 8 * previous);
        if (j + 1 == tiles) {
          arrive(rows_free + 8 * copy);
        }
      }
      const float2* squares =
          reinterpret_cast<const float2*>(s_squares + square * kTileRows) + lane % 4;
      square = square + 1 == layout.stages + 2 ? 0 : square + 1;
      const float before[2] = {best[0], best[1]};
#pragma unroll
      for (unsigned ni = 0; ni < 16; ++ni) {
        const float2 two = squares[ni * 4];
#pragma unroll
        for (unsigned e = 0; e < 4; ++e) {
          const float exact = (e % 2 == 0 ? two.x : two.y) - sums[ni * 4 + e];
          // The column's number replaces the lowest bits: one instruction, no selection.
          const float score = __uint_as_float((__float_as_uint(exact) & keep) | (ni * 2 + e % 2));
          second[e / 2] = fminf(second[e / 2], fmaxf(best[e / 2], score));
          best[e / 2] = fminf(best[e / 2], score);
        }
      }
#pragma unroll
      for (unsigned p = 0; p < 2; ++p) {
        nearest[p] = best[p] < before[p] ? j : nearest[p];
      }
    }
#pragma unroll
    for (unsigned p = 0; p < 2; ++p) {
      const unsigned place = __float_as_uint(best[p]) & 31;
      nearest[p] = nearest[p] * kTileRows + place / 2 * 8 + lane % 4 * 2 + place % 2;
      for (int offset = 1; offset < 4; offset *= 2) { // the four lanes of a row
        const float other = __shfl_xor_sync(0xffffffffu, best[p], offset);
        const float other_second = __shfl_xor_sync(0xffffffffu, second[p], offset);
        const unsigned other_nearest = __shfl_xor_sync(0xffffffffu, nearest[p], offset);
        second[p] = fminf(fminf(second[p], other_second), fmaxf(best[p], other));
        nearest[p] = other < best[p] ? other_nearest : nearest[p];
        best[p] = fminf(best[p], other);
      }
    }
    const unsigned p = lane % 4; // two of the four lanes decide on a row each
    const std::size_t row = std::size_t{piece} * kRows + warp * 16 + p * 8 + lane / 4;
    const bool has_row = p < 2 && row < task.points.n;
    decide_half(task, has_row, row, p == 0 ? best[0] : best[1], p == 0 ? nearest[0] : nearest[1],
                p == 0 ? second[0] : second[1]);
  }
}

class WgmmaSweep {
public:
  static constexpr unsigned kPaddedRows = 256;

  static std::string refuse(const Problem<float>&) {
    const int capability = compute_capability(); // 0: no device, which others report
    return capability == 0 || capability == 90 ? ""
                                               : "compute capability 9.0 is needed, and no other";
  }

  void prepare(const SweepTask& task) {
    const HalfTiles shape = task.points.shape;
    const std::size_t most = shared_memory_limit() - 1024; // the barriers
    // As many points a block as fit twice, so that the next ones arrive early; or once; then as
    // many stages as are left room for.
    teams_ = 4;
    layout_ = {2, 2};
    const auto bytes = [&] { return layout_.bytes(shape, teams_ * 64); };
    if (bytes() > most) {
      layout_.copies = 1;
    }
    while (bytes() > most && teams_ > 1) {
      teams_ /= 2;
    }
    while (layout_.stages < kMaxStages && bytes() + shape.chunk_size() * 2 + 512 <= most) {
      ++layout_.stages;
    }
    bytes_ = bytes();
    kernel_ = shape.width == 32 ? sweep_wgmma<32, 4>
              : teams_ == 4     ? sweep_wgmma<64, 4>
              : teams_ == 2     ? sweep_wgmma<64, 2>
                                : sweep_wgmma<64, 1>;
    allow_shared_memory(kernel_, bytes_);
    blocks_ = static_cast<unsigned>(std::min(resident_blocks(kernel_, threads(), bytes_),
                                             ceil_div(task.points.n, teams_ * 64)));
  }

  void launch(const SweepTask& task, cudaStream_t stream) const {
    kernel_<<<blocks_, threads(), bytes_, stream>>>(task, layout_);
    check_launch("sweep_wgmma");
  }

  std::string path() const {
    return std::to_string(teams_ * 64) + " points a block, " + std::to_string(layout_.stages) +
           " stages";
  }

private:
  unsigned threads() const { return (teams_ + 1) * 128; }

  void (*kernel_)(SweepTask, Layout) = nullptr;
  Layout layout_{};
  unsigned teams_ = 0, blocks_ = 0;
  std::size_t bytes_ = 0;
};

const Registration registration({.name = "kmeans_cuda_wgmma",
                                 .idea = "warpgroup products beside the comparison of scores",
                                 .source = "kmeans_cuda_mma, for compute capability 9.0",
                                 .device = Device::gpu,
                                 .max_d = kMostFeatures,
                                 .previous = "kmeans_cuda_mma"},
                                f32_only<LargeK<WgmmaSweep>>());

} // namespace
} // namespace clusterbench
