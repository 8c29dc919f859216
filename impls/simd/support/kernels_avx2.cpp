// The kernels for AVX2 and FMA; compiled with -march=x86-64-v3.
#include "impls/simd/support/kernel_table.hpp"
#include "impls/simd/support/vector_avx2.hpp"

namespace clusterbench::simd {

template <typename T>
const Kernels<T>* avx2_kernels() {
  return &kKernels<Vec<T, 32>>;
}

template const Kernels<float>* avx2_kernels();
template const Kernels<double>* avx2_kernels();

} // namespace clusterbench::simd
