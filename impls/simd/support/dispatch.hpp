// The kernels of every instruction set that this processor executes.
#pragma once

#include "impls/simd/support/kernels.hpp"

#include <string>
#include <vector>

namespace clusterbench::simd {

/// The narrowest first. Decided when the program runs, not when it is compiled.
template <typename T>
std::vector<const Kernels<T>*> executable_kernels();

/// A kernel for bfloat16, or null and why there is none for this machine.
struct PairKernel {
  PairSieveKernel kernel = nullptr;
  bool tiles = false; ///< the order of its panels
  std::string unavailable = {};
};

/// The same for 16-bit integers.
template <typename T>
struct ShortKernel {
  ShortSieveKernel<T> kernel = nullptr;
  std::string unavailable = {};
};

/// By AVX512_VNNI.
template <typename T>
ShortKernel<T> short_kernel();

/// By AVX512_BF16.
PairKernel bf16_kernel();

/// By the tiles of AMX; asks the operating system for permission.
PairKernel tile_kernel();

} // namespace clusterbench::simd
