#include "impls/simd/support/dispatch.hpp"

namespace clusterbench::simd {

template <typename T>
std::vector<const Kernels<T>*> executable_kernels() {
  std::vector<const Kernels<T>*> found = {portable_kernels<T>()};
#if CLUSTERBENCH_SIMD_X86 // what x86-64-v3 and x86-64-v4 let the compiler use in vector code
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
      __builtin_cpu_supports("bmi2")) {
    found.push_back(avx2_kernels<T>());
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512cd")) {
      found.push_back(avx512_kernels<T>());
    }
  }
#endif
  return found;
}

template std::vector<const Kernels<float>*> executable_kernels();
template std::vector<const Kernels<double>*> executable_kernels();

} // namespace clusterbench::simd
