// Values that the compiler does not make again.
#pragma once

namespace clusterbench::cuda {

/// The same value. Of a thread's number: to read that again, to save a register, takes long.
__device__ inline unsigned opaque(unsigned value) {
  asm volatile("" : "+r"(value));
  return value;
}

} // namespace clusterbench::cuda
