// K-means with few features on several GPUs of one host: one launch on each for the whole run.
//
// Changed since kmeans_nvlink: every device runs kmeans_cuda_persistent on its share of the rows,
//   and the exchange is a step of that kernel: when a device's totals are there, its first block
//   writes them into the memory of every other, and all blocks wait for theirs. No launch between
//   passes, and data is its own flag, so a pass gets longer by one way over the link.
// Source: kmeans_cuda_persistent; the protocol LL of NCCL, where each word has a flag of its own.
// Cost per iteration: that of kmeans_cuda_persistent for n / GPUs rows, about a microsecond, and
//   16 k (d + 1) bytes to each of the others.
// Limits: those of kmeans_cuda_persistent; at most 16 devices, all of which can write to the memory
//   of the others. The same bits in every run of so many devices.
// Needs: sm_90a, a stream per thread
#include "impls/cuda/common/ranks.cuh"
#include "impls/cuda/few_features/persistent_run.cuh"

namespace clusterbench {
namespace {

using namespace cuda;

/// Totals of all ranks in a run of one launch. They travel as Parts: either half of a double with
/// the tag of its pass beneath it, so that data is its own flag.
struct PeerTotals {
  using Parts = ulonglong2;
  static constexpr unsigned kMost =
      kMaxValues + 1; ///< an owner each: no more than a block's threads
  unsigned rank, ranks;
  Parts* slots[kMostRanks]; ///< [2, kMost] of this rank, in the memory of each
  const Parts* received;    ///< [ranks, 2, kMost] in its own memory
  unsigned* late;           ///< see SpinTimeout

  /// All threads of all blocks: s_totals [count] become those of all ranks. There are two sets of
  /// slots by turns: a rank writes into one again when all have sent in the pass between, and so
  /// had read it.
  __device__ void add_ranks(double* s_totals, unsigned count, unsigned tag) const {
    const unsigned v = threadIdx.x, at = tag % 2 * kMost + v;
    if (v < count) {
      const double own = s_totals[v];
      for (unsigned r = 0; r < ranks && blockIdx.x == 0; ++r) {
        if (r != rank) {
          send(slots[r] + at, own, tag);
        }
      }
      double total = 0.0; // by rank: the same order everywhere
      for (unsigned r = 0; r < ranks; ++r) {
        total += r == rank ? own : receive(received + r * 2 * kMost + at, tag, late, r);
      }
      s_totals[v] = total;
    }
    __syncthreads(); // the totals are there
  }

private:
  __device__ static void send(Parts* to, double value, unsigned tag) {
    const auto bits = static_cast<unsigned long long>(__double_as_longlong(value));
    asm volatile("st.relaxed.sys.global.v2.b64 [%0], {%1, %2};" ::"l"(to), "l"(bits << 32 | tag),
                 "l"((bits & 0xffffffff00000000u) | tag)
                 : "memory");
  }
  __device__ static double receive(const Parts* from, unsigned tag, unsigned* late, unsigned rank) {
    SpinTimeout patience;
    for (;;) {
      unsigned long long low = 0, high = 0;
      asm volatile("ld.relaxed.sys.global.v2.b64 {%0, %1}, [%2];"
                   : "=l"(low), "=l"(high)
                   : "l"(from)
                   : "memory");
      if (static_cast<unsigned>(low) == tag && static_cast<unsigned>(high) == tag) {
        return __longlong_as_double(
            static_cast<long long>((high & 0xffffffff00000000u) | low >> 32));
      }
      patience.lose_some(late, rank);
    }
  }
};

/// Where the totals arrive.
class PeerLaunches {
public:
  static constexpr std::size_t kMostRows = kCountedRows;

  template <typename Run>
  void prepare(const Shape&, const std::vector<int>& devices, const std::vector<Run*>&) {
    if (!enable_peer_access(devices)) {
      throw Refusal("a device cannot write to the memory of another one");
    }
    late_ = PinnedBuffer<unsigned>(1);
    late_[0] = 0;
    for (const int device : devices) {
      const OnDevice on(device);
      received_.push_back(zero_words<PeerTotals::Parts>(devices.size() * 2 * PeerTotals::kMost));
    }
  }
  PeerTotals totals(std::size_t rank) {
    PeerTotals totals{static_cast<unsigned>(rank),
                      static_cast<unsigned>(received_.size()),
                      {},
                      received_[rank].data(),
                      late_.data()};
    for (std::size_t r = 0; r < received_.size(); ++r) {
      totals.slots[r] = received_[r].data() + rank * 2 * PeerTotals::kMost;
    }
    return totals;
  }
  unsigned late() const { return late_[0]; }
  std::string path() const { return std::to_string(received_.size()) + " ranks"; }

private:
  std::vector<OpenBuffer<PeerTotals::Parts>> received_; ///< of each rank
  PinnedBuffer<unsigned> late_;
};

struct LaunchMember : RankMember<PeerLaunches> {
  using Totals = PeerTotals;
  PeerTotals totals() const { return exchange->totals(rank); }
};

const Registration
    registration({.name = "kmeans_nvlink_persistent",
                  .idea = "one launch a GPU for the run, totals written to peers within it",
                  .source = "kmeans_cuda_persistent, on several GPUs",
                  .device = Device::multi_gpu,
                  .max_d = kMaxFeatures,
                  .max_k = kMaxClusters,
                  .previous = "kmeans_nvlink"},
                 f32_only<RankedRun<PersistentRun<LaunchMember>, LaunchMember, PeerLaunches>>());

} // namespace
} // namespace clusterbench
