// K-means for many clusters: rows that no centroid can have reached are left alone.
//
// Idea: a row keeps its label as long as its own centroid and the fastest of the others together
//   have moved less than the gap between the two nearest ones. So a pass compares few rows once
//   most centroids stand still. The few that do not are compared with all rows, where they may
//   have reached many.
// Changed since kmeans_cuda_wgmma: the sweep also makes the gap of each row. From then on kernels
//   take from the gaps what centroids have moved, list the rows that have none left, and copy these
//   together, if they are few. A sweep without gaps takes its turn where they were of no use.
// Source: G. Hamerly, Making k-means even faster, SDM 2010; docs/ladder/hamerly.md has the proof.
// Cost per iteration: that of kmeans_cuda_wgmma for listed rows, and 4 d bytes of each to copy it;
//   24 bytes of every row, and 2 d + 16 where all are compared with the fastest centroids.
// Limits: float; those of kmeans_cuda_wgmma. Deterministic.
// Needs: sm_90a
#include "impls/cuda/many_clusters/half_copy.cuh"
#include "impls/cuda/many_clusters/large_k.cuh"
#include "impls/cuda/many_clusters/wgmma_sweep.cuh"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>

namespace clusterbench {
namespace {

using namespace cuda;

constexpr std::size_t kWithoutGaps = 2; ///< first passes, in which nearly all centroids move far
constexpr unsigned kListThreads = 256, kListedAtOnce = 1024; ///< rows that a block looks at

// ---- what is known of rows

/// What one pass knows of all rows, in device memory.
struct GapsOfPass {
  float slow;          ///< the fastest centroids have moved farther than this, the others have not
  float spread;        ///< how much farther the very fastest one has moved, or less
  unsigned fastest;    ///< how many those are, up to a tile
  unsigned near;       ///< rows that any of the others may have reached; or one of the fastest, if
                       ///< the own centroid is one of them, too
  unsigned doubtful;   ///< more rows that one of the fastest may have reached
  unsigned reached;    ///< of those, the ones that it still may have reached after a look at them
  unsigned stale;      ///< whether the gaps are of no use, as the last sweep made none
  unsigned makes;      ///< whether the sweep makes gaps
  unsigned wait, step; ///< sweeps of all rows without gaps, now and next time
};

constexpr float kListed = -1e38f; ///< instead of a gap

/// The gaps of all rows, and the rows that have to be compared with all centroids. Distances are in
/// units of the copies.
struct GapArrays {
  // Of a row that is not listed all centroids but its own are farther away than that by its gap,
  // or more; its own is no farther away than its reach.
  float *gaps, *reach; ///< [n]
  unsigned* rows;      ///< [n] those that are near; once copied, all listed rows
  unsigned* others;    ///< [n] the doubtful ones; after a look at the fastest, those reached
  HalfArrays copied;   ///< [most] the listed rows
  __half *tile, *tail; ///< of the fastest
  unsigned* columns;   ///< [kHalfTileRows] which these are
  GapsOfPass* now;
  std::size_t n, most; ///< rows; how many are copied, else all are swept
  unsigned k;
  float ties; ///< less than this part of a reach may be no gap to the difference form, see fit()

  /// Rows are copied, as float16, in the time that takes a sweep to compare them with kCopyCost
  /// centroids; read in that of kReadCost (docs/ladder/hamerly.md).
  static constexpr std::size_t kCopyCost = 400, kReadCost = 80;

  static GapArrays cut(std::size_t n, std::size_t d, std::size_t k, unsigned padded_rows,
                       Arena& cutter) {
    GapArrays made{};
    made.n = n;
    made.k = static_cast<unsigned>(k);
    made.most = n * k / (k + kCopyCost);
    made.gaps = cutter.take<float>(n);
    made.reach = cutter.take<float>(n);
    made.rows = cutter.take<unsigned>(n);
    made.others = cutter.take<unsigned>(n);
    made.copied = HalfArrays::cut(made.most + 1, d, padded_rows, cutter);
    made.tile = cutter.take<__half>(HalfTiles::of(d).size(kHalfTileRows));
    made.tail = cutter.take<__half>(HalfTiles::of_tails().size(kHalfTileRows));
    made.columns = cutter.take<unsigned>(kHalfTileRows);
    made.now = cutter.take<GapsOfPass>(1);
    return made;
  }

  /// Takes the scale of the copies. Where squares of differences might not be normal numbers of
  /// float, nothing is known of the difference form, and no gap suffices.
  void fit(double scale, std::size_t d) {
    const bool normal = scale >= 0x1p-40 && scale <= 0x1p56;
    ties = normal ? 1.02f * static_cast<float>(d + 3) * 0x1p-24f : INFINITY;
  }

  /// Whether doubtful rows are worth a look of all rows at the fastest centroids. Known once rows
  /// are listed.
  __device__ bool looks() const {
    const std::size_t near = now->near, doubtful = now->doubtful;
    return near <= most && (near + doubtful > most || doubtful * (k + kCopyCost) > n * kReadCost);
  }
  /// Rows to be compared with all centroids. Known after that look.
  __device__ std::size_t listed() const {
    return std::size_t{now->near} + (looks() ? now->reached : now->doubtful);
  }
  /// Whether a gap is large enough for a row to keep its label. False for what is no number.
  __device__ bool suffices(float gap, float reach_of_row) const {
    return gap > ties * reach_of_row;
  }
  /// The listed row of that place, before they are copied.
  __device__ std::size_t row(std::size_t place) const {
    return place < now->near ? rows[place] : others[place - now->near];
  }
};

/// The rows that one of two sweeps looks at: with gaps, or without. It is the other one's turn: no
/// rows. Few listed rows: their copies. Else all rows.
template <bool kGaps>
struct SweptRows {
  GapArrays at;
  bool all; ///< whatever has been listed

  template <typename T>
  __device__ PointsView<T> points(PointsView<T> points) const {
    if (!all && (at.now->makes != 0) != kGaps) {
      points.n = 0;
    } else if (!all && at.listed() <= at.most) {
      points.n = at.listed();
      points.rounded = at.copied.tiles;
      points.residual = at.copied.residual;
      points.norm = at.copied.norm;
    }
    return points;
  }
  struct Ahead {
    unsigned row;

    template <typename T>
    __device__ void fetch(const SweptRows& rows, const PointsView<T>& points, std::size_t place) {
      row = place < points.n && points.rounded == rows.at.copied.tiles
                ? rows.at.rows[place]
                : static_cast<unsigned>(place);
    }
    __device__ std::size_t original(std::size_t) const { return row; }
  };
  template <typename T>
  __device__ static FlaggedRows<T> undecided(const SweepTask<T>& task) {
    return {task};
  }
};

// ---- scores

/// As WholeScores, with the gaps. The least of every three of a lane's scores is tested, and that
/// of each of three chains: one three and one chain that pass name the one candidate. The least of
/// the other threes and of the other chains says how far away all other centroids are.
class GapScores : public TailedScores {
public:
  __device__ GapScores(const Facts& facts, const ScoreError& largest)
      : TailedScores(facts, largest) {
#pragma unroll
    for (unsigned p = 0; p < 2; ++p) {
      const float length = __fadd_ru(facts.norm[p], facts.residual[p]); // at least |x'|
      beyond_[p] = __fsub_ru(__fmul_ru(length, length), 2.0f * constant_[p]);
    }
  }

  __device__ void compete(const float (&sums)[64], unsigned tile) {
#pragma unroll
    for (unsigned p = 0; p < 2; ++p) {
      const auto at = [&](unsigned e) { return score(sums, p, e); };
      int threes[kThrees], chains[3]; // score number e is in three e / 3 and in chain e % 3
#pragma unroll
      for (unsigned t = 0; t < kThrees; ++t) {
        threes[t] = t * 3 + 2 < 32 ? __vimin3_s32(at(t * 3), at(t * 3 + 1), at(t * 3 + 2))
                                   : min(at(30), at(31));
      }
#pragma unroll
      for (unsigned c = 0; c < 3; ++c) {
        chains[c] = at(c);
#pragma unroll
        for (unsigned e = c + 3; e < 32; e += 6) {
          chains[c] = __vimin3_s32(chains[c], at(e), at(e + 3 < 32 ? e + 3 : e));
        }
      }
      const int before = best_[p];
      best_[p] = min(before, max(__vimin3_s32(chains[0], chains[1], chains[2]), 0));
      const int most = limit(p, best_[p]);
      const ScoreTest test(most);
      float bits = 0x1p23f; // whose low bits are integers
      int others[kThrees + 1];
#pragma unroll
      for (unsigned t = 0; t < kThrees; ++t) {
        const float passes = test(threes[t]);
        bits = fmaf(passes, static_cast<float>(1u << t), bits);
        // Exact of those that fail; of the others more than any score.
        others[t] = __float_as_int(fmaf(passes, kFarAway, __int_as_float(threes[t])));
      }
      const unsigned mask = __float_as_uint(bits) & 0xffffu;
      const bool keeps = before <= most; // what was within the errors of the least one still is
      others[kThrees] = keeps ? rest_[p] : before;
#pragma unroll
      for (unsigned t = 0; t <= kThrees; t += 2) {
        rest_[p] = __vimin3_s32(rest_[p], others[t], others[t + 1]);
      }
      if (mask != 0) {
        const bool pass[3] = {chains[0] <= most, chains[1] <= most, chains[2] <= most};
        const unsigned chain = pass[0] ? 0 : pass[1] ? 1 : 2;
        rest_[p] = __vimin3_s32(rest_[p], pass[0] ? chains[1] : chains[0],
                                pass[2] ? chains[1] : chains[2]);
        several_[p] = (keeps && (several_[p] || found_[p] != 0)) || (mask & (mask - 1)) != 0 ||
                      pass[0] + pass[1] + pass[2] > 1;
        found_[p] = mask;
        first_[p] = tile * 32 + chain;
      }
    }
  }

  /// Of rows whose nearest centroid is certain it also writes gap and reach; of others none.
  template <typename T, typename Rows, typename Undecided>
  __device__ void decide(const SweepTask<T>& task, const Rows& rows,
                         const typename Rows::Ahead& own, std::size_t n, std::size_t row,
                         Undecided& undecided) const {
    Verdict verdicts[2];
    float gap[2], reach[2];
#pragma unroll
    for (unsigned p = 0; p < 2; ++p) {
      const int best = least_of_row(best_[p]);
      const bool within = found_[p] != 0 && best_[p] <= limit(p, best);
      const unsigned three = static_cast<unsigned>(__ffs(static_cast<int>(found_[p]))) - 1;
      verdicts[p] = of_row(p, best, within ? (several_[p] ? 2 : 1) : 0,
                           column_of(first_[p] / 32, first_[p] % 32 + three * 3), task.centroids.k);
      const int rest = least_of_row(within ? rest_[p] : best_[p]);
      // The squares of two distances differ by no less than this, and the less one is at most that.
      const float difference =
          2.0f * __fsub_rd(__fsub_rd(fminf(__int_as_float(rest), kFarAway), __int_as_float(best)),
                           margin_[p]);
      const float square =
          fmaxf(__fadd_ru(__fadd_ru(2.0f * __int_as_float(best), margin_[p]), beyond_[p]), 0.0f);
      reach[p] = __fsqrt_ru(square);
      const float sum = __fadd_ru(__fsqrt_ru(__fadd_ru(square, difference)), reach[p]);
      gap[p] = verdicts[p].certain && difference > 0.0f ? __fdiv_rd(difference, sum) : 0.0f;
    }
    settle(task, own.row, row < n, verdicts, undecided);
    if (threadIdx.x % 4 < 2 && row < n) {
      rows.at.gaps[own.row] = threadIdx.x % 4 == 0 ? gap[0] : gap[1];
      rows.at.reach[own.row] = threadIdx.x % 4 == 0 ? reach[0] : reach[1];
    }
  }

private:
  static constexpr unsigned kThrees = 11; ///< of 32 scores

  float beyond_[2]; ///< with twice the exact score of a centroid, at least its squared distance
  int rest_[2] = {std::bit_cast<int>(kFarAway), std::bit_cast<int>(kFarAway)};
  unsigned found_[2] = {}; ///< threes of the last tile with candidates that have some, a bit each
  unsigned first_[2] = {}; ///< 32 times that tile, and the chain of its candidate
  bool several_[2] = {};   ///< whether there are more candidates
};

/// All rows, or none if they are not worth a look at the fastest centroids. Those that one of these
/// may have reached are listed.
struct RowsToLook {
  GapArrays at;

  struct Reached {
    GapArrays at;

    __device__ unsigned* count() const { return &at.now->reached; }
    __device__ void put(unsigned slot, unsigned row, float) const { at.others[slot] = row; }
  };

  template <typename T>
  __device__ PointsView<T> points(PointsView<T> points) const {
    points.n = at.looks() ? points.n : 0;
    return points;
  }
  struct Ahead {
    float gap, reach, spread;

    template <typename T>
    __device__ void fetch(const RowsToLook& rows, const PointsView<T>& points, std::size_t place) {
      const bool there = place < points.n;
      gap = there ? rows.at.gaps[place] : kListed;
      reach = there ? rows.at.reach[place] : 0.0f;
      spread = rows.at.now->spread;
    }
  };
  template <typename T>
  __device__ Reached undecided(const SweepTask<T>&) const {
    return {at};
  }
};

/// Scores of the fastest centroids: no label, but how near they are.
class FastestScores : public TailedScores {
public:
  struct Facts : TailedScores::Facts {
    float shorter; ///< a norm times this is no more than the length of the rounded row

    template <typename T>
    __device__ void fetch(const PointsView<T>& points, std::size_t row) {
      TailedScores::Facts::fetch(points, row);
      // A lane has rounded upwards after each of its squares, d / 32 and a few more.
      shorter = 1.0f - static_cast<float>(points.d / 32 + 16) * 0x1p-24f;
    }
  };

  __device__ FastestScores(const Facts& facts, const ScoreError& largest)
      : TailedScores(facts, largest) {
#pragma unroll
    for (unsigned p = 0; p < 2; ++p) {
      const float length = // at most |x'|
          fmaxf(__fsub_rd(__fmul_rd(facts.norm[p], facts.shorter), facts.residual[p]), 0.0f);
      beneath_[p] = __fsub_ru(2.0f * constant_[p], __fmul_rd(length, length));
    }
  }

  __device__ void compete(const float (&sums)[64], unsigned) {
#pragma unroll
    for (unsigned p = 0; p < 2; ++p) {
      best_[p] = min(best_[p], least(sums, p));
    }
  }

  template <typename T, typename Undecided>
  __device__ void decide(const SweepTask<T>&, const RowsToLook& rows, const RowsToLook::Ahead& own,
                         std::size_t n, std::size_t row, Undecided& undecided) const {
    float nearest[2];
#pragma unroll
    for (unsigned p = 0; p < 2; ++p) {
      const float best = __int_as_float(least_of_row(best_[p]));
      const float square = __fsub_rd(__fsub_rd(2.0f * best, margin_[p]), beneath_[p]);
      nearest[p] = square > 0.0f ? __fsqrt_rd(square) : 0.0f;
    }
    const bool alone = threadIdx.x % 4 < 2 && row < n && own.gap > kListed;
    const float left = __fsub_rd(threadIdx.x % 2 == 0 ? nearest[0] : nearest[1], own.reach);
    const bool reached =
        !rows.at.suffices(left, own.reach) && !rows.at.suffices(own.gap, own.reach);
    if (alone && !reached) { // what is left of the gap to the others has sufficed before
      rows.at.gaps[row] = fmaxf(own.gap, fminf(left, __fadd_rd(own.gap, own.spread)));
    }
    undecided.add(alone && reached, static_cast<unsigned>(row), 0.0f);
  }

private:
  float beneath_[2]; ///< twice the exact score of a centroid less this is at most its square
};

// ---- kernels

/// Of the first pass that makes gaps, of all rows.
__global__ void begin_gaps(const GapArrays to) {
  let_next_kernel_begin();
  wait_for_kernels_before();
  *to.now = {.stale = 1, .makes = 1, .wait = 0, .step = 1};
}

/// Begins a pass: finds the fastest centroids, at most one in 16, and a tile of them. One block.
template <typename T>
__global__ void __launch_bounds__(1024)
    pick_fastest(const SweepTask<T> task, const PassBefore before, const GapArrays to) {
  constexpr unsigned kBins = 2048, kShift = 20; // of a drift: its exponent and three bits more
  __shared__ unsigned s_counts[kBins], s_faster[32], s_slow, s_places;
  let_next_kernel_begin();
  wait_for_kernels_before();
  const unsigned k = task.centroids.k, most = min(kHalfTileRows, k / 16);
  for (unsigned bin = threadIdx.x; bin < kBins; bin += blockDim.x) {
    s_counts[bin] = 0;
  }
  if (threadIdx.x == 0) {
    s_places = 0;
  }
  __syncthreads(); // all counts are 0
  const auto drift = [&](unsigned j) { return __float_as_uint(drift_of(before.shifts[j])); };
  for (unsigned j = threadIdx.x; j < k; j += blockDim.x) {
    atomicAdd(&s_counts[drift(j) >> kShift], 1u);
  }
  __syncthreads(); // all are counted
  // Two bins a thread, the fastest first: the first one that would be too many is slow.
  const unsigned bin = kBins - 1 - 2 * threadIdx.x;
  const unsigned upper = s_counts[bin], both = upper + s_counts[bin - 1];
  unsigned faster = both;
  for (unsigned offset = 1; offset < 32; offset *= 2) {
    const unsigned more = __shfl_up_sync(0xffffffffu, faster, offset);
    faster += threadIdx.x % 32 >= offset ? more : 0;
  }
  if (threadIdx.x % 32 == 31) {
    s_faster[threadIdx.x / 32] = faster;
  }
  __syncthreads(); // the sums of all warps are there
  faster -= both;
  for (unsigned warp = 0; warp < threadIdx.x / 32; ++warp) {
    faster += s_faster[warp];
  }
  if (faster <= most && faster + both > most) {
    s_slow = ((faster + upper > most ? bin : bin - 1) + 1) << kShift;
  }
  __syncthreads(); // it is known which drifts are slow
  for (unsigned j = threadIdx.x; j < k; j += blockDim.x) {
    if (drift(j) >= s_slow) {
      to.columns[atomicAdd(&s_places, 1u)] = j;
    }
  }
  __syncthreads();                       // the fastest are listed
  if (threadIdx.x < kHalfTileRows * 2) { // their tails, and those of centroids that do not exist
    const unsigned column = threadIdx.x / 2, group = threadIdx.x % 2;
    constexpr unsigned kMost = 0x7bff; // 65504
    const uint4 none = group == 0 ? uint4{kMost, 0, kMost, 0} : uint4{};
    *reinterpret_cast<uint4*>(to.tail + HalfTiles::of_tails().offset(column, group * 8)) =
        column < s_places ? *reinterpret_cast<const uint4*>(
                                task.centroids.tails +
                                HalfTiles::of_tails().offset(to.columns[column], group * 8))
                          : none;
  }
  if (threadIdx.x == 0) {
    GapsOfPass& now = *to.now;
    now.stale = now.makes == 0 ? 1 : 0;
    now.near = now.stale != 0 ? static_cast<unsigned>(task.points.n) : 0;
    now.doubtful = now.reached = 0;
    now.fastest = s_places;
    const float very_fastest = __uint_as_float(task.counters->fastest);
    now.slow = fminf(__uint_as_float(s_slow - 1), very_fastest);
    now.spread = fmaxf(__fsub_rd(very_fastest, now.slow), 0.0f);
  }
}

/// Rows that a block lists, in any order.
struct BlockList {
  unsigned rows[kListedAtOnce], count, first;

  /// All lanes of the warp must call it.
  __device__ void add(bool asks, std::size_t row) {
    const unsigned place = take_place(asks, &count);
    if (asks) {
      rows[place] = static_cast<unsigned>(row);
    }
  }
};

/// Takes from every row's gap what its own centroid and the fastest one have moved. Rows with a gap
/// left keep their label, the others are listed. Copies the tile of the fastest centroids.
template <typename T>
__global__ void __launch_bounds__(kListThreads)
    list_rows(const SweepTask<T> task, const PassBefore before, const GapArrays to) {
  __shared__ BlockList s_lists[2]; // of rows that are near, and of doubtful ones
  let_next_kernel_begin();
  wait_for_kernels_before();
  if (to.now->stale != 0) {
    return;
  }
  const HalfTiles shape = task.points.shape;
  const unsigned groups = shape.chunks * shape.width / 8, fastest = to.now->fastest;
  for (unsigned e = blockIdx.x * kListThreads + threadIdx.x; e < kHalfTileRows * groups;
       e += gridDim.x * kListThreads) {
    const unsigned column = e / groups, group = e % groups;
    *reinterpret_cast<uint4*>(to.tile + shape.offset(column, group * 8)) =
        column < fastest ? *reinterpret_cast<const uint4*>(
                               task.centroids.rounded + shape.offset(to.columns[column], group * 8))
                         : uint4{};
  }
  if (threadIdx.x < 2) {
    s_lists[threadIdx.x].count = 0;
  }
  __syncthreads(); // the lists are empty
  const float slow = to.now->slow, most = __uint_as_float(task.counters->fastest);
  const std::size_t n = task.points.n, first = std::size_t{blockIdx.x} * kListedAtOnce;
  for (unsigned e = threadIdx.x; e < kListedAtOnce; e += kListThreads) {
    const std::size_t row = first + e;
    bool near = false, doubtful = false;
    if (row < n) {
      const std::int32_t label = before.labels[row];
      const float own = drift_of(before.shifts[label]), gap = to.gaps[row];
      const float reach = __fadd_ru(to.reach[row], own);
      const float left = __fsub_rd(gap, __fadd_ru(own, slow));
      const float of_all = __fsub_rd(gap, __fadd_ru(own, most));
      const bool safe = to.suffices(of_all, reach);
      near = !to.suffices(left, reach) || (!safe && own > slow); // a look would find its own
      doubtful = !near && !safe;
      to.gaps[row] = near ? kListed : of_all;
      to.reach[row] = reach;
      task.labels[row] = label;
    }
    s_lists[0].add(near, row);
    s_lists[1].add(doubtful, row);
  }
  __syncthreads(); // all rows are there
  if (threadIdx.x < 2 && s_lists[threadIdx.x].count > 0) {
    BlockList& list = s_lists[threadIdx.x];
    list.first = atomicAdd(threadIdx.x == 0 ? &to.now->near : &to.now->doubtful, list.count);
  }
  __syncthreads(); // the first places are known
  for (unsigned l = 0; l < 2; ++l) {
    unsigned* all = (l == 0 ? to.rows : to.others) + s_lists[l].first;
    for (unsigned e = threadIdx.x; e < s_lists[l].count; e += kListThreads) {
      all[e] = s_lists[l].rows[e];
    }
  }
}

/// Copies the listed rows, 8 halves a thread, if they are few. Behind the last one, the last tile
/// has what was there before. Decides which sweep comes next.
template <typename T>
__global__ void __launch_bounds__(256) copy_listed(const SweepTask<T> task, const GapArrays to) {
  let_next_kernel_begin();
  wait_for_kernels_before();
  const std::size_t listed = to.listed();
  const bool few = listed <= to.most;
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    GapsOfPass& now = *to.now;
    task.counters->left_alone = few ? static_cast<unsigned>(task.points.n - listed) : 0;
    now.makes = few || now.wait == 0 ? 1 : 0;
    if (few) {
      now.wait = 0;
      now.step = 1;
    } else if (now.wait > 0) {
      --now.wait;
    } else { // gaps are made for the next pass; the more often in vain, the longer until then
      now.wait = now.step;
      now.step *= 2;
    }
  }
  if (!few) {
    return;
  }
  const HalfTiles shape = task.points.shape;
  const unsigned across = shape.width / 8, group = threadIdx.x % across; // lanes of a row
  const std::size_t stride = std::size_t{gridDim.x} * blockDim.x / across;
  for (std::size_t place = (std::size_t{blockIdx.x} * blockDim.x + threadIdx.x) / across;
       place < listed; place += stride) {
    const std::size_t row = to.row(place);
    const __half* from = task.points.rounded + shape.offset(row, group * 8);
    __half* copy = to.copied.tiles + shape.offset(place, group * 8);
#pragma unroll 4
    for (unsigned chunk = 0; chunk < shape.chunks; ++chunk) {
      *reinterpret_cast<uint4*>(copy + chunk * shape.chunk_size()) =
          *reinterpret_cast<const uint4*>(from + chunk * shape.chunk_size());
    }
    if (group == 0) {
      to.copied.residual[place] = task.points.residual[row];
      to.copied.norm[place] = task.points.norm[row];
      to.rows[place] = static_cast<unsigned>(row);
    }
  }
}

// ---- the variant

/// The sweeps of a pass.
class HamerlySweep {
public:
  using Real = float;
  static constexpr unsigned kPaddedRows = WgmmaSweep<>::kPaddedRows;

  static std::string refuse(const Shape& shape) { return WgmmaSweep<>::refuse(shape); }
  static std::size_t bytes(const Shape& shape) { return bytes_for(shape.n, shape.d, shape.k); }

  void prepare(const SweepTask<>& task) {
    const std::size_t n = task.points.n, d = task.points.d, k = task.centroids.k;
    memory_ = DeviceBuffer<std::byte>(bytes_for(n, d, k));
    Arena cutter{memory_.data()};
    at_ = GapArrays::cut(n, d, k, kPaddedRows, cutter);
    plain_.prepare(task);
    with_gaps_.prepare(task);
    fastest_.prepare(of_fastest(task));
    copying_blocks_ = static_cast<unsigned>(resident_blocks(copy_listed<float>, 256, 0));
  }
  void follow(const SweepTask<>&) {}
  void launch(const SweepTask<>& task, const PassBefore& before) {
    at_.fit(task.frame.scale, task.points.d);
    if (before.passes < kWithoutGaps) {
      plain_.launch(task, {at_, true});
      return;
    }
    if (before.passes == kWithoutGaps) {
      launch_of_pass("begin_gaps", begin_gaps, {1, 1}, task.overlaps, at_);
      with_gaps_.launch(task, {at_, true});
      return;
    }
    const auto blocks = static_cast<unsigned>( // all of them copy the tile of the fastest
        std::max(ceil_div(task.points.n, kListedAtOnce), multiprocessors()));
    launch_of_pass("pick_fastest", pick_fastest<float>, {1, 1024}, task.overlaps, task, before,
                   at_);
    launch_of_pass("list_rows", list_rows<float>, {blocks, kListThreads}, task.overlaps, task,
                   before, at_);
    fastest_.launch(of_fastest(task), {at_});
    launch_of_pass("copy_listed", copy_listed<float>, {copying_blocks_, 256}, task.overlaps, task,
                   at_);
    plain_.launch(task, {at_, false});
    with_gaps_.launch(task, {at_, false});
  }
  std::string path() const { return with_gaps_.path(); }

private:
  static std::size_t bytes_for(std::size_t n, std::size_t d, std::size_t k) {
    Arena counter{nullptr};
    GapArrays::cut(n, d, k, kPaddedRows, counter);
    return counter.used;
  }
  SweepTask<> of_fastest(SweepTask<> task) const {
    task.centroids.tiles = 1;
    task.centroids.rounded = at_.tile;
    task.centroids.tails = at_.tail;
    return task;
  }

  WgmmaLaunch<WholeScores, float, SweptRows<false>> plain_;
  WgmmaLaunch<GapScores, float, SweptRows<true>> with_gaps_;
  WgmmaLaunch<FastestScores, float, RowsToLook> fastest_;
  DeviceBuffer<std::byte> memory_;
  GapArrays at_{};
  unsigned copying_blocks_ = 0;
};

const Registration registration({.name = "kmeans_cuda_hamerly",
                                 .idea = "rows that no centroid can have reached are left alone",
                                 .source = "Hamerly 2010, on kmeans_cuda_wgmma",
                                 .device = Device::gpu,
                                 .multiplier = Multiplier::tensor_f16,
                                 .takes_weights = true,
                                 .max_d = kMostFeatures,
                                 .previous = "kmeans_cuda_wgmma"},
                                f32_only<LargeK<HamerlySweep>>());

} // namespace
} // namespace clusterbench
