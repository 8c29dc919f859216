// Products of a warpgroup (wgmma) with few columns, on operands that are not swizzled. Needs sm_90a.
//
// An operand in shared memory is 8 x 8 matrices of halves, 16 bytes a row and 128 in all. Rows and
// features change places for free, so the tile that is multiplied with the centroids is the one that is
// summed. Of 64 x N results s, s[i][e] belongs to row 16 warp + 8 (e / 2) + lane / 4 and column
// 8 i + 2 (lane % 4) + e % 2, as in an m16n8k16 product of each warp.
//
// The shape is part of an instruction's name, and every result an operand of its own: hence the length.
#pragma once

#include <cstdint>

namespace clusterbench::cuda {

/// An operand in shared memory, all in units of 16 bytes, of which an address is less than 2^14: from one
/// matrix to the next along the dimension that is added up, and across it.
__device__ inline std::uint64_t operand(unsigned place, unsigned along, unsigned across) {
  std::uint64_t both = 0;
  asm("mov.b64 %0, {%1, %2};" : "=l"(both) : "r"(place + (along << 16)), "r"(across));
  return both;
}

// Every sum is an operand of its own.
#define CLUSTERBENCH_SUMS(i) "+f"(s[i][0]), "+f"(s[i][1]), "+f"(s[i][2]), "+f"(s[i][3])

/// s = rows (64 x 16) * columns (16 x N), plus s if `add`. N: 8, 16, 24, 32, 48 or 64.
template <unsigned N>
__device__ void multiply_rows(float (&s)[N / 8][4], std::uint64_t rows, std::uint64_t columns,
                              bool add) {
  if constexpr (N == 8) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %6, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {"
                 "%0, %1, %2, %3"
                 "}, %4, %5, p, 1, 1, 0, 0;\n}"
                 : CLUSTERBENCH_SUMS(0)
                 : "l"(rows), "l"(columns), "r"(static_cast<int>(add)));
  } else if constexpr (N == 16) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %10, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7"
                 "}, %8, %9, p, 1, 1, 0, 0;\n}"
                 : CLUSTERBENCH_SUMS(0), CLUSTERBENCH_SUMS(1)
                 : "l"(rows), "l"(columns), "r"(static_cast<int>(add)));
  } else if constexpr (N == 24) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %14, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n24k16.f32.f16.f16 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11"
                 "}, %12, %13, p, 1, 1, 0, 0;\n}"
                 : CLUSTERBENCH_SUMS(0), CLUSTERBENCH_SUMS(1), CLUSTERBENCH_SUMS(2)
                 : "l"(rows), "l"(columns), "r"(static_cast<int>(add)));
  } else if constexpr (N == 32) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %18, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
                 "}, %16, %17, p, 1, 1, 0, 0;\n}"
                 : CLUSTERBENCH_SUMS(0), CLUSTERBENCH_SUMS(1), CLUSTERBENCH_SUMS(2),
                   CLUSTERBENCH_SUMS(3)
                 : "l"(rows), "l"(columns), "r"(static_cast<int>(add)));
  } else if constexpr (N == 48) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %26, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n48k16.f32.f16.f16 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, "
                 "%18, %19, %20, %21, %22, %23"
                 "}, %24, %25, p, 1, 1, 0, 0;\n}"
                 : CLUSTERBENCH_SUMS(0), CLUSTERBENCH_SUMS(1), CLUSTERBENCH_SUMS(2),
                   CLUSTERBENCH_SUMS(3), CLUSTERBENCH_SUMS(4), CLUSTERBENCH_SUMS(5)
                 : "l"(rows), "l"(columns), "r"(static_cast<int>(add)));
  } else {
    static_assert(N == 64);
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, "
        "%19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
        "}, %32, %33, p, 1, 1, 0, 0;\n}"
        : CLUSTERBENCH_SUMS(0), CLUSTERBENCH_SUMS(1), CLUSTERBENCH_SUMS(2), CLUSTERBENCH_SUMS(3),
          CLUSTERBENCH_SUMS(4), CLUSTERBENCH_SUMS(5), CLUSTERBENCH_SUMS(6), CLUSTERBENCH_SUMS(7)
        : "l"(rows), "l"(columns), "r"(static_cast<int>(add)));
  }
}

/// s = a (64 x 16) * rows (16 x N), plus s if `add`. a: of each warp, as in an m16n8k16 product. The rows
/// are as multiply_rows() has them, with the other dimension added up. N: 8, 16, ... 64.
template <unsigned N>
__device__ void add_rows(float (&s)[N / 8][4], const unsigned (&a)[4], std::uint64_t rows,
                         bool add) {
  if constexpr (N == 8) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %9, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {"
                 "%0, %1, %2, %3"
                 "}, {%4, %5, %6, %7}, %8, p, 1, 1, 1;\n}"
                 : CLUSTERBENCH_SUMS(0)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(rows),
                   "r"(static_cast<int>(add)));
  } else if constexpr (N == 16) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %13, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7"
                 "}, {%8, %9, %10, %11}, %12, p, 1, 1, 1;\n}"
                 : CLUSTERBENCH_SUMS(0), CLUSTERBENCH_SUMS(1)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(rows),
                   "r"(static_cast<int>(add)));
  } else if constexpr (N == 24) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %17, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n24k16.f32.f16.f16 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11"
                 "}, {%12, %13, %14, %15}, %16, p, 1, 1, 1;\n}"
                 : CLUSTERBENCH_SUMS(0), CLUSTERBENCH_SUMS(1), CLUSTERBENCH_SUMS(2)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(rows),
                   "r"(static_cast<int>(add)));
  } else if constexpr (N == 32) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %21, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
        "}, {%16, %17, %18, %19}, %20, p, 1, 1, 1;\n}"
        : CLUSTERBENCH_SUMS(0), CLUSTERBENCH_SUMS(1), CLUSTERBENCH_SUMS(2), CLUSTERBENCH_SUMS(3)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(rows), "r"(static_cast<int>(add)));
  } else if constexpr (N == 40) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %25, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n40k16.f32.f16.f16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, "
        "%19"
        "}, {%20, %21, %22, %23}, %24, p, 1, 1, 1;\n}"
        : "+f"(s[0][0]), "+f"(s[0][1]), "+f"(s[0][2]), "+f"(s[0][3]), "+f"(s[1][0]), "+f"(s[1][1]),
          "+f"(s[1][2]), "+f"(s[1][3]), "+f"(s[2][0]), "+f"(s[2][1]), "+f"(s[2][2]), "+f"(s[2][3]),
          "+f"(s[3][0]), "+f"(s[3][1]), "+f"(s[3][2]), "+f"(s[3][3]), "+f"(s[4][0]), "+f"(s[4][1]),
          "+f"(s[4][2]), "+f"(s[4][3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(rows), "r"(static_cast<int>(add)));
  } else if constexpr (N == 48) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %29, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n48k16.f32.f16.f16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, "
        "%19, %20, %21, %22, %23"
        "}, {%24, %25, %26, %27}, %28, p, 1, 1, 1;\n}"
        : CLUSTERBENCH_SUMS(0), CLUSTERBENCH_SUMS(1), CLUSTERBENCH_SUMS(2), CLUSTERBENCH_SUMS(3),
          CLUSTERBENCH_SUMS(4), CLUSTERBENCH_SUMS(5)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(rows), "r"(static_cast<int>(add)));
  } else if constexpr (N == 56) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %33, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n56k16.f32.f16.f16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, "
        "%19, %20, %21, %22, %23, %24, %25, %26, %27"
        "}, {%28, %29, %30, %31}, %32, p, 1, 1, 1;\n}"
        : "+f"(s[0][0]), "+f"(s[0][1]), "+f"(s[0][2]), "+f"(s[0][3]), "+f"(s[1][0]), "+f"(s[1][1]),
          "+f"(s[1][2]), "+f"(s[1][3]), "+f"(s[2][0]), "+f"(s[2][1]), "+f"(s[2][2]), "+f"(s[2][3]),
          "+f"(s[3][0]), "+f"(s[3][1]), "+f"(s[3][2]), "+f"(s[3][3]), "+f"(s[4][0]), "+f"(s[4][1]),
          "+f"(s[4][2]), "+f"(s[4][3]), "+f"(s[5][0]), "+f"(s[5][1]), "+f"(s[5][2]), "+f"(s[5][3]),
          "+f"(s[6][0]), "+f"(s[6][1]), "+f"(s[6][2]), "+f"(s[6][3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(rows), "r"(static_cast<int>(add)));
  } else {
    static_assert(N == 64);
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %37, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, "
        "%19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
        "}, {%32, %33, %34, %35}, %36, p, 1, 1, 1;\n}"
        : CLUSTERBENCH_SUMS(0), CLUSTERBENCH_SUMS(1), CLUSTERBENCH_SUMS(2), CLUSTERBENCH_SUMS(3),
          CLUSTERBENCH_SUMS(4), CLUSTERBENCH_SUMS(5), CLUSTERBENCH_SUMS(6), CLUSTERBENCH_SUMS(7)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(rows), "r"(static_cast<int>(add)));
  }
}

#undef CLUSTERBENCH_SUMS

} // namespace clusterbench::cuda
