// What a stop rule needs to know of a pass, collected on the device and read where it is needed.
#pragma once

#include "impls/contract.hpp"
#include "impls/cuda/common/runtime.hpp"

#include <cuda_runtime.h>

#include <cstddef>

namespace clusterbench::cuda {

/// The device's side of PassFacts. Sums are double in every precision: they cost one addition a
/// block.
struct DeviceFacts {
  double loss;
  double squared_shift;
  unsigned labels_changed;
};

/// Where a kernel puts its facts: a null pointer means that nobody wants them.
struct WantedFacts {
  double* loss = nullptr;
  double* squared_shift = nullptr;
  unsigned* labels_changed = nullptr;
};

/// Static shared memory of add_block, which a kernel's dynamic part has to leave free.
inline constexpr std::size_t kFactsSharedBytes = 32 * sizeof(double);

/// Adds the values of all threads of the block to `total`, if that is wanted. All its threads must
/// call it, in whole warps. The sums of the warps go through shared memory: one atomic a block.
__device__ inline void add_block(double value, double* total) {
  if (total == nullptr) {
    return; // the same for all threads, so none is left at a barrier
  }
  __shared__ double warp_sums[32];
  for (int offset = 16; offset > 0; offset /= 2) {
    value += __shfl_down_sync(0xffffffffu, value, offset);
  }
  __syncthreads(); // an earlier call may still be reading
  if (threadIdx.x % 32 == 0) {
    warp_sums[threadIdx.x / 32] = value;
  }
  __syncthreads(); // all warps have written before the first thread reads
  if (threadIdx.x == 0) {
    for (unsigned warp = 1; warp < blockDim.x / 32; ++warp) {
      value += warp_sums[warp];
    }
    atomicAdd(total, value);
  }
}

/// Sets the flag, if one is wanted, if `changed` holds in any thread of the block. All its threads
/// must call it: the vote is a barrier, and leaves one atomic a block instead of one a thread.
__device__ inline void flag_block(bool changed, unsigned* flag) {
  if (flag != nullptr && __syncthreads_or(changed) && threadIdx.x == 0) {
    atomicOr(flag, 1u);
  }
}

/// Two DeviceFacts used by turns: while the host reads those of one pass, the last kernel of that
/// pass has already cleared the others for the next, so no launch is spent on clearing.
class FactsBuffer {
public:
  /// Allocates. Throws std::runtime_error.
  static FactsBuffer create() {
    FactsBuffer facts;
    facts.d_facts_ = DeviceBuffer<DeviceFacts>(2);
    facts.host_ = PinnedBuffer<DeviceFacts>(1);
    return facts;
  }
  /// Clears both in the order of `stream`; to be called when a run starts.
  void start(const StopTest& stop, cudaStream_t stream = nullptr) {
    for (std::size_t turn : {0, 1}) {
      DeviceFacts* facts = d_facts_.data() + turn;
      wanted_[turn] = {stop.wants_loss() ? &facts->loss : nullptr,
                       stop.wants_shift() ? &facts->squared_shift : nullptr,
                       stop.wants_labels_changed() ? &facts->labels_changed : nullptr};
    }
    turn_ = 0;
    d_facts_.zero(stream);
  }
  /// Where the kernels of this pass add what the rule asks for.
  const WantedFacts& wanted() const { return wanted_[turn_]; }
  /// What the last kernel of this pass must clear: `*to_clear() = {}` by one thread.
  DeviceFacts* to_clear() { return d_facts_.data() + (1 - turn_); }
  /// The facts of this pass; ends it. Waits for the stream only if the stop rule needs to know.
  PassFacts finish_pass(cudaStream_t stream = nullptr) {
    const WantedFacts wanted = wanted_[turn_];
    PassFacts found;
    if (wanted.loss != nullptr || wanted.squared_shift != nullptr ||
        wanted.labels_changed != nullptr) {
      copy_values(d_facts_.span().subspan(turn_, 1), host_.data(), stream);
      check(cudaStreamSynchronize(stream), "cudaStreamSynchronize for the stop rule");
      found = {host_[0].loss, host_[0].labels_changed != 0, host_[0].squared_shift};
    }
    turn_ = 1 - turn_;
    return found;
  }

private:
  DeviceBuffer<DeviceFacts> d_facts_; // of two passes
  WantedFacts wanted_[2];
  PinnedBuffer<DeviceFacts> host_;
  std::size_t turn_ = 0;
};

} // namespace clusterbench::cuda
