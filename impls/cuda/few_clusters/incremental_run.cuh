// A run in which every block keeps the sums of its rows from pass to pass, as integers: what a pass
// begins and ends with, and the sweep that adds up all rows by products on tensor cores. How rows
// move from one sum to another is a variant's own. Float only; needs sm_90a.
//
// All rows are added up in the first pass, after one in which many moved, and in every pass under
// the rule `loss`. A sum over all blocks that may show what this rounded (rounding_bounds.hpp) is
// made anew, of words, before its mean is made: then it is exact until all rows are added up again.
#pragma once

#include "impls/cuda/common/integer_sums.cuh"
#include "impls/cuda/common/one_launch.cuh"
#include "impls/cuda/few_clusters/incremental_state.cuh"
#include "impls/cuda/few_clusters/split_teams.cuh"

#include <cuda_runtime.h>

#include <cmath>
#include <cstddef>
#include <cstdint>

namespace clusterbench::cuda {

/// The kernel's side.
template <typename S>
class IncrementalRun {
  /// After a pass in which more than one row of so many moved, in all blocks, the next adds up all
  /// rows; in that one fewer will move.
  static constexpr unsigned kMoving = 3;
  static constexpr bool kInHalves = false; // a block's sum has 51 bits, so those of all fit 64

public:
  static constexpr unsigned kThreads = S::kThreads, D = S::D, K = S::K, kRows = S::Tile::kRows;
  static constexpr unsigned kNowhere = MovedSums<D>::kNowhere;

  /// All threads, at the start. A barrier must follow.
  __device__ IncrementalRun(const IncrementalTask& of_run, float* s_tiles,
                            IncrementalShared<S>& of_block)
      : task(of_run), shared(of_block), exact(of_run.split.exact),
        s_parts(reinterpret_cast<__half*>(s_tiles + S::kRings)),
        sums(reinterpret_cast<int*>(s_tiles + S::kRings + S::kPartBytes / 4 + K * (D + 4)),
             of_run.to_word, of_run.next),
        grid_sums_(of_run.words, incremental_sums(of_run.split.exact.k, D), kInHalves) {
    exact.s_centroids = s_tiles + S::kRings + S::kPartBytes / 4;
    const unsigned stride = exact.stride();
    for (unsigned e = threadIdx.x; e < K * stride; e += kThreads) {
      const unsigned j = e / stride, f = e % stride;
      exact.s_centroids[e] =
          j < exact.k && f < task.split.d ? task.run.initial[j * task.split.d + f] : 0.0f;
    }
    for (unsigned j = threadIdx.x / 32; j < K; j += kThreads / 32) {
      sums.clear(j);
    }
    for (unsigned j = threadIdx.x; j < K; j += kThreads) {
      shared.counts[j] = shared.with_zeros[j] = 0;
    }
    for (unsigned f = threadIdx.x; f < D; f += kThreads) { // powers of two
      shared.to_word[f] = task.to_word.factor[f];
      shared.to_one[f] =
          1.0 / (static_cast<double>(task.to_word.factor[f]) * static_cast<double>(task.next) *
                 static_cast<double>(task.split.scale));
    }
    if (threadIdx.x == 0) {
      shared.changes = 0;
      shared.anew = shared.exact = 0;
      shared.previous = INFINITY;
      shared.pass = 0;
    }
  }

  /// The team's share of the tiles. All its threads; nothing may be on its way.
  template <typename Ring>
  __device__ Ring ring_of(float* s_tiles) const {
    return Ring(task.split.tiles, task.split.tiles_count,
                s_tiles + team * S::kStages * S::Tile::kBytes / 4, team * gridDim.x + blockIdx.x,
                gridDim.x * S::kTeams);
  }
  /// All threads: makes the parts of the centroids. factor, also: see split_centroids(); error: of
  /// scores that are made of them, and of a centroid of length `at_least` or the longest there is.
  template <typename Also>
  __device__ void begin_pass(float factor, const PlainError& error, float at_least, Also also) {
    split_centroids<S>(task.split, exact.s_centroids, s_parts, shared.half_squares, factor, also);
    __syncthreads(); // the parts are there
    const float longest = longest_of<S>(task.split, shared.half_squares);
    certain = 2.0f * error.of(task.split.longest, fmaxf(longest, at_least));
  }
  __device__ void begin_pass() {
    begin_pass(1.0f, task.split.of_scores, 0.0f, [](unsigned, float) {});
  }
  /// How many of a block's rows one row of so many is.
  __device__ unsigned one_row_of(unsigned many) const {
    return task.split.tiles_count * kRows / gridDim.x / many;
  }
  /// Whether this pass adds up all rows.
  __device__ bool is_afresh() const { return afresh_; }
  /// All threads: labels all rows, and adds them up. ring: of whole tiles, in its sweep number
  /// `sweep`.
  template <typename Ring>
  __device__ void add_up(Ring& ring, unsigned sweep) {
    double wanted = 0.0; // by the rule `loss`
    float all_sums[D / 8][4] = {};
#pragma unroll 1
    for (unsigned i = 0; i < ring.count(); ++i) {
      sync_team(team); // this tile is there, and nobody needs the one before
      const unsigned tile = warp_uniform(ring.place());
      float score[K / 8][4];
      multiply_tile<S>(tile, shared_address(s_parts) / 16, score);
      ring.fetch();
      const unsigned row = ring.tile(sweep, i) * kRows + first_row;
      const bool real = t < 2 && row + own < exact.n;
      const unsigned before = real ? task.clusters[row + own] : 0; // on its way
      wgmma_wait_group<0>();
      take_products(score);
      unsigned label[2];
      label_rows(exact, shared.half_squares, certain, score, label,
                 [&](unsigned r, const auto& among) {
                   return settle<S>(task.split, tile, first_row + r, row + r, among);
                 });
      const unsigned to = t == 0 ? label[0] : label[1];
      const unsigned from = shared.pass > 0 ? before % kMostIncremental : kNowhere;
      note_moves(real && to != from, row + own, from, to, before >= kWithZeros);
      if (t < 2) {
        shared.labels[team][first_row + own] =
            __ushort2half_rn(static_cast<unsigned short>(real ? to : kNoCluster));
      }
      add_tile(tile, all_sums);
      if (wants_loss()) {
        wanted += two_distances(exact, row + g, label);
      }
      __syncwarp(); // products are waited for together
      ring.await_next();
      ring.advance();
    }
    __syncthreads();                                   // nobody needs the parts
    float* s_sums = reinterpret_cast<float*>(s_parts); // [K, D]
    for (unsigned turn = 0; turn < S::kTeams; ++turn) {
      if (turn == team) {
        add_sums<S>(all_sums, turn > 0, s_sums);
      }
      __syncthreads(); // the team's sums are there
    }
    for (unsigned v = threadIdx.x; v < exact.k * D; v += kThreads) {
      sums.set(v / D, v % D, s_sums[v], task.to_word.factor[v % D]);
    }
    if (wants_loss()) {
      share_fact<kThreads>(task.run, grid_sums_, wanted);
    }
    __syncthreads(); // the sums are there
  }
  /// A whole warp, of which some lanes have a row that goes from one cluster to another: all but
  /// its values. Returns these lanes.
  __device__ unsigned note_moves(bool moves, unsigned row, unsigned from, unsigned to,
                                 bool with_zeros) const {
    const auto count = [&](int* s_rows) {
      atomicAdd(&s_rows[to], 1);
      if (from != kNowhere) {
        atomicSub(&s_rows[from], 1);
      }
    };
    if (moves) {
      task.clusters[row] = static_cast<std::uint8_t>(to + (with_zeros ? kWithZeros : 0));
      task.run.labels[row] = static_cast<std::int32_t>(to);
      count(shared.counts);
      if (with_zeros) {
        count(shared.with_zeros);
      }
    }
    const unsigned moving = __ballot_sync(kAllLanes, moves);
    if (threadIdx.x % 32 == 0 && moving != 0) {
      atomicAdd(&shared.changes, __popc(moving));
    }
    return moving;
  }
  /// All threads, after a barrier: ends a pass, and says whether it was the last.
  __device__ bool end_pass() {
    const unsigned k = exact.k;
    do { // a second time at most: what was asked for is exact then
      if (shared.anew != 0) {
        renew();
      }
#pragma unroll 4
      for (unsigned v = threadIdx.x; v < k * (D + 1); v += kThreads) {
        const unsigned j = v / (D + 1), f = v % (D + 1);
        grid_sums_.add(v, f < D ? sums.sum(j, f) : both_counts(j), 0);
      }
      if (threadIdx.x == 0) {
        grid_sums_.add(k * (D + 1), shared.changes, 0);
      }
      grid_sums_.finish();
    } while (!make_means());
    if (threadIdx.x == 0) {
      shared.changes = 0;
      if (afresh_) {
        shared.exact = 0;
      }
    }
    // The rule `loss` needs all distances, and only the sweep that adds up all rows makes them.
    afresh_ = wants_loss() || kMoving * shared.all_changes > exact.n;
    double previous = shared.previous;
    std::size_t pass = shared.pass;
    const bool last = cuda::end_pass<kThreads, D>(
        task.run, *this, k, task.split.d,
        [&](unsigned j, unsigned f, float) { return means()[j * D + f]; }, exact.s_centroids,
        [&](unsigned j, unsigned f) { return j * exact.stride() + f; }, pass, previous);
    shared.previous = previous; // all write the same
    shared.pass = pass;
    return last;
  }

  /// What the stop rule asks for, of a pass whose means are made. All threads. By the rule `loss`
  /// all rows are added up in every pass, so blocks have met once in it, as GridSums wants it for
  /// facts.
  __device__ double fact() const {
    return wants_loss() ? grid_sums_.fact() : shared.all_changes;
  }

  const IncrementalTask& task;
  IncrementalShared<S>& shared;
  ExactRows exact;
  __half* s_parts;
  MovedSums<D> sums;
  float certain = 0.0f; ///< twice the error of a score
  /// Of 64 rows of a tile, a warp has 16 from first_row on, and lane 4 g + t, if t < 2, answers for
  /// row `own`.
  const unsigned g = threadIdx.x % 32 / 4, t = threadIdx.x % 4, own = g + 8 * t;
  const unsigned team = warp_uniform(threadIdx.x / 128), first_row = threadIdx.x % 128 / 32 * 16;

private:
  static constexpr unsigned kNoCluster = 1000;

  __device__ bool wants_loss() const {
    return task.run.rule == StopRule::Kind::loss;
  }
  /// All threads, after a barrier: makes the sums anew that were asked for, of words.
  __device__ void renew() const {
    constexpr unsigned kListed = 4 * kThreads; // at once
    static_assert(kListed * sizeof(unsigned) <= S::kPartBytes);
    // Rows to be added up, kMostIncremental times each and its cluster more; in the place of the
    // parts.
    unsigned* s_rows = reinterpret_cast<unsigned*>(s_parts);
    // Opaque, so that no register is kept for this from pass to pass.
    const unsigned thread = keep_in_register(threadIdx.x), lane = thread % 32;
    const unsigned long long clusters = shared.anew;
    for (unsigned j = thread / 32; j < exact.k; j += kThreads / 32) {
      if ((clusters >> j & 1) != 0) {
        sums.clear(j);
      }
    }
#pragma unroll 1
    for (unsigned first = 0; (first / kRows * gridDim.x + blockIdx.x) * kRows < exact.n;
         first += kListed) { // of the block's rows
      if (thread == 0) {
        shared.listed = 0;
      }
      __syncthreads(); // the sums are clear, and the list is empty
      // On their way together:
      unsigned row[4], cluster[4];
#pragma unroll
      for (unsigned e = 0; e < 4; ++e) {
        const unsigned i = first + e * kThreads + thread;
        row[e] = (i / kRows * gridDim.x + blockIdx.x) * kRows + i % kRows;
        cluster[e] = row[e] < exact.n ? task.clusters[row[e]] % kMostIncremental : kNowhere;
      }
#pragma unroll
      for (unsigned e = 0; e < 4; ++e) {
        const bool wanted = cluster[e] != kNowhere && (clusters >> cluster[e] & 1) != 0;
        const unsigned all = __ballot_sync(kAllLanes, wanted);
        unsigned place = 0;
        if (lane == 0 && all != 0) {
          place = atomicAdd(&shared.listed, __popc(all));
        }
        place = warp_uniform(place) + __popc(all & ((1u << lane) - 1));
        if (wanted) {
          s_rows[place] = row[e] * kMostIncremental + cluster[e];
        }
      }
      __syncthreads(); // the list is there
#pragma unroll 1
      for (unsigned i = thread / 4; i < shared.listed; i += kThreads / 4) {
        const unsigned its = s_rows[i];
        QuarterRow<D>(exact, its / kMostIncremental, lane % 4)
            .in_parts(task.split.scale, [&](unsigned f, float x) {
              sums.add(f, x, shared.to_word[f], its % kMostIncremental);
            });
      }
      __syncthreads(); // nobody needs the list
    }
    if (thread == 0) {
      shared.exact |= clusters;
      shared.anew = 0;
    }
  }
  /// See incremental_sums(). Less than 2^31 each.
  __device__ long long both_counts(unsigned j) const {
    return shared.counts[j] + (static_cast<long long>(shared.with_zeros[j]) << 32);
  }
  /// [k, D], in the place of the parts.
  __device__ float* means() const {
    return reinterpret_cast<float*>(s_parts);
  }
  /// Any thread: asks for a cluster's sum to be made anew, unless it is exact.
  __device__ void ask_for(unsigned j) const {
    if ((shared.exact >> j & 1) == 0) {
      atomicOr(&shared.anew, 1ull << j);
    }
  }
  /// All threads: makes the means of the sums over all blocks, which are there. Thread e % kThreads
  /// makes element e, and cuda::end_pass() asks that thread for it: no barrier is needed between
  /// them. False, in all blocks, if sums must be made anew first.
  __device__ bool make_means() const {
    constexpr unsigned kOwn = (K * D + kThreads - 1) / kThreads;
    const unsigned values = exact.k * D;
    long long sum[kOwn], counts = 0; // on their way together
#pragma unroll
    for (unsigned b = 0; b < kOwn; ++b) {
      const unsigned e = min(threadIdx.x + b * kThreads, values - 1);
      sum[b] = grid_sums_.whole_sum(e + e / D);
    }
    if (threadIdx.x < exact.k) {
      const unsigned j = threadIdx.x;
      counts = grid_sums_.whole_sum(j * (D + 1) + D);
      const float size = static_cast<float>(static_cast<unsigned>(counts));
      const float with_zeros = static_cast<float>(counts >> 32);
      shared.to_each[j] = size > 0.0f ? 1.0 / static_cast<unsigned>(counts) : 0.0;
      if (afresh_) {
        shared.counts_then[j] = size;
      } else if (size < 0.25f * shared.counts_then[j] ||
                 (size < task.least_rows && size - with_zeros < 0.25f * size)) {
        ask_for(j); // few of its rows are left, or few may have anything in some feature
      }
    } else if (threadIdx.x == kThreads - 1) {
      shared.all_changes = static_cast<double>(grid_sums_.whole_sum(exact.k * (D + 1)));
    }
    __syncthreads(); // to_each and the changes are there
#pragma unroll
    for (unsigned b = 0; b < kOwn; ++b) {
      const unsigned e = threadIdx.x + b * kThreads, j = e / D, f = e % D;
      if (e < values) {
        means()[e] = shared.to_each[j] > 0.0
                         ? static_cast<float>(static_cast<double>(sum[b]) * shared.to_each[j] *
                                              shared.to_one[f])
                         : exact.s_centroids[j * exact.stride() + f];
      }
    }
    return shared.anew == 0;
  }
  /// Adds a tile's rows to the team's sums.
  __device__ void add_tile(unsigned tile, float (&all_sums)[D / 8][4]) const {
    float tile_sums[D / 8][4];
    sync_team(team); // the labels are there
    start_sums<S, 0, 2>(tile, shared.labels[team], tile_sums);
    wgmma_wait_group<0>(); // in two halves for want of registers
    take_products(tile_sums);
    start_sums<S, 2, 2>(tile, shared.labels[team], tile_sums);
    finish_sums<S>(tile_sums, all_sums);
  }

  GridSums grid_sums_;
  bool afresh_ = true;
};

} // namespace clusterbench::cuda
