// What an incremental run keeps from pass to pass: sums, and the state of every row.
#pragma once

#include "impls/cuda/common/integer_sums.cuh"
#include "impls/cuda/common/magnitudes.hpp"
#include "impls/cuda/common/one_launch.cuh"
#include "impls/cuda/few_clusters/split_rows.cuh"

#include <cstddef>
#include <cstdint>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

namespace clusterbench::cuda {

// ---- sums
//
// Sums of a block's rows by cluster that stay from pass to pass: a row that changes its cluster is
// taken from one and added to the other. Sums in fixed point do not drift, and have no order: the
// same bits in every run.
//
// A value is two words in units of a power of two of its feature, so many bits each that the words
// of all rows of a block fit an int; what lies beneath both is rounded off, the same whenever the
// row moves.

/// Of k clusters with D features, a multiple of eight up to 64. Where a warp moves a row, lane l
/// has features 2 l and 2 l + 1; where four lanes do, each has four neighbours of every 16.
template <unsigned D>
class MovedSums {
public:
  static constexpr unsigned kNowhere = 0xFF; ///< the cluster of a row in no sum
  /// A cluster; so many that where eight rows are moved by four lanes each, clusters lie in
  /// different banks.
  static constexpr unsigned kWords = 2 * D + 4;

  /// s_words: [k, kWords], to be cleared. next: 2^bits; to_word: powers of two that take a
  /// feature's values to no more than that.
  __device__ MovedSums(int* s_words, const ToWords<64>& to_word, float next)
      : s_words_(s_words), next_(next) {
    if (lane() < D / 2) {
      to_word_ = {to_word.factor[2 * lane()], to_word.factor[2 * lane() + 1]};
      own_ = place_of(2 * lane());
    }
  }
  /// A whole warp: clears the sums of a cluster. A barrier must follow.
  __device__ void clear(unsigned j) const {
    for (unsigned e = lane(); e < kWords; e += 32) {
      s_words_[j * kWords + e] = 0;
    }
  }
  /// A whole warp: moves a row of which each lane has its two values.
  __device__ void move(float2 x, unsigned from, unsigned to) const {
    if (lane() < D / 2) {
      const Words first = Words::of(x.x, to_word_.x, next_);
      const Words second = Words::of(x.y, to_word_.y, next_);
      const unsigned next = own_ + lanes_of(2 * lane());
      move_words(own_, first, from, to);
      move_words(next, second, from, to);
    }
  }
  /// Any thread: moves one value of a row.
  __device__ void move(unsigned f, float x, float to_word, unsigned from, unsigned to) const {
    move_words(place_of(f), Words::of(x, to_word, next_), from, to);
  }
  /// Any thread: adds one value of a row that is in no sum.
  __device__ void add(unsigned f, float x, float to_word, unsigned to) const {
    const Words words = Words::of(x, to_word, next_);
    int* there = place(to, f);
    atomicAdd(there, words.first); // warps share them
    atomicAdd(there + D, words.second);
  }
  /// Any thread: makes `sum` the sum of a feature.
  __device__ void set(unsigned j, unsigned f, float sum, float to_word) const {
    const int first = __float2int_rn(sum * to_word);
    int* words = place(j, f);
    words[0] = first; // from 2^24 on this is all that the float had
    words[D] = __float2int_rn((sum * to_word - static_cast<float>(first)) * next_);
  }
  /// Any thread: a sum, in units of the second word.
  __device__ long long sum(unsigned j, unsigned f) const {
    const int* words = place(j, f);
    return static_cast<long long>(words[0]) * static_cast<int>(next_) + words[D];
  }

private:
  /// How many lanes have features of the 16 that f is one of, where four lanes move a row.
  __device__ static unsigned lanes_of(unsigned f) { return f / 16 * 16 + 16 > D ? 2 : 4; }
  /// Among the first words of a cluster; the second ones are D behind them. Features that those
  /// lanes move at once are neighbours.
  __device__ static unsigned place_of(unsigned f) {
    return f / 16 * 16 + f % 4 * lanes_of(f) + f % 16 / 4;
  }
  __device__ int* place(unsigned j, unsigned f) const {
    return s_words_ + j * kWords + place_of(f);
  }
  __device__ void move_words(unsigned at, const Words& words, unsigned from, unsigned to) const {
    int *there = s_words_ + to * kWords + at, *here = s_words_ + from * kWords + at;
    atomicAdd(there, words.first); // warps share them
    atomicAdd(there + D, words.second);
    atomicSub(here, words.first);
    atomicSub(here + D, words.second);
  }
  __device__ static unsigned lane() { return threadIdx.x % 32; }

  int* s_words_;
  float next_;
  float2 to_word_{};
  unsigned own_ = 0; ///< where the lane's first feature is
};

// ---- the state of a run
//
// What a run that keeps the sums of its rows (incremental_run.cuh) is told, and what each of its
// blocks keeps.

inline constexpr unsigned kMostIncremental = 64;         ///< features, and clusters
inline constexpr unsigned kWithZeros = kMostIncremental; ///< see IncrementalTask::clusters

struct IncrementalTask {
  RunTask<> run;
  SplitRun split;
  std::uint8_t* clusters; ///< [n] of the pass before, and kWithZeros more if the row has zeros
  long long* words;       ///< of GridSums
  ToWords<kMostIncremental> to_word; ///< see MovedSums; of parts
  float next;                        ///< 2^bits of a word
  float least_rows;                  ///< of a cluster that no feature's zeros fill: see Zeros
};

/// Sums over all blocks, of k clusters: [k, width + 1], the count behind the features, and how many
/// rows of them have zeros in its upper half; and behind all of them how many rows have changed
/// their cluster.
__host__ __device__ constexpr unsigned incremental_sums(unsigned k, unsigned width) {
  return k * (width + 1) + 1;
}

/// What a block of S::kThreads keeps. Dynamic shared memory: rings of tiles, parts of the centroids
/// or what takes their place (see SplitShape), the centroids [K, stride], and the words of their
/// sums.
template <typename S>
struct IncrementalShared {
  static constexpr unsigned kRows = S::Tile::kRows;

  union { // large shapes leave no room for both; barriers of end_pass() lie between their uses
    alignas(8) float half_squares[S::K]; ///< of the centroids, while rows are labelled
    double to_each[S::K];                ///< one over a cluster's rows, or 0, while means are made
  };
  int counts[S::K];        ///< rows of a cluster, of this block
  int with_zeros[S::K];    ///< and those of them with zeros
  float counts_then[S::K]; ///< over all blocks, when all rows were added up
  unsigned changes;        ///< rows that have changed their cluster in this pass
  unsigned listed;         ///< rows to be added up anew
  double all_changes;      ///< those of all blocks, in the pass before
  unsigned long long anew; ///< clusters whose sums are to be made anew, a bit each
  /// Those whose sums have been made anew since all blocks added up all rows. (A block that goes on
  /// adding up on its own has rounded sums, but of the rows that are there: nothing was left
  /// behind.)
  unsigned long long exact;
  // Not in registers, of which there are too few:
  double previous;                 ///< the last fact
  std::size_t pass;                ///< from 0
  alignas(16) float to_word[S::D]; ///< see IncrementalTask; where lanes read different ones
  double to_one[S::D];             ///< what takes the units of a feature's sums to one
  alignas(8) __half labels[S::kTeams][kRows];

  static constexpr std::size_t dynamic_bytes() {
    return (S::kRings + S::K * (S::D + 4) + S::K * MovedSums<S::D>::kWords) * sizeof(float) +
           S::kPartBytes;
  }
};

} // namespace clusterbench::cuda
