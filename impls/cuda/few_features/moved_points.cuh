// Sums of a block's points by cluster that stay from pass to pass: a point that changes its cluster
// is taken from one and added to the other. Exact, as in integer_sums.cuh, so that nothing drifts,
// whatever moves.
#pragma once

#include "impls/cuda/common/integer_sums.cuh"
#include "impls/cuda/common/magnitudes.hpp"

#include <cuda_runtime.h>

namespace clusterbench::cuda {

/// What a sweep leaves: points of the block that have changed their cluster, as many as there is
/// room for, each with the cluster it comes from, and their number.
struct Moves {
  static constexpr unsigned kMost = 2048;
  struct Move {
    unsigned point, from; ///< of 24 and 8 bits
  };

  unsigned *s_list, *s_count; ///< [kMost]; as many as noted or more

  __device__ void note(Move move) const {
    const unsigned place = atomicAdd(s_count, 1u);
    if (place < kMost) {
      s_list[place] = move.point << 8 | move.from;
    }
  }
  __device__ Move at(unsigned place) const { return {s_list[place] >> 8, s_list[place] & 0xFF}; }
};

/// Adds to an integer in shared memory by halves, with a carry: additions of 32 bits are one
/// instruction there, and threads that meet need not try again.
__device__ inline void add_integer_shared(long long* s_to, long long value) {
  auto* s_halves = reinterpret_cast<unsigned*>(s_to);
  const auto low = static_cast<unsigned>(value);
  const unsigned before = atomicAdd(s_halves, low);
  const unsigned carry = before + low < low ? 1 : 0;
  atomicAdd(s_halves + 1, static_cast<unsigned>(value >> 32) + carry);
}

/// All threads, once a run: what MovedPoints wants of units, [D + 1] each. A barrier must follow.
template <unsigned D, std::size_t kMost>
__device__ void set_units(const ToWords<kMost>& to_words, float next, float* s_to_word,
                          double* s_units) {
  if (threadIdx.x <= D) {
    const float to_word = threadIdx.x < D ? to_words.factor[threadIdx.x] : 1.0f;
    s_to_word[threadIdx.x] = to_word;
    s_units[threadIdx.x] = 1.0 / (static_cast<double>(to_word) * static_cast<double>(next));
  }
}

/// Of k clusters with D features and their counts, which are a feature more, of value one. There
/// are several copies, so that lanes seldom meet in one place.
template <unsigned D, unsigned copies = 8, unsigned nowhere = 0xFF>
class MovedPoints {
public:
  static constexpr unsigned kCopies = copies;
  static constexpr unsigned kNowhere = nowhere; ///< the cluster of a point in no sum
  /// A copy: two words a value, and one more, so that copies lie in different banks.
  static constexpr unsigned kWords = 2 * (D + 1) + 1;

  /// s_words: [k, kCopies, kWords]; s_rests: [k, D + 1]; s_to_word: [D + 1] powers of two that make
  /// values less than `next`, which is one, too, and small enough for the first words of all points
  /// of the block to fit an int; s_units: [D + 1] what one in the second word is worth.
  __device__ MovedPoints(int* s_words, long long* s_rests, const float* s_to_word,
                         const double* s_units, float next, unsigned k)
      : s_words_(s_words), s_rests_(s_rests), s_to_word_(s_to_word), s_units_(s_units), next_(next),
        k_(k) {}

  /// All threads. A barrier must follow.
  __device__ void clear() const {
    for (unsigned e = threadIdx.x; e < k_ * kCopies * kWords; e += blockDim.x) {
      s_words_[e] = 0;
    }
    for (unsigned e = threadIdx.x; e < k_ * (D + 1); e += blockDim.x) {
      s_rests_[e] = 0;
    }
  }
  /// Any thread: value x of a point's feature f goes from one cluster to another, in some copy.
  __device__ void move(unsigned copy, unsigned f, float x, unsigned from, unsigned to) const {
    const Words words = Words::of(x, s_to_word_[f], next_);
    atomicAdd(words_of(to, copy) + f, words.first);
    atomicAdd(words_of(to, copy) + D + 1 + f, words.second);
    if (from != kNowhere) {
      atomicSub(words_of(from, copy) + f, words.first);
      atomicSub(words_of(from, copy) + D + 1 + f, words.second);
    }
    move_rest(f, words.beneath, from, to);
  }
  /// All lanes of a warp that have a point: adds it to a cluster.
  __device__ void add(const float (&x)[D], unsigned to) const {
#pragma unroll
    for (unsigned f = 0; f <= D; ++f) {
      move(threadIdx.x, f, f < D ? x[f < D ? f : 0] : 1.0f, kNowhere, to);
    }
  }
  /// Any thread: sum v of [k, D + 1].
  __device__ double sum(unsigned v) const {
    const unsigned f = v % (D + 1);
    const int* words = words_of(v / (D + 1), 0) + f;
    // Copies may overflow, as one is added to and another taken from; their sums fit.
    unsigned first = 0, second = 0;
#pragma unroll
    for (unsigned c = 0; c < kCopies; ++c) {
      first += static_cast<unsigned>(words[c * kWords]);
      second += static_cast<unsigned>(words[c * kWords + D + 1]);
    }
    return fma(static_cast<double>(static_cast<int>(first)), static_cast<double>(next_),
               static_cast<double>(static_cast<int>(second)) +
                   static_cast<double>(s_rests_[v]) * (1.0 / static_cast<double>(kBeneath))) *
           s_units_[f];
  }

protected:
  __device__ void move_rest(unsigned f, float beneath, unsigned from, unsigned to) const {
    if (beneath != 0.0f) {
      const long long rest = __float2ll_rn(beneath * kBeneath);
      add_integer_shared(s_rests_ + to * (D + 1) + f, rest);
      if (from != kNowhere) {
        add_integer_shared(s_rests_ + from * (D + 1) + f, -rest);
      }
    }
  }
  __device__ int* words_of(unsigned j, unsigned copy) const {
    return s_words_ + (j * kCopies + copy % kCopies) * kWords;
  }

  int* s_words_;
  long long* s_rests_;
  const float* s_to_word_;
  const double* s_units_;
  float next_;
  unsigned k_;
};

} // namespace clusterbench::cuda
