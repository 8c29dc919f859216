// The kernels for any instruction set, in the 16-byte vectors that nearly every processor has.
#include "impls/simd/support/kernel_table.hpp"
#include "impls/simd/support/vector.hpp"

namespace clusterbench::simd {

template <typename T>
const Kernels<T>* portable_kernels() {
  return &kKernels<Vec<T, 16>>;
}

template const Kernels<float>* portable_kernels();
template const Kernels<double>* portable_kernels();

} // namespace clusterbench::simd
