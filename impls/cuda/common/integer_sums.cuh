// Sums of values as integers: in cells of shared memory that the warps of a block share, and over all
// blocks of a launch. Additions of integers have no order, so atomics give the same bits in every run.
//
// Fixed point: a value is two words, of 20 or 21 bits and a sign here and of fewer where a sum has more values, in
// units of a power of two of its feature. What lies beneath both, in values far smaller than the largest (2^17
// times with 20 bits), is added exactly as well.
#pragma once

#include "impls/cuda/common/warp_sums.cuh"

#include <cuda_runtime.h>

#include <cstddef>

namespace clusterbench::cuda {

inline constexpr float kRound = 12582912.0f; ///< 1.5 * 2^23: whoever adds it rounds to an integer
inline constexpr float kBeneath = 0x1p40f;   ///< units of a rest in one of the second word

/// A value in two words, scaled so that it is below `next`, a power of two up to 2^22, of which the
/// second is a fraction. Each step is exact: what is subtracted is what the value has been rounded to.
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

/// Sums over all blocks, which must all be resident (a cooperative launch). There is one barrier of the
/// grid a round, and three sets of sums: while one is added to, another is read and the third cleared. A launch
/// goes on where the one before has ended, so nothing need be cleared between them. One object a kernel.
class GridSums {
public:
  /// 64-bit words for `count` sums and a fact of each block; zero before the first launch. All launches have as
  /// many blocks.
  static std::size_t words(std::size_t count, std::size_t blocks) {
    return 9 * count + 2 * blocks + 1;
  }

  /// All threads. halves: sums over all blocks may not fit 64 bits, so the halves of each are added up apart.
  __device__ GridSums(long long* words, unsigned count, bool halves)
      : halves_(halves), words_(words), count_(count) {
    // Others may have arrived already, but the first round cannot end without this block: all divide alike.
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
      // The lower half of the count is enough: what is there differs from `all` by less than the blocks.
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
  /// Of sums [k, width], the count last: the mean of a feature whose units are `unit` to one, or `old`.
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

/// A block's sums of [k, D] and counts, in shared memory: k x copies x kWords cells, copies a power of
/// two, and k x D rests. Lane l adds to copy l % copies, so that with 32 no two lanes of a warp meet.
template <unsigned D>
struct IntegerCells {
  static constexpr int kBits = 21;
  /// Points a copy holds: 1023 words of 2^21 are an int.
  static constexpr unsigned kPoints = 1023;
  /// The first and the second word of every feature, and the count; odd, so that the copies of all
  /// lanes lie in different banks.
  static constexpr unsigned kWords = 2 * D + 1;

  int* s_cells;
  long long* s_rests;
  unsigned k, copies;

  template <unsigned kThreads>
  __device__ void clear() const {
    for (unsigned e = threadIdx.x; e < k * copies * kWords; e += kThreads) {
      s_cells[e] = 0;
    }
    for (unsigned e = threadIdx.x; e < k * D; e += kThreads) {
      s_rests[e] = 0;
    }
  }

  /// to_word: powers of two that make all values less than 2^kBits.
  __device__ void add(const float (&x)[D], unsigned label, const float* to_word) const {
    int* cells = s_cells + (label * copies + (threadIdx.x & (copies - 1))) * kWords;
    bool whole = true;
    float beneath[D];
#pragma unroll
    for (unsigned f = 0; f < D; ++f) {
      const auto words = Words::of(x[f], to_word[f], 1 << kBits);
      beneath[f] = words.beneath;
      whole = whole && beneath[f] == 0.0f;
      atomicAdd(&cells[f], words.first); // warps share the cells
      atomicAdd(&cells[D + f], words.second);
    }
    atomicAdd(&cells[2 * D], 1);
    if (!whole) {
#pragma unroll
      for (unsigned f = 0; f < D; ++f) {
        if (beneath[f] != 0.0f) {
          add_integer(&s_rests[label * D + f], __float2ll_rn(beneath[f] * kBeneath));
        }
      }
    }
  }

  /// Adds the sums and counts, [k, D + 1], to those of all blocks, and clears them. Four lanes a value,
  /// each a quarter of the copies, of which there are at least eight.
  template <unsigned kThreads>
  __device__ void drain(const GridSums& sums) const {
    const unsigned lanes = k * (D + 1) * 4, quarter = copies / 4;
    for (unsigned u = threadIdx.x; u - threadIdx.x % 32 < lanes; u += kThreads) {
      const unsigned e = min(u, lanes - 1) / 4, j = e / (D + 1), f = e % (D + 1);
      int* cell = s_cells + (j * 4 + u % 4) * quarter * kWords + (f < D ? f : 2 * D);
      const bool real = u < lanes;
      long long sum = 0;
      for (unsigned c = 0; real && c < quarter; c += 2, cell += 2 * kWords) { // loads before stores
        const int first[2] = {cell[0], cell[kWords]};
        const int second[2] = {f < D ? cell[D] : 0, f < D ? cell[kWords + D] : 0};
        sum += (static_cast<long long>(first[0]) + first[1]) * (f < D ? 1 << kBits : 1);
        sum += static_cast<long long>(second[0]) + second[1];
        cell[0] = cell[kWords] = 0;
        if (f < D) {
          cell[D] = cell[kWords + D] = 0;
        }
      }
      sum = over_lanes<4>(sum);
      if (real && u % 4 == 0) {
        long long rest = 0;
        if (f < D) {
          rest = s_rests[j * D + f];
          s_rests[j * D + f] = 0;
        }
        sums.add(e, sum, rest);
      }
    }
  }
};

/// The same where the four lanes of a row have four of every 16 features each, [k, copies, 4, kWords]:
/// rows g of a tile add to copy g % copies. Rests are [k, kFeatures].
template <unsigned kChunks>
struct QuadCells {
  static constexpr int kBits = 20;
  static constexpr unsigned kPoints = 2047; ///< of 2^20 each, of a copy
  static constexpr unsigned kOwn = 4 * kChunks, kWords = 2 * kOwn + 1, kFeatures = 16 * kChunks;

  int* s_cells;
  long long* s_rests;
  const float* s_to_word; ///< [kFeatures] powers of two
  unsigned k, d, copies;

  template <unsigned kThreads>
  __device__ void clear() const {
    for (unsigned e = threadIdx.x; e < k * copies * 4 * kWords; e += kThreads) {
      s_cells[e] = 0;
    }
    for (unsigned e = threadIdx.x; e < k * kFeatures; e += kThreads) {
      s_rests[e] = 0;
    }
  }

  /// Adds the lane's values of a row.
  __device__ void add(const float4 (&x)[kChunks], unsigned label) const {
    const unsigned lane = threadIdx.x % 32, t = lane % 4;
    const unsigned copy = label * copies + (lane / 4 & (copies - 1));
    int* cells = s_cells + (copy * 4 + t) * kWords;
    bool whole = true;
    float beneath[kOwn];
#pragma unroll
    for (unsigned c = 0; c < kChunks; ++c) {
      const float4 to_word = *reinterpret_cast<const float4*>(s_to_word + c * 16 + t * 4);
      const float of[4] = {to_word.x, to_word.y, to_word.z, to_word.w};
      const float v[4] = {x[c].x, x[c].y, x[c].z, x[c].w};
#pragma unroll
      for (unsigned e = 0; e < 4; ++e) {
        const auto words = Words::of(v[e], of[e], 1 << kBits);
        beneath[c * 4 + e] = words.beneath;
        whole = whole && words.beneath == 0.0f;
        atomicAdd(&cells[c * 4 + e], words.first); // warps share the cells
        atomicAdd(&cells[kOwn + c * 4 + e], words.second);
      }
    }
    if (t == 0) {
      atomicAdd(&cells[2 * kOwn], 1);
    }
    if (!whole) {
#pragma unroll
      for (unsigned e = 0; e < kOwn; ++e) {
        if (beneath[e] != 0.0f) {
          add_integer(&s_rests[label * kFeatures + e / 4 * 16 + t * 4 + e % 4],
                      __float2ll_rn(beneath[e] * kBeneath));
        }
      }
    }
  }

  /// Adds the sums and counts, [k, d + 1], to those of all blocks, and clears them.
  template <unsigned kThreads>
  __device__ void drain(const GridSums& sums) const {
    for (unsigned v = threadIdx.x; v < k * (d + 1); v += kThreads) {
      const unsigned j = v / (d + 1), f = v % (d + 1);
      const bool counts = f == d;
      int* cell = s_cells + j * copies * 4 * kWords +
                  (counts ? 2 * kOwn : f % 16 / 4 * kWords + f / 16 * 4 + f % 4);
      long long first = 0, second = 0, rest = 0;
      for (unsigned c = 0; c < copies; ++c, cell += 4 * kWords) {
        first += cell[0];
        cell[0] = 0;
        if (!counts) {
          second += cell[kOwn];
          cell[kOwn] = 0;
        }
      }
      if (!counts) {
        first *= 1 << kBits;
        rest = s_rests[j * kFeatures + f];
        s_rests[j * kFeatures + f] = 0;
      }
      sums.add(v, first + second, rest);
    }
  }
};

} // namespace clusterbench::cuda
