// Sums of values as integers, over all blocks of a launch. Additions of integers have no order, so
// atomics give the same bits in every run.
//
// Fixed point: a value is two words, of 20 or 21 bits and a sign here and of fewer where a sum has
// more values, in units of a power of two of its feature. What lies beneath both, in values far
// smaller than the largest (2^17 times with 20 bits), is added exactly as well.
#pragma once

#include "impls/cuda/common/runtime.hpp"

#include <cuda_runtime.h>

#include <cstddef>

namespace clusterbench::cuda {

inline constexpr float kRound = 12582912.0f; ///< 1.5 * 2^23: whoever adds it rounds to an integer
inline constexpr float kBeneath = 0x1p40f;   ///< units of a rest in one of the second word

/// A value in two words, scaled so that it is below `next`, a power of two up to 2^22, of which the
/// second is a fraction. Each step is exact: what is subtracted is what the value has been rounded
/// to.
struct Words {
  int first, second;
  float beneath; ///< in units of the second word

  __device__ static Words of(float value, float to_word, float next) {
    const float first = fmaf(value, to_word, kRound);
    const float rest = fmaf(value, to_word, kRound - first);
    const float second = fmaf(rest, next, kRound);
    return {__float_as_int(first) - __float_as_int(kRound),
            __float_as_int(second) - __float_as_int(kRound), fmaf(rest, next, kRound - second)};
  }
};

__device__ inline void add_integer(long long* to, long long value) {
  atomicAdd(reinterpret_cast<unsigned long long*>(to), static_cast<unsigned long long>(value));
}

/// All threads: what a block's first warp reads, for all its threads. Where all warps of a launch
/// read the same few words, these come from a few places of the L2 cache, one after another.
template <typename Read>
__device__ double by_one_warp(Read read) {
  __shared__ double s_value;
  if (threadIdx.x < 32) {
    const double value = read();
    if (threadIdx.x == 0) {
      s_value = value;
    }
  }
  __syncthreads(); // the value is there
  return s_value;
}

/// Adds up values that other blocks left in memory, always in the same order. Whole warps; all
/// lanes get it.
__device__ inline double sum_of_blocks(const double* values, unsigned blocks) {
  double sum = 0.0;
  for (unsigned block = threadIdx.x % 32; block < blocks; block += 32) {
    sum += __ldcg(values + block); // L1 could hold old ones
  }
  return over_lanes<32>(sum);
}

/// Sums over all blocks, which must all be resident (a cooperative launch). There is one barrier of
/// the grid a round, and three sets of sums: while one is added to, another is read and the third
/// cleared. A launch goes on where the one before has ended, so nothing need be cleared between
/// them. One object a kernel.
class GridSums {
public:
  /// 64-bit words for `count` sums and a fact of each block; zero before the first launch. All
  /// launches have as many blocks.
  static std::size_t words(std::size_t count, std::size_t blocks) {
    return 9 * count + 2 * blocks + 1;
  }

  /// All threads. halves: sums over all blocks may not fit 64 bits, so the halves of each are added
  /// up apart.
  __device__ GridSums(long long* words, unsigned count, bool halves)
      : halves_(halves), words_(words), count_(count) {
    // Others may have arrived already, but the first round cannot end without this block: all
    // divide alike.
    const unsigned long long rounds = __ldcg(arrived()) / gridDim.x;
    constexpr unsigned kPlaces = 6; // three for sums, two for facts
    round_ = static_cast<unsigned>(rounds % kPlaces);
    if (threadIdx.x == 0) {
      before() = static_cast<unsigned>((rounds - round_) * gridDim.x);
    }
  }

  /// Any thread: adds to sum v.
  __device__ void add(unsigned v, long long sum, long long rest) const {
    long long* to = words_ + round_ % 3 * 3 * count_ + v;
    add_integer(to, halves_ ? sum & 0xffffffff : sum);
    if (halves_) {
      add_integer(to + count_, sum >> 32);
    }
    if (rest != 0) {
      add_integer(to + 2 * count_, rest);
    }
  }
  /// One thread a block.
  __device__ void set_fact(double fact) const {
    facts()[round_ % 2 * gridDim.x + blockIdx.x] = fact;
  }

  /// All threads: returns when the sums of all blocks are there, and begins the next round.
  __device__ void finish() {
    __syncthreads(); // the block has added everything
    ++round_;
    if (threadIdx.x == 0) {
      __threadfence(); // what the block has added comes before its arrival
      atomicAdd(arrived(), 1ull);
      // The lower half of the count is enough: what is there differs from `all` by less than the
      // blocks.
      const unsigned all = before() + round_ * gridDim.x;
      const volatile unsigned long long* there = arrived();
      while (static_cast<int>(static_cast<unsigned>(*there) - all) < 0) {
      }
      __threadfence();
    }
    __syncthreads(); // all blocks have
    // Everyone has read the sums of the round before, which are those of the round after the next.
    long long* to = words_ + (round_ + 1) % 3 * 3 * count_;
    for (unsigned e = blockIdx.x * blockDim.x + threadIdx.x; e < 3 * count_;
         e += gridDim.x * blockDim.x) {
      to[e] = 0;
    }
  }
  /// A sum of the round that has ended, in units of the second word. L1 could hold an old one.
  __device__ double sum(unsigned v) const {
    const long long* from = words_ + (round_ + 2) % 3 * 3 * count_ + v;
    const double sum =
        static_cast<double>(__ldcg(from)) +
        static_cast<double>(__ldcg(from + 2 * count_)) / static_cast<double>(kBeneath);
    return halves_ ? sum + 0x1p32 * static_cast<double>(__ldcg(from + count_)) : sum;
  }
  /// The same where no rests are added, and no halves.
  __device__ long long whole_sum(unsigned v) const {
    return __ldcg(words_ + (round_ + 2) % 3 * 3 * count_ + v);
  }
  /// Of sums [k, width], the count last: the mean of a feature whose units are `unit` to one, or
  /// `old`.
  __device__ float mean(unsigned j, unsigned f, unsigned width, double unit, float old) const {
    const double size = sum(j * width + width - 1), total = sum(j * width + f);
    return size > 0.0 ? static_cast<float>(total / (unit * size)) : old;
  }
  /// The sum of all facts. All threads; a barrier must come before the next time.
  __device__ double fact() const {
    return by_one_warp(
        [&] { return sum_of_blocks(facts() + (round_ + 1) % 2 * gridDim.x, gridDim.x); });
  }

private:
  /// Arrivals before round 0 of this launch. In shared memory, as one thread asks for it.
  __device__ static unsigned& before() {
    __shared__ unsigned s_before;
    return s_before;
  }

  // Not kept in registers, which kernels have too few of:
  __device__ double* facts() const { // [2, blocks]
    return reinterpret_cast<double*>(words_ + 9 * std::size_t{count_});
  }
  __device__ unsigned long long* arrived() const {
    return reinterpret_cast<unsigned long long*>(facts() + 2 * gridDim.x);
  }

  bool halves_;
  long long* words_; // [3, 3, count]: low halves, high halves, rests
  unsigned count_, round_;
};

} // namespace clusterbench::cuda
