// Sums over all blocks of a launch, in words that count who has added to them: data is its own
// flag, and an addition is the only thing that a block sends. No barrier of the grid, no fence on
// the way, no clusters of blocks.
//
// A block's part, a double, is two integers of 46 bits and a sign (CountedWord), the second of
// which is the rest of the first: only what is less than 2^-91 of the largest that a part can be is
// rounded off. Integers have no order, so all blocks get the same bits in every run.
//
// Words are never cleared: who reads one subtracts what it was when its last round had ended. There
// are two sets, for odd and even rounds: a block adds to one again when all have sent in the round
// between, and so had read it. (Their additions are relaxed; but no thread leaves the loop that
// waits for a word before it has its value.)
//
// Additions to words of one line of the L2 cache wait for one another, and for those who look at
// it. So there are copies of all words, each for some of the blocks; and of a block one warp looks
// at one word until that is complete, before all are read. A host without CUDA sees CountedWord
// alone.
#pragma once

#include "impls/cuda/common/magnitudes.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>

#ifdef __CUDACC__
#include "impls/cuda/common/one_launch.cuh"
#include "impls/cuda/common/runtime.hpp"

#include <cuda_runtime.h>
#endif

namespace clusterbench::cuda {

/// A word that counts who has added to it: a sum in its lower 56 bits, and the number of parts in
/// the upper eight. A part is an integer of 46 bits and a sign, made positive by an offset; so
/// parts never borrow from the count, and 255 of them do not reach it. A word is never cleared:
/// what it was before a round is subtracted, modulo 2^64.
struct CountedWord {
  static constexpr unsigned kMostParts = 255;
  static constexpr double kMost = 0x1p46; ///< magnitude of a part

  /// What a part adds. One beyond kMost counts as that, and what is no number as the least: the
  /// count must not be touched, or blocks would wait for ever.
  CLUSTERBENCH_HOST_DEVICE static std::uint64_t part(double integer) {
    const double within = fmin(fmax(integer, -kMost), kMost);
    return kOne + static_cast<std::uint64_t>(static_cast<std::int64_t>(within) + kOffset);
  }
  /// Whether so many parts have been added since.
  CLUSTERBENCH_HOST_DEVICE static bool complete(std::uint64_t now, std::uint64_t before,
                                                unsigned parts) {
    return (now - before) / kOne == parts;
  }
  /// Their sum, exactly.
  CLUSTERBENCH_HOST_DEVICE static double sum(std::uint64_t now, std::uint64_t before,
                                             unsigned parts) {
    return static_cast<double>(static_cast<std::int64_t>((now - before) % kOne) - parts * kOffset);
  }

private:
  static constexpr std::uint64_t kOne = std::uint64_t{1} << 56;
  static constexpr std::int64_t kOffset = std::int64_t{1} << 46;
};

#ifdef __CUDACC__

/// The words of CountedSums in device memory.
struct CountedWords {
  static constexpr unsigned kSets = 2, kCopies = 2;

  /// Of so many sums, with the fact; zero before the first launch.
  static constexpr std::size_t size(std::size_t count) {
    return kSets * (kCopies + 1) * std::size_t{2} * of_part(static_cast<unsigned>(count));
  }
  /// First or second words of a copy, whole lines of 16.
  __host__ __device__ static constexpr unsigned of_part(unsigned count) {
    return (count + 15) / 16 * 16;
  }
};

/// Sums [k, D + 1], the counts last, and behind them the fact that the stop rule asks for; no more
/// than threads of a block. All blocks, CountedWord::kMostParts at most, must be resident (a
/// cooperative launch) and take part in every round.
template <unsigned D>
class CountedSums {
public:
  /// What lies in shared memory.
  struct Units {
    double to[D + 2], from[D + 2];
  };

  /// All threads. words: [CountedWords::size()] of `count`; s_totals: [count]. A barrier must
  /// follow.
  template <unsigned kMost, typename T>
  __device__ CountedSums(const RunTask<T>& run, unsigned k, unsigned d, std::uint64_t* words,
                         const SumUnits<kMost>& units, Units& s_units, double* s_totals)
      : words_(words), count_(k * (D + 1) + 1), units_(s_units), s_totals_(s_totals) {
    static_assert(D <= kMost);
    for (unsigned f = threadIdx.x; f < D + 2; f += blockDim.x) {
      const bool of_distances = f > D && run.rule == StopRule::Kind::loss;
      const double to = of_distances ? units.distances(longest_of_start(run.initial, k * d))
                        : f < D      ? units.features[f]
                                     : units.counts;
      s_units.to[f] = to;
      s_units.from[f] = 1.0 / to;
    }
    if (is_owner()) {
      before_ = *ended(0);
      of_next_ = *ended(1);
      // Stored, so that both have arrived at the barrier: behind it this block may send, and block
      // 0 come to leave().
      s_totals_[own()] = static_cast<double>(before_.x ^ of_next_.x);
    }
  }
  /// All threads, once a round, when the last one has ended: sends part(v), this block's part of
  /// sum v. A warp's additions are to neighbouring words.
  template <typename Part>
  __device__ void send(Part part) const {
    if (threadIdx.x < count_) {
      const unsigned v = threadIdx.x;
      const double scaled = part(v) * units_.to[unit_of(v)];
      const double first = rint(scaled), second = rint((scaled - first) * CountedWord::kMost);
      std::uint64_t* to = copy(set_, blockIdx.x % CountedWords::kCopies) + v;
      add(to, CountedWord::part(first));
      add(to + CountedWords::of_part(count_), CountedWord::part(second));
    }
  }
  /// All threads: returns when the totals of this round are in s_totals, and begins the next one.
  __device__ void finish() {
    if (count_ > kFew && gridDim.x > kFewBlocks && threadIdx.x < 32) {
      const std::uint64_t before =
          __shfl_sync(kAllLanes, before_.y, 0); // of the fact's second word
      while (!CountedWord::complete(load_word(count_ - 1, 1), before, gridDim.x)) {
      }
    }
    __syncthreads(); // most words are complete, and nobody needs what was sent
    ulonglong2 now{};
    if (is_owner()) {
      do {
        now = {load_word(own(), 0), load_word(own(), 1)};
      } while (!CountedWord::complete(now.x, before_.x, gridDim.x) ||
               !CountedWord::complete(now.y, before_.y, gridDim.x));
      s_totals_[own()] =
          fma(CountedWord::sum(now.y, before_.y, gridDim.x), 1.0 / CountedWord::kMost,
              CountedWord::sum(now.x, before_.x, gridDim.x)) *
          units_.from[unit_of(own())];
    }
    before_ = of_next_;
    of_next_ = now;
    set_ = 1 - set_;
    __syncthreads(); // the totals are there
  }
  /// All threads, when the last round has ended: the next launch goes on here.
  __device__ void leave() const {
    if (blockIdx.x == 0 && is_owner()) {
      *ended(set_) = before_; // all have read it, or no round would have ended
      *ended(1 - set_) = of_next_;
    }
  }

private:
  /// Sums, or blocks, so few that all owners may look at words while others still add: with 132
  /// blocks 10 sums gain by it, and 16 lose.
  static constexpr unsigned kFew = 12, kFewBlocks = 40;

  /// One thread: no less than the length of any centroid of the start, of so many values.
  template <typename T>
  __device__ static double longest_of_start(const T* start, unsigned values) {
    T largest = 0;
#pragma unroll 8
    for (unsigned e = 0; e < values; ++e) {
      largest = fmax(largest, fabs(start[e]));
    }
    return static_cast<double>(largest) * sqrt(static_cast<double>(D));
  }
  __device__ static void add(std::uint64_t* to, std::uint64_t part) {
    atomicAdd(reinterpret_cast<unsigned long long*>(to), part);
  }
  __device__ unsigned unit_of(unsigned v) const {
    return v + 1 == count_ ? D + 1 : v % (D + 1);
  }
  /// Each thread makes one total, the first one that of the fact.
  __device__ bool is_owner() const {
    return threadIdx.x < count_;
  }
  __device__ unsigned own() const {
    return count_ - 1 - threadIdx.x;
  }
  __device__ std::uint64_t* copy(unsigned set, unsigned c) const {
    return words_ + (set * (CountedWords::kCopies + 1) + c) * 2 * CountedWords::of_part(count_);
  }
  /// What this thread's words of a set were, all copies added up, when the launch before ended.
  __device__ ulonglong2* ended(unsigned set) const {
    return reinterpret_cast<ulonglong2*>(copy(set, CountedWords::kCopies) + 2 * own());
  }
  /// A word now, all copies added up.
  __device__ std::uint64_t load_word(unsigned v, unsigned part) const {
    std::uint64_t sum = 0;
#pragma unroll
    for (unsigned c = 0; c < CountedWords::kCopies; ++c) {
      const volatile std::uint64_t* word = copy(set_, c) + part * CountedWords::of_part(count_) + v;
      sum += *word;
    }
    return sum;
  }

  std::uint64_t* words_; // [kSets, kCopies, 2, of_part], and behind each set what it was
  unsigned count_;
  const Units& units_;
  double* s_totals_;
  unsigned set_ = 0;
  ulonglong2 before_{},
      of_next_{}; // this thread's words, of this round's set and of the next one's
};

// ---- the launch

/// Blocks that take all shared memory, so that each is alone on its multiprocessor, `most` at most.
/// n points need one for each `step` of them, of which threads take several at a time; but where
/// these leave more than a third of the multiprocessors idle, a thread takes one. Throws
/// std::runtime_error.
template <typename Task>
ClusterLaunch one_block_per_multiprocessor(void (*kernel)(const Task), std::size_t n,
                                           std::size_t step, unsigned threads, unsigned most) {
  cudaFuncAttributes attributes{};
  check(cudaFuncGetAttributes(&attributes, kernel), "cudaFuncGetAttributes");
  ClusterLaunch launch{.blocks = 0,
                       .threads = threads,
                       .cluster = 1,
                       .shared_bytes = shared_memory_limit() - attributes.sharedSizeBytes};
  const std::size_t there = std::min(resident_in_clusters(kernel, launch), most);
  const std::size_t steps = ceil_div(n, step);
  launch.blocks =
      static_cast<unsigned>(std::min(there, 3 * steps >= 2 * there ? steps : ceil_div(n, threads)));
  return launch;
}

#endif // __CUDACC__

} // namespace clusterbench::cuda
