// Products of float16 tiles in shared memory on tensor cores, by a warp or by four, and what their
// scores tell.
#pragma once

#include "impls/cuda/common/copies.cuh"

#include <cstddef>
#include <cstdint>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

namespace clusterbench::cuda {

// ---- products of a warp
//
// Warp-level matrix products (ldmatrix, mma.sync).

/// Four 8x8 matrices; the address is that of row lane % 8 of matrix lane / 8.
__device__ inline void load_matrices(unsigned (&to)[4], unsigned address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(address));
}

/// sums (16x8, float) += a (16x16) * b (16x8, columns contiguous)
__device__ inline void multiply_add(float (&sums)[4], const unsigned (&a)[4], unsigned b0,
                                    unsigned b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
               "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// ---- products of a warpgroup
//
// Warpgroup-level matrix products (wgmma) on swizzled tiles in shared memory, the bulk copies that
// bring those tiles, and the barriers between the two. Needs sm_90a.

/// A barrier in shared memory whose phases end when all arrivals and all announced bytes are in.
/// The functions take its address there, so that a loop need not find it again.
using Barrier = std::uint64_t;

__device__ inline void start_barrier(unsigned barrier, unsigned arrivals) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals));
}
/// Makes started barriers visible to the copy engine; a block barrier must follow.
__device__ inline void publish_barriers() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ inline void arrive(unsigned barrier) {
  asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(barrier) : "memory");
}
/// Arrives and announces bytes that copies will bring.
__device__ inline void expect(unsigned barrier, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}
/// Waits for the end of the phase with this parity, 0 for the first.
__device__ inline void wait(unsigned barrier, unsigned parity) {
  asm volatile("{\n"
               ".reg .pred done;\n"
               "again:\n"
               "mbarrier.try_wait.parity.shared.b64 done, [%0], %1;\n"
               "@!done bra again;\n"
               "}" ::"r"(barrier),
               "r"(parity)
               : "memory");
}

/// Starts a copy of `bytes`, a multiple of 16, that reports to the barrier.
__device__ inline void copy_bulk(void* to, const void* from, unsigned bytes, unsigned barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
               "[%0], [%1], %2, [%3];" ::"r"(shared_address(to)),
               "l"(from), "r"(bytes), "r"(barrier)
               : "memory");
}

/// A barrier of the 128 threads of a warpgroup: that of number `team` in its block.
__device__ inline void team_barrier(unsigned team) {
  asm volatile("bar.sync %0, 128;" ::"r"(team + 1) : "memory");
}
/// Gives registers of this warpgroup back, or takes some that another has given back.
template <unsigned kRegisters>
__device__ void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <unsigned kRegisters>
__device__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

/// Describes rows of kWidth halves, swizzled, from an address on: eight rows are a unit of the
/// swizzle. 16 features further on is 2 more.
template <unsigned kWidth>
__device__ std::uint64_t describe(const void* tile) {
  constexpr std::uint64_t kLayout = kWidth == 64 ? 1 : kWidth == 32 ? 2 : 3; // 128, 64, 32 bytes
  constexpr std::uint64_t kUnit = 8 * kWidth * 2;
  return (shared_address(tile) & 0x3ffffu) >> 4 | std::uint64_t{1} << 16 | (kUnit >> 4) << 32 |
         kLayout << 62;
}

// Every sum is an operand of its own.
#define CLUSTERBENCH_4_SUMS(i) "+f"(s[i]), "+f"(s[i + 1]), "+f"(s[i + 2]), "+f"(s[i + 3])
#define CLUSTERBENCH_16_SUMS(i)                                                                    \
  CLUSTERBENCH_4_SUMS(i), CLUSTERBENCH_4_SUMS(i + 4), CLUSTERBENCH_4_SUMS(i + 8),                  \
      CLUSTERBENCH_4_SUMS(i + 12)

/// A warpgroup's 64 rows times 128 columns: s[4 ni + e] belongs to row
/// 16 warp + 8 (e / 2) + lane / 4 and column 8 ni + 2 (lane % 4) + e % 2.
/// s = rows * columns over 16 features, or kSign times that, plus s if `add`.
template <int kSign = 1>
__device__ void multiply_add(float (&s)[64], std::uint64_t rows, std::uint64_t columns, bool add) {
  asm volatile("{\n"
               ".reg .pred p;\n"
               "setp.ne.b32 p, %66, 0;\n"
               "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {"
               "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
               "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
               "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
               "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
               "%64, %65, p, %67, 1, 0, 0;\n"
               "}"
               : CLUSTERBENCH_16_SUMS(0), CLUSTERBENCH_16_SUMS(16), CLUSTERBENCH_16_SUMS(32),
                 CLUSTERBENCH_16_SUMS(48)
               : "l"(rows), "l"(columns), "r"(static_cast<int>(add)), "n"(kSign));
}

/// The same with the rows in registers: rows[0] and [2] are 16 warp + lane / 4, features
/// 2 (lane % 4) and 8 more; [1] and [3] the row 8 further on. 128 or 104 columns.
__device__ inline void multiply_add(float (&s)[64], const unsigned (&rows)[4],
                                    std::uint64_t columns, bool add) {
  asm volatile("{\n"
               ".reg .pred p;\n"
               "setp.ne.b32 p, %69, 0;\n"
               "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {"
               "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
               "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, "
               "%30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, "
               "%44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, "
               "%58, %59, %60, %61, %62, %63}, "
               "{%64, %65, %66, %67}, %68, p, 1, 1, 0;\n"
               "}"
               : CLUSTERBENCH_16_SUMS(0), CLUSTERBENCH_16_SUMS(16), CLUSTERBENCH_16_SUMS(32),
                 CLUSTERBENCH_16_SUMS(48)
               : "r"(rows[0]), "r"(rows[1]), "r"(rows[2]), "r"(rows[3]), "l"(columns),
                 "r"(static_cast<int>(add)));
}
__device__ inline void multiply_add(float (&s)[52], const unsigned (&rows)[4],
                                    std::uint64_t columns, bool add) {
  asm volatile("{\n"
               ".reg .pred p;\n"
               "setp.ne.b32 p, %57, 0;\n"
               "wgmma.mma_async.sync.aligned.m64n104k16.f32.f16.f16 {"
               "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
               "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, "
               "%30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, "
               "%44, %45, %46, %47, %48, %49, %50, %51}, "
               "{%52, %53, %54, %55}, %56, p, 1, 1, 0;\n"
               "}"
               : CLUSTERBENCH_16_SUMS(0), CLUSTERBENCH_16_SUMS(16), CLUSTERBENCH_16_SUMS(32),
                 CLUSTERBENCH_4_SUMS(48)
               : "r"(rows[0]), "r"(rows[1]), "r"(rows[2]), "r"(rows[3]), "l"(columns),
                 "r"(static_cast<int>(add)));
}

#undef CLUSTERBENCH_16_SUMS
#undef CLUSTERBENCH_4_SUMS

// The operands of a product whose sums are halves, two a register; %0 to %63 and behind them.
#define CLUSTERBENCH_26_NUMBERS                                                                    \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                         \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25"
#define CLUSTERBENCH_32_NUMBERS CLUSTERBENCH_26_NUMBERS ", %26, %27, %28, %29, %30, %31"
#define CLUSTERBENCH_52_NUMBERS                                                                    \
  CLUSTERBENCH_32_NUMBERS ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, "                   \
                          "%42, %43, %44, %45, %46, %47, %48, %49, %50, %51"
#define CLUSTERBENCH_64_NUMBERS                                                                    \
  CLUSTERBENCH_52_NUMBERS ", %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define CLUSTERBENCH_2_PAIRS(i) "+r"(s[i]), "+r"(s[i + 1])
#define CLUSTERBENCH_8_PAIRS(i)                                                                    \
  CLUSTERBENCH_2_PAIRS(i), CLUSTERBENCH_2_PAIRS(i + 2), CLUSTERBENCH_2_PAIRS(i + 4),               \
      CLUSTERBENCH_2_PAIRS(i + 6)
#define CLUSTERBENCH_26_PAIRS                                                                      \
  CLUSTERBENCH_8_PAIRS(0), CLUSTERBENCH_8_PAIRS(8), CLUSTERBENCH_8_PAIRS(16),                      \
      CLUSTERBENCH_2_PAIRS(24)
#define CLUSTERBENCH_32_PAIRS                                                                      \
  CLUSTERBENCH_26_PAIRS, CLUSTERBENCH_2_PAIRS(26), CLUSTERBENCH_2_PAIRS(28),                       \
      CLUSTERBENCH_2_PAIRS(30)
#define CLUSTERBENCH_52_PAIRS                                                                      \
  CLUSTERBENCH_32_PAIRS, CLUSTERBENCH_8_PAIRS(32), CLUSTERBENCH_8_PAIRS(40),                       \
      CLUSTERBENCH_2_PAIRS(48), CLUSTERBENCH_2_PAIRS(50)
#define CLUSTERBENCH_64_PAIRS                                                                      \
  CLUSTERBENCH_52_PAIRS, CLUSTERBENCH_2_PAIRS(52), CLUSTERBENCH_2_PAIRS(54),                       \
      CLUSTERBENCH_8_PAIRS(56)

/// 64 rows in registers times 4 kPairs columns, over 16 features, plus s if `add`; rounded to
/// float16: s[2 ni + p] has columns 8 ni + 2 (lane % 4) and the next of the row
/// 16 warp + 8 p + lane / 4.
template <unsigned kPairs>
__device__ void multiply_add(unsigned (&s)[kPairs], const unsigned (&rows)[4],
                             std::uint64_t columns, bool add) {
#define CLUSTERBENCH_MULTIPLY(pairs, shape, a0, a1, a2, a3, b, more)                               \
  asm volatile("{\n"                                                                               \
               ".reg .pred p;\n"                                                                   \
               "setp.ne.b32 p, %" #more ", 0;\n"                                                   \
               "wgmma.mma_async.sync.aligned." shape                                               \
               ".f16.f16.f16 {" CLUSTERBENCH_##pairs##_NUMBERS                                     \
               "}, {%" #a0 ", %" #a1 ", %" #a2 ", %" #a3 "}, %" #b ", p, 1, 1, 0;\n"               \
               "}"                                                                                 \
               : CLUSTERBENCH_##pairs##_PAIRS                                                      \
               : "r"(rows[0]), "r"(rows[1]), "r"(rows[2]), "r"(rows[3]), "l"(columns),             \
                 "r"(static_cast<int>(add)))
  if constexpr (kPairs == 26) {
    CLUSTERBENCH_MULTIPLY(26, "m64n104k16", 26, 27, 28, 29, 30, 31);
  } else if constexpr (kPairs == 32) {
    CLUSTERBENCH_MULTIPLY(32, "m64n128k16", 32, 33, 34, 35, 36, 37);
  } else if constexpr (kPairs == 52) {
    CLUSTERBENCH_MULTIPLY(52, "m64n208k16", 52, 53, 54, 55, 56, 57);
  } else {
    static_assert(kPairs == 64);
    CLUSTERBENCH_MULTIPLY(64, "m64n256k16", 64, 65, 66, 67, 68, 69);
  }
#undef CLUSTERBENCH_MULTIPLY
}

#undef CLUSTERBENCH_64_PAIRS
#undef CLUSTERBENCH_52_PAIRS
#undef CLUSTERBENCH_32_PAIRS
#undef CLUSTERBENCH_26_PAIRS
#undef CLUSTERBENCH_8_PAIRS
#undef CLUSTERBENCH_2_PAIRS
#undef CLUSTERBENCH_64_NUMBERS
#undef CLUSTERBENCH_52_NUMBERS
#undef CLUSTERBENCH_32_NUMBERS
#undef CLUSTERBENCH_26_NUMBERS

inline constexpr unsigned kStep = 16; ///< features of one product

/// Whether the tensor cores round each sum to float16, which takes half the registers and no
/// instruction: up to two products of a score, or three where columns are many. With more, what is
/// lost outweighs that.
template <unsigned kSteps, unsigned kColumns>
inline constexpr bool kRounds = kSteps <= 2 || (kSteps == 3 && kColumns > 128);

/// Two floats, rounded to float16; what is less than 0 becomes 0.
__device__ inline unsigned pack(float low, float high) {
  unsigned two;
  asm("cvt.rn.relu.f16x2.f32 %0, %1, %2;" : "=r"(two) : "f"(high), "f"(low));
  return two;
}
/// The scores of 64 rows and a tile of columns, in pairs of float16: scores[p] are of the p-th of a
/// lane's two rows.
template <unsigned kSteps, unsigned kColumns>
__device__ void multiply_tile(unsigned (&scores)[2][kColumns / 8],
                              const unsigned (&rows)[kSteps][4], std::uint64_t columns) {
  if constexpr (kRounds<kSteps, kColumns>) {
    unsigned pairs[kColumns / 4];
    wgmma_fence();
#pragma unroll
    for (unsigned step = 0; step < kSteps; ++step) {
      multiply_add(pairs, rows[step], columns + step * (kColumns * kStep * 2 / 16), step > 0);
    }
    wgmma_commit_group();
    wgmma_wait_group<0>();
#pragma unroll
    for (unsigned e = 0; e < kColumns / 4; ++e) {
      asm volatile("" : "+r"(pairs[e])::"memory"); // not read before
      scores[e % 2][e / 2] = pairs[e];
    }
  } else {
    float sums[kColumns / 2];
    wgmma_fence();
#pragma unroll
    for (unsigned step = 0; step < kSteps; ++step) {
      multiply_add(sums, rows[step], columns + step * (kColumns * kStep * 2 / 16), step > 0);
    }
    wgmma_commit_group();
    wgmma_wait_group<0>();
#pragma unroll
    for (float& sum : sums) {
      asm volatile("" : "+f"(sum)::"memory"); // not read before
    }
#pragma unroll
    for (unsigned e = 0; e < kColumns / 8; ++e) {
      scores[0][e] = pack(sums[e * 4], sums[e * 4 + 1]);
      scores[1][e] = pack(sums[e * 4 + 2], sums[e * 4 + 3]);
    }
  }
}

// ---- pairs of scores
//
// Which scores of a row may be the least, where two are in a register.

inline constexpr unsigned kHalfInfinity = 0x7c00, kLeastLimit = 0x2800; ///< as float16; 2^-5

__device__ inline unsigned twice(unsigned half) {
  return half * 0x10001u;
}
/// a * b + c of both halves, and the same limited to [0, 1].
__device__ inline unsigned fma_two(unsigned a, unsigned b, unsigned c) {
  unsigned two;
  asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(two) : "r"(a), "r"(b), "r"(c));
  return two;
}
__device__ inline unsigned fma_two_limited(unsigned a, unsigned b, unsigned c) {
  unsigned two;
  asm("fma.rn.sat.f16x2 %0, %1, %2, %3;" : "=r"(two) : "r"(a), "r"(b), "r"(c));
  return two;
}

/// Tests scores against the limits of two rows, not less than 2^-5: which are no more than u.
/// (u - score) / ulp(u) + 1 is at least 1 for those, and at most 0 for all others.
struct LimitTest {
  unsigned slopes, starts; ///< of either row: -1 / ulp(u), u / ulp(u) + 1

  __device__ explicit LimitTest(unsigned limits)
      : slopes(0x80008000u | ((0x00280028u - (limits >> 10 & 0x001f001fu)) << 10)),
        starts((0x64006400u | (limits & 0x03ff03ffu)) + 0x00010001u) {}

  /// Of the scores of one row. Bit i of either half of the answer belongs to score [i]: as a
  /// float16 1024 + 2^i + ... has these as its lowest bits.
  template <unsigned kRow, unsigned kScores>
  __device__ unsigned of(const unsigned* scores) const {
    const unsigned slope = __byte_perm(slopes, 0, kRow == 0 ? 0x1010 : 0x3232);
    const unsigned start = __byte_perm(starts, 0, kRow == 0 ? 0x1010 : 0x3232);
    unsigned mask = 0x64006400u;
#pragma unroll
    for (unsigned i = 0; i < kScores; ++i) {
      const unsigned weight = twice((15u + i) << 10); // 2^i
      mask = fma_two(fma_two_limited(scores[i], slope, start), weight, mask);
    }
    return mask;
  }
  /// The same for 8 to 16 pairs: a bit each, see column_of().
  template <unsigned kRow, unsigned kScores>
  __device__ unsigned mask(const unsigned* scores) const {
    unsigned behind = 0;
    if constexpr (kScores > 8) {
      behind = of<kRow, kScores - 8>(scores + 8);
    }
    return __byte_perm(of<kRow, 8>(scores), behind, 0x6420);
  }
};

/// Which column of 128 bit b of a mask is, for one of the four lanes of a row.
__device__ inline unsigned column_of(unsigned bit, unsigned quarter) {
  return (bit & 16u) * 4 + (bit & 7u) * 8 + (bit >> 3 & 1u) + quarter * 2;
}

/// The least of a lane's scores of a row, in two ways: of three chains, chain r being every third
/// from [r] on, and of every three that are neighbours. A score is in one chain and in one three.
/// So where a single chain and a single three pass a test, a single score does, and few tests tell
/// which.
template <unsigned kScores>
struct Minima {
  static constexpr unsigned kChains = 3, kThrees = (kScores + 2) / 3;
  unsigned of[kChains + kThrees]; ///< the chains, then the threes

  __device__ explicit Minima(const unsigned* scores) {
#pragma unroll
    for (unsigned r = 0; r < kChains; ++r) {
      of[r] = scores[r];
#pragma unroll
      for (unsigned e = r + 3; e < kScores; e += 6) {
        of[r] = __vimin3_s16x2(of[r], scores[e], scores[e + 3 < kScores ? e + 3 : e]);
      }
    }
#pragma unroll
    for (unsigned i = 0; i < kThrees; ++i) {
      constexpr unsigned kLast = kScores - 1;
      of[kChains + i] = __vimin3_s16x2(scores[i * 3], scores[min(i * 3 + 1, kLast)],
                                       scores[min(i * 3 + 2, kLast)]);
    }
  }
  __device__ unsigned least() const {
    return __vimin3_s16x2(of[0], of[1], of[2]);
  }
  /// A bit for each that passes, in either half; two bits for a single score.
  template <unsigned kRow>
  __device__ unsigned mask(const LimitTest& test) const {
    return test.mask<kRow, kChains + kThrees>(of);
  }
  /// A bit that no mask has, for each of the four lanes of a row.
  __device__ static unsigned lane_bit(unsigned quarter) {
    static_assert(kChains + kThrees <= 14);
    return 1u << (quarter < 2 ? 22 : 28) + quarter;
  }
  /// Which column of a tile the only score of a mask is, with the bit of its lane.
  __device__ static unsigned column(unsigned mask) {
    const unsigned bit = 31u - static_cast<unsigned>(__clz(static_cast<int>(mask & 0x3f3fffffu)));
    const unsigned three = (bit & 7u) + (bit >> 4) * 8 - kChains;
    const unsigned chain = ((mask | mask >> 8) & 7u) >> 1; // of 1, 2 or 4
    const unsigned quarter = (mask >> 23 | mask >> 31) & 1u, two = mask >> 30 != 0 ? 4 : 0;
    return three * 24 + chain * 8 + (bit >> 3 & 1u) + quarter * 2 + two;
  }
};

} // namespace clusterbench::cuda
