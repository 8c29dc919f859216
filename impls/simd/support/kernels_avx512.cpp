// The kernels for AVX-512; compiled with -march=x86-64-v4.
#include "impls/simd/support/kernel_table.hpp"
#include "impls/simd/support/vector_avx512.hpp"

namespace clusterbench::simd {

template <typename T>
const Kernels<T>* avx512_kernels() {
  return &kKernels<Vec<T, 64>>;
}

template const Kernels<float>* avx512_kernels();
template const Kernels<double>* avx512_kernels();

} // namespace clusterbench::simd
