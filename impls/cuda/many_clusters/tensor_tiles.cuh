// Tiles for tensor cores in shared memory, and products of them by a warp or by four.
#pragma once

#include "impls/cuda/common/copies.cuh"

#include <cstddef>
#include <cstdint>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

namespace clusterbench::cuda {

// ---- products of a warp
//
// Warp-level matrix products on tiles in shared memory (ldmatrix, mma.sync).

// Rows of float16 in tiles that go to shared memory as they are: one contiguous copy a piece, and
// no bank conflict where ldmatrix or wgmma read it.

inline constexpr unsigned kHalfTileRows = 128;

/// [tiles][chunks][kHalfTileRows][width]: a chunk holds `width` features of kHalfTileRows rows. In
/// a row, groups of 8 halves (16 bytes) are permuted by the low bits of the row: the 128-, 64- and
/// 32-byte swizzles of the PTX manual.
struct HalfTiles {
  unsigned width = 0;  ///< features of a chunk: 32 or 64
  unsigned chunks = 0; ///< chunks of a row
  unsigned steps = 0;  ///< groups of 16 features that are not all padding

  static HalfTiles of(std::size_t d) {
    const unsigned width = d <= 32 ? 32 : 64;
    return {width, static_cast<unsigned>((d + width - 1) / width),
            static_cast<unsigned>((d + 15) / 16)};
  }
  __host__ __device__ std::size_t chunk_size() const { return std::size_t{kHalfTileRows} * width; }
  __host__ __device__ std::size_t tile_size() const { return chunk_size() * chunks; }
  std::size_t size(std::size_t rows) const {
    return (rows + kHalfTileRows - 1) / kHalfTileRows * tile_size();
  }
  /// The permutation: where in a row of 64, 32 or 16 halves the group of 8 halves `group` is.
  __host__ __device__ static unsigned swizzled(unsigned width, unsigned row, unsigned group) {
    return width == 64   ? group ^ (row & 7)
           : width == 32 ? group ^ (row >> 1 & 3)
                         : group ^ (row >> 2 & 1);
  }
  __device__ std::size_t offset(std::size_t row, unsigned feature) const {
    const unsigned in_tile = static_cast<unsigned>(row % kHalfTileRows);
    const unsigned in_chunk = feature % width;
    return row / kHalfTileRows * tile_size() + feature / width * chunk_size() + in_tile * width +
           swizzled(width, in_tile, in_chunk / 8) * 8 + in_chunk % 8;
  }
};

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

/// A warp's 32 rows times kColumns columns: sums[mi][ni][e] belongs to row
/// 16 mi + 8 (e / 2) + lane / 4 and column 8 ni + 2 (lane % 4) + e % 2.
template <unsigned kColumns>
using WarpSums = float[2][kColumns / 8][4];

/// sums += rows (32 of a chunk) * columns (kColumns of a chunk), over `steps` groups of 16
/// features. Both are in shared memory, kWidth halves a row, swizzled; row numbers must be
/// multiples of 8.
template <unsigned kWidth, unsigned kColumns>
__device__ void multiply_chunk(WarpSums<kColumns>& sums, const __half* rows, const __half* columns,
                               unsigned steps, unsigned lane) {
  const unsigned row = lane & 15, column = (lane & 7) + (lane >> 4) * 8;
  const unsigned row_base = shared_address(rows) + row * kWidth * 2;
  const unsigned column_base = shared_address(columns) + column * kWidth * 2;
#pragma unroll
  for (unsigned step = 0; step < kWidth / 16; ++step) {
    if (step >= steps) {
      break;
    }
    unsigned a[2][4];
#pragma unroll
    for (unsigned mi = 0; mi < 2; ++mi) {
      const unsigned group = HalfTiles::swizzled(kWidth, row, step * 2 + (lane >> 4));
      load_matrices(a[mi], row_base + mi * 16 * kWidth * 2 + group * 16);
    }
#pragma unroll
    for (unsigned ni = 0; ni < kColumns / 8; ni += 2) {
      const unsigned group = HalfTiles::swizzled(kWidth, column, step * 2 + (lane >> 3 & 1));
      unsigned b[4];
      load_matrices(b, column_base + ni * 8 * kWidth * 2 + group * 16);
#pragma unroll
      for (unsigned mi = 0; mi < 2; ++mi) {
        multiply_add(sums[mi][ni], a[mi], b[0], b[1]);
        multiply_add(sums[mi][ni + 1], a[mi], b[2], b[3]);
      }
    }
  }
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
               : "+f"(s[0]), "+f"(s[1]), "+f"(s[2]), "+f"(s[3]), "+f"(s[4]), "+f"(s[5]), "+f"(s[6]),
                 "+f"(s[7]), "+f"(s[8]), "+f"(s[9]), "+f"(s[10]), "+f"(s[11]), "+f"(s[12]),
                 "+f"(s[13]), "+f"(s[14]), "+f"(s[15]), "+f"(s[16]), "+f"(s[17]), "+f"(s[18]),
                 "+f"(s[19]), "+f"(s[20]), "+f"(s[21]), "+f"(s[22]), "+f"(s[23]), "+f"(s[24]),
                 "+f"(s[25]), "+f"(s[26]), "+f"(s[27]), "+f"(s[28]), "+f"(s[29]), "+f"(s[30]),
                 "+f"(s[31]), "+f"(s[32]), "+f"(s[33]), "+f"(s[34]), "+f"(s[35]), "+f"(s[36]),
                 "+f"(s[37]), "+f"(s[38]), "+f"(s[39]), "+f"(s[40]), "+f"(s[41]), "+f"(s[42]),
                 "+f"(s[43]), "+f"(s[44]), "+f"(s[45]), "+f"(s[46]), "+f"(s[47]), "+f"(s[48]),
                 "+f"(s[49]), "+f"(s[50]), "+f"(s[51])
               : "r"(rows[0]), "r"(rows[1]), "r"(rows[2]), "r"(rows[3]), "l"(columns),
                 "r"(static_cast<int>(add)));
}

} // namespace clusterbench::cuda
