// Sums of several devices, which write into one another's memory: one small kernel a pass.
#pragma once

#include "impls/cuda/common/ranks.cuh"
#include "impls/cuda/common/runtime.hpp"
#include "impls/cuda/many_clusters/exact_sums.cuh"

#include <barrier>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace clusterbench::cuda {

// Few: blocks of all ranks wait for one another, on one device where two ranks share it.
inline constexpr unsigned kExchangeBlocks = 32, kExchangeThreads = 256, kExchangeAtOnce = 4;
inline constexpr std::size_t kMailFacts =
    2; // words behind the sums: the loss, and how many labels changed

/// What one rank sends and receives in one pass. A slot: [words + kMailFacts].
struct Mailbox {
  unsigned rank, ranks, tag;
  std::size_t words; ///< even
  const long long* own;
  const double* loss;
  const unsigned* moved;
  long long* slots[kMostRanks];   ///< of this rank, in the memory of each
  unsigned* flags[kMostRanks];    ///< [kExchangeBlocks] likewise
  const long long* received;      ///< slots of all ranks, in its own memory
  const unsigned* received_flags; ///< [ranks, kExchangeBlocks]
  long long* total;               ///< a slot
  unsigned* late;                 ///< see SpinTimeout
};

/// What was written before, by all threads that a barrier has joined, is seen by whoever sees the
/// flag.
__device__ inline void raise_flag(unsigned* flag, unsigned tag) {
  __threadfence_system();
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(flag), "r"(tag) : "memory");
}

/// Waits until the flag of a rank has got that far.
__device__ inline void await_flag(const unsigned* flag, unsigned tag, unsigned* late,
                                  unsigned rank) {
  SpinTimeout patience;
  for (;;) {
    unsigned seen = 0;
    asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(seen) : "l"(flag) : "memory");
    if (static_cast<int>(seen - tag) >= 0) { // the other may be a pass ahead
      return;
    }
    patience.lose_some(late, rank);
  }
}

/// Every block takes the same part of the sums of all ranks, so blocks wait for no other part.
/// kWrites: the sums travel here; else they have arrived.
template <bool kWrites>
__global__ void __launch_bounds__(kExchangeThreads) exchange_sums(const Mailbox mailbox) {
  const std::size_t pairs = mailbox.words / 2, part = (pairs + gridDim.x - 1) / gridDim.x;
  const std::size_t first = blockIdx.x * part, end = min(first + part, pairs);
  const auto* own = reinterpret_cast<const longlong2*>(mailbox.own);
  if constexpr (kWrites) {
    for (std::size_t e = first + threadIdx.x; e < end; e += kExchangeAtOnce * kExchangeThreads) {
      longlong2 value[kExchangeAtOnce]; // on their way together
#pragma unroll
      for (unsigned b = 0; b < kExchangeAtOnce; ++b) {
        value[b] = own[min(e + b * kExchangeThreads, end - 1)];
      }
      for (unsigned r = 0; r < mailbox.ranks; ++r) {
#pragma unroll
        for (unsigned b = 0; b < kExchangeAtOnce; ++b) {
          if (r != mailbox.rank && e + b * kExchangeThreads < end) {
            reinterpret_cast<longlong2*>(mailbox.slots[r])[e + b * kExchangeThreads] = value[b];
          }
        }
      }
    }
    if (blockIdx.x == 0 && threadIdx.x < mailbox.ranks && threadIdx.x != mailbox.rank) {
      long long* facts = mailbox.slots[threadIdx.x] + mailbox.words;
      facts[0] = __double_as_longlong(*mailbox.loss);
      facts[1] = *mailbox.moved;
    }
    __syncthreads(); // the block's part has been written
    if (threadIdx.x < mailbox.ranks && threadIdx.x != mailbox.rank) {
      raise_flag(mailbox.flags[threadIdx.x] + blockIdx.x, mailbox.tag);
      await_flag(mailbox.received_flags + threadIdx.x * kExchangeBlocks + blockIdx.x, mailbox.tag,
                 mailbox.late, threadIdx.x);
    }
    __syncthreads(); // that of all ranks has arrived
  }
  const std::size_t slot = mailbox.words + kMailFacts;
  for (std::size_t e = first + threadIdx.x; e < end; e += kExchangeAtOnce * kExchangeThreads) {
    longlong2 sum[kExchangeAtOnce] = {};
    for (unsigned r = 0; r < mailbox.ranks; ++r) {
      const auto* from =
          r == mailbox.rank ? own : reinterpret_cast<const longlong2*>(mailbox.received + r * slot);
#pragma unroll
      for (unsigned b = 0; b < kExchangeAtOnce; ++b) {
        const longlong2 part = __ldcg(from + min(e + b * kExchangeThreads, end - 1));
        sum[b].x += part.x;
        sum[b].y += part.y;
      }
    }
#pragma unroll
    for (unsigned b = 0; b < kExchangeAtOnce; ++b) {
      if (e + b * kExchangeThreads < end) {
        reinterpret_cast<longlong2*>(mailbox.total)[e + b * kExchangeThreads] = sum[b];
      }
    }
  }
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    double loss = 0.0; // added up by rank, on all devices in the same order
    long long moved = 0;
    for (unsigned r = 0; r < mailbox.ranks; ++r) {
      const long long* facts = mailbox.received + r * slot + mailbox.words;
      loss += r == mailbox.rank ? *mailbox.loss : __longlong_as_double(__ldcg(facts));
      moved += r == mailbox.rank ? *mailbox.moved : __ldcg(facts + 1);
    }
    mailbox.total[mailbox.words] = __double_as_longlong(loss);
    mailbox.total[mailbox.words + 1] = moved;
  }
}

class PeerWrites {
public:
  static constexpr std::size_t kMostRows = kCountedRows;

  template <typename Run>
  void prepare(const Shape& shape, const std::vector<int>& devices, const std::vector<Run*>& runs) {
    words_ = agree_on_sums(shape, runs);
    devices_ = devices;
    copies_ = !enable_peer_access(devices);
    late_ = PinnedBuffer<unsigned>(1);
    late_[0] = 0;
    all_ = std::make_unique<std::barrier<>>(static_cast<std::ptrdiff_t>(devices.size()));
    places_ = std::vector<Place>(devices.size());
    for (std::size_t r = 0; r < devices.size(); ++r) {
      const OnDevice on(devices[r]);
      Place& place = places_[r];
      place.slots = OpenBuffer<long long>(2 * devices.size() * slot());
      place.flags = zero_words<unsigned>(devices.size() * kExchangeBlocks);
      place.total = OpenBuffer<long long>(slot());
    }
  }

  PassTotals of_all(std::size_t rank, const PassTotals& own) {
    Place& place = places_[rank];
    // Two sets of slots by turns: a rank that is a pass ahead writes into the other one. It cannot
    // be two ahead, as it has waited for the flags of the pass between.
    const std::size_t ranks = places_.size(), set = ++place.pass % 2 * ranks;
    Mailbox mailbox{static_cast<unsigned>(rank),
                    static_cast<unsigned>(ranks),
                    place.pass,
                    words_,
                    own.sums.high,
                    own.loss,
                    own.moved,
                    {},
                    {},
                    place.slots.data() + set * slot(),
                    place.flags.data(),
                    place.total.data(),
                    late_.data()};
    for (std::size_t r = 0; r < ranks; ++r) {
      mailbox.slots[r] = places_[r].slots.data() + (set + rank) * slot();
      mailbox.flags[r] = places_[r].flags.data() + rank * kExchangeBlocks;
    }
    const unsigned blocks = blocks_at_most(words_ / 2, kExchangeThreads, kExchangeBlocks);
    if (copies_) {
      copy_from_others(rank, own, place.slots.data() + set * slot());
      exchange_sums<false><<<blocks, kExchangeThreads>>>(mailbox);
    } else {
      exchange_sums<true><<<blocks, kExchangeThreads>>>(mailbox);
    }
    check_launch("exchange_sums");
    long long* total = place.total.data();
    return totals_at(total, own, reinterpret_cast<const double*>(total + words_),
                     reinterpret_cast<const unsigned*>(total + words_ + 1)); // its lower half
  }

  unsigned late() const { return late_[0]; }

  std::string path() const {
    return std::to_string(devices_.size()) + " ranks, " +
           (copies_ ? "sums copied by the host" : "sums written to peers");
  }

private:
  /// What one rank has in its device's memory.
  struct Place {
    OpenBuffer<long long> slots; ///< [2, ranks, slot()]
    OpenBuffer<unsigned>
        flags; ///< [ranks, kExchangeBlocks] the last pass of which each part is there
    OpenBuffer<long long> total; ///< a slot
    unsigned pass = 0;           ///< of all runs; its own thread alone counts it
    PassTotals own{};            ///< for others to copy
  };

  std::size_t slot() const { return words_ + kMailFacts; }

  void copy_from_others(std::size_t rank, const PassTotals& own, long long* slots) {
    const auto wait = [&] {
      check(cudaStreamSynchronize(kDefaultStream), "cudaStreamSynchronize before an exchange");
      all_->arrive_and_wait();
    };
    places_[rank].own = own;
    wait(); // the sums of all ranks are there
    for (std::size_t r = 0; r < places_.size(); ++r) {
      if (r == rank) {
        continue;
      }
      const PassTotals& other = places_[r].own;
      const auto copy = [&](void* to, const void* from, std::size_t bytes) {
        check(cudaMemcpyPeerAsync(to, devices_[rank], from, devices_[r], bytes, kDefaultStream),
              "cudaMemcpyPeerAsync");
      };
      long long* to = slots + r * slot();
      fill_bytes(std::span(to + words_, kMailFacts), 0); // a count has half a word
      copy(to, other.sums.high, words_ * sizeof(long long));
      copy(to + words_, other.loss, sizeof(double));
      copy(to + words_ + 1, other.moved, sizeof(unsigned));
    }
    wait(); // all have read them
  }

  std::vector<int> devices_;
  std::size_t words_ = 0;
  bool copies_ = false;
  PinnedBuffer<unsigned> late_;
  std::unique_ptr<std::barrier<>> all_;
  std::vector<Place> places_;
};

} // namespace clusterbench::cuda
