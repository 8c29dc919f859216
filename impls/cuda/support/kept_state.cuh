// What a run that keeps the sums of its rows (kept_run.cuh) is told, and what each of its blocks
// keeps.
#pragma once

#include "impls/cuda/support/magnitudes.hpp"
#include "impls/cuda/support/moved_sums.cuh"
#include "impls/cuda/support/one_launch.cuh"
#include "impls/cuda/support/split_teams.cuh"

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

namespace clusterbench::cuda {

inline constexpr unsigned kMostKept = 64;         ///< features, and clusters
inline constexpr unsigned kWithZeros = kMostKept; ///< see KeptTask::clusters

struct KeptTask {
  RunTask run;
  SplitRun split;
  std::uint8_t* clusters;     ///< [n] of the pass before, and kWithZeros more if the row has zeros
  long long* words;           ///< of GridSums
  ToWords<kMostKept> to_word; ///< see MovedSums; of parts
  float next;                 ///< 2^bits of a word
  float least_rows;           ///< of a cluster that no feature's zeros fill: see Zeros
};

/// Sums over all blocks, of k clusters: [k, width + 1], the count behind the features, and how many
/// rows of them have zeros in its upper half; and behind all of them how many rows have changed
/// their cluster.
__host__ __device__ constexpr unsigned kept_sums(unsigned k, unsigned width) {
  return k * (width + 1) + 1;
}

/// What a block of S::kThreads keeps. Dynamic shared memory: rings of tiles, parts of the centroids
/// or what takes their place (see SplitShape), the centroids [K, stride], and the words of their
/// sums.
template <typename S>
struct KeptShared {
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
  alignas(16) float to_word[S::D]; ///< see KeptTask; where lanes read different ones
  double to_one[S::D];             ///< what takes the units of a feature's sums to one
  alignas(8) __half labels[S::kTeams][kRows];

  static constexpr std::size_t dynamic_bytes() {
    return (S::kRings + S::K * (S::D + 4) + S::K * MovedSums<S::D>::kWords) * sizeof(float) +
           S::kPartBytes;
  }
};

} // namespace clusterbench::cuda
