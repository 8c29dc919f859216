// What runs beside the program: copies to shared memory, and warpgroup products. How to start it,
// and how to wait for it. cp.async needs sm_80, the rest 9.0.
#pragma once

#include <cuda_runtime.h>

namespace clusterbench::cuda {

__device__ inline unsigned shared_address(const void* pointer) {
  return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

/// Starts copying 16 bytes to an address in shared memory.
__device__ inline void cp_async(unsigned to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from));
}
__device__ inline void cp_async(void* to, const void* from) {
  cp_async(shared_address(to), from);
}
__device__ inline void cp_async_commit() {
  asm volatile("cp.async.commit_group;");
}
/// Waits until at most `kPending` groups of copies of this thread are under way.
template <int kPending>
__device__ void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

// The order of warpgroup products (wgmma), which run beside the program: what lies between writing
// an operand and reading a result. Needs sm_90a.

/// To be called before the first product and whenever registers of sums were written.
__device__ inline void wgmma_fence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ inline void wgmma_commit_group() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
/// Waits until at most `kPending` groups of products are under way.
template <int kPending>
__device__ void wgmma_wait_group() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}
/// To be called after a wait: keeps the compiler from reading sums before it.
template <unsigned T>
__device__ void take_products(float (&sums)[T][4]) {
#pragma unroll
  for (unsigned e = 0; e < 4 * T; ++e) {
    asm volatile("" : "+f"(sums[e / 4][e % 4])::"memory");
  }
}
/// What this thread has written to shared memory is there for products and bulk copies; a barrier
/// of all who write must follow.
__device__ inline void fence_proxy_async() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

} // namespace clusterbench::cuda
