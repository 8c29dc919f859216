// Sums by cluster over a whole launch, without a barrier of the grid.
#pragma once

#include "impls/cuda/common/copies.cuh"
#include "impls/cuda/common/runtime.hpp"
#include "impls/cuda/common/warp_sums.cuh"

#include <cstddef>
#include <cstdint>
#include <cuda_runtime.h>

namespace clusterbench::cuda {

// ---- tagged values
//
// Blocks leave values for one another in device memory. Each value is stored together with the number of
// its round, its tag, in one access. A reader waits until it sees the tag: no barrier is needed.

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

// ---- sums in distributed shared memory
//
// Sums over all blocks of a launch without a barrier of the grid. Inside a cluster of blocks parts
// and totals travel through distributed shared memory; between clusters through L2, as tagged values.
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

// ---- means over the grid
//
// Means over all blocks of a launch, without a barrier of the grid: every block leaves its sums in
// memory, each block adds up a share of them and publishes the means, all as tagged values. Always in the same order, so the same bits in every run.
//
// No word is written again before all have read it: a sum, by a block that has all means of its
// pass, which were made of it; a mean, by one that has the next sums of all blocks, who had read
// it; a fact, two passes later.

/// Words in device memory, of k clusters and `width` features. Stamps differ from all that will be
/// used.
struct GridMeansView {
  TaggedValue<float>* sums;   ///< [blocks, k, width + 1], the count behind the features
  TaggedValue<float>* means;  ///< [k, width]
  TaggedValue<double>* facts; ///< [2, blocks]
};

/// The memory behind it.
class GridMeansBuffers {
public:
  GridMeansBuffers() = default;
  /// Throws std::runtime_error.
  GridMeansBuffers(std::size_t k, std::size_t width, std::size_t blocks)
      : d_sums_(blocks * k * (width + 1)), d_means_(k * width), d_facts_(2 * blocks) {
    d_sums_.zero(); // tags begin with 1
    d_means_.zero();
    d_facts_.zero();
  }
  GridMeansView view() { return {d_sums_.data(), d_means_.data(), d_facts_.data()}; }

private:
  DeviceBuffer<TaggedValue<float>> d_sums_, d_means_;
  DeviceBuffer<TaggedValue<double>> d_facts_;
};

/// All blocks must be resident (a cooperative launch) and take part in every pass.
template <unsigned kThreads>
class GridMeans {
public:
  static constexpr unsigned kWarps = kThreads / 32;
  static constexpr unsigned kScratchBytes = kThreads * sizeof(double2);
  static constexpr unsigned kLanes = kWarps <= 16 ? 16 : 32; ///< that add up what the warps have
  static_assert(kWarps <= kLanes);

  /// s_scratch: kScratchBytes, and no less than [k, width] floats; free during finish() and for
  /// mean().
  __device__ GridMeans(const GridMeansView& view, unsigned k, unsigned width, void* s_scratch)
      : view_(view), s_scratch_(static_cast<double2*>(s_scratch)), k_(k), width_(width) {}

  /// Begins a pass, with a tag that no word has.
  __device__ void begin(unsigned tag) { tag_ = tag; }
  /// Any thread: of this block's sums [k, width + 1], the count behind the features, number v.
  __device__ void set(unsigned v, float sum) const {
    store_tagged(sum_of(blockIdx.x, v), sum, tag_);
  }
  /// One thread a block.
  __device__ void set_fact(double fact) const { store_tagged(fact_of(blockIdx.x), fact, tag_); }

  /// All threads: makes mean_of(j, f, sum, size) of the sums over all blocks, and returns when
  /// those of all j and f are there.
  template <typename MeanOf>
  __device__ void finish(MeanOf mean_of) const {
    // Means that a block makes at a time: neighbours, which a warp reads as whole sectors.
    const unsigned wide = values() <= 8 * gridDim.x ? 8 : values() <= 16 * gridDim.x ? 16 : 32;
    for (unsigned first = blockIdx.x * wide; first < values(); first += gridDim.x * wide) {
      __syncthreads(); // the scratch is free
      add_up_blocks(first, wide);
      __syncthreads(); // those of all warps are there
      for (unsigned u = threadIdx.x; u < wide * kLanes; u += kThreads) {
        const unsigned of_warp = u % kLanes, at = first + u / kLanes;
        const double2 part =
            of_warp < kWarps ? s_scratch_[of_warp * wide + u / kLanes] : make_double2(0.0, 0.0);
        const double sum = over_lanes<kLanes>(part.x), size = over_lanes<kLanes>(part.y);
        if (of_warp == 0 && at < values()) {
          store_tagged(view_.means + at, mean_of(at / width_, at % width_, sum, size), tag_);
        }
      }
    }
    __syncthreads(); // the scratch is free
    float* s_means = reinterpret_cast<float*>(s_scratch_);
    constexpr unsigned kBatch = 4;
    for (unsigned first = threadIdx.x; first < values(); first += kBatch * kThreads) {
      float mean[kBatch];
      await(mean, [&](unsigned b) {
        const unsigned at = first + b * kThreads;
        return at < values() ? view_.means + at : nullptr;
      });
#pragma unroll
      for (unsigned b = 0; b < kBatch; ++b) {
        if (first + b * kThreads < values()) {
          s_means[first + b * kThreads] = mean[b];
        }
      }
    }
    __syncthreads(); // all means are there
  }
  /// A mean of the pass that has ended.
  __device__ float mean(unsigned j, unsigned f) const {
    return reinterpret_cast<const float*>(s_scratch_)[j * width_ + f];
  }
  /// The sum of all facts. All threads; a barrier must come before the next time.
  __device__ double fact() const {
    return by_one_warp([&] { return sum_of_facts(); });
  }

private:
  __device__ unsigned values() const {
    return k_ * width_;
  }
  /// A whole warp; all lanes get it.
  __device__ double sum_of_facts() const {
    double sum = 0.0;
    constexpr unsigned kBatch = 5; // 132 blocks at once
    for (unsigned first = threadIdx.x % 32; first < gridDim.x; first += kBatch * 32) {
      double facts[kBatch];
      await(facts, [&](unsigned b) {
        const unsigned block = first + b * 32;
        return block < gridDim.x ? fact_of(block) : nullptr;
      });
#pragma unroll
      for (unsigned b = 0; b < kBatch; ++b) {
        sum += facts[b];
      }
    }
    return over_lanes<32>(sum);
  }
  __device__ TaggedValue<float>* sum_of(unsigned block, unsigned v) const {
    return view_.sums + std::size_t{block} * k_ * (width_ + 1) + v;
  }
  __device__ TaggedValue<double>*
  fact_of(unsigned block) const { // two sets: some read, others go on
    return view_.facts + tag_ % 2 * gridDim.x + block;
  }
  /// Waits for the words at place(0), ..., place(N - 1); zero where that is null. Their loads do
  /// not wait for one another.
  template <typename Value, unsigned N, typename Place>
  __device__ void await(Value (&value)[N], Place place) const {
    bool all = false;
    while (!all) {
      TaggedValue<Value> word[N];
#pragma unroll
      for (unsigned b = 0; b < N; ++b) {
        const TaggedValue<Value>* from = place(b);
        word[b] = from != nullptr ? load_tagged(from) : TaggedValue<Value>{Value{}, tag_};
      }
      all = true;
#pragma unroll
      for (unsigned b = 0; b < N; ++b) {
        all = all && word[b].tag == tag_;
        value[b] = word[b].value;
      }
    }
  }
  /// Each warp's part of the sums and sizes of `wide` means.
  __device__ void add_up_blocks(unsigned first, unsigned wide) const {
    constexpr unsigned kBatch = 6; // blocks at once
    const unsigned lane = threadIdx.x % 32, slots = kThreads / wide;
    const unsigned e = min(first + lane % wide, values() - 1), j = e / width_;
    const unsigned place[2] = {e + j, j * (width_ + 1) + width_}; // of the sum and of the size
    double sum = 0.0, size = 0.0;
    for (unsigned block = threadIdx.x / wide; block < gridDim.x; block += kBatch * slots) {
      float parts[2 * kBatch];
      await(parts, [&](unsigned b) {
        const unsigned of = block + b / 2 * slots;
        return of < gridDim.x ? sum_of(of, place[b % 2]) : nullptr;
      });
#pragma unroll
      for (unsigned b = 0; b < kBatch; ++b) {
        sum += static_cast<double>(parts[2 * b]);
        size += static_cast<double>(parts[2 * b + 1]);
      }
    }
    for (unsigned offset = 16; offset >= wide; offset /= 2) {
      sum += __shfl_xor_sync(kAllLanes, sum, static_cast<int>(offset));
      size += __shfl_xor_sync(kAllLanes, size, static_cast<int>(offset));
    }
    if (lane < wide) {
      s_scratch_[threadIdx.x / 32 * wide + lane] = make_double2(sum, size);
    }
  }

  GridMeansView view_;
  double2* s_scratch_;
  unsigned k_, width_, tag_ = 0;
};

} // namespace clusterbench::cuda
