// Sums by cluster over a whole launch, without a barrier of the grid.
#pragma once

#include "impls/cuda/common/copies.cuh"
#include "impls/cuda/common/runtime.hpp"

#include <cstddef>
#include <cstdint>
#include <cuda_runtime.h>
#include <nv/target>

namespace clusterbench::cuda {

// ---- tagged values
//
// Blocks leave values for one another in device memory. Each value is stored together with the
// number of its round, its tag, in one access. A reader waits until it sees the tag: no barrier is
// needed.

/// A value and its round, written and read as one.
template <typename Value>
struct TaggedValue;
template <>
struct alignas(8) TaggedValue<float> {
  float value;
  unsigned tag;
};
template <>
struct alignas(16) TaggedValue<double> {
  double value;
  unsigned tag;
};

__device__ inline void store_tagged(TaggedValue<float>* to, float value, unsigned tag) {
  const std::uint64_t word = std::uint64_t{tag} << 32 | __float_as_uint(value);
  asm volatile("st.relaxed.gpu.global.b64 [%0], %1;" ::"l"(to), "l"(word) : "memory");
}
__device__ inline TaggedValue<float> load_tagged(const TaggedValue<float>* from) {
  std::uint64_t word = 0;
  asm volatile("ld.relaxed.gpu.global.b64 %0, [%1];" : "=l"(word) : "l"(from) : "memory");
  return {__uint_as_float(static_cast<unsigned>(word)), static_cast<unsigned>(word >> 32)};
}
// A .b128 access with relaxed semantics is one access to the memory model; two .b64 are not.
__device__ inline void store_tagged(TaggedValue<double>* to, double value, unsigned tag) {
  asm volatile(
      "{ .reg .b128 w; mov.b128 w, {%1, %2}; st.relaxed.gpu.global.b128 [%0], w; }" ::"l"(to),
      "l"(__double_as_longlong(value)), "l"(std::uint64_t{tag})
      : "memory");
}
__device__ inline TaggedValue<double> load_tagged(const TaggedValue<double>* from) {
  long long value = 0;
  std::uint64_t tag = 0;
  asm volatile("{ .reg .b128 w; ld.relaxed.gpu.global.b128 w, [%2]; mov.b128 {%0, %1}, w; }"
               : "=l"(value), "=l"(tag)
               : "l"(from)
               : "memory");
  return {__longlong_as_double(value), static_cast<unsigned>(tag)};
}

// ---- barriers that count bytes
//
// Barriers in shared memory: whoever has waited for one sees what asynchronous copies and stores,
// also those of other blocks of the cluster, have brought. From compute capability 9.0 on; code for
// older devices traps, and variants refuse to run there.

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

// ---- sums in distributed shared memory
//
// Sums over all blocks of a launch without a barrier of the grid. Inside a cluster of blocks parts
// and totals travel through distributed shared memory; between clusters through L2, as tagged
// values.
//
// Every value has an owner in every cluster: it adds up the parts of the blocks of its cluster,
// shares the sum with the value's other owners, adds up theirs, and sends the total to all blocks
// of its cluster. So a word is polled by one owner a cluster: 15 sums of 112 blocks in clusters of
// 16 take 2240 cycles, where those of 132 blocks that poll one another took 21,700. The order of
// additions is fixed: the same bits in every block and in every run. (Few sums are exchanged sooner
// by counted_sums.cuh.)
//
// All blocks must be resident (a cooperative launch) and take part in every round.

/// Stores at the place of `local` in the shared memory of block `rank` of the cluster, and counts
/// the bytes at that block's `barrier`.
__device__ inline void store_at(unsigned rank, const float* local, float value,
                                const std::uint64_t* barrier) {
  NV_IF_ELSE_TARGET(
      NV_PROVIDES_SM_90,
      (asm volatile(
           "{ .reg .b32 to, at; mapa.shared::cluster.u32 to, %0, %3;\n"
           "mapa.shared::cluster.u32 at, %2, %3;\n"
           "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [to], %1, [at]; }" ::"r"(
               shared_address(local)),
           "r"(__float_as_uint(value)), "r"(shared_address(barrier)), "r"(rank)
           : "memory");),
      (__trap();))
}
__device__ inline void store_at(unsigned rank, const double* local, double value,
                                const std::uint64_t* barrier) {
  NV_IF_ELSE_TARGET(
      NV_PROVIDES_SM_90,
      (asm volatile(
           "{ .reg .b32 to, at; mapa.shared::cluster.u32 to, %0, %3;\n"
           "mapa.shared::cluster.u32 at, %2, %3;\n"
           "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b64 [to], %1, [at]; }" ::"r"(
               shared_address(local)),
           "l"(__double_as_longlong(value)), "r"(shared_address(barrier)), "r"(rank)
           : "memory");),
      (__trap();))
}

/// A barrier of all threads of the cluster.
__device__ inline void cluster_barrier() {
  NV_IF_ELSE_TARGET(
      NV_PROVIDES_SM_90,
      (asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::
                        : "memory");),
      (__trap();))
}

/// What both kinds of sums have in common: who owns what, and the two barriers of a block.
template <typename Value, unsigned kCluster>
class ClusterSums {
public:
  /// Values of each of the arrays below for `count` sums.
  __host__ __device__ static constexpr unsigned padded(unsigned count) {
    return (count + kCluster - 1) / kCluster * kCluster;
  }
  /// s_received, s_totals: [padded(count)]; s_barriers: [2]; words: [2, clusters, padded(count)],
  /// whose tags must differ from all that will be used. A cluster_barrier() must follow.
  __device__ ClusterSums(Value* s_received, Value* s_totals, std::uint64_t* s_barriers,
                         TaggedValue<Value>* words, unsigned count)
      : s_received_(s_received), s_totals_(s_totals), s_barriers_(s_barriers), words_(words),
        count_(count), slots_(padded(count) / kCluster), rank_(blockIdx.x % kCluster),
        cluster_(blockIdx.x / kCluster), clusters_(gridDim.x / kCluster),
        owned_(min(slots_, count - min(rank_ * slots_, count))) {
    if (threadIdx.x == 0) {
      init_barrier(&s_barriers[0]);
      init_barrier(&s_barriers[1]);
    }
  }
  /// All threads, once a round and before finish(): says what will arrive.
  __device__ void expect() const {
    if (threadIdx.x == 0) {
      if (owned_ > 0) { // nobody waits where nothing arrives
        expect_bytes(&s_barriers_[0], owned_ * kCluster * sizeof(Value));
      }
      expect_bytes(&s_barriers_[1], count_ * sizeof(Value));
    }
  }
  /// This block's part of sum v, once a round, by any thread that has seen the last round's end.
  __device__ void send(unsigned v, Value part) const {
    const unsigned owner = v / slots_;
    store_at(owner, &s_received_[rank_ * slots_ + v - owner * slots_], part, &s_barriers_[0]);
  }

protected:
  /// Of this block's slot, as cluster c writes it. Words of odd and even rounds lie apart: a word
  /// is written again only after all words of the round between, whose writers had read this one.
  __device__ TaggedValue<Value>* word(unsigned tag, unsigned c, unsigned slot) const {
    return words_ + (tag % 2 * clusters_ + c) * slots_ * kCluster + rank_ * slots_ + slot;
  }

  Value* s_received_; // [kCluster, slots]
  Value* s_totals_;   // [count]
  std::uint64_t* s_barriers_;
  TaggedValue<Value>* words_;
  unsigned count_, slots_, rank_, cluster_, clusters_, owned_, round_ = 0;
};

/// A warp owns a sum, its lanes the parts.
template <unsigned kCluster>
class FewSums : public ClusterSums<double, kCluster> {
public:
  using Base = ClusterSums<double, kCluster>;
  using Base::Base;

  /// All threads: returns when the totals of this round are in s_totals. Stamps grow by one a
  /// round.
  __device__ void finish(unsigned tag) {
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    if (warp < this->owned_) {
      wait_for(&this->s_barriers_[0], this->round_);
    }
    for (unsigned slot = warp; slot < this->owned_; slot += warps) {
      const double part =
          over_lanes<kCluster>(this->s_received_[lane % kCluster * this->slots_ + slot]);
      if (this->clusters_ == 1) {
        send_total(slot, part, lane);
      } else if (lane == 0) {
        store_tagged(this->word(tag, this->cluster_, slot), part, tag);
      }
    }
    for (unsigned slot = warp; slot<this->owned_&& this->clusters_> 1; slot += warps) {
      double total = 0.0;
      for (unsigned first = 0; first < this->clusters_; first += 32) { // a lane a cluster
        const bool real = first + lane < this->clusters_;
        const TaggedValue<double>* from = this->word(tag, real ? first + lane : first, slot);
        TaggedValue<double> seen = load_tagged(from);
        while (!__all_sync(kAllLanes, seen.tag == tag)) {
          seen = load_tagged(from);
        }
        total += over_lanes<32>(real ? seen.value : 0.0);
      }
      send_total(slot, total, lane);
    }
    wait_for(&this->s_barriers_[1], this->round_);
    ++this->round_;
  }

private:
  __device__ void send_total(unsigned slot, double total, unsigned lane) const {
    if (lane < kCluster) { // a lane a block
      store_at(lane, &this->s_totals_[this->rank_ * this->slots_ + slot], total,
               &this->s_barriers_[1]);
    }
  }
};

/// A thread owns a sum: neighbouring sums travel together, for thousands of them.
template <unsigned kCluster>
class ManySums : public ClusterSums<float, kCluster> {
public:
  using Base = ClusterSums<float, kCluster>;
  using Base::Base;

  /// See FewSums.
  __device__ void finish(unsigned tag) {
    if (threadIdx.x < this->owned_) {
      wait_for(&this->s_barriers_[0], this->round_);
    }
    for (unsigned slot = threadIdx.x; slot < this->owned_; slot += blockDim.x) {
      float part = 0.0f;
#pragma unroll
      for (unsigned rank = 0; rank < kCluster; ++rank) {
        part += this->s_received_[rank * this->slots_ + slot];
      }
      store_tagged(this->word(tag, this->cluster_, slot), part, tag);
    }
    for (unsigned slot = threadIdx.x; slot < this->owned_; slot += blockDim.x) {
      constexpr unsigned kAtOnce = 16;
      float total = 0.0f;
      for (unsigned first = 0; first < this->clusters_; first += kAtOnce) {
        TaggedValue<float> seen[kAtOnce];
#pragma unroll
        for (unsigned c = 0; c < kAtOnce; ++c) { // all on their way before the first is awaited
          seen[c] = load_tagged(this->word(tag, min(first + c, this->clusters_ - 1), slot));
        }
#pragma unroll
        for (unsigned c = 0; c < kAtOnce; ++c) {
          if (first + c < this->clusters_) {
            while (seen[c].tag != tag) {
              seen[c] = load_tagged(this->word(tag, first + c, slot));
            }
            total += seen[c].value;
          }
        }
      }
#pragma unroll
      for (unsigned rank = 0; rank < kCluster; ++rank) {
        store_at(rank, &this->s_totals_[this->rank_ * this->slots_ + slot], total,
                 &this->s_barriers_[1]);
      }
    }
    __syncwarp(); // owners first: they must not wait for lanes that wait for them
    wait_for(&this->s_barriers_[1], this->round_);
    ++this->round_;
  }
};

/// The end of a sweep: what a block has added up becomes the sums of all blocks. All threads;
/// returns when s_totals and the totals of `facts` are there. store_team(later): called by one team
/// after another, so that the order is always the same, stores its sums in s_totals, or adds them
/// if `later`. s_weights, s_wanted: every row's parts of the k clusters' weights, and of what the
/// stop rule wants, which becomes fact k.
template <unsigned kTeams, unsigned kRows, unsigned K, unsigned kCluster, typename StoreTeam>
__device__ void share_sums(FewSums<kCluster>& facts, ManySums<kCluster>& sums, unsigned tag,
                           unsigned team, const StoreTeam& store_team,
                           const float (&s_weights)[kRows][K], const double (&s_wanted)[kRows],
                           unsigned k, const float* s_totals, unsigned values) {
  for (unsigned turn = 0; turn < kTeams; ++turn) {
    if (team == turn) {
      store_team(turn > 0);
    }
    __syncthreads(); // the next team adds to what this one has left
  }
  if (threadIdx.x <= k) {
    double fact = 0.0;
    for (unsigned row = 0; row < kRows; ++row) {
      fact += threadIdx.x < k ? static_cast<double>(s_weights[row][threadIdx.x]) : s_wanted[row];
    }
    facts.send(threadIdx.x, fact);
  }
  for (unsigned v = threadIdx.x; v < values; v += blockDim.x) {
    sums.send(v, s_totals[v]);
  }
  facts.finish(tag);
  sums.finish(tag);
}

} // namespace clusterbench::cuda
