// How the blocks of one launch exchange sums without a barrier of the grid: in words of 16 bytes,
// three values and the number ("stamp") of the round, written and read as one. Data is its own
// flag: whoever sees the stamp has the values, so no fence and no counter is needed, and a round
// costs one trip through L2 where storing, fence, barrier and loading cost three.
//
// All blocks must be resident (a cooperative launch). Stamps must differ from all that the memory
// held before. Words of odd and even rounds must lie apart: then a block writes a word again only
// after it has seen every block's word of the round between, which was written after this one was
// read.
#pragma once

#include "impls/cuda/support/warp_sums.cuh"

#include <cuda_runtime.h>

namespace clusterbench::cuda {

struct alignas(16) Word {
  float value[3];
  unsigned stamp;
};

// A .b128 access with relaxed semantics is one access to the memory model; four .b32 are not.
__device__ inline void publish(Word* to, float a, float b, float c, unsigned stamp) {
  asm volatile("{ .reg .b128 w; .reg .b64 lo, hi; mov.b64 lo, {%1, %2}; mov.b64 hi, {%3, %4};\n"
               "mov.b128 w, {lo, hi}; st.relaxed.gpu.global.b128 [%0], w; }" ::"l"(to),
               "r"(__float_as_uint(a)), "r"(__float_as_uint(b)), "r"(__float_as_uint(c)), "r"(stamp)
               : "memory");
}
__device__ inline Word look_at(const Word* from) {
  unsigned a = 0, b = 0, c = 0, stamp = 0;
  asm volatile("{ .reg .b128 w; .reg .b64 lo, hi; ld.relaxed.gpu.global.b128 w, [%4];\n"
               "mov.b128 {lo, hi}, w; mov.b64 {%0, %1}, lo; mov.b64 {%2, %3}, hi; }"
               : "=r"(a), "=r"(b), "=r"(c), "=r"(stamp)
               : "l"(from)
               : "memory");
  return {{__uint_as_float(a), __uint_as_float(b), __uint_as_float(c)}, stamp};
}

/// A double as two values of a word.
__device__ inline void publish(Word* to, double value, unsigned stamp) {
  publish(to, __int_as_float(__double2loint(value)), __int_as_float(__double2hiint(value)), 0.0f,
          stamp);
}
__device__ inline double double_in(const Word& word) {
  return __hiloint2double(__float_as_int(word.value[1]), __float_as_int(word.value[0]));
}

/// Waits for W words of each block and adds them up over the blocks, in the same order in every
/// warp that asks; all lanes get the totals. A lane adds up the words of kPerLane blocks, so there
/// may be 32 times as many. words: [W, 32 * kPerLane]
template <unsigned W, unsigned kPerLane, unsigned first = 0>
__device__ void gather(const Word* words, unsigned lane, unsigned stamp, float (&total)[3 * W]) {
  if constexpr (first < W) {
    // All words of a group are on their way before any is awaited; more of them would spill.
    constexpr unsigned kGroup = W - first <= 4 ? W - first : 3;
    Word seen[kGroup][kPerLane];
    const Word* from = &words[first * kPerLane * 32 + lane];
    asm volatile("" : "+l"(from)); // one address and constant offsets, not an address a word
#pragma unroll
    for (unsigned e = 0; e < kGroup * kPerLane; ++e) {
      const unsigned w = e / kPerLane, r = e % kPerLane;
      seen[w][r] = look_at(&from[(w * kPerLane + r) * 32]); // without a branch
    }
#pragma unroll
    for (unsigned w = 0; w < kGroup; ++w) {
      float sum[3] = {};
#pragma unroll
      for (unsigned r = 0; r < kPerLane; ++r) {
        if (lane + 32 * r < gridDim.x) {
          while (seen[w][r].stamp != stamp) {
            seen[w][r] = look_at(&from[(w * kPerLane + r) * 32]);
          }
#pragma unroll
          for (unsigned c = 0; c < 3; ++c) {
            sum[c] += seen[w][r].value[c];
          }
        }
      }
      __syncwarp(); // lanes may have waited for different lengths of time
#pragma unroll
      for (unsigned c = 0; c < 3; ++c) {
        total[3 * (first + w) + c] = over_lanes<32>(sum[c]);
      }
    }
    gather<W, kPerLane, first + kGroup>(words, lane, stamp, total);
  }
}

/// The same for the double that every block has published. words: [blocks]
__device__ inline double gather_double(const Word* words, unsigned lane, unsigned stamp) {
  double total = 0.0;
  for (unsigned block = lane; block < gridDim.x; block += 32) {
    Word word = look_at(&words[block]);
    while (word.stamp != stamp) {
      word = look_at(&words[block]);
    }
    total += double_in(word);
  }
  __syncwarp();
  return over_lanes<32>(total);
}

/// What all blocks know after an exchange of means; the same bits in every thread.
struct Exchanged {
  double squared_shift; ///< sum of |mean - old|^2
  double fact;          ///< sum of the blocks' facts, if they are wanted
};

/// Exchanges a block's weighted sums for the means over all blocks, in two trips: the sums of two
/// features of a cluster and its weight go to the warp that owns this pair, its means to all. A mean
/// without weight is the old one. All threads of all blocks must call it.
///
/// s_sums: [k, width] in shared memory, width even; the block's sums, in whose place the means are
/// left, each visible to the thread that takes the same pairs (first threadIdx.x, then in steps of
/// kThreads) and after a barrier to all. weight_of(j): the block's weight. fact: in thread 0.
/// sums: [k * width / 2 + 1, 32 * kPerLane], means: [k * width / 2 + 1].
///
/// One set of words is enough: a block shares new sums only after it has seen all means, whose
/// owners have read the old sums, and an owner shares new means only after all blocks' new sums.
template <unsigned kPerLane, unsigned kThreads, typename WeightOf>
__device__ Exchanged exchange_means(Word* sums, Word* means, float* s_sums, const float* s_old,
                                    unsigned k, unsigned width, WeightOf weight_of, bool wants_fact,
                                    double fact, unsigned stamp) {
  constexpr unsigned kWarps = kThreads / 32, kMaxBlocks = 32 * kPerLane;
  __shared__ double s_shift[kWarps], s_fact;
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const unsigned pairs = k * width / 2;
  for (unsigned pair = threadIdx.x; pair < pairs; pair += kThreads) {
    publish(&sums[pair * kMaxBlocks + blockIdx.x], s_sums[2 * pair], s_sums[2 * pair + 1],
            weight_of(2 * pair / width), stamp);
  }
  if (wants_fact && threadIdx.x == 0) {
    publish(&sums[pairs * kMaxBlocks + blockIdx.x], fact, stamp);
  }
  for (unsigned pair = blockIdx.x + warp * gridDim.x; pair < pairs + (wants_fact ? 1 : 0);
       pair += kWarps * gridDim.x) { // a warp owns a pair; the last one is the fact
    const Word* shared = &sums[pair * kMaxBlocks];
    if (pair == pairs) {
      const double total = gather_double(shared, lane, stamp);
      if (lane == 0) {
        publish(&means[pair], total, stamp);
      }
    } else {
      float total[3];
      gather<1, kPerLane>(shared, lane, stamp, total);
      const bool empty = !(total[2] > 0.0f);
      if (lane == 0) {
        publish(&means[pair], empty ? s_old[2 * pair] : total[0] / total[2],
                empty ? s_old[2 * pair + 1] : total[1] / total[2], 0.0f, stamp);
      }
    }
  }
  const auto await = [&](unsigned pair) {
    Word word = look_at(&means[pair]);
    while (word.stamp != stamp) {
      word = look_at(&means[pair]);
    }
    return word;
  };
  double shift = 0.0;
  for (unsigned pair = threadIdx.x; pair < pairs; pair += kThreads) {
    const Word mean = await(pair);
    for (unsigned v = 0; v < 2; ++v) {
      const double old = static_cast<double>(s_old[2 * pair + v]);
      const double moved = static_cast<double>(mean.value[v]) - old;
      shift += moved * moved;
      s_sums[2 * pair + v] = mean.value[v];
    }
  }
  __syncwarp(); // lanes may have waited for different lengths of time
  shift = over_lanes<32>(shift);
  if (lane == 0) {
    s_shift[warp] = shift;
  }
  if (wants_fact && threadIdx.x == 0) {
    s_fact = double_in(await(pairs));
  }
  __syncthreads(); // shifts and fact are there, and owners have read the old means
  Exchanged result{0.0, wants_fact ? s_fact : 0.0};
  for (unsigned w = 0; w < kWarps; ++w) {
    result.squared_shift += s_shift[w];
  }
  return result;
}

} // namespace clusterbench::cuda
