// K-means with up to 64 features and clusters: sweeps read rows rounded to float16, few rows twice.
//
// Changed since kmeans_cuda_moves_wgmma: a pass multiplies only the first of the two float16 parts
//   of a row. Rounding can change the nearest centroid only where two are almost equally near
//   (rounding_bounds.hpp). A warp lists such rows, and rows that change their cluster. At the end
//   of its sweep, or when the list is full, it reads them in full precision, decides their labels
//   and moves them. A warp takes 16 rows of each of two tiles, a lane a row, and compares scores in
//   pairs of float16.
// A pass that adds up all rows reads both parts. So does every further pass of a block that had to
//   decide one row of eight in full precision.
// Source: kmeans_cuda_moves_wgmma; kmeans_cuda_certified also decides labels from narrow products.
// Cost per iteration: 2 n d bytes, d padded to eight, and five a row; for 64 rows two products with
//   k columns for every 16 features and one more; for 32 rows 2 k + 200 others of a warp.
// Limits: those of kmeans_cuda_moves_wgmma, whose passes it has under the rule `loss`.
// Needs: sm_90a
#include "impls/contract.hpp"
#include "impls/cuda/common/certified_bound.hpp"
#include "impls/cuda/common/magnitudes.hpp"
#include "impls/cuda/common/runtime.hpp"
#include "impls/cuda/few_clusters/incremental_launch.cuh"
#include "impls/cuda/few_clusters/incremental_run.cuh"
#include "impls/cuda/few_clusters/incremental_state.cuh"
#include "impls/cuda/few_clusters/rounding_bounds.hpp"
#include "impls/cuda/few_clusters/split_rows.cuh"
#include "impls/cuda/few_clusters/split_teams.cuh"

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>

namespace clusterbench::cuda {

// Rows of which only the first of two float16 parts is read (split_rows.cuh): what rounding took
// from each, and which centroids may be nearest to them. The bounds: rounding_bounds.hpp. Needs
// sm_90a.

/// A thread a row. rows: [n, width] as they came, whole groups of four.
static __global__ void measure_rounded_rows(const float* rows, std::size_t n, unsigned width,
                                            float scale, RoundedRow* rounded) {
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n;
       i += std::size_t{gridDim.x} * blockDim.x) {
    float squared = 0.0f, lost = 0.0f;
#pragma unroll 4
    for (unsigned first = 0; first < width; first += 4) {
      const float4 four = *reinterpret_cast<const float4*>(rows + i * width + first);
      const float values[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
      for (unsigned e = 0; e < 4; ++e) {
        const float x = values[e] * scale;
        const float y = __half2float(SplitPair::of(x).high);
        squared += y * y;
        lost += (x - y) * (x - y);
      }
    }
    rounded[i] = RoundedRow::of(squared, sqrtf(lost));
  }
}

/// Of all rows; does not block. Throws std::runtime_error.
inline void measure_rounded_rows(const SplitRun& run, DeviceBuffer<RoundedRow>& rounded) {
  measure_rounded_rows<<<blocks_at_most(run.exact.n, 256, 65536), 256>>>(
      run.exact.rows, run.exact.n, run.exact.width, run.scale, rounded.data());
  check_launch("measure_rounded_rows");
}

/// What takes the half squares to the scores, as one more step of their products: 16 features that
/// are 1 in every row, and of every centroid the two parts of its half square, and zeros.
template <typename S>
struct HalfSquareStep {
  alignas(16) __half ones[S::Tile::kRows * 8];
  alignas(16) __half parts[2 * S::K * 8]; ///< [2 columns, K, 8]

  /// All threads, once. They must publish their operands, and a barrier must follow.
  __device__ void clear() {
    for (unsigned e = threadIdx.x; e < S::Tile::kRows * 8; e += S::kThreads) {
      ones[e] = __float2half(1.0f);
    }
    for (unsigned e = threadIdx.x; e < 2 * S::K * 8; e += S::kThreads) {
      parts[e] = __half{};
    }
  }
  /// Any thread, before operands are published: sets the half square of a centroid, and `shift`
  /// more, in `unit`. That of one behind k, kNever, becomes the largest float16.
  __device__ void set(unsigned j, float half_square, float shift, HalfUnit unit) {
    constexpr float kMost = 65504.0f;
    const auto pair = SplitPair::of(fminf((half_square + shift) * unit.to, kMost));
    parts[j * 8] = pair.high;
    parts[j * 8 + 1] = pair.low;
  }
  __device__ std::uint64_t rows() const { return operand(shared_address(ones) / 16, 0, 8); }
  __device__ std::uint64_t columns() const { return operand(shared_address(parts) / 16, S::K, 8); }
};

/// Starts the scores of 64 rounded rows of each of two tiles with all centroids, which are in two
/// parts and in HalfUnit; see multiply_tile(). tiles: places of the first parts.
/// SplitRange::longest() allows for a row that is rounded up.
template <typename S>
__device__ void multiply_rounded(const unsigned (&tiles)[2], unsigned parts,
                                 const HalfSquareStep<S>& half_squares,
                                 float (&score)[2][S::K / 8][4]) {
  wgmma_fence();
#pragma unroll
  for (unsigned of = 0; of < 2; ++of) {
#pragma unroll
    for (unsigned e = 0; e < 2 * S::kSteps; ++e) { // low parts first
      const unsigned step = e % S::kSteps, part = e < S::kSteps ? parts + S::kPart / 8 : parts;
      multiply_rows<S::K>(score[of], S::Tile::rows(tiles[of], step),
                          operand(part + step * 2 * S::K, S::K, 8), e > 0);
    }
    multiply_rows<S::K>(score[of], half_squares.rows(), half_squares.columns(), true);
  }
  wgmma_commit_group();
}

/// A whole warp: the mean of so many values.
__device__ inline float mean_over_warp(const float* s_values, unsigned count) {
  float sum = 0.0f;
  for (unsigned j = threadIdx.x % 32; j < count; j += 32) {
    sum += s_values[j];
  }
  return over_lanes<32>(sum) / static_cast<float>(count);
}

/// The least values of four rows, each in two halves, from four lanes; lane t gets that of row t.
__device__ inline __half least_of_row(unsigned lane, const __half2 (&least)[4]) {
  const auto swapped = [](unsigned lanes, __half2 value) {
    return __shfl_xor_sync(kAllLanes, value, static_cast<int>(lanes));
  };
  const auto of_two = [](__half2 a, __half2 b) { // rows side by side
    return __hmin2(__lows2half2(a, b), __highs2half2(a, b));
  };
  const __half2 first = of_two(least[0], least[1]), second = of_two(least[2], least[3]);
  const bool upper = lane % 4 / 2 == 1, odd = lane % 2 == 1;
  const __half2 mine = __hmin2(upper ? second : first, swapped(2, upper ? first : second));
  const __half2 all = __hmin2(mine, swapped(1, mine));
  return odd ? __high2half(all) : __low2half(all);
}

/// Gives each of four lanes what all of them know of one row. near: of rows 0 and 1, and of rows 2
/// and 3, in halves; lane t gets that of row t.
__device__ inline CandidateSet to_owners(unsigned lane, const std::uint32_t (&near)[2]) {
  const bool upper = lane % 4 / 2 == 1, odd = lane % 2 == 1;
  const std::uint32_t mine = upper ? near[1] : near[0];
  const std::uint32_t received = __shfl_xor_sync(kAllLanes, upper ? near[0] : near[1], 2);
  const std::uint32_t low = upper ? received : mine, high = upper ? mine : received;
  const std::uint32_t rows[2] = {__byte_perm(low, high, 0x5410), __byte_perm(low, high, 0x7632)};
  const std::uint32_t own = odd ? rows[1] : rows[0];
  const std::uint32_t others = __shfl_xor_sync(kAllLanes, odd ? rows[0] : rows[1], 1);
  return {odd ? others : own, odd ? own : others};
}

/// Of 16 rows of each of two tiles, from a warp's scores, for which it waits, see label_rows(): the
/// centroids that may be nearest. Each lane answers for one row, lane 4 g + t for row g + 8 (t % 2)
/// of tile t / 2, and gets those of that one. Scores are compared two at a time, rounded to
/// float16: none that is less than another becomes more. They are in `unit`, and all `shift` more;
/// slack: see HalfUnit::limit(). There is always one, and none behind k, whose scores are 65504,
/// where others and the limit are less than 2^15 and a little.
template <unsigned T, typename Slack>
__device__ CandidateSet find_near(unsigned lane, float shift, HalfUnit unit, Slack slack,
                                  float (&score)[2][T][4]) {
  __half2 scores[4][T], least[4]; // of rows in the order of the lanes that answer for them
  wgmma_wait_group<0>();
  take_products(score[0]);
  take_products(score[1]);
#pragma unroll
  for (unsigned e = 0; e < T; ++e) {
#pragma unroll
    for (unsigned r = 0; r < 4; ++r) {
      const float* two = score[r / 2][e] + r % 2 * 2;
      scores[r][e] = __floats2half2_rn(two[0], two[1]);
      least[r] = e == 0 ? scores[r][e] : __hmin2(least[r], scores[r][e]);
    }
  }
  const __half2 limit =
      __float2half2_rn(unit.limit(__half2float(least_of_row(lane, least)), shift, slack));
  __half2 near[4]; // bit e of a half's lower byte: a number from 1024 to 2047 has steps of one
#pragma unroll
  for (unsigned r = 0; r < 4; ++r) {
    const __half2 limit_of = __shfl_sync(kAllLanes, limit, static_cast<int>(r), 4);
    near[r] = __float2half2_rn(1024.0f);
#pragma unroll
    for (unsigned e = 0; e < T; ++e) {
      near[r] = __hfma2(__hle2(scores[r][e], limit_of),
                        __float2half2_rn(static_cast<float>(1u << e)), near[r]);
    }
  }
  const auto bytes_of = [](__half2 a, __half2 b) {
    return __byte_perm(*reinterpret_cast<const std::uint32_t*>(&a),
                       *reinterpret_cast<const std::uint32_t*>(&b), 0x6420);
  };
  return to_owners(lane, {bytes_of(near[0], near[1]), bytes_of(near[2], near[3])});
}

} // namespace clusterbench::cuda

namespace clusterbench {
namespace {

using namespace cuda;

constexpr unsigned kMostUndecided = 128; // of a warp

struct Task : IncrementalTask {
  const RoundedRow* rounded; // [n]
  HalfUnit unit;             // of scores
  PlainError error;          // of these
};

/// A row, less than 2^25 (kMostOfBlock for each of the 144 multiprocessors that sm_90a has at
/// most), what IncrementalTask::clusters has of it, and which centroids may be nearest to it: one
/// or more.
struct UndecidedRow {
  CandidateSet near;
  unsigned row_and_before;

  __device__ static UndecidedRow of(CandidateSet near, unsigned row, unsigned before) {
    return {near, row * (2 * kWithZeros) + before};
  }
  __device__ unsigned row() const { return row_and_before / (2 * kWithZeros); }
  __device__ unsigned from() const { return row_and_before % kMostIncremental; }
  __device__ bool with_zeros() const { return row_and_before / kWithZeros % 2 != 0; }
};

/// Any thread: sends for a row of up to D features to the L2 cache.
template <unsigned D>
__device__ void expect_row(const ExactRows& exact, unsigned row) {
  const char* first = reinterpret_cast<const char*>(exact.rows + std::size_t{row} * exact.width);
#pragma unroll
  for (unsigned byte = 0; byte < D * sizeof(float); byte += 128) {
    asm volatile("prefetch.global.L2 [%0];" ::"l"(first + byte));
  }
}

/// The rows that a warp has yet to decide, in shared memory. The other warps of a team wait for a
/// warp that decides its rows. So it does that seldom, and for eight rows at once, by four lanes
/// each.
template <unsigned kMost>
class UndecidedRows {
public:
  /// s_undecided: [kMost]
  __device__ UndecidedRows(UndecidedRow* s_undecided, unsigned lane)
      : s_undecided_(s_undecided), lane_(lane) {}

  /// Whether one more row of every lane may not fit.
  __device__ bool is_full() const { return count_ + 32 > kMost; }
  /// All lanes: adds a lane's row if it is to be decided `again`.
  __device__ void take(bool again, const UndecidedRow& row) {
    const unsigned all = __ballot_sync(kAllLanes, again);
    if (again) {
      s_undecided_[count_ + __popc(all & ((1u << lane_) - 1))] = row;
    }
    count_ += __popc(all);
  }
  /// All lanes: decides the rows, moves those whose cluster changes, and empties the queue.
  /// block: see IncrementalRun. Returns how many rows had several candidates.
  template <typename Run>
  __device__ unsigned decide(const Run& block) {
    unsigned open = 0;
    __syncwarp(); // all lanes have written their rows
#pragma unroll 1
    for (unsigned first = 0; first < count_; first += 8) {
      const bool real = first + lane_ / 4 < count_;
      const UndecidedRow row_of_lane = s_undecided_[real ? first + lane_ / 4 : first];
      const QuarterRow<Run::D> row(block.exact, row_of_lane.row(), lane_ % 4);
      CandidateSet left = row_of_lane.near;
      unsigned to = left.take();
      const unsigned all = __ballot_sync(kAllLanes, real && lane_ % 4 == 0 && !left.empty());
      open += __popc(all);
      if (all != 0) {
        float nearest = row.squared(block.exact, to);
#pragma unroll 1
        while (__any_sync(kAllLanes, !left.empty())) { // those who have looked at theirs wait
          const unsigned other = left.empty() ? to : left.take();
          const float squared = row.squared(block.exact, other);
          const bool nearer = squared < nearest || (squared == nearest && other < to);
          to = nearer ? other : to;
          nearest = fminf(nearest, squared);
        }
      }
      const unsigned from = row_of_lane.from();
      const bool moves = real && to != from;
      block.note_moves(moves && lane_ % 4 == 0, row_of_lane.row(), from, to,
                       row_of_lane.with_zeros());
      if (moves) {
        row.in_parts(block.task.split.scale, [&](unsigned f, float value) {
          block.sums.move(f, value, block.shared.to_word[f], from, to);
        });
      }
    }
    count_ = 0;
    __syncwarp(); // no lane reads the rows any more
    return open;
  }

private:
  UndecidedRow* s_undecided_;
  unsigned lane_, count_ = 0;
};

/// Labels rounded rows, and moves those that change their cluster. Returns how many of a warp's
/// were left open. ring: of the first parts of tiles, two at a time; half_squares: all of them
/// `shift` more; s_undecided: [kMostUndecided] of this warp.
template <typename S, typename Run, typename Ring>
__device__ unsigned sweep_rounded_rows(const Run& block, const Task& task, Ring& ring,
                                       unsigned sweep, const HalfSquareStep<S>& half_squares,
                                       float shift, UndecidedRow* s_undecided) {
  constexpr unsigned kRows = S::Tile::kRows;
  const unsigned n = block.exact.n, stride = ring.stride(sweep) * kRows;
  // Of the next row that this lane answers for, see find_near(), what is on its way:
  unsigned next = (ring.tile(sweep, 0) + block.t / 2 * ring.tile_step()) * kRows + block.first_row +
                  block.g + block.t % 2 * 8;
  unsigned next_before = 0, next_rounded = 0;
  const auto expect_next = [&] {
    const unsigned there = min(next, n - 1); // of a row that is not there nothing is used
    next_before = block.task.clusters[there];
    next_rounded = task.rounded[there].word;
  };
  const unsigned lane = keep_in_register(threadIdx.x % 32);
  UndecidedRows<kMostUndecided> undecided(s_undecided, lane);
  unsigned open = 0;
  expect_next();
#pragma unroll 1
  for (unsigned i = 0;; ++i) {
    if (i == ring.count() || undecided.is_full()) {
      open += undecided.decide(block);
    }
    if (i == ring.count()) {
      break;
    }
    sync_team(block.team); // these tiles are there, and nobody needs those before
    float score[2][S::K / 8][4];
    const unsigned first = warp_uniform(ring.place());
    multiply_rounded<S>({first, first + S::Tile::kLow}, shared_address(block.s_parts) / 16,
                        half_squares, score);
    ring.fetch();
    const unsigned row = next, before = next_before;
    const RoundedRow its{next_rounded};
    next += stride;
    expect_next();
    __syncwarp(); // products are waited for together
    const CandidateSet near = find_near(
        lane, shift, task.unit, [&](float least) { return its.slack(least, block.certain); },
        score);
    const bool again = row < n && !(near == CandidateSet::only(before % kMostIncremental));
    if (again) {
      expect_row<S::D>(block.exact, row);
    }
    undecided.take(again, UndecidedRow::of(near, row, before));
    __syncwarp(); // products are waited for together
    ring.await_next();
    ring.advance();
  }
  return open;
}

/// The whole run. One block a multiprocessor, all of them resident.
template <typename S>
__global__ void __launch_bounds__(S::kThreads, 1) cluster_rows(const Task task) {
  constexpr unsigned kOpen = 8; // one row of so many
  extern __shared__ __align__(
      128) float s_tiles[]; // [kTeams, kStages, tile], and see IncrementalShared
  __shared__ IncrementalShared<S> s_shared;
  __shared__ UndecidedRow s_undecided[S::kThreads / 32][kMostUndecided];
  __shared__ HalfSquareStep<S> s_half_squares;
  __shared__ unsigned s_open; // rows that this pass left open
  IncrementalRun<S> block(task, s_tiles, s_shared);
  // Of whole tiles, and, in the same place, of the first parts of tiles.
  using Whole = CopiedRing<S::kStages, S::Tile::kBytes, 0>;
  using First = CopiedRing<S::kStages, S::Tile::kBytes / 2, 0, S::Tile::kBytes, 2>;
  Whole whole;
  First first;
  enum class Ring { none, whole, first } under_way = Ring::none;
  unsigned sweeps = 0; // of that ring
  const auto change_to = [&](Ring ring) {
    if (under_way != ring) {
      cp_async_wait<0>();
      sync_team(block.team); // nothing is on its way
      if (ring == Ring::whole) {
        whole = block.template ring_of<Whole>(s_tiles);
      } else {
        first = block.template ring_of<First>(s_tiles);
      }
      under_way = ring;
      sweeps = 0;
    }
  };
  s_half_squares.clear();
  __syncthreads(); // what the run begins with is there
  task.run.note_time(0);
  bool rounded = true; // whether rounded rows tell enough; once they do not, never again
  bool last = false;
  float shift = 0.0f; // of scores, see HalfUnit
  while (!last) {
    if (!block.is_afresh() && rounded) {
      if (threadIdx.x == 0) { // all have seen that of the pass before
        s_open = 0;
      }
      block.begin_pass(task.unit.to, task.error, HalfUnit::length_of(shift),
                       [&](unsigned j, float half_square) {
                         s_half_squares.set(j, half_square, shift, task.unit);
                       });
      change_to(Ring::first);
      whole = Whole(); // made anew when it is needed: so its registers are free
      const unsigned open = sweep_rounded_rows<S>(block, task, first, sweeps++, s_half_squares,
                                                  shift, s_undecided[threadIdx.x / 32]);
      if (threadIdx.x % 32 == 0 && open > 0) {
        atomicAdd(&s_open, open);
      }
      __syncthreads(); // all have moved, and nobody needs the parts
      rounded = s_open <= block.one_row_of(kOpen);
    } else {
      block.begin_pass();
      change_to(Ring::whole);
      first = First(); // likewise
      shift = mean_over_warp(block.shared.half_squares, block.exact.k);
      block.add_up(whole, sweeps++);
    }
    last = block.end_pass();
  }
  cp_async_wait<0>();
}

/// As many teams of a block as were fastest, and tiles on their way: of short rows more.
template <unsigned D, unsigned K>
constexpr unsigned kTeamsOf = D > 40 || (D > 32 && K > 48) ? 4
                              : D > 24 || K > 32           ? 5
                                                           : 6;
template <unsigned D, unsigned K>
using HalfShape = SplitShape<D, K, kTeamsOf<D, K>, D <= 16 ? 4 : 2>;

template <unsigned D, unsigned K, typename S = HalfShape<D, K>>
constexpr auto kKernel = incremental_kernel<Task, S>(cluster_rows<S>);
template <unsigned K>
constexpr std::array kKernelsOf{kKernel<8, K>,  kKernel<16, K>, kKernel<24, K>, kKernel<32, K>,
                                kKernel<40, K>, kKernel<48, K>, kKernel<56, K>, kKernel<64, K>};
constexpr std::array kKernels{kKernelsOf<8>,  kKernelsOf<16>, kKernelsOf<24>,
                              kKernelsOf<32>, kKernelsOf<48>, kKernelsOf<64>};

class KmeansCudaHalfRows final : public Variant<float> {
public:
  std::string refuse(const Shape& shape) const override { return IncrementalLaunch::refuse(shape); }

  void prepare(const Shape& shape, const Points<float>& points) override {
    kernel_ = kernel_for(kKernels, shape.d, shape.k);
    incremental_.prepare(shape, points.rows, kernel_);
    d_rounded_ = DeviceBuffer<RoundedRow>(shape.n);
    measure_rounded_rows(incremental_.task.split, d_rounded_);
  }

  void run(const Start<float>& start, Answer<float>& answer, Observer<float>& observer) override {
    const SplitRun& split = incremental_.task.split;
    if (incremental_.fit(start.centroids)) { // in parts of another scale
      measure_rounded_rows(split, d_rounded_);
    }
    const double longest = longest_row(incremental_.start(), split.d);
    const HalfUnit unit = HalfUnit::of(split.longest, static_cast<float>(longest) * split.scale);
    incremental_.run(start, answer, observer, kernel_,
                     Task{incremental_.task, d_rounded_.data(), unit, unit.error(split.d)});
  }

private:
  IncrementalKernel<Task> kernel_{};
  IncrementalLaunch incremental_;
  DeviceBuffer<RoundedRow> d_rounded_; // [n]
};

const Registration registration({.name = "kmeans_cuda_half_rows",
                                 .idea = "sweeps read rounded rows, and few of them again",
                                 .source = "kmeans_cuda_moves_wgmma",
                                 .device = Device::gpu,
                                 .multiplier = Multiplier::tensor_f16,
                                 .max_d = kMostIncremental,
                                 .max_k = kMostIncremental,
                                 .previous = "kmeans_cuda_moves_wgmma"},
                                f32_only<KmeansCudaHalfRows>());

} // namespace
} // namespace clusterbench
