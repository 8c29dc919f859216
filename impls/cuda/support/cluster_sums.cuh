// Sums over all blocks of a launch without a barrier of the grid. Inside a cluster of blocks parts
// and totals travel through distributed shared memory; between clusters through L2, in words that
// carry the number ("stamp") of their round, so that data is its own flag.
//
// Every value has an owner in every cluster: it adds up the parts of the blocks of its cluster,
// shares the sum with the value's other owners, adds up theirs, and sends the total to all blocks
// of its cluster. So a word is polled by one owner a cluster: 15 sums of 112 blocks in clusters of
// 16 take 2240 cycles, where those of 132 blocks that poll one another took 21,700. The order of
// additions is fixed: the same bits in every block and in every run. (Few sums are exchanged sooner
// by counted_sums.cuh.)
//
// All blocks must be resident (a cooperative launch) and take part in every round.
#pragma once

#include "impls/cuda/support/mbarrier.cuh"
#include "impls/cuda/support/stamped.cuh"
#include "impls/cuda/support/warp_sums.cuh"

#include <cuda_runtime.h>

#include <cstdint>

namespace clusterbench::cuda {

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
  /// whose stamps must differ from all that will be used. A cluster_barrier() must follow.
  __device__ ClusterSums(Value* s_received, Value* s_totals, std::uint64_t* s_barriers,
                         Stamped<Value>* words, unsigned count)
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
      expect_bytes(&s_barriers_[0], owned_ * kCluster * sizeof(Value));
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
  __device__ Stamped<Value>* word(unsigned stamp, unsigned c, unsigned slot) const {
    return words_ + (stamp % 2 * clusters_ + c) * slots_ * kCluster + rank_ * slots_ + slot;
  }

  Value* s_received_; // [kCluster, slots]
  Value* s_totals_;   // [count]
  std::uint64_t* s_barriers_;
  Stamped<Value>* words_;
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
  __device__ void finish(unsigned stamp) {
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
        publish(this->word(stamp, this->cluster_, slot), part, stamp);
      }
    }
    for (unsigned slot = warp; slot<this->owned_&& this->clusters_> 1; slot += warps) {
      double total = 0.0;
      for (unsigned first = 0; first < this->clusters_; first += 32) { // a lane a cluster
        const bool real = first + lane < this->clusters_;
        const Stamped<double>* from = this->word(stamp, real ? first + lane : first, slot);
        Stamped<double> seen = look_at(from);
        while (!__all_sync(kAllLanes, seen.stamp == stamp)) {
          seen = look_at(from);
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
  __device__ void finish(unsigned stamp) {
    if (threadIdx.x < this->owned_) {
      wait_for(&this->s_barriers_[0], this->round_);
    }
    for (unsigned slot = threadIdx.x; slot < this->owned_; slot += blockDim.x) {
      float part = 0.0f;
#pragma unroll
      for (unsigned rank = 0; rank < kCluster; ++rank) {
        part += this->s_received_[rank * this->slots_ + slot];
      }
      publish(this->word(stamp, this->cluster_, slot), part, stamp);
    }
    for (unsigned slot = threadIdx.x; slot < this->owned_; slot += blockDim.x) {
      constexpr unsigned kAtOnce = 16;
      float total = 0.0f;
      for (unsigned first = 0; first < this->clusters_; first += kAtOnce) {
        Stamped<float> seen[kAtOnce];
#pragma unroll
        for (unsigned c = 0; c < kAtOnce; ++c) { // all on their way before the first is awaited
          seen[c] = look_at(this->word(stamp, min(first + c, this->clusters_ - 1), slot));
        }
#pragma unroll
        for (unsigned c = 0; c < kAtOnce; ++c) {
          if (first + c < this->clusters_) {
            while (seen[c].stamp != stamp) {
              seen[c] = look_at(this->word(stamp, first + c, slot));
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
__device__ void share_sums(FewSums<kCluster>& facts, ManySums<kCluster>& sums, unsigned stamp,
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
  facts.finish(stamp);
  sums.finish(stamp);
}

} // namespace clusterbench::cuda
