#include "impls/simd/support/dispatch.hpp"

#if CLUSTERBENCH_SIMD_X86
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

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

#if CLUSTERBENCH_SIMD_X86
namespace {

bool executes_avx512() {
  return executable_kernels<float>().back() == avx512_kernels<float>();
}

} // namespace

template <typename T>
ShortKernel<T> short_kernel() {
  if (!executes_avx512() || !__builtin_cpu_supports("avx512vnni")) {
    return {.unavailable = "this processor has no AVX512_VNNI"};
  }
  return {.kernel = sieve_shorts_avx512};
}

PairKernel bf16_kernel() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  constexpr unsigned kBf16 = 1u << 5; // of CPUID 7, 1
  if (!executes_avx512() || __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) == 0 ||
      (eax & kBf16) == 0) {
    return {.unavailable = "this processor has no AVX512_BF16"};
  }
  return {.kernel = sieve_pairs_avx512};
}

PairKernel tile_kernel() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  constexpr unsigned kBf16 = 1u << 22, kTiles = 1u << 24; // of CPUID 7, 0
  if (!executes_avx512() || __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0 ||
      (edx & kBf16) == 0 || (edx & kTiles) == 0) {
    return {.unavailable = "this processor has no AMX with bfloat16"};
  }
  constexpr int kRequestPermission = 0x1023, kTileData = 18; // ARCH_REQ_XCOMP_PERM, XTILEDATA
  if (syscall(SYS_arch_prctl, kRequestPermission, kTileData) != 0) {
    return {.unavailable = "the operating system does not permit this processor's AMX tiles"};
  }
  return {.kernel = sieve_pairs_amx, .tiles = true};
}
#else
template <typename T>
ShortKernel<T> short_kernel() {
  return {.unavailable = "this processor is no x86-64"};
}
PairKernel bf16_kernel() {
  return {.unavailable = "this processor is no x86-64"};
}
PairKernel tile_kernel() {
  return {.unavailable = "this processor is no x86-64"};
}
#endif

template std::vector<const Kernels<float>*> executable_kernels();
template std::vector<const Kernels<double>*> executable_kernels();
template ShortKernel<float> short_kernel();
template ShortKernel<double> short_kernel();

} // namespace clusterbench::simd
