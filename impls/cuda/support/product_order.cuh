// The order of warpgroup products (wgmma), which run beside the program: what lies between writing an
// operand and reading a result. Needs sm_90a.
#pragma once

namespace clusterbench::cuda {

/// To be called before the first product and whenever registers of sums were written.
__device__ inline void open_products() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ inline void close_products() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
/// Waits until at most `kPending` groups of products are under way.
template <int kPending>
__device__ void wait_for_products() {
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
/// What this thread has written to shared memory is there for products and bulk copies; a barrier of all
/// who write must follow.
__device__ inline void publish_operands() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

} // namespace clusterbench::cuda
