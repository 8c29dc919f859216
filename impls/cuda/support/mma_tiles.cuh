// Warp-level matrix products on tiles in shared memory (ldmatrix, mma.sync).
#pragma once

#include "impls/cuda/support/copies.cuh"
#include "impls/cuda/support/half_tiles.cuh"

#include <cuda_fp16.h>
#include <cuda_runtime.h>

namespace clusterbench::cuda {

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

} // namespace clusterbench::cuda
