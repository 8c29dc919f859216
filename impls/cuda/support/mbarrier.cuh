// Barriers in shared memory that count bytes: whoever has waited for one sees what asynchronous
// copies and stores, also those of other blocks of the cluster, have brought. From compute capability
// 9.0 on; code for older devices traps, and variants refuse to run there.
#pragma once

#include <cuda_runtime.h>
#include <nv/target>

#include <cstdint>

namespace clusterbench::cuda {

__device__ inline unsigned shared_address(const void* pointer) {
  return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

/// By one thread; a barrier of all who will use it must follow.
__device__ inline void init_barrier(std::uint64_t* barrier) {
  NV_IF_ELSE_TARGET(
      NV_PROVIDES_SM_90,
      (asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;\n"
                    "fence.mbarrier_init.release.cluster;" ::"r"(shared_address(barrier))
                    : "memory");),
      (__trap();))
}

/// By one thread, once a phase: the phase ends when this many bytes have arrived, of which some may
/// already be there.
__device__ inline void expect_bytes(std::uint64_t* barrier, unsigned bytes) {
  NV_IF_ELSE_TARGET(NV_PROVIDES_SM_90,
                    (asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(
                                      shared_address(barrier)),
                                  "r"(bytes)
                                  : "memory");),
                    (__trap();))
}

/// Waits for the end of the phases 0, 1, 2, ... in turn.
__device__ inline void wait_for(std::uint64_t* barrier, unsigned phase) {
  unsigned done = 0;
  while (done == 0) {
    NV_IF_ELSE_TARGET(
        NV_PROVIDES_SM_90,
        (asm volatile("{ .reg .pred p;\n"
                      "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2;\n"
                      "selp.u32 %0, 1, 0, p; }"
                      : "=r"(done)
                      : "r"(shared_address(barrier)), "r"(phase % 2)
                      : "memory");),
        (__trap();))
  }
}

} // namespace clusterbench::cuda
