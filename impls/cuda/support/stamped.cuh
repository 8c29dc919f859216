// Words that blocks leave for one another in device memory: a value and the number ("stamp") of its round,
// so that data is its own flag and no barrier is needed.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace clusterbench::cuda {

/// A value and its round, written and read as one.
template <typename Value>
struct Stamped;
template <>
struct alignas(8) Stamped<float> {
  float value;
  unsigned stamp;
};
template <>
struct alignas(16) Stamped<double> {
  double value;
  unsigned stamp;
};

__device__ inline void publish(Stamped<float>* to, float value, unsigned stamp) {
  const std::uint64_t word = std::uint64_t{stamp} << 32 | __float_as_uint(value);
  asm volatile("st.relaxed.gpu.global.b64 [%0], %1;" ::"l"(to), "l"(word) : "memory");
}
__device__ inline Stamped<float> look_at(const Stamped<float>* from) {
  std::uint64_t word = 0;
  asm volatile("ld.relaxed.gpu.global.b64 %0, [%1];" : "=l"(word) : "l"(from) : "memory");
  return {__uint_as_float(static_cast<unsigned>(word)), static_cast<unsigned>(word >> 32)};
}
// A .b128 access with relaxed semantics is one access to the memory model; two .b64 are not.
__device__ inline void publish(Stamped<double>* to, double value, unsigned stamp) {
  asm volatile(
      "{ .reg .b128 w; mov.b128 w, {%1, %2}; st.relaxed.gpu.global.b128 [%0], w; }" ::"l"(to),
      "l"(__double_as_longlong(value)), "l"(std::uint64_t{stamp})
      : "memory");
}
__device__ inline Stamped<double> look_at(const Stamped<double>* from) {
  long long value = 0;
  std::uint64_t stamp = 0;
  asm volatile("{ .reg .b128 w; ld.relaxed.gpu.global.b128 w, [%2]; mov.b128 {%0, %1}, w; }"
               : "=l"(value), "=l"(stamp)
               : "l"(from)
               : "memory");
  return {__longlong_as_double(value), static_cast<unsigned>(stamp)};
}

} // namespace clusterbench::cuda
