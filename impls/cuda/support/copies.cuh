// Copies to shared memory that a thread starts and later waits for (cp.async). Needs sm_80.
#pragma once

#include "impls/cuda/support/mbarrier.cuh"

#include <cuda_runtime.h>

namespace clusterbench::cuda {

/// Starts copying 16 bytes to an address in shared memory.
__device__ inline void copy_async(unsigned to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from));
}
__device__ inline void copy_async(void* to, const void* from) {
  copy_async(shared_address(to), from);
}
__device__ inline void close_copies() {
  asm volatile("cp.async.commit_group;");
}
/// Waits until at most `kPending` groups of copies of this thread are under way.
template <int kPending>
__device__ void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

} // namespace clusterbench::cuda
