// K-means with up to 64 features and clusters: sweeps read rows rounded to float16, few again.
//
// Changed since kmeans_cuda_moves_wgmma: a pass multiplies only the first of the two float16 parts
//   of a row. What rounding took can change its nearest centroid only where two are almost as near
//   (rounded_bound.hpp): of such rows, and of those that change their cluster, a warp takes notes.
//   After its sweep, or 97 notes, it reads them as they came, compares them, and moves them. A warp
//   takes 16 rows of each of two tiles, a lane a row, and compares scores in pairs of float16.
// Passes that add up all rows read both parts, as does every pass of a block once it has found one
//   row of eight left open.
// Source: kmeans_cuda_moves_wgmma; kmeans_cuda_certified settles labels of narrow products, too.
// Cost per iteration: 2 n d bytes, d padded to eight, and five a row; for 64 rows two products with
//   k columns for every 16 features and one more; for 32 rows 2 k + 200 others of a warp.
// Limits: those of kmeans_cuda_moves_wgmma, whose passes it has under the rule `loss`.
// Needs: sm_90a
#include "impls/contract.hpp"
#include "impls/cuda/support/copied_ring.cuh"
#include "impls/cuda/support/exact_rows.cuh"
#include "impls/cuda/support/kept_launch.cuh"
#include "impls/cuda/support/kept_run.cuh"
#include "impls/cuda/support/kept_state.cuh"
#include "impls/cuda/support/magnitudes.hpp"
#include "impls/cuda/support/opaque.cuh"
#include "impls/cuda/support/quarter_row.cuh"
#include "impls/cuda/support/rounded_bound.hpp"
#include "impls/cuda/support/rounded_rows.cuh"

#include <array>
#include <cstddef>
#include <string>

namespace clusterbench {
namespace {

using namespace cuda;

constexpr unsigned kNotes = 128; // of a warp

struct Task : KeptTask {
  const RoundedRow* rounded; // [n]
  HalfUnit unit;             // of scores
  PlainError error;          // of these
};

/// A row, less than 2^25 (kMostOfBlock for each of the 144 multiprocessors that sm_90a has at
/// most), what KeptTask::clusters has of it, and which centroids may be nearest to it: one or more.
struct Note {
  NearOnes near;
  unsigned row_and_before;

  __device__ static Note of(NearOnes near, unsigned row, unsigned before) {
    return {near, row * (2 * kWithZeros) + before};
  }
  __device__ unsigned row() const { return row_and_before / (2 * kWithZeros); }
  __device__ unsigned from() const { return row_and_before % kMostKept; }
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

/// A warp's notes, in shared memory. Other warps wait for one that looks at its rows, so it does
/// that seldom, and at eight rows at once, by four lanes each.
template <unsigned kMost>
class NotedRows {
public:
  /// s_notes: [kMost]
  __device__ NotedRows(Note* s_notes, unsigned lane) : s_notes_(s_notes), lane_(lane) {}

  /// Whether there may not be room for notes of all lanes.
  __device__ bool is_full() const { return count_ + 32 > kMost; }
  /// All lanes: takes a note of a lane's row, if it is to be looked at `again`.
  __device__ void take(bool again, const Note& note) {
    const unsigned all = __ballot_sync(kAllLanes, again);
    if (again) {
      s_notes_[count_ + __popc(all & ((1u << lane_) - 1))] = note;
    }
    count_ += __popc(all);
  }
  /// All lanes: decides what is open, moves what moves, and begins anew. block: see KeptRun.
  /// Returns how many were open.
  template <typename Run>
  __device__ unsigned look_again(const Run& block) {
    unsigned open = 0;
    __syncwarp(); // the notes are there
#pragma unroll 1
    for (unsigned first = 0; first < count_; first += 8) {
      const bool real = first + lane_ / 4 < count_;
      const Note note = s_notes_[real ? first + lane_ / 4 : first];
      const QuarterRow<Run::D> row(block.exact, note.row(), lane_ % 4);
      NearOnes left = note.near;
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
      const unsigned from = note.from();
      const bool moves = real && to != from;
      block.note_moves(moves && lane_ % 4 == 0, note.row(), from, to, note.with_zeros());
      if (moves) {
        row.in_parts(block.task.split.scale, [&](unsigned f, float value) {
          block.sums.move(f, value, block.shared.to_word[f], from, to);
        });
      }
    }
    count_ = 0;
    __syncwarp(); // nobody needs the notes
    return open;
  }

private:
  Note* s_notes_;
  unsigned lane_, count_ = 0;
};

/// Labels rounded rows, and moves those that change their cluster. Returns how many of a warp's
/// were left open. ring: of the first parts of tiles, two at a time; half_squares: all of them
/// `shift` more; s_notes: [kNotes] of this warp.
template <typename S, typename Run, typename Ring>
__device__ unsigned move_noted(const Run& block, const Task& task, Ring& ring, unsigned sweep,
                               const HalfSquareStep<S>& half_squares, float shift, Note* s_notes) {
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
  const unsigned lane = opaque(threadIdx.x % 32);
  NotedRows<kNotes> noted(s_notes, lane);
  unsigned open = 0;
  expect_next();
#pragma unroll 1
  for (unsigned i = 0;; ++i) {
    if (i == ring.count() || noted.is_full()) {
      open += noted.look_again(block);
    }
    if (i == ring.count()) {
      break;
    }
    meet(block.team); // these tiles are there, and nobody needs those before
    float score[2][S::K / 8][4];
    const unsigned first = for_all(ring.place());
    multiply_rounded<S>({first, first + S::Tile::kLow}, shared_address(block.s_parts) / 16,
                        half_squares, score);
    ring.fetch();
    const unsigned row = next, before = next_before;
    const RoundedRow its{next_rounded};
    next += stride;
    expect_next();
    __syncwarp(); // products are waited for together
    const NearOnes near = find_near(
        lane, shift, task.unit, [&](float least) { return its.slack(least, block.certain); },
        score);
    const bool again = row < n && !(near == NearOnes::only(before % kMostKept));
    if (again) {
      expect_row<S::D>(block.exact, row);
    }
    noted.take(again, Note::of(near, row, before));
    __syncwarp(); // products are waited for together
    ring.await_next();
    ring.advance();
  }
  return open;
}

/// The whole run. One block a multiprocessor, all of them resident.
template <typename S>
__global__ void __launch_bounds__(S::kThreads, 1) cluster_rows(const Task task) {
  constexpr unsigned kOpen = 8;                     // one row of so many
  extern __shared__ __align__(128) float s_tiles[]; // [kTeams, kStages, tile], and see KeptShared
  __shared__ KeptShared<S> s_kept;
  __shared__ Note s_notes[S::kThreads / 32][kNotes];
  __shared__ HalfSquareStep<S> s_half_squares;
  __shared__ unsigned s_open; // rows that this pass left open
  KeptRun<S> block(task, s_tiles, s_kept);
  // Of whole tiles, and, in the same place, of the first parts of tiles.
  using Whole = CopiedRing<S::kStages, S::Tile::kBytes, 0>;
  using First = CopiedRing<S::kStages, S::Tile::kBytes / 2, 0, S::Tile::kBytes, 2>;
  Whole whole;
  First first;
  enum class Ring { none, whole, first } under_way = Ring::none;
  unsigned sweeps = 0; // of that ring
  const auto change_to = [&](Ring ring) {
    if (under_way != ring) {
      wait_for_copies<0>();
      meet(block.team); // nothing is on its way
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
      const unsigned open = move_noted<S>(block, task, first, sweeps++, s_half_squares, shift,
                                          s_notes[threadIdx.x / 32]);
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
  wait_for_copies<0>();
}

/// As many teams of a block as were fastest, and tiles on their way: of short rows more.
template <unsigned D, unsigned K>
constexpr unsigned kTeamsOf = D > 40 || (D > 32 && K > 48) ? 4
                              : D > 24 || K > 32           ? 5
                                                           : 6;
template <unsigned D, unsigned K>
using HalfShape = SplitShape<D, K, kTeamsOf<D, K>, D <= 16 ? 4 : 2>;

template <unsigned D, unsigned K, typename S = HalfShape<D, K>>
constexpr auto kKernel = kept_kernel<Task, S>(cluster_rows<S>);
template <unsigned K>
constexpr std::array kKernelsOf{kKernel<8, K>,  kKernel<16, K>, kKernel<24, K>, kKernel<32, K>,
                                kKernel<40, K>, kKernel<48, K>, kKernel<56, K>, kKernel<64, K>};
constexpr std::array kKernels{kKernelsOf<8>,  kKernelsOf<16>, kKernelsOf<24>,
                              kKernelsOf<32>, kKernelsOf<48>, kKernelsOf<64>};

class KmeansCudaHalfRows final : public Variant<float> {
public:
  std::string refuse(const Shape& shape) const override { return KeptLaunch::refuse(shape); }

  void prepare(const Shape& shape, const Points<float>& points) override {
    kernel_ = kernel_for(kKernels, shape.d, shape.k);
    kept_.prepare(shape, points.rows, kernel_);
    d_rounded_ = DeviceBuffer<RoundedRow>(shape.n);
    measure_rounded_rows(kept_.task.split, d_rounded_);
  }

  void run(const Start<float>& start, Answer<float>& answer, Observer<float>& observer) override {
    const SplitRun& split = kept_.task.split;
    if (kept_.fit(start.centroids)) { // in parts of another scale
      measure_rounded_rows(split, d_rounded_);
    }
    const double longest = longest_row(kept_.start(), split.d);
    const HalfUnit unit = HalfUnit::of(split.longest, static_cast<float>(longest) * split.scale);
    kept_.run(start, answer, observer, kernel_,
              Task{kept_.task, d_rounded_.data(), unit, unit.error(split.d)});
  }

private:
  KeptKernel<Task> kernel_{};
  KeptLaunch kept_;
  DeviceBuffer<RoundedRow> d_rounded_; // [n]
};

const Registration registration({.name = "kmeans_cuda_half_rows",
                                 .idea = "sweeps read rounded rows, and few of them again",
                                 .source = "kmeans_cuda_moves_wgmma",
                                 .device = Device::gpu,
                                 .multiplier = Multiplier::tensor_f16,
                                 .max_d = kMostKept,
                                 .max_k = kMostKept,
                                 .previous = "kmeans_cuda_moves_wgmma"},
                                f32_only<KmeansCudaHalfRows>());

} // namespace
} // namespace clusterbench
