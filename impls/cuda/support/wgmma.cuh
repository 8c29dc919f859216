// Warpgroup-level matrix products (wgmma) on swizzled tiles in shared memory, the bulk copies that
// bring those tiles, and the barriers between the two. Needs sm_90a.
#pragma once

#include "impls/cuda/support/mma_tiles.cuh"
#include "impls/cuda/support/product_order.cuh"

#include <cstdint>

namespace clusterbench::cuda {

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

/// A warpgroup's 64 rows times 128 columns: s[4 ni + e] belongs to row
/// 16 warp + 8 (e / 2) + lane / 4 and column 8 ni + 2 (lane % 4) + e % 2.
/// s = kSign rows * columns over 16 features, plus s if `add`.
template <int kSign = 1>
__device__ inline void multiply_add(float (&s)[64], std::uint64_t rows, std::uint64_t columns,
                                    bool add) {
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
               : "+f"(s[0]), "+f"(s[1]), "+f"(s[2]), "+f"(s[3]), "+f"(s[4]), "+f"(s[5]), "+f"(s[6]),
                 "+f"(s[7]), "+f"(s[8]), "+f"(s[9]), "+f"(s[10]), "+f"(s[11]), "+f"(s[12]),
                 "+f"(s[13]), "+f"(s[14]), "+f"(s[15]), "+f"(s[16]), "+f"(s[17]), "+f"(s[18]),
                 "+f"(s[19]), "+f"(s[20]), "+f"(s[21]), "+f"(s[22]), "+f"(s[23]), "+f"(s[24]),
                 "+f"(s[25]), "+f"(s[26]), "+f"(s[27]), "+f"(s[28]), "+f"(s[29]), "+f"(s[30]),
                 "+f"(s[31]), "+f"(s[32]), "+f"(s[33]), "+f"(s[34]), "+f"(s[35]), "+f"(s[36]),
                 "+f"(s[37]), "+f"(s[38]), "+f"(s[39]), "+f"(s[40]), "+f"(s[41]), "+f"(s[42]),
                 "+f"(s[43]), "+f"(s[44]), "+f"(s[45]), "+f"(s[46]), "+f"(s[47]), "+f"(s[48]),
                 "+f"(s[49]), "+f"(s[50]), "+f"(s[51]), "+f"(s[52]), "+f"(s[53]), "+f"(s[54]),
                 "+f"(s[55]), "+f"(s[56]), "+f"(s[57]), "+f"(s[58]), "+f"(s[59]), "+f"(s[60]),
                 "+f"(s[61]), "+f"(s[62]), "+f"(s[63])
               : "l"(rows), "l"(columns), "r"(static_cast<int>(add)), "n"(kSign));
}

} // namespace clusterbench::cuda
